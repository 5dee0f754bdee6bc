// join: graphs before and after it, as text; and equal results of both.
#include "tests/support/pass_text.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::string inputs(const std::string& batch) {
  return "x = Placeholder() dtype=f32 shape=[" + batch +
         ", 3]\n"
         "t = Placeholder() dtype=i64 shape=[" +
         batch + "]\n";
}
const std::string kOne = "one = Placeholder() dtype=f32 shape=[]\n";
const std::string kLoss = "l = SoftmaxCrossEntropy(x, t)\n";
const std::string kMean = "m = ReduceMean(l) axes={} keep_dims=false\n";
const std::string kShare = "d = ReduceGradient(one, l) axes={} keep_dims=false mean=true\n";
const std::string kGradient = "dx = SoftmaxCrossEntropyGradient(d, x, t)\n";

}  // namespace

TEST_CASE("a loss and its gradient become one node, behind which the loss is read") {
  for (const std::string batch : {"4", "-1"})
    CHECK(after(join, inputs(batch) + kOne + kLoss + kMean + kShare + kGradient, {"m", "dx"}) ==
          inputs(batch) + kOne +
              "d = ReduceGradient(one, t) axes={} keep_dims=false mean=true\n"
              "dx = SoftmaxCrossEntropyAndGradient(x, t, d)\n"
              "m = ReduceMean(dx:1) axes={} keep_dims=false\n");
}

TEST_CASE("a gradient of the loss that needs no shape of it is read as it is") {
  CHECK(after(join,
              inputs("4") + "d = Placeholder() dtype=f32 shape=[4]\n" + kLoss + kMean +
                  "e = Negate(d)\ndx = SoftmaxCrossEntropyGradient(e, x, t)\n",
              {"m", "dx"}) == inputs("4") +
                                  "d = Placeholder() dtype=f32 shape=[4]\n"
                                  "e = Negate(d)\n"
                                  "dx = SoftmaxCrossEntropyAndGradient(x, t, e)\n"
                                  "m = ReduceMean(dx:1) axes={} keep_dims=false\n");
}

TEST_CASE("a known shape may be that of another value that depends on the loss") {
  const std::string masked = "k = Placeholder() dtype=f32 shape=[4]\n" + kLoss +
                             "w = Multiply(l, k)\n"
                             "m = ReduceMean(w) axes={} keep_dims=false\n"
                             "s = ReduceGradient(one, w) axes={} keep_dims=false mean=true\n"
                             "d = Multiply(s, k)\n" +
                             kGradient;
  const std::string text = after(join, inputs("4") + kOne + masked, {"m", "dx"});
  CHECK(text.find("s = ReduceGradient(one, t) ") != text.npos);
  CHECK(text.find("dx = SoftmaxCrossEntropyAndGradient(x, t, d)\n") != text.npos);
  CHECK(text.find("w = Multiply(dx:1, k)\n") != text.npos);
}

TEST_CASE("a gradient that depends on the value of the loss waits for it") {
  check_left(join, inputs("4") + kLoss + kMean + "d = Exp(l)\n" + kGradient, {"m", "dx"});
  check_left(join,
             inputs("4") + kOne + kLoss + kMean + "e = Multiply(one, m)\n" +
                 "d = ReduceGradient(e, l) axes={} keep_dims=false mean=true\n" + kGradient,
             {"m", "dx"});
  // If the sizes differ from those of the labels, the result has another shape.
  check_left(join,
             inputs("-1") + kOne + kLoss + kMean + "w = Negate(l)\n" +
                 "d = ReduceGradient(one, w) axes={} keep_dims=false mean=true\n" + kGradient,
             {"m", "dx"});
}

TEST_CASE("what is fetched or fed, has an order, another device or other logits is left alone") {
  const std::string rest = kMean + kShare + kGradient;
  check_left(join, inputs("4") + kOne + kLoss + rest, {"l", "m", "dx"});
  check_left(join, inputs("4") + kOne + kLoss + rest, {"m", "dx"}, {"l"});
  check_left(join, inputs("4") + kOne + "l = SoftmaxCrossEntropy(x, t) after one\n" + rest,
             {"m", "dx"});
  check_left(join,
             inputs("4") + kOne + "l = SoftmaxCrossEntropy(x, t) on \"/device:cpu:1\"\n" + rest,
             {"m", "dx"});
  check_left(join, inputs("4") + kOne + "z = Negate(x)\nl = SoftmaxCrossEntropy(z, t)\n" + rest,
             {"m", "dx"});
  check_left(join, inputs("4") + kLoss + kMean, {"m"});
}

TEST_CASE("loss and gradient have the same bits in one node and in two") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const DType label : {DType::i32, DType::i64})
      for (const Shape& shape : {Shape{1, 1}, Shape{5, 10}, Shape{3, 4000}, Shape{700, 33}})
        for (const bool unknown : {false, true}) {
          Graph g;
          Shape told = shape;
          if (unknown) told.set(0, -1);
          const Output x = placeholder(g, dtype, told, "x");
          const Output t = placeholder(g, label, Shape{told[0]}, "t");
          const Output loss = reduce_mean(softmax_cross_entropy(x, t));
          const Output dx = gradients({loss}, {x})[0];
          Graph numbers;
          const Output steps = range(numbers, 0, shape.size(), 1, dtype);
          const Tensor logits = evaluate(reshape(sin(steps) * 9.0, shape));
          const Tensor labels = evaluate(cast(
              floor(abs(cos(range(numbers, 0, shape[0], 1, DType::f64))) * 0.99 * double(shape[1])),
              label));
          const CallGraph call = rewrite(join, call_graph(g, {loss, dx}, {x, t})).call;
          CHECK(call.graph->node(call.fetches[1].node).op->name ==
                "SoftmaxCrossEntropyAndGradient");
          const auto plain = evaluate(g, {loss, dx}, {{x, logits}, {t, labels}});
          const auto joined = evaluate(*call.graph, call.fetches,
                                       {{call.feeds[0], logits}, {call.feeds[1], labels}});
          CHECK(same_bits(plain[0], joined[0]));
          CHECK(same_bits(plain[1], joined[1]));
        }
}

}  // namespace troupe
