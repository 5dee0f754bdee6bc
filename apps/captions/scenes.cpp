// Cuts digits out of their pictures, and draws arrangements until one has a sentence.
#include "apps/captions/scenes.hpp"

#include <algorithm>
#include <cmath>

#include "apps/captions/sentences.hpp"
#include "troupe/custom_op.hpp"

using namespace troupe;

namespace {

// Arrangements of one scene. Four digits of MNIST on 64 x 64 pixels take 89 on average.
constexpr int64_t kTries = 100'000;

// splitmix64 (Steele et al. 2014): the same numbers with every compiler.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  int64_t below(int64_t n) {  // uniform in [0, n); n is at most 2^32
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<int64_t>(((z ^ z >> 31) >> 32) * static_cast<uint64_t>(n) >> 32);
  }

 private:
  uint64_t state_;
};

// A picture of a digit, and the box around its ink.
struct Digit {
  int64_t label = 0;
  const float* pixels = nullptr;
  int64_t side = 0;
  int64_t left = 0, top = 0, width = 0, height = 0;  // of the box in the picture
  int64_t x = 0, y = 0;                              // of the box on the canvas

  Placed placed() const {
    return {label, static_cast<double>(x) + static_cast<double>(width) / 2,
            static_cast<double>(y) + static_cast<double>(height) / 2};
  }
  // A pixel lies between them at least.
  bool meets(const Digit& other) const {
    return x <= other.x + other.width && other.x <= x + width && y <= other.y + other.height &&
           other.y <= y + height;
  }
  void draw(float* canvas, int64_t canvas_side) const {
    for (int64_t i = 0; i < height; ++i)
      std::copy_n(pixels + (top + i) * side + left, width, canvas + (y + i) * canvas_side + x);
  }
};

void find_box(Digit& digit) {
  int64_t right = -1, bottom = -1;
  digit.left = digit.top = digit.side;
  for (int64_t i = 0; i < digit.side; ++i)
    for (int64_t j = 0; j < digit.side; ++j)
      if (digit.pixels[i * digit.side + j] > 0) {
        digit.left = std::min(digit.left, j), digit.top = std::min(digit.top, i);
        right = std::max(right, j), bottom = std::max(bottom, i);
      }
  digit.width = right - digit.left + 1, digit.height = bottom - digit.top + 1;
}

// The arguments of "scene", and the fields that it reads.
struct Composer {
  int64_t canvas = 0, digits = 0;
  double greatest = 1;
  size_t image = 0, label = 0;  // fields

  Record operator()(const SourceCall& call) const;

 private:
  std::vector<Digit> pictures(const SourceCall& call, std::vector<float>& pixels) const;
  bool arrange(std::vector<Digit>& scene, Random& random) const;
};

// Puts the digits somewhere, from left to right. False: two of them meet.
bool Composer::arrange(std::vector<Digit>& scene, Random& random) const {
  for (size_t i = 0; i < scene.size(); ++i) {
    scene[i].x = random.below(canvas - scene[i].width + 1);
    scene[i].y = random.below(canvas - scene[i].height + 1);
    for (size_t j = 0; j < i; ++j)
      if (scene[i].meets(scene[j])) return false;
  }
  std::stable_sort(scene.begin(), scene.end(),
                   [](const Digit& a, const Digit& b) { return a.placed().x < b.placed().x; });
  return true;
}

// The digits of a record; their pixels, in [0, 1], are in `pixels`.
std::vector<Digit> Composer::pictures(const SourceCall& call, std::vector<float>& pixels) const {
  const Tensor& images = call.record()[image];
  const Tensor& labels = call.record()[label];
  if (images.dim(0) < digits)
    throw call.bad("a scene wants ", digits, " pictures, got ", images.dim(0));
  with_type(images.dtype(), [&]<class T>(T) {
    for (const T x : images.values<T>())
      pixels.push_back(static_cast<float>(static_cast<double>(x) / greatest));
  });
  const int64_t size = images.size() / images.dim(0);
  std::vector<Digit> out(static_cast<size_t>(digits));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].pixels = pixels.data() + static_cast<int64_t>(i) * size;
    out[i].side = std::llround(std::sqrt(static_cast<double>(size)));
    with_type(labels.dtype(),
              [&]<class T>(T) { out[i].label = static_cast<int64_t>(labels.values<T>()[i]); });
    if (out[i].label < 0 || out[i].label > 9)
      throw call.bad("picture ", i + 1, " of a scene has the label ", out[i].label,
                     "; wanted is a digit, 0 to 9");
    find_box(out[i]);
    if (out[i].width < 1) throw call.bad("picture ", i + 1, " of a scene has no ink");
    if (std::max(out[i].width, out[i].height) > canvas)
      throw call.bad("picture ", i + 1, " of a scene is ", out[i].width, " x ", out[i].height,
                     " pixels, larger than the canvas of ", canvas);
  }
  return out;
}

Record Composer::operator()(const SourceCall& call) const {
  Random random(call.key());
  std::vector<float> pixels;
  std::vector<Digit> scene = pictures(call, pixels);
  scene.resize(static_cast<size_t>(1 + random.below(digits)));
  std::optional<std::vector<int64_t>> ids;
  for (int64_t tries = 0; !ids; ++tries) {
    if (tries == kTries)
      throw call.bad("found no place for ", scene.size(), " digits on a canvas of ", canvas, " x ",
                     canvas, " pixels; give a larger canvas or fewer digits");
    if (!arrange(scene, random)) continue;
    std::vector<Placed> placed;
    for (const Digit& digit : scene) placed.push_back(digit.placed());
    ids = describe(placed, static_cast<double>(canvas));
  }
  Tensor picture = Tensor::zeros(DType::f32, {canvas, canvas, 1});
  for (const Digit& digit : scene) digit.draw(picture.mutable_data<float>(), canvas);
  Tensor text = Tensor::zeros(DType::i64, {kWordsMax});
  std::copy(ids->begin(), ids->end(), text.mutable_data<int64_t>());
  return {picture, text, Tensor::scalar(static_cast<int64_t>(scene.size()))};
}

size_t field_of(const Fields& fields, std::initializer_list<std::string_view> names) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (std::find(names.begin(), names.end(), fields[i].name) != names.end()) return i;
  throw Error(Errc::invalid_argument, "scene wants a field ", *names.begin());
}

int64_t number(const SourceArgs& args, const char* name, int64_t least, int64_t most) {
  const auto found = args.find(name);
  const auto* const value = found == args.end() ? nullptr : std::get_if<int64_t>(&found->second);
  if (!value || *value < least || *value > most)
    throw Error(Errc::invalid_argument, "scene wants the argument ", name, ", a whole number from ",
                least, " to ", most);
  return *value;
}

SourceStep bind(const Fields& inputs, const SourceArgs& args) {
  Composer how;
  how.canvas = number(args, "canvas", 1, 4096);
  how.digits = number(args, "digits", 1, kDigitsMax);
  how.greatest = static_cast<double>(number(args, "greatest", 1, 65535));
  how.image = field_of(inputs, {"image", "features"}), how.label = field_of(inputs, {"label"});
  const Shape images = inputs[how.image].type.shape;
  const int64_t size = images.ndim() == 3   ? images[1] * images[2]
                       : images.ndim() == 2 ? images[1]
                                            : 0;
  const int64_t side = std::llround(std::sqrt(static_cast<double>(std::max<int64_t>(size, 0))));
  if (size < 1 || side * side != size || inputs[how.label].type.shape.ndim() != 1)
    throw Error(Errc::invalid_argument, "scene wants several square pictures, got ",
                inputs[how.image].type, ", and their labels, got ", inputs[how.label].type);
  return {.fields = {{"image", {DType::f32, {how.canvas, how.canvas, 1}}},
                     {"words", {DType::i64, {kWordsMax}}},
                     {"digits", {DType::i64, {}}}},
          .map = how};
}

}  // namespace

SourceFunction scene_function() { return {"scene", bind}; }

#ifdef TROUPE_CAPTIONS_PLUGIN
namespace {
void add_functions(Registry& registry) { registry.add(scene_function()); }
}  // namespace
TROUPE_PLUGIN(add_functions)
#endif
