// Ops against PyTorch's: a formula in its syntax, inputs, and the session's results for the same
// formula.
#include <cstdio>
#include <functional>
#include <random>

#include "tests/torch/cases.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

using Outputs = std::vector<Output>;

struct Input {
  Shape shape;
  double low = -2, high = 2;
  bool differentiable = true;
};

struct OpCase {
  std::string name;
  std::string formula;  // of `x`, the inputs, with `torch` and `F`, torch.nn.functional
  std::vector<Input> inputs;
  std::function<Outputs(const Outputs&)> build;
};

// A case of one output.
OpCase single(std::string name, std::string formula, std::vector<Input> inputs,
              std::function<Output(const Outputs&)> build) {
  return {std::move(name), std::move(formula), std::move(inputs),
          [=](const Outputs& x) { return Outputs{build(x)}; }};
}

OpCase unary(std::string formula, Output (*op)(Output, Origin), double low = -2, double high = 2) {
  return single(formula, formula + "(x[0])", {{{3, 7}, low, high}},
                [op](const Outputs& x) { return op(x[0], Origin::here()); });
}

OpCase binary(std::string formula, Output (*op)(Operand, Operand, Origin), double low = -2,
              double high = 2) {
  return single(formula, formula + "(x[0], x[1])", {{{4, 1, 3}, low, high}, {{5, 3}, low, high}},
                [op](const Outputs& x) { return op(x[0], x[1], Origin::here()); });
}

std::vector<OpCase> element_wise() {
  return {
      unary("torch.abs", abs),
      unary("torch.square", square),
      unary("torch.reciprocal", reciprocal, 0.5, 2),
      unary("torch.rsqrt", rsqrt, 0.5, 2),
      unary("torch.sqrt", sqrt, 0.1, 4),
      unary("torch.exp", exp),
      unary("torch.exp2", exp2),
      unary("torch.expm1", expm1),
      unary("torch.log", log, 0.1, 4),
      unary("torch.log1p", log1p, -0.9, 4),
      unary("torch.log2", log2, 0.1, 4),
      unary("torch.log10", log10, 0.1, 4),
      unary("torch.sin", sin),
      unary("torch.cos", cos),
      unary("torch.tan", tan, -1, 1),
      unary("torch.asin", asin, -0.9, 0.9),
      unary("torch.acos", acos, -0.9, 0.9),
      unary("torch.atan", atan),
      unary("torch.sinh", sinh),
      unary("torch.cosh", cosh),
      unary("torch.tanh", tanh),
      unary("torch.asinh", asinh),
      unary("torch.acosh", acosh, 1.1, 4),
      unary("torch.atanh", atanh, -0.9, 0.9),
      unary("torch.erf", erf),
      unary("torch.erfc", erfc),
      unary("torch.erfinv", erfinv, -0.9, 0.9),
      unary("torch.lgamma", lgamma, 0.2, 6),
      unary("torch.digamma", digamma, 0.2, 6),
      unary("torch.sigmoid", sigmoid),
      unary("F.relu", relu),
      unary("F.relu6", relu6, -2, 9),
      unary("F.selu", selu),
      unary("F.silu", silu),
      unary("F.softplus", softplus),
      unary("F.softsign", softsign),
      unary("F.mish", mish),
      binary("torch.add", add),
      binary("torch.sub", subtract),
      binary("torch.mul", multiply),
      binary("torch.div", divide, 0.5, 2),
      binary("torch.maximum", maximum),
      binary("torch.minimum", minimum),
      binary("torch.pow", pow, 0.3, 2),
      binary("torch.logaddexp", log_add_exp),
      binary("torch.atan2", atan2, 0.3, 2),
      binary("torch.hypot", hypot, 0.3, 2),
      binary("torch.xlogy", xlogy, 0.3, 2),
      binary("torch.logaddexp2", log_add_exp2),
      binary("torch.fmax", fmax),
      binary("torch.fmin", fmin),
      binary("torch.fmod", fmod),
      single("torch.copysign", "torch.copysign(x[0], x[1])", {{{4, 6}}, {{6}, -2, 2, false}},
             [](const Outputs& x) { return copysign(x[0], x[1]); }),
      // PyTorch has no gradient of heaviside.
      single("torch.heaviside",
             "torch.heaviside(torch.round(x[0]).detach(), torch.round(x[1])) * x[0]",
             {{{4, 6}, -1, 1}, {{4, 6}, -3, 3, false}},
             [](const Outputs& x) { return heaviside(round(x[0]), round(x[1])) * x[0]; }),
      // x[1] rounds to zeros of both signs, so some quotients are infinite.
      single("torch.nan_to_num", "torch.nan_to_num(x[0] + 1 / torch.round(x[1]), 1, 3, -2)",
             {{{4, 6}}, {{4, 6}, -1, 1, false}},
             [](const Outputs& x) {
               const Output sum = x[0] + 1 / round(x[1]);
               return nan_to_num(sum, {.nan = 1, .positive = 3, .negative = -2});
             }),
      single("leaky_relu", "F.leaky_relu(x[0], 0.1)", {{{3, 7}}},
             [](const Outputs& x) { return leaky_relu(x[0], 0.1); }),
      single("elu", "F.elu(x[0], 0.7)", {{{3, 7}}},
             [](const Outputs& x) { return elu(x[0], 0.7); }),
      single("gelu", "F.gelu(x[0])", {{{3, 7}}}, [](const Outputs& x) { return gelu(x[0]); }),
      single("gelu of tanh", "F.gelu(x[0], approximate='tanh')", {{{3, 7}}},
             [](const Outputs& x) { return gelu(x[0], true); }),
      // The gradient of F.hardsigmoid uses a sixth in single precision.
      single("hard_sigmoid", "torch.clamp((x[0] + 3) / 6, 0, 1)", {{{3, 7}, -5, 5}},
             [](const Outputs& x) { return hard_sigmoid(x[0]); }),
      single("clip", "torch.clamp(x[0], -1, 0.5)", {{{3, 7}}},
             [](const Outputs& x) { return clip(x[0], -1, 0.5); }),
  };
}

std::vector<OpCase> reductions() {
  return {
      single("softmax", "F.softmax(x[0], -1)", {{{3, 7}}},
             [](const Outputs& x) { return softmax(x[0]); }),
      single("log_sum_exp", "torch.logsumexp(x[0], (0, 2))", {{{3, 4, 5}}},
             [](const Outputs& x) {
               return log_sum_exp(x[0], {.axes = {0, 2}});
             }),
      single("reduce_mean", "x[0].mean((0, 2), keepdim=True)", {{{3, 4, 5}}},
             [](const Outputs& x) {
               return reduce_mean(x[0], {.axes = {0, 2}, .keep_dims = true});
             }),
      single("reduce_prod", "x[0].prod(1)", {{{3, 4, 5}}},
             [](const Outputs& x) { return reduce_prod(x[0], {.axes = {1}}); }),
      single("norm", "torch.linalg.vector_norm(x[0], 2, dim=1)", {{{3, 4}}},
             [](const Outputs& x) { return norm(x[0], 2, {.axes = {1}}); }),
      single("cumsum", "x[0].cumsum(1)", {{{3, 4, 5}}},
             [](const Outputs& x) { return cumsum(x[0], {.axis = 1}); }),
      single("cumprod", "x[0].cumprod(1)", {{{3, 4, 5}}},
             [](const Outputs& x) { return cumprod(x[0], {.axis = 1}); }),
      single("sort", "torch.sort(x[0], 1, descending=True)[0]", {{{3, 6}}},
             [](const Outputs& x) { return sort(x[0], {.axis = 1, .descending = true}); }),
      single("einsum", "torch.einsum('bij,bjk,k->bi', *x)", {{{2, 3, 4}}, {{2, 4, 5}}, {{5}}},
             [](const Outputs& x) { return einsum("bij,bjk,k->bi", x); }),
      single("cosine_similarity", "F.cosine_similarity(x[0], x[1], -1)", {{{3, 5}}, {{3, 5}}},
             [](const Outputs& x) { return cosine_similarity(x[0], x[1]); }),
  };
}

// A symmetric matrix that is far from singular.
Output definite(Output x) {
  return matmul(x, x, {.transpose_b = true}) + eye(*x.graph, 4, -1, DType::f64) * 2.0;
}

std::vector<OpCase> matrices() {
  const std::string a = "(x[0] @ x[0].mT + 2 * torch.eye(4, dtype=torch.float64))";
  const std::vector<Input> one = {{{2, 4, 4}}}, two = {{{2, 4, 4}}, {{2, 4, 3}}};
  return {
      single("cholesky", "torch.linalg.cholesky(" + a + ")", one,
             [](const Outputs& x) { return cholesky(definite(x[0])); }),
      single("inverse", "torch.linalg.inv(" + a + ")", one,
             [](const Outputs& x) { return inverse(definite(x[0])); }),
      single("solve", "torch.linalg.solve(" + a + ", x[1])", two,
             [](const Outputs& x) { return solve(definite(x[0]), x[1]); }),
      single("triangular_solve",
             "torch.linalg.solve_triangular(torch.tril(" + a + "), x[1], upper=False)", two,
             [](const Outputs& x) { return triangular_solve(definite(x[0]), x[1]); }),
      single("determinant", "torch.linalg.det(" + a + ")", one,
             [](const Outputs& x) { return determinant(definite(x[0])); }),
      single("log_det", "torch.linalg.slogdet(" + a + ")[1]", one,
             [](const Outputs& x) { return log_det(definite(x[0])).log; }),
      single("eigh, values", "torch.linalg.eigh(" + a + ")[0]", one,
             [](const Outputs& x) { return eigh(definite(x[0])).values; }),
      single("svd, values", "torch.linalg.svdvals(x[0])", {{{2, 4, 3}}},
             [](const Outputs& x) { return svd(x[0]).s; }),
      // The signs of the rows differ between libraries.
      single("qr, r^2", "torch.linalg.qr(x[0])[1] ** 2", {{{2, 5, 3}}},
             [](const Outputs& x) { return square(qr(x[0]).r); }),
  };
}

std::vector<OpCase> norms() {
  return {
      single("layer_norm", "F.layer_norm(x[0], (5,), x[1], x[2])", {{{3, 4, 5}}, {{5}}, {{5}}},
             [](const Outputs& x) { return layer_norm(x[0], x[1], x[2]); }),
      single("rms_norm", "F.rms_norm(x[0], (5,), x[1], eps=1e-6)", {{{3, 4, 5}}, {{5}}},
             [](const Outputs& x) { return rms_norm(x[0], x[1]); }),
      single("batch_norm",
             "F.batch_norm(x[0].permute(0, 3, 1, 2), None, None, x[1], x[2], training=True)"
             ".permute(0, 2, 3, 1)",
             {{{4, 3, 3, 5}}, {{5}}, {{5}}},
             [](const Outputs& x) { return batch_norm(x[0], x[1], x[2]).y; }),
      single("group_norm",
             "F.group_norm(x[0].permute(0, 3, 1, 2), 2, x[1], x[2]).permute(0, 2, 3, 1)",
             {{{4, 3, 3, 6}}, {{6}}, {{6}}},
             [](const Outputs& x) { return group_norm(x[0], x[1], x[2], 2); }),
      single(
          "instance_norm",
          "F.instance_norm(x[0].permute(0, 3, 1, 2), None, None, x[1], x[2]).permute(0, 2, 3, 1)",
          {{{4, 3, 3, 5}}, {{5}}, {{5}}},
          [](const Outputs& x) { return instance_norm(x[0], x[1], x[2]); }),
  };
}

std::vector<OpCase> convolutions() {
  const std::string image = "x[0].permute(0, 3, 1, 2)", back = ".permute(0, 2, 3, 1)";
  return {
      single("conv1d", "F.conv1d(x[0].mT, x[1].permute(2, 1, 0), stride=2).mT",
             {{{2, 9, 3}}, {{3, 3, 4}}},
             [](const Outputs& x) {
               return conv1d(x[0], x[1], {.strides = {2}, .padding = Padding::valid});
             }),
      single("conv2d of groups, dilated",
             "F.conv2d(" + image +
                 ", x[1].permute(3, 2, 0, 1), stride=2, padding=2, dilation=2, "
                 "groups=2)" +
                 back,
             {{{2, 9, 8, 4}}, {{3, 3, 2, 6}}},
             [](const Outputs& x) {
               return convolution(x[0], x[1],
                                  {.strides = {2},
                                   .dilations = {2},
                                   .groups = 2,
                                   .padding = Padding::given,
                                   .before = {2},
                                   .after = {2}});
             }),
      single("conv3d",
             "F.conv3d(x[0].permute(0, 4, 1, 2, 3), x[1].permute(4, 3, 0, 1, 2), padding=1)"
             ".permute(0, 2, 3, 4, 1)",
             {{{2, 4, 5, 4, 2}}, {{3, 3, 3, 2, 3}}},
             [](const Outputs& x) { return conv3d(x[0], x[1]); }),
      single("convolution_transpose",
             "F.conv_transpose2d(" + image +
                 ", x[1].permute(3, 2, 0, 1), stride=2, padding=1, "
                 "output_padding=1)" +
                 back,
             {{{2, 4, 5, 3}}, {{3, 3, 4, 3}}},
             [](const Outputs& x) {
               return convolution_transpose(
                   x[0], x[1],
                   {.strides = {2}, .padding = Padding::given, .before = {1}, .after = {1}}, {1});
             }),
      single("max_pool", "F.max_pool2d(" + image + ", 3, stride=2, padding=1)" + back,
             {{{2, 7, 6, 3}}},
             [](const Outputs& x) {
               return max_pool(x[0], {.size = {3},
                                      .strides = {2},
                                      .padding = Padding::given,
                                      .before = {1},
                                      .after = {1}});
             }),
      single("average_pool",
             "F.avg_pool2d(" + image + ", 3, stride=2, padding=1, count_include_pad=False)" + back,
             {{{2, 7, 7, 3}}},
             [](const Outputs& x) {
               return average_pool(x[0], {.size = {3},
                                          .strides = {2},
                                          .padding = Padding::given,
                                          .before = {1},
                                          .after = {1}});
             }),
  };
}

std::vector<OpCase> sequences() {
  const std::vector<Input> attention = {{{2, 3, 4, 5}}, {{2, 3, 6, 5}}, {{2, 3, 6, 7}}};
  return {
      // PyTorch's gates are ordered i, f, g, o, too; the second of its two biases is zero.
      {"lstm",
       "(lambda y, h, c: (y, h, c))(*torch._VF.lstm(x[0], (x[1][None], x[2][None]), [x[3].T, "
       "x[4].T, x[5], "
       "torch.zeros_like(x[5])], True, 1, 0.0, True, False, False))",
       {{{5, 2, 3}}, {{2, 4}}, {{2, 4}}, {{3, 16}}, {{4, 16}}, {{16}}},
       [](const Outputs& x) {
         const Lstm out = lstm(x[0], x[1], x[2], x[3], x[4], x[5]);
         return Outputs{out.y, out.h, out.c};
       }},
      {"gru",
       "torch._VF.gru(x[0], x[1][None], [x[2].T, x[3].T, x[4], x[5]], True, 1, 0.0, True, False, "
       "False)",
       {{{5, 2, 3}}, {{2, 4}}, {{3, 12}}, {{4, 12}}, {{12}}, {{12}}},
       [](const Outputs& x) {
         const Gru out = gru(x[0], x[1], x[2], x[3], x[4], x[5]);
         return Outputs{out.y, out.h};
       }},
      single("attention", "F.scaled_dot_product_attention(*x)", attention,
             [](const Outputs& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }),
      single("causal attention", "F.scaled_dot_product_attention(*x, is_causal=True)", attention,
             [](const Outputs& x) {
               return scaled_dot_product_attention(x[0], x[1], x[2], {.causal = true});
             }),
      single("ctc_loss",
             "F.ctc_loss(F.log_softmax(x[0], -1), torch.tensor([[1, 2, 2], [3, 1, 0]]), "
             "torch.tensor([6, 5]), torch.tensor([3, 2]), reduction='none')",
             {{{6, 2, 4}}},
             [](const Outputs& x) {
               Graph& graph = *x[0].graph;
               return ctc_loss(x[0],
                               constant(graph, Tensor::of<int32_t>({1, 2, 2, 3, 1, 0}, {2, 3})),
                               constant(graph, Tensor::of<int32_t>({6, 5}, {2})),
                               constant(graph, Tensor::of<int32_t>({3, 2}, {2})));
             }),
  };
}

std::vector<OpCase> losses() {
  const std::vector<Input> pair = {{{4, 5}}, {{4, 5}, 0.1, 0.9, false}};
  return {
      single("softmax_cross_entropy",
             "F.cross_entropy(x[0], torch.tensor([1, 0, 4, 2]), reduction='none')", {{{4, 5}}},
             [](const Outputs& x) {
               return softmax_cross_entropy(
                   x[0], constant(*x[0].graph, Tensor::of<int32_t>({1, 0, 4, 2}, {4})));
             }),
      single("sigmoid_cross_entropy",
             "F.binary_cross_entropy_with_logits(x[0], x[1], reduction='none')", pair,
             [](const Outputs& x) { return sigmoid_cross_entropy(x[0], x[1]); }),
      single("huber_loss", "F.huber_loss(x[0], x[1], reduction='none', delta=0.7)", pair,
             [](const Outputs& x) { return huber_loss(x[0], x[1], 0.7); }),
      single("mean_squared_error", "F.mse_loss(x[0], x[1])", pair,
             [](const Outputs& x) { return mean_squared_error(x[0], x[1]); }),
      single("mean_absolute_error", "F.l1_loss(x[0], x[1])", pair,
             [](const Outputs& x) { return mean_absolute_error(x[0], x[1]); }),
      single("kl_divergence", "F.kl_div(torch.log(x[0]), x[1], reduction='none').sum(-1)",
             {{{4, 5}, 0.1, 0.9}, {{4, 5}, 0.1, 0.9, false}},
             [](const Outputs& x) { return kl_divergence(x[1], x[0]); }),
  };
}

Tensor random_values(std::mt19937_64& random, const Shape& shape, double low, double high) {
  Tensor out = Tensor::empty(DType::f64, shape);
  double* values = out.mutable_data<double>();
  for (int64_t i = 0; i < out.size(); ++i)
    values[i] = low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  return out;
}

std::string tensor_json(const Tensor& tensor) {
  std::string shape;
  for (const int64_t size : tensor.shape())
    shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  const auto values = tensor.values<double>();
  return "{\"shape\": [" + shape +
         "], \"values\": " + to_json(std::vector<double>(values.begin(), values.end())) + "}";
}

template <class T, class F>
std::string to_json_list(const std::vector<T>& items, const F& f) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ", ") + f(item);
  return "[" + out + "]";
}

// Computes the outputs in a session, and the gradients of the sum of the outputs times random
// weights.
std::string computed(const OpCase& test, std::mt19937_64& random) {
  Graph graph;
  std::vector<Tensor> inputs, dys;
  Outputs x, wanted, dy;
  for (const Input& input : test.inputs) {
    inputs.push_back(random_values(random, input.shape, input.low, input.high));
    x.push_back(constant(graph, inputs.back()));
    if (input.differentiable) wanted.push_back(x.back());
  }
  const Outputs y = test.build(x);
  for (const Output& output : y) {
    dys.push_back(random_values(random, output.shape(), -1, 1));
    dy.push_back(constant(graph, dys.back()));
  }
  const Outputs dx = gradients(y, wanted, dy);
  Session session = Session::local(graph, {.threads = 1});
  const std::vector<Tensor> outputs = session.run(y), derivatives = session.run(dx);
  const auto tensor = [](const Tensor& t) { return tensor_json(t); };
  return "{\"name\": \"" + test.name + "\", \"formula\": \"" + test.formula +
         "\", \"inputs\": " + to_json_list(inputs, tensor) + ", \"differentiable\": " +
         to_json_list(
             test.inputs,
             [](const Input& i) { return std::string(i.differentiable ? "true" : "false"); }) +
         ", \"outputs\": " + to_json_list(outputs, tensor) +
         ", \"dys\": " + to_json_list(dys, tensor) +
         ", \"gradients\": " + to_json_list(derivatives, tensor) + "}";
}

}  // namespace

std::string to_json(const std::vector<double>& numbers) {
  std::string out;
  for (const double number : numbers) {
    char text[40];
    std::snprintf(text, sizeof text, "%s%.17g", out.empty() ? "" : ", ", number);
    out += text;
  }
  return "[" + out + "]";
}

std::vector<std::string> op_cases() {
  std::mt19937_64 random(1);
  std::vector<std::string> out;
  for (const auto& table :
       {element_wise(), reductions(), matrices(), norms(), convolutions(), sequences(), losses()})
    for (const OpCase& test : table) out.push_back(computed(test, random));
  return out;
}

}  // namespace troupe
