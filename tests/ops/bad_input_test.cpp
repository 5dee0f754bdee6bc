// Every op accepts its input or refuses it with an error of its own. Runs the cases of all tables
// again, with inputs and attributes of other dtypes, ranks and sizes, also past 2^31 and 2^63, and
// with values that are not finite, out of range or as large as possible.

#include <algorithm>
#include <limits>
#include <map>

#include "devices/run_context.hpp"
#include "graph/base/buffer.hpp"
#include "graph/op.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kRunMax = 20'000;     // elements of a node that runs
constexpr int64_t kBytesMax = 1 << 20;  // of one tensor that a kernel makes
constexpr size_t kCasesOfAnOp = 8;      // that are varied

// Refuses tensors larger than any that these tests need.
class SmallMemory final : public Memory {
 public:
  Buffer* allocate(int64_t bytes) override {
    if (bytes > kBytesMax) throw Error(Errc::out_of_memory, "more than the test allows");
    return detach(Tensor::empty(DType::u8, Shape{bytes}));
  }
  MemoryStats stats() const override { return {}; }
  void release(Buffer*) noexcept override {}
};

// A tensor that repeats the elements of `like`.
Tensor filled(DType dtype, const Shape& shape, const Tensor& like) {
  std::vector<double> from = to_doubles(like), list;
  if (from.empty()) from = {1};
  const bool is_small = dtype == DType::u8 || dtype == DType::i8 || dtype == DType::boolean;
  for (int64_t i = 0; i < shape.size(); ++i) {
    double value = from[static_cast<size_t>(i) % from.size()];
    if (!std::isfinite(value) && !is_floating(dtype)) value = 0;
    if (!is_floating(dtype)) value = std::clamp(value, is_small ? 0.0 : -1e9, is_small ? 1.0 : 1e9);
    list.push_back(value);
  }
  return from_doubles(list, dtype, shape);
}

// `tensor` with all of its elements, or the one at `place`, replaced by the largest or the least
// number, by one that is not finite, or by -1.
enum class Extreme { largest, least, not_finite, minus_one };
Tensor with_extreme(const Tensor& tensor, Extreme extreme, int64_t place) {
  Tensor out = filled(tensor.dtype(), tensor.shape(), tensor);
  with_type(out.dtype(), [&]<class T>(T) {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::is_specialized && !std::is_same_v<T, bool>)
      for (int64_t i = 0; i < out.size(); ++i) {
        if (place >= 0 && i != place) continue;
        T& value = out.mutable_data<T>()[i];
        value = extreme == Extreme::least ? Limits::lowest() : Limits::max();
        if (extreme == Extreme::not_finite && Limits::has_quiet_NaN)
          value = i % 2 ? Limits::infinity() : Limits::quiet_NaN();
        if (extreme == Extreme::minus_one) value = static_cast<T>(-1);
      }
  });
  return out;
}

std::vector<Shape> other_shapes(const Shape& shape) {
  const Ints dims(shape.begin(), shape.end());
  std::vector<Ints> all = {{}, {0}, {1}, {7, 5, 3}, Ints(8, 1)};
  for (size_t i = 0; i < dims.size(); ++i) {
    for (const int64_t size : {int64_t{0}, int64_t{1}, std::clamp<int64_t>(dims[i], 0, kRunMax) + 1,
                               std::clamp<int64_t>(dims[i], 0, kRunMax) * 2, int64_t{1} << 31,
                               int64_t{1} << 40, int64_t{1} << 62, kMost}) {
      all.push_back(dims);
      all.back()[i] = size;
    }
    all.push_back(dims);
    all.back().erase(all.back().begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (dims.size() < Shape::kNdimMax) {
    all.push_back(dims);
    all.back().insert(all.back().begin(), 2);
    all.push_back(dims);
    all.back().push_back(2);
  }
  std::vector<Shape> out;
  for (const auto& one : all) out.emplace_back(one);
  return out;
}

std::vector<Attr> other_values(const Attr& attr) {
  std::vector<Attr> out;
  if (const auto* flag = std::get_if<bool>(&attr)) out = {!*flag};
  if (const auto* n = std::get_if<int64_t>(&attr))
    for (const int64_t other : {int64_t{-1}, int64_t{0}, *n < kMost ? *n + 1 : 0, int64_t{1} << 31,
                                int64_t{1} << 62, kMost, kLeast})
      out.push_back(other);
  if (std::holds_alternative<double>(attr))
    for (const double other : {-1.0, 0.0, 1e308, double{INFINITY}, double{NAN}})
      out.push_back(other);
  if (std::holds_alternative<std::string>(attr)) out = {std::string(), std::string("no\nsense")};
  if (std::holds_alternative<DType>(attr))
    for (const DType dtype : kDTypes) out.push_back(dtype);
  if (const auto* shape = std::get_if<Shape>(&attr)) {
    for (const Shape& other : other_shapes(*shape)) out.push_back(other);
    out.push_back(Shape{-1});
    out.push_back(Shape{int64_t{1} << 40, int64_t{1} << 40});
  }
  if (const auto* list = std::get_if<Ints>(&attr)) {
    out = {Ints{}, Ints(9, 1)};
    for (size_t i = 0; i < list->size(); ++i)
      for (const int64_t other : {int64_t{-1}, int64_t{0}, (*list)[i] / 2 + 3, int64_t{1} << 31,
                                  int64_t{1} << 62, kMost, kLeast}) {
        auto changed = *list;
        changed[i] = other;
        out.emplace_back(changed);
      }
    auto longer = *list;
    longer.push_back(1);
    out.emplace_back(longer);
  }
  return out;
}

bool small(const Shape& shape) {
  int64_t size = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) return true;  // the kernel's memory bounds it
    if (dim > kRunMax || (size *= dim) > kRunMax) return false;
  }
  return true;
}

// Tries variations of one case, and counts the accepted and the refused ones.
class Variations {
 public:
  explicit Variations(const OpCase& c) : case_(c) {
    for (const Tensor& input : c.inputs) shapes_.push_back(input.shape());
  }
  int64_t taken = 0, refused = 0, differentiated = 0;

  void all() {
    attempt(true, true);
    const bool is_good = taken == 1;
    vary_inputs();
    vary_attrs();
    if (case_.inputs.size() > 0) {
      const Tensor last = case_.inputs.back();
      case_.inputs.pop_back();
      attempt(true, true);
      case_.inputs.push_back(last);
    }
    const int64_t before = taken;  // the case is again the original one
    attempt(true, true);
    CHECK((taken > before) == is_good);
  }

 private:
  void vary_inputs() {
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const Tensor was = case_.inputs[i];
      for (const Shape& shape : other_shapes(was.shape())) {
        shapes_[i] = shape;
        const bool fits = small(shape);
        if (fits) case_.inputs[i] = filled(was.dtype(), shape, was);
        attempt(true, fits);
        if (fits) attempt(false, true);
        case_.inputs[i] = was;
      }
      shapes_[i] = was.shape();
      for (const DType dtype : kDTypes) {
        case_.inputs[i] = filled(dtype, was.shape(), was);
        attempt(true, true);
      }
      for (const Extreme extreme :
           {Extreme::largest, Extreme::least, Extreme::not_finite, Extreme::minus_one})
        for (const int64_t place : {int64_t{-1}, int64_t{0}, was.size() - 1}) {
          case_.inputs[i] = with_extreme(was, extreme, place);
          attempt(true, true);
        }
      case_.inputs[i] = was;
    }
  }

  void vary_attrs() {
    for (const AttrSpec& spec : builtin_ops()->get(case_.op).attrs) {
      const Attrs was = case_.attrs;
      const auto given = was.find(spec.name);
      if (given == was.end() && !spec.default_value) continue;
      for (const Attr& other :
           other_values(given == was.end() ? *spec.default_value : given->second)) {
        case_.attrs.insert_or_assign(spec.name, other);
        attempt(true, true);
        attempt(false, true);
        case_.attrs = was;
      }
    }
  }

  std::string text() const {
    std::string out = case_.op + "(";
    for (size_t i = 0; i < case_.inputs.size(); ++i)
      out += detail::concat(case_.inputs[i].dtype(), shapes_[i], " ");
    out += ")";
    for (const auto& [name, value] : case_.attrs) out += " " + name + "=" + to_string(value);
    return out;
  }

  // Tries the case with shapes known while building, or only when the kernel runs.
  void attempt(bool known, bool run) {
    const std::string what = text() + (known ? "" : ", not known before");
    INFO(what);
    Graph graph;
    bool building = false;
    try {
      NodeSpec spec{.op = case_.op, .attrs = case_.attrs};
      for (size_t i = 0; i < case_.inputs.size(); ++i) {
        Shape shape = shapes_[i];
        for (int d = 0; d < shape.ndim() && !known; ++d) shape.set(d, -1);
        spec.inputs.push_back(placeholder(graph, case_.inputs[i].dtype(), shape));
      }
      building = true;
      const Output first = graph.add(spec);
      building = false;
      const Node& node = graph.node(first.node);
      for (const TensorType& type : node.outputs) run = run && small(type.shape);
      const Kernel* kernel = find_kernel(node, DeviceKind::cpu);
      if (run && kernel && kernel->run) {
        SmallMemory memory;
        const auto outputs =
            run_kernel(NodeView::make(node, *kernel), case_.inputs, memory, RunContext{});
        if (known) differentiate(graph, node, outputs);
      }
      ++taken;
    } catch (const Error& e) {
      ++refused;
      const std::string said = e.what();
      CAPTURE(said);
      CHECK((e.code() == Errc::invalid_argument || e.code() == Errc::out_of_memory ||
             e.code() == Errc::bad_data));
      if (building) CHECK(said.find(case_.op) != said.npos);  // the message names the op
    } catch (const std::exception& e) {
      FAIL_CHECK("not an Error: ", e.what());
    }
  }

  // The gradient of an accepted case is accepted, too.
  void differentiate(Graph& graph, const Node& node, const std::vector<Tensor>& outputs) {
    if (!node.op->gradient || !node.op->no_gradient.empty()) return;
    std::vector<Output> xs, ys;
    FedValues feeds;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      feeds.insert_or_assign(node.inputs[i], case_.inputs[i]);
      if (is_floating(node.inputs[i].dtype())) xs.push_back(node.inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Output y{&graph, node.id, static_cast<int32_t>(i)};
      feeds.insert_or_assign(y, outputs[i]);
      if (is_floating(y.dtype())) ys.push_back(y);
    }
    if (xs.empty() || ys.empty()) return;
    std::vector<Output> slopes;
    for (const Output& slope : gradients(ys, xs))
      if (slope.defined()) slopes.push_back(slope);
    SmallMemory memory;
    for (const int32_t id : prune(graph, slopes, names_of(feeds))) {
      const Node& made = graph.node(id);
      std::vector<Tensor> inputs;
      for (const Output& input : made.inputs) inputs.push_back(feeds.at(input));
      const Kernel* kernel = find_kernel(made, DeviceKind::cpu);
      const auto results = run_kernel(NodeView::make(made, *kernel), inputs, memory, RunContext{});
      for (size_t i = 0; i < results.size(); ++i)
        feeds.insert_or_assign(Output{&graph, id, static_cast<int32_t>(i)}, results[i]);
    }
    for (const Output& slope : slopes) CHECK(slope.shape().accepts(feeds.at(slope).shape()));
    ++differentiated;
  }

  OpCase case_;
  std::vector<Shape> shapes_;  // of the placeholders; some are too large for a tensor
};

}  // namespace

TEST_CASE("whatever an op is given, it takes it or refuses it with an error of its own" *
          doctest::test_suite("slow")) {
  std::map<std::string, size_t> count;
  int64_t taken = 0, refused = 0, differentiated = 0;
  for (const auto& table : listed_cases())
    for (OpCase c : table().values) {
      // With weights that differ by 10^300, a sampler of distinct classes uses all of its 2^30
      // draws.
      if (c.op == "UnigramCandidates") c.attrs["unique"] = false;
      if (c.build || c.op == "Print" || count[c.op]++ >= kCasesOfAnOp) continue;
      Variations variations(c);
      variations.all();
      taken += variations.taken;
      refused += variations.refused;
      differentiated += variations.differentiated;
    }
  CHECK(count.size() > 200);
  CHECK(taken > 10'000);
  CHECK(refused > 10'000);
  CHECK(differentiated > 5'000);
}

}  // namespace troupe
