// Selects the largest elements, and packs signs.
#include "training/codecs/sparse_codes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "devices/threads/isa.hpp"

namespace troupe {
namespace {

constexpr int64_t kWord = 4;  // bytes of a count, a place, a value and a scale
constexpr uint32_t kInfinity = 0x7f800000u;

uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

struct LargestLoop {
  static uint32_t run(const float* from, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, magnitude(from[i]));
    return most;
  }
};

// The magnitudes from which on elements are taken: all above `least`, and `equal` of those that are
// equal to it.
struct Threshold {
  uint32_t least = 0;
  int64_t equal = 0;
};

// Counts magnitudes by their upper bits, and orders those alone that share the bits of the
// threshold.
Threshold threshold_of(const float* from, int64_t n, int64_t count) {
  constexpr int kShift = 20;
  std::vector<int64_t> bins(size_t{1} << (31 - kShift));
  for (int64_t i = 0; i < n; ++i) ++bins[magnitude(from[i]) >> kShift];
  size_t bin = bins.size() - 1;
  int64_t above = 0;
  while (above + bins[bin] < count) above += bins[bin--];
  std::vector<uint32_t> near;
  near.reserve(static_cast<size_t>(bins[bin]));
  for (int64_t i = 0; i < n; ++i)
    if (const uint32_t m = magnitude(from[i]); m >> kShift == bin) near.push_back(m);
  const auto at = near.begin() + static_cast<std::ptrdiff_t>(count - above - 1);
  std::nth_element(near.begin(), at, near.end(), std::greater<>());
  const uint32_t least = *at;
  const auto larger =
      std::count_if(near.begin(), near.end(), [&](uint32_t m) { return m > least; });
  return {least, least == 0 ? 0 : count - above - static_cast<int64_t>(larger)};
}

class TopkView {
 public:
  explicit TopkView(const Tensor& codes) : bytes_(codes.data<uint8_t>()) {
    std::memcpy(&count_, bytes_, sizeof count_);
  }
  static int64_t bytes(int64_t count) { return kWord + 2 * count * kWord; }
  int64_t count() const { return count_; }
  uint32_t place(int64_t i) const { return word<uint32_t>(1 + i); }
  float value(int64_t i) const { return word<float>(1 + count_ + i); }

 private:
  template <class T>
  T word(int64_t i) const {
    T out;
    std::memcpy(&out, bytes_ + i * kWord, sizeof out);
    return out;
  }
  const uint8_t* bytes_;
  uint32_t count_;
};

class TopkWriter {
 public:
  TopkWriter(Tensor& codes, int64_t count) : bytes_(codes.mutable_data<uint8_t>()), count_(count) {
    put(0, static_cast<uint32_t>(count));
  }
  void add(uint32_t place, float value) {
    put(1 + at_, place);
    put(1 + count_ + at_, value);
    ++at_;
  }

 private:
  template <class T>
  void put(int64_t i, T word) {
    std::memcpy(bytes_ + i * kWord, &word, sizeof word);
  }
  uint8_t* bytes_;
  const int64_t count_;
  int64_t at_ = 0;
};

struct SignLayout {
  int64_t begin, end;
  int64_t first_block() const { return begin / kSignBlock; }
  int64_t scales() const {
    return begin == end ? 0 : (end + kSignBlock - 1) / kSignBlock - first_block();
  }
  int64_t scale_bytes() const { return scales() * kWord; }
  int64_t first_byte() const { return begin / 8; }
  int64_t bit_bytes() const { return begin == end ? 0 : (end + 7) / 8 - first_byte(); }
  int64_t bytes() const { return scale_bytes() + bit_bytes(); }
};

// Partial sums in a fixed order, so that vectors of any width give the same bits.
struct MeanLoop {
  static float run(const float* from, int64_t n) {
    constexpr int kSums = 16;
    float sums[kSums] = {};
    int64_t i = 0;
    for (; i + kSums <= n; i += kSums)
      for (int j = 0; j < kSums; ++j) sums[j] += std::abs(from[i + j]);
    for (; i < n; ++i) sums[i % kSums] += std::abs(from[i]);
    float sum = 0;
    for (const float part : sums) sum += part;
    return sum / static_cast<float>(n);
  }
};

struct PackLoop {  // whole bytes, but for the last one
  static void run(const float* from, int64_t n, uint8_t* to) {
    const auto bit = [from](int64_t i, int64_t j) {
      return (std::bit_cast<uint32_t>(from[i + j]) >> 31) << j;
    };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
      uint32_t byte = 0;
      for (int64_t j = 0; j < 8; ++j) byte |= bit(i, j);
      to[i / 8] = static_cast<uint8_t>(byte);
    }
    uint32_t last = 0;
    for (int64_t j = 0; i + j < n; ++j) last |= bit(i, j);
    if (i < n) to[i / 8] = static_cast<uint8_t>(last);
  }
};

struct UnpackLoop {  // of a block, from the bit `first` of its first byte
  static void run(const uint8_t* bits, int64_t first, float scale, float* to, int64_t n) {
    const auto plus = std::bit_cast<uint32_t>(scale);
    const auto one = [&](int64_t i, uint32_t byte, int64_t bit) {
      to[i] = std::bit_cast<float>(plus ^ (byte >> bit & 1u) << 31);
    };
    int64_t i = 0;
    if (first == 0)  // whole bytes, eight elements at a time
      for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; ++j) one(i + j, bits[i / 8], j);
    for (; i < n; ++i) one(i, bits[(first + i) / 8], (first + i) % 8);
  }
};

}  // namespace

Tensor encode_topk(const Tensor& gradient, double fraction, const MakeTensor& make) {
  const int64_t n = gradient.size();
  const float* const from = gradient.data<float>();
  if (in_isa<LargestLoop>(from, n) >= kInfinity) return {};
  const auto wanted = static_cast<int64_t>(std::ceil(fraction * static_cast<double>(n)));
  const Threshold t =
      n == 0 ? Threshold{} : threshold_of(from, n, std::clamp<int64_t>(wanted, 1, n));
  std::vector<uint32_t> places;
  int64_t equal = t.equal;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t m = magnitude(from[i]);
    if (m > t.least || (m == t.least && equal > 0 && equal-- > 0))
      places.push_back(static_cast<uint32_t>(i));
  }
  const auto count = static_cast<int64_t>(places.size());
  Tensor out = make(DType::u8, Shape{TopkView::bytes(count)});
  TopkWriter writer(out, count);
  for (const uint32_t place : places) writer.add(place, from[place]);
  return out;
}

Tensor topk_of_slice(const Tensor& codes, int64_t begin, int64_t end) {
  const TopkView all(codes);
  const auto first_at = [&](int64_t element) {
    int64_t low = 0, high = all.count();
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (int64_t{all.place(middle)} < element)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  const int64_t from = first_at(begin), to = first_at(end);
  Tensor out = Tensor::empty(DType::u8, Shape{TopkView::bytes(to - from)});
  TopkWriter writer(out, to - from);
  for (int64_t i = from; i < to; ++i)
    writer.add(all.place(i) - static_cast<uint32_t>(begin), all.value(i));
  return out;
}

bool are_topk(const Tensor& codes, int64_t size) {
  if (codes.size() < kWord) return false;
  const TopkView view(codes);
  if (codes.size() != TopkView::bytes(view.count())) return false;
  int64_t next = 0;  // the least place that may follow
  for (int64_t i = 0; i < view.count(); ++i) {
    const int64_t place = view.place(i);
    if (place < next || place >= size) return false;
    next = place + 1;
  }
  return true;
}

void decode_topk(const Tensor& codes, Tensor& out) {
  const TopkView view(codes);
  float* const to = out.mutable_data<float>();
  std::memset(to, 0, static_cast<size_t>(out.byte_size()));
  for (int64_t i = 0; i < view.count(); ++i) to[view.place(i)] = view.value(i);
}

Tensor encode_sign(const Tensor& gradient, const MakeTensor& make) {
  const int64_t n = gradient.size();
  const float* const from = gradient.data<float>();
  if (in_isa<LargestLoop>(from, n) >= kInfinity) return {};
  const SignLayout layout{0, n};
  Tensor out = make(DType::u8, Shape{layout.bytes()});
  uint8_t* const to = out.mutable_data<uint8_t>();
  for (int64_t block = 0; block < layout.scales(); ++block) {
    const int64_t at = block * kSignBlock, some = std::min(kSignBlock, n - at);
    const float scale = in_isa<MeanLoop>(from + at, some);
    if (magnitude(scale) >= kInfinity) return {};
    std::memcpy(to + block * kWord, &scale, sizeof scale);
    in_isa<PackLoop>(from + at, some, to + layout.scale_bytes() + at / 8);
  }
  return out;
}

Tensor sign_of_slice(const Tensor& codes, int64_t size, int64_t begin, int64_t end) {
  const SignLayout all{0, size}, part{begin, end};
  Tensor out = Tensor::empty(DType::u8, Shape{part.bytes()});
  const uint8_t* const from = codes.data<uint8_t>();
  uint8_t* const to = out.mutable_data<uint8_t>();
  std::memcpy(to, from + part.first_block() * kWord, static_cast<size_t>(part.scale_bytes()));
  std::memcpy(to + part.scale_bytes(), from + all.scale_bytes() + part.first_byte(),
              static_cast<size_t>(part.bit_bytes()));
  return out;
}

bool are_sign(const Tensor& codes, int64_t begin, int64_t end) {
  return codes.size() == SignLayout{begin, end}.bytes();
}

void decode_sign(const Tensor& codes, int64_t begin, int64_t end, Tensor& out) {
  const SignLayout layout{begin, end};
  const uint8_t* const from = codes.data<uint8_t>();
  float* const to = out.mutable_data<float>();
  for (int64_t block = 0; block < layout.scales(); ++block) {
    float scale;
    std::memcpy(&scale, from + block * kWord, sizeof scale);
    const int64_t number = layout.first_block() + block;
    const int64_t at = std::max(begin, number * kSignBlock);
    const int64_t n = std::min(end, (number + 1) * kSignBlock) - at;
    const int64_t bit = at - layout.first_byte() * 8;
    in_isa<UnpackLoop>(from + layout.scale_bytes() + bit / 8, bit % 8, scale, to + (at - begin), n);
  }
}

}  // namespace troupe
