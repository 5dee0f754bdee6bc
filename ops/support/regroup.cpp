// Regroup: y = the elements of x in row-major order, under a shape whose sizes come from other
// values.
//   x, likes: shapes of the left side of `pattern`   y: the shape of its right side. No copy.
// In a pattern, names and numbers are sizes, and parentheses multiply: ops/support/regroup.hpp has
// examples.
#include "ops/support/regroup.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// One size: a number, or a name encoded as its own negative number.
using Factors = std::vector<int64_t>;
using Side = std::vector<Factors>;  // the dimensions of one value

struct Pattern {
  std::vector<Side> inputs;
  Side output;
  std::vector<std::string> names;  // of -1, -2, ...
  bool good = false;
};

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Pattern pattern() {
    do pattern_.inputs.push_back(side());
    while (take(","));
    const bool arrow = take("->");
    pattern_.output = side();
    pattern_.good = arrow && good_ && at_ == text_.size();
    return std::move(pattern_);
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(const std::string& token) {
    skip();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  // The next name or number, if there is one.
  std::optional<int64_t> factor() {
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_]))) ++at_;
    const std::string token = text_.substr(from, at_ - from);
    if (token.empty()) return {};
    if (std::isdigit(static_cast<unsigned char>(token[0]))) {
      constexpr size_t kDigitsMax = 15;
      if (token.size() > kDigitsMax || token.find_first_not_of("0123456789") != token.npos) {
        good_ = false;
        return 1;
      }
      return std::stoll(token);
    }
    for (size_t i = 0; i < pattern_.names.size(); ++i)
      if (pattern_.names[i] == token) return -1 - static_cast<int64_t>(i);
    pattern_.names.push_back(token);
    return -static_cast<int64_t>(pattern_.names.size());
  }
  Side side() {
    Side dims;
    while (true) {
      if (take("(")) {
        dims.emplace_back();
        while (const auto one = factor()) dims.back().push_back(*one);
        good_ = good_ && take(")");
      } else if (const auto one = factor()) {
        dims.push_back({*one});
      } else {
        return dims;
      }
    }
  }

  const std::string& text_;
  size_t at_ = 0;
  bool good_ = true;
  Pattern pattern_;
};

// The result of applying a pattern to shapes. An empty `problem` means success. `certain`: all
// sizes that must be equal were known.
struct Regrouped {
  Shape shape;
  bool certain = true;
  std::string problem = {};
};

class Sizes {
 public:
  explicit Sizes(const Pattern& pattern) : pattern_(pattern), known_(pattern.names.size(), -1) {}

  Regrouped from(const std::vector<Shape>& inputs) {
    for (size_t i = 0; i < inputs.size() && result_.problem.empty(); ++i) {
      const Side& side = pattern_.inputs[i];
      if (side.size() != static_cast<size_t>(inputs[i].ndim())) {
        refuse("value ", i, " has ", side.size(), " dimensions in the pattern, but is ", inputs[i]);
        return result_;
      }
      for (size_t d = 0; d < side.size(); ++d)
        if (side[d].size() == 1) meet(side[d][0], inputs[i][static_cast<int>(d)]);
    }
    for (size_t i = 0; i < inputs.size() && result_.problem.empty(); ++i)
      for (size_t d = 0; d < pattern_.inputs[i].size(); ++d)
        if (pattern_.inputs[i][d].size() != 1)
          divide_up(pattern_.inputs[i][d], inputs[i][static_cast<int>(d)]);
    if (!result_.problem.empty()) return result_;
    std::vector<int64_t> sizes;
    for (const Factors& factors : pattern_.output) sizes.push_back(product(factors));
    if (sizes.size() > Shape::kNdimMax)
      refuse("the result would have ", sizes.size(), " dimensions; at most ", int{Shape::kNdimMax});
    else
      result_.shape = Shape(sizes);
    return result_;
  }

 private:
  template <class... Parts>
  void refuse(const Parts&... parts) {
    if (result_.problem.empty()) result_.problem = detail::concat(parts...);
  }
  int64_t& known(int64_t name) { return known_[static_cast<size_t>(-1 - name)]; }
  int64_t size_of_factor(int64_t factor) { return factor < 0 ? known(factor) : factor; }

  // Binds a factor to the size n.
  void meet(int64_t factor, int64_t n) {
    const int64_t before = size_of_factor(factor);
    const bool seen = factor >= 0 || !seen_.insert(factor).second;
    if (seen && (n < 0 || before < 0)) result_.certain = false;
    if (factor < 0 && before < 0) known(factor) = n;
    if (before < 0 || n < 0 || before == n) return;
    if (factor < 0)
      refuse("the sizes of ", pattern_.names[static_cast<size_t>(-1 - factor)], " differ: ", before,
             " and ", n);
    else
      refuse("a dimension has size ", n, " where the pattern has ", factor);
  }

  // Solves product of factors = n for the one unknown factor.
  void divide_up(const Factors& factors, int64_t n) {
    int64_t rest = 1, open = 0, open_count = 0;
    for (const int64_t factor : factors) {
      const int64_t size = size_of_factor(factor);
      if (size < 0) {
        open = factor;
        ++open_count;
      } else if (__builtin_mul_overflow(rest, size, &rest)) {
        return refuse("sizes are too large to multiply");
      }
    }
    if (n < 0 || open_count > 1 || (open_count == 1 && rest == 0)) {
      if (open_count == 0) result_.certain = false;
      return;
    }
    if (open_count == 0 ? rest != n : n % rest != 0)
      refuse("a dimension of size ", n, " is no multiple of ", rest, " as the pattern wants");
    else if (open_count == 1)
      known(open) = n / rest;
  }

  int64_t product(const Factors& factors) {
    int64_t n = 1;
    for (const int64_t factor : factors) {
      const int64_t size = size_of_factor(factor);
      if (size < 0) return -1;
      if (__builtin_mul_overflow(n, size, &n)) refuse("sizes are too large to multiply");
    }
    return n;
  }

  const Pattern& pattern_;
  std::vector<int64_t> known_;
  std::set<int64_t> seen_;  // names bound to a size
  Regrouped result_;
};

template <class Context>
Shape regrouped(const Context& ctx, const Pattern& pattern, const std::vector<Shape>& inputs) {
  const auto& text = ctx.template attr<std::string>("pattern");
  if (!pattern.good)
    throw ctx.error("cannot read the pattern \"", text, "\"; write it like \"a b c -> a (b c)\"");
  if (pattern.inputs.size() != inputs.size())
    throw ctx.error("the pattern \"", text, "\" is one of ", pattern.inputs.size(), " values, got ",
                    inputs.size());
  const Regrouped result = Sizes(pattern).from(inputs);
  if (!result.problem.empty()) throw ctx.error(result.problem, ", in \"", text, "\"");
  const Shape &x = inputs[0], &y = result.shape;
  const auto is_known = [](const Shape& shape) { return shape.is_known(); };
  if (!y.is_known() && std::all_of(inputs.begin(), inputs.end(), is_known))
    throw ctx.error("the sizes do not say what the result is, in \"", text,
                    "\"; name each of its sizes on the left");
  if (x.is_known() && y.is_known() && x.size() != y.size())
    throw ctx.error("the ", x.size(), " elements of ", x, " do not fit into ", y, ", in \"", text,
                    "\"");
  return y;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  std::vector<Shape> inputs;
  for (int i = 0; i < ctx.input_count(); ++i) inputs.push_back(ctx.input(i));
  return {regrouped(ctx, Parser(ctx.attr<std::string>("pattern")).pattern(), inputs)};
}

// Writing dy for dL/dy:  dx = dy in x's shape.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<Output> gradients(static_cast<size_t>(ctx.input_count()));
  gradients[0] = reshape_like(ctx.output_gradient(0), ctx.input(0));
  return gradients;
}

// The values that give sizes may have any dtypes.
struct PatternState final : KernelState {
  Pattern pattern;
};

std::unique_ptr<KernelState> prepare(const Node& node) {
  auto state = std::make_unique<PatternState>();
  state->pattern = Parser(node.attr<std::string>("pattern")).pattern();
  return state;
}

void cpu(KernelContext& ctx) {
  std::vector<Shape> inputs;
  for (int i = 0; i < ctx.input_count(); ++i) inputs.push_back(ctx.input(i).shape());
  ctx.set_output(0,
                 ctx.input(0).reshaped(regrouped(ctx, ctx.state<PatternState>().pattern, inputs)));
}

bool is_reshape(const Shape& shape) {
  int unknown = 0;
  bool empty = false;
  for (const int64_t size : shape) {
    unknown += size < 0;
    empty = empty || size == 0;
  }
  return unknown == 0 || (unknown == 1 && !empty);
}

}  // namespace

Op regroup_op() {
  return {.name = "Regroup",
          .inputs = {"x..."},
          .outputs = {"y"},
          .attrs = {{"pattern", AttrKind::text}},
          .infer_dtypes = infer_dtype_of_first,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu, nullptr, prepare}},
          .aliases = true};
}

Output regroup(Output x, const std::string& text, const std::vector<Output>& likes, bool checked) {
  const Pattern pattern = Parser(text).pattern();
  std::vector<Output> values = {x};
  values.insert(values.end(), likes.begin(), likes.end());
  std::vector<Shape> shapes;
  for (const Output& value : values) shapes.push_back(value.shape());
  TROUPE_CHECK(pattern.good && pattern.inputs.size() == values.size(), "the pattern ", text);
  const Regrouped known = Sizes(pattern).from(shapes);
  if (known.problem.empty() && (known.certain || !checked)) {
    if (pattern.inputs[0] == pattern.output) return x;
    if (is_reshape(known.shape)) return reshape(x, known.shape);
  }
  return add_node({.op = "Regroup", .inputs = values, .attrs = {{"pattern", text}}},
                  Origin::here());
}

Output with_axis(Output x, int axis) {
  const int ndim = x.shape().ndim();
  if (axis < 0) axis += ndim + 1;
  std::string from, to;
  for (int d = 0; d <= ndim; ++d) {
    if (d == axis) to += " 1";
    if (d == ndim) break;
    const std::string name = detail::concat(" a", d);
    from += name;
    to += name;
  }
  return regroup(x, from + " ->" + to);
}

}  // namespace troupe
