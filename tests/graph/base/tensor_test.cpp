// Shapes, dtypes and tensors: views share elements, handles are counted, wrong access is refused.
#include <limits>
#include <vector>

#include "graph/base/buffer.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/engine/toy_ops.hpp"
#include "troupe/tensor.hpp"

using namespace troupe;

namespace {

// Counts the buffers that it gets back. Lends one buffer around memory of the test.
class Lender final : public BufferOwner {
 public:
  Buffer* lend(uint32_t tag, void* elements) {
    block_ = {{{1}, tag | Buffer::kForeign, this}, elements};
    return &block_.header;
  }
  void release(Buffer*) noexcept override { ++returned; }
  int returned = 0;

 private:
  struct Block {
    Buffer header;
    void* elements;
    Block& operator=(const Block& other) {
      header.refs.store(other.header.refs);
      header.tag = other.header.tag;
      header.owner = other.header.owner;
      elements = other.elements;
      return *this;
    }
  } block_ = {};
};

}  // namespace

TEST_CASE("a shape knows its size, and which sizes fit it") {
  CHECK(Shape{}.size() == 1);
  CHECK(Shape{2, 3}.size() == 6);
  CHECK(Shape{int64_t{1} << 40, 0, int64_t{1} << 40}.size() == 0);
  constexpr int64_t kLarge = 2147483647;  // the largest size that the handle itself holds
  CHECK(Tensor::zeros(DType::f32, Shape{kLarge, kLarge, kLarge, 0}).size() == 0);
  CHECK(to_string(Shape{2, -1}) == "[2, -1]");
  CHECK(Shape{2, -1}.accepts(Shape{2, 7}));
  CHECK_FALSE(Shape{2, -1}.accepts(Shape{3, 7}));
  CHECK_FALSE(Shape{2, -1}.accepts(Shape{2}));
  CHECK_FALSE(Shape{2, -1}.is_known());
}

TEST_CASE("a shape refuses what is no size") {
  const auto made_at = [](int line) {
    return detail::concat(" made at ", __FILE__, ":", line, ": ");
  };
  const int two = __LINE__ + 1;
  CHECK(error_of([] {
          Shape{2, -2};
        }) == "a shape" + made_at(two) + "has dimensions of -1 (not known) or their size, got -2");
  const int nine = __LINE__ + 1;
  CHECK(error_of([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }) ==
        "a shape" + made_at(nine) + "has at most 8 dimensions, got 9");
  CHECK(error_of([] { Shape(std::vector<int64_t>(9, 1)); }) ==
        "a shape has at most 8 dimensions, got 9");
  CHECK(error_of([] {
          (void)Shape{int64_t{1} << 40, int64_t{1} << 40}.size();
        }) == "a tensor of shape [1099511627776, 1099511627776] has more than 2^59 elements");
  CHECK(Shape{int64_t{1} << 59}.size() == int64_t{1} << 59);
  CHECK_THROWS_AS((void)Shape{(int64_t{1} << 59) + 1}.size(), Error);
  CHECK_THROWS_AS((void)Shape{-1}.size(), InternalError);
}

TEST_CASE("a tensor of a shape that is not known is its maker's mistake, and told so") {
  const auto told = [](Errc code, int line, const Refusal& r, const std::string& text) {
    CHECK(r.code == code);
    CHECK(r.text == detail::concat("a tensor made at ", __FILE__, ":", line, ": ", text));
  };
  const std::string unknown =
      "wants a shape whose sizes are all known, got [2, -1]; -1 is for placeholders, so give the "
      "number itself";
  const int first = __LINE__ + 1;
  const Refusal zeros = refusal_of([] { Tensor::zeros(DType::f32, {2, -1}); });
  const Refusal empty = refusal_of([] { Tensor::empty(DType::f32, {2, -1}); });
  const Refusal of = refusal_of([] { Tensor::of<float>({1, 2}, {2, -1}); });
  const Refusal huge = refusal_of([] { Tensor::zeros(DType::f32, {int64_t{1} << 60}); });
  const Refusal none = refusal_of([] { Tensor::zeros(DType::none, {2}); });
  told(Errc::invalid_argument, first, zeros, unknown);
  told(Errc::invalid_argument, first + 1, empty, unknown);
  told(Errc::invalid_argument, first + 2, of, unknown);
  told(Errc::invalid_argument, first + 3, huge,
       "of shape [1152921504606846976] would have more than 2^59 elements");
  told(Errc::invalid_argument, first + 4, none,
       "of shape [2] needs a dtype: f32, f64, i32, i64, u8 or bool");
}

TEST_CASE("a dtype's name reads back") {
  for (DType d : {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean})
    CHECK(dtype_from_string(to_string(d)) == d);
  CHECK(error_of([] { dtype_from_string("float"); }) ==
        "no dtype is called \"float\"; there are f32, f64, i32, i64, u8, bool, i8, f16 and bf16");
}

TEST_CASE("elements begin at a cache line, right behind their header") {
  for (int64_t n : {0, 1, 15, 16, 1000}) {
    const Tensor t = Tensor::empty(DType::f32, Shape{n});
    CHECK(reinterpret_cast<uintptr_t>(t.raw()) % 64 == 0);
    CHECK(static_cast<const void*>(buffer_of(t) + 1) == t.raw());
  }
}

TEST_CASE("copies and views share elements, and the last one gives the buffer back") {
  std::vector<float> elements = {0, 1, 2, 3, 4, 5};
  Lender lender;
  {
    Tensor t = adopt(lender.lend(0, elements.data()), DType::f32, Shape{3, 2});
    CHECK(t.unique());
    const Tensor rows = t.rows(1, 3);
    CHECK(rows.shape() == Shape{2, 2});
    CHECK(rows.values<float>()[0] == 2);
    const Tensor flat = rows.reshaped(Shape{4});
    CHECK(flat.values<float>()[3] == 5);
    CHECK_FALSE(t.unique());
    t.mutable_data<float>()[2] = 7;
    CHECK(flat.values<float>()[0] == 7);
    CHECK(flat.rows(4, 4).size() == 0);
    Tensor copy = t;
    copy = rows;
    Tensor moved = std::move(copy);
    CHECK(moved.raw() == rows.raw());
    CHECK(lender.returned == 0);
  }
  CHECK(lender.returned == 1);
}

TEST_CASE("a detached buffer keeps its reference") {
  std::vector<float> elements = {0};
  Lender lender;
  Tensor t = adopt(lender.lend(0, elements.data()), DType::f32, Shape{1, 1, 1, 1, 1});
  Buffer* buffer = detach(t);
  CHECK_FALSE(t.defined());
  CHECK(lender.returned == 0);
  adopt(buffer, DType::f32, Shape{1}).reset();
  CHECK(lender.returned == 1);
}

TEST_CASE("more than four dimensions and sizes past 2^31 work like others") {
  const Tensor t = Tensor::zeros(DType::u8, Shape{1, 2, 1, 2, 1, 3});
  CHECK(t.shape() == Shape{1, 2, 1, 2, 1, 3});
  CHECK(t.size() == 12);
  CHECK(t.dim(5) == 3);
  const Tensor copy = t.reshaped(Shape{2, 1, 2, 1, 3}).rows(1, 2);
  CHECK(copy.shape() == Shape{1, 1, 2, 1, 3});
  CHECK(static_cast<const uint8_t*>(copy.raw()) == static_cast<const uint8_t*>(t.raw()) + 6);

  Lender lender;
  uint8_t nowhere = 0;  // the elements are never touched
  const int64_t size = int64_t{1} << 33;
  const Tensor big = adopt(lender.lend(0, &nowhere), DType::u8, Shape{size});
  CHECK(big.size() == size);
  CHECK(big.dim(0) == size);
}

TEST_CASE("rows that begin past element 2^32 hold on to the whole") {
  Lender lender;
  uint8_t first = 0;
  const int64_t row = int64_t{1} << 31;
  {
    Tensor far;
    {
      const Tensor big = adopt(lender.lend(Buffer::kOffHost, &first), DType::u8, Shape{4, row});
      far = big.rows(3, 4);
    }
    CHECK(far.shape() == Shape{1, row});
    CHECK(reinterpret_cast<intptr_t>(far.raw()) - reinterpret_cast<intptr_t>(&first) == 3 * row);
    CHECK_FALSE(far.on_host());
    CHECK(lender.returned == 0);
  }
  CHECK(lender.returned == 1);
}

TEST_CASE("item() is the only element, at() the element at some indices") {
  const Tensor t = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(t.at<float>({0, 0}) == 1);
  CHECK(t.at<float>({1, 0}) == 4);
  CHECK(t.at<float>({1, 2}) == 6);
  CHECK(t.rows(1, 2).at<float>({0, 1}) == 5);
  CHECK(Tensor::scalar<int64_t>(7).at<int64_t>({}) == 7);
  static_assert(std::is_same_v<decltype(Tensor().at<float>({})), float>);  // no reference into it
  CHECK(Tensor::of<int64_t>({8}, {1, 1}).item<int64_t>() == 8);
  const char* const here = "tensor_test.cpp:";
  check_invalid([&] { (void)t.item<float>(); }, here,
                "wants one element of f32, the tensor is f32[2, 3]");
  check_invalid([] { (void)Tensor::scalar(1.0F).item<double>(); }, here,
                "wants one element of f64, the tensor is f32[]; name its C++ type");
  check_invalid([] { (void)Tensor().item<float>(); }, here, "the tensor holds nothing");
  const char* const remedy = "in a tensor f32[2, 3]; give one index from 0 for each dimension";
  check_invalid([&] { (void)t.at<float>({0}); }, here, "no element {0}", remedy);
  check_invalid([&] { (void)t.at<float>({2, 0}); }, "no element {2, 0}", remedy);
  check_invalid([&] { (void)t.at<float>({0, 3}); }, "no element {0, 3}", remedy);
  check_invalid([&] { (void)t.at<float>({0, -1}); }, "no element {0, -1}", remedy);
  check_invalid([&] { (void)t.at<float>({0, 0, 0}); }, "no element {0, 0, 0}", remedy);
  check_invalid(
      [&] {
        (void)t.at<double>({0, 0});
      },
      here, "wants an element of f64 at {0, 0}, the tensor is f32[2, 3]");
  check_invalid([] { (void)Tensor().at<float>({}); }, "the tensor holds nothing");
}

TEST_CASE("a clone has elements of its own, which may be written") {
  const Tensor t = Tensor::of<float>({1, 2, 3, 4}, {2, 2});
  Tensor copy = t.rows(1, 2).clone();
  CHECK(copy.shape() == Shape{1, 2});
  CHECK(copy.unique());
  copy.mutable_data<float>()[0] = 9;
  CHECK(copy.at<float>({0, 0}) == 9);
  CHECK(copy.at<float>({0, 1}) == 4);
  CHECK(t.at<float>({1, 0}) == 3);
  CHECK(Tensor::zeros(DType::i64, {0, 3}).clone().shape() == Shape{0, 3});
  check_invalid([] { (void)Tensor().clone(); }, "tensor_test.cpp:", "that holds nothing");
}

TEST_CASE("a vector makes a tensor of its element type") {
  const std::vector<float> numbers = {1, 2, 3};
  const auto n = static_cast<int64_t>(numbers.size());
  const Tensor t = Tensor::of(numbers, {n});
  CHECK(t.dtype() == DType::f32);
  CHECK(same_bits(t, Tensor::of<float>({1, 2, 3}, {3})));
  CHECK(same_bits(Tensor::of(std::vector<int64_t>{4}, Shape{}), Tensor::scalar<int64_t>(4)));
}

TEST_CASE("wrong access to elements is refused") {
  const Tensor t = Tensor::of<float>({1, 2}, {2});
  const auto refused = [](const auto& read) { return error_text(Errc::invalid_argument, read); };
  CHECK(refused([&] { (void)t.data<double>(); }) ==
        "the elements of a tensor f32[2] were read as f64; read them as f32, or cast() the value");
  CHECK(refused([] { (void)Tensor().data<float>(); }) ==
        "the elements of a tensor that holds nothing were read as f32");
  CHECK(refused([&] { (void)t.rows(1, 3); }) == "no rows 1 to 3 in a tensor of shape [2]");
  CHECK(refused([&] { (void)t.reshaped(Shape{3}); }) ==
        "a tensor of shape [2] cannot be reshaped to [3]; give a shape of 2 elements");
  const int of = __LINE__ + 1;
  CHECK(error_of([] {
          Tensor::of<float>({1, 2}, {3});
        }) == detail::concat("a tensor made at ", __FILE__, ":", of,
                             ": of shape [3] is not filled by 2 values"));
  Lender lender;
  float x = 0;
  const Tensor away = adopt(lender.lend(Buffer::kOffHost, &x), DType::f32, Shape{1});
  CHECK(error_of([&] { (void)away.data<float>(); }) ==
        "the elements of a tensor f32[1] were read on the host, but they are on a device");
}

TEST_CASE("a tensor that memory cannot hold is refused") {
  CHECK_THROWS_AS(Tensor::empty(DType::f64, Shape{int64_t{1} << 62}), Error);
  CHECK_THROWS_AS(Tensor::empty(DType::u8, Shape{int64_t{1} << 61}), Error);
}

TEST_CASE("tensors print their type and first elements") {
  CHECK(detail::concat(Tensor::of<bool>({true, false}, {2})) == "bool[2] {true, false}");
  CHECK(detail::concat(Tensor::of<uint8_t>({7}, {1})) == "u8[1] {7}");
  CHECK(detail::concat(Tensor::zeros(DType::i32, {3, 3})) ==
        "i32[3, 3] {0, 0, 0, 0, 0, 0, 0, 0, ...}");
  CHECK(detail::concat(Tensor()) == "undefined tensor");
}

TEST_CASE("same_bits compares dtype, shape and bytes") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(same_bits(Tensor::of<float>({nan}, {1}), Tensor::of<float>({nan}, {1})));
  CHECK_FALSE(same_bits(Tensor::of<float>({0.0f}, {1}), Tensor::of<float>({-0.0f}, {1})));
  CHECK_FALSE(same_bits(Tensor::zeros(DType::f32, {1}), Tensor::zeros(DType::i32, {1})));
  CHECK_FALSE(same_bits(Tensor::zeros(DType::f32, {1, 2}), Tensor::zeros(DType::f32, {2, 1})));
}

TEST_CASE("every error code has a name and an exit code of sysexits.h") {
  CHECK(std::string(to_string(Errc::peer_lost)) == "peer_lost");
  CHECK(exit_code(Errc::ok) == 0);
  CHECK(exit_code(Errc::invalid_argument) == 64);
  CHECK(exit_code(Errc::bad_data) == 65);
  CHECK(exit_code(Errc::peer_lost) == 69);
  CHECK(exit_code(Errc::io) == 74);
  CHECK(exit_code(Errc::bad_configuration) == 78);
  CHECK(exit_code(Errc::internal) == 70);
}
