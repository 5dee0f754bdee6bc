// Convolution of two-dimensional images and its gradients: values, and oneDNN against the loops.
#include <atomic>

#include "graph/op.hpp"
#include "ops/gradients.hpp"
#include "tests/support/op_cases.hpp"
#include "tests/support/threads.hpp"

namespace troupe {
namespace {

Attrs attrs(int64_t stride, bool same) {
  return {{"strides", Ints{stride}}, {"padding", std::string(same ? "same" : "valid")}};
}

const Table table(
    "Convolution correlates images with a filter, and its gradients are its gradients", [] {
      const Tensor x = iota({1, 3, 3, 1}), ones = full({3, 3, 1, 1}, 1);
      return table_of(
          "Convolution",
          {Case("3x3 sums, padded", {x, ones},
                {values({1, 3, 3, 1}, {8, 15, 12, 21, 36, 27, 20, 33, 24})}),
           Case("3x3 sums, valid", {x, ones}, {values({1, 1, 1, 1}, {36})}, attrs(1, false)),
           {.name = "a cross-correlation, not flipped",
            .op = "Convolution",
            .inputs = {x, values({2, 2, 1, 1}, {1, 2, 3, 4})},
            .attrs = attrs(1, false),
            // 0 1 / 3 4: 0 + 2 + 9 + 16
            .expected = {values({1, 2, 2, 1}, {27, 37, 57, 67})}},
           Case("an even filter pads after", {x, values({2, 2, 1, 1}, {1, 2, 3, 4})},
                {values({1, 3, 3, 1}, {27, 37, 17, 57, 67, 29, 20, 23, 8})}),
           Case("stride 2, padded", {x, ones}, {values({1, 2, 2, 1}, {8, 12, 20, 24})},
                attrs(2, true)),
           {.name = "stride 2, an odd padding goes after",
            .op = "Convolution",
            .inputs = {iota({1, 2, 4, 1}), ones},
            .attrs = attrs(2, true),
            // Rows 0 1 2 3 / 4 5 6 7; the windows begin at columns 0 and 2.
            .expected = {values({1, 1, 2, 1}, {18, 18})}},
           Case("stride 2, valid, leaves the rest out",
                {iota({1, 2, 4, 1}), values({1, 1, 1, 1}, {2})}, {values({1, 1, 2, 1}, {0, 4})},
                attrs(2, false)),
           Case("channels in and out",
                {values({2, 1, 1, 2}, {1, 2, 3, 4}), values({1, 1, 2, 3}, {1, 0, 2, 10, 1, -1})},
                {values({2, 1, 1, 3}, {21, 2, 0, 43, 4, 2})}),
           Case("size one", {values({1, 1, 1, 1}, {3}), values({1, 1, 1, 1}, {-2})},
                {values({1, 1, 1, 1}, {-6})}),
           Case("a filter larger than the image, padded",
                {values({1, 1, 1, 1}, {3}), full({3, 3, 1, 1}, 2)}, {values({1, 1, 1, 1}, {6})}),
           Case("no images", {zeros({0, 3, 3, 1}), ones}, {zeros({0, 3, 3, 1})}),
           Case("no input channels", {zeros({1, 2, 2, 0}), zeros({1, 1, 0, 2})},
                {zeros({1, 2, 2, 2})}),
           Case("infinite pixels", {values({1, 1, 2, 1}, {INFINITY, 1}), values({1, 1, 1, 1}, {2})},
                {values({1, 1, 2, 1}, {INFINITY, 2})})
               .rough(),
           // dx and dfilter of the 2x2 filter above, by hand.
           Case("ConvolutionInputGradient", "what each pixel gave",
                {values({1, 2, 2, 1}, {1, 0, 0, 1}), values({2, 2, 1, 1}, {1, 2, 3, 4}), x},
                {values({1, 3, 3, 1}, {1, 2, 0, 3, 5, 2, 0, 3, 4})}, attrs(1, false)),
           Case("ConvolutionInputGradient", "size one",
                {values({1, 1, 1, 1}, {3}), values({1, 1, 1, 1}, {5}), zeros({1, 1, 1, 1})},
                {values({1, 1, 1, 1}, {15})}),
           Case("ConvolutionInputGradient", "no images",
                {zeros({0, 3, 3, 1}), ones, zeros({0, 3, 3, 1})}, {zeros({0, 3, 3, 1})}),
           Case("ConvolutionInputGradient", "no output channels",
                {zeros({1, 2, 2, 0}), zeros({1, 1, 2, 0}), zeros({1, 2, 2, 2})},
                {zeros({1, 2, 2, 2})}),
           Case("ConvolutionFilterGradient", "what each weight gave",
                {values({1, 2, 2, 1}, {1, 0, 0, 10}), x, zeros({2, 2, 1, 1})},
                {values({2, 2, 1, 1}, {40, 51, 73, 84})}, attrs(1, false)),
           Case("ConvolutionFilterGradient", "size one",
                {values({1, 1, 1, 1}, {3}), values({1, 1, 1, 1}, {5}), zeros({1, 1, 1, 1})},
                {values({1, 1, 1, 1}, {15})}),
           Case("ConvolutionFilterGradient", "no images",
                {zeros({0, 3, 3, 1}), zeros({0, 3, 3, 1}), ones}, {zeros({3, 3, 1, 1})})},
          {
              Refused({zeros({1, 3, 3, 2}), zeros({3, 3, 1, 4})},
                      "the images have 2 channels, but the filter takes 1: [1, 3, 3, 2] with "
                      "[3, 3, 1, 4]"),
              Refused({zeros({3, 3}), zeros({3, 3, 1, 1})},
                      "wants images [batch, width, channels], with height and depth before "
                      "width if there are any, got ["),
              Refused({zeros({3, 3, 1}), zeros({3, 1, 1})},
                      "wants images [batch, height, width, channels], got [")
                  .made_by([](Graph&, const std::vector<Output>& in) {
                    return std::vector{conv2d(in[0], in[1])};
                  }),
              Refused({zeros({1, 3, 3, 1}), zeros({3, 3})},
                      "wants a filter [height, width, in channels of a group, out channels] for "
                      "images"),
              Refused({zeros({1, 3, 3, 1}), zeros({0, 3, 1, 1})},
                      "wants a filter of at least one pixel, got [0, 3, 1, 1]"),
              Refused({zeros({1, 3, 2, 1}), zeros({3, 3, 1, 1})},
                      "the filter [3, 3, 1, 1] is larger than the images [1, 3, 2, 1]; use "
                      "same padding or a smaller filter",
                      attrs(1, false)),
              Refused({zeros({1, 3, 3, 1}), zeros({3, 3, 1, 1})},
                      "wants strides of at least 1, got 0", attrs(0, true)),
              Refused({i32(zeros({1, 3, 3, 1})), i32(zeros({3, 3, 1, 1}))},
                      "has no kernel for i32; cast to one of f32, f64"),
              Refused("ConvolutionInputGradient",
                      {zeros({1, 2, 3, 1}), zeros({3, 3, 1, 1}), zeros({1, 3, 3, 1})},
                      "dy [1, 2, 3, 1] does not fit: images [1, 3, 3, 1] with the filter "
                      "[3, 3, 1, 1] give [1, 3, 3, 1]"),
              Refused("ConvolutionFilterGradient",
                      {zeros({1, 3, 3, 2}), zeros({1, 3, 3, 1}), zeros({3, 3, 1, 1})},
                      "dy [1, 3, 3, 2] does not fit: images [1, 3, 3, 1] with the filter "
                      "[3, 3, 1, 1] give [1, 3, 3, 1]"),
          });
    });

}  // namespace

TEST_CASE("oneDNN's convolution passes give what the loops give") {
  struct Layer {
    Shape x, filter;
    Conv2dOptions options;
  };
  const std::vector<Layer> layers = {
      {{2, 28, 28, 1}, {5, 5, 1, 6}, {}},
      {{3, 8, 8, 1}, {3, 3, 1, 32}, {}},
      {{2, 4, 4, 32}, {3, 3, 32, 64}, {}},
      {{2, 9, 7, 3}, {3, 3, 3, 16}, {.stride = 2}},
      {{2, 9, 8, 5}, {4, 3, 5, 7}, {.stride = 3}},
      {{1, 10, 10, 16}, {5, 5, 16, 16}, {.same_padding = false}},
      {{2, 7, 7, 8}, {1, 1, 8, 24}, {.stride = 2, .same_padding = false}},
      {{1, 2, 2, 4}, {5, 5, 4, 4}, {}},
  };
  for (const Layer& layer : layers) {
    CAPTURE(layer.x);
    CAPTURE(layer.filter);
    const auto run = [&](DType dtype) {
      Graph graph;
      const Output x = constant(graph, converted(waves(layer.x, 0.1), dtype));
      const Output filter = constant(graph, converted(waves(layer.filter, 0.7), dtype));
      const Output y = conv2d(x, filter, layer.options);
      const Output dy = constant(graph, converted(waves(y.shape(), 0.3), dtype));
      return evaluate(graph, {y, conv2d_input_gradient(dy, filter, x, layer.options),
                              conv2d_filter_gradient(dy, x, filter, layer.options)});
    };
    const auto fast = run(DType::f32), slow = run(DType::f64);
    for (size_t i = 0; i < 3; ++i) {
      CAPTURE(i);
      CHECK(difference(fast[i], f32(slow[i]), 1e-4).value_or("") == "");
    }
  }
}

TEST_CASE("a convolution node fires on several threads at once") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1, 8, 8, 4});
  const Output filter = constant(graph, f32(waves({3, 3, 4, 16}, 0.7)));
  const Output y = conv2d(x, filter);
  const Output df = conv2d_filter_gradient(y, x, filter);
  for (const Output& output : {y, df}) {
    const Node& node = graph.node(output.node);
    const NodeView view = NodeView::make(node, *find_kernel(node, DeviceKind::cpu));
    std::vector<std::vector<Tensor>> inputs;
    std::vector<Tensor> expected;
    for (int i = 0; i < 4; ++i) {
      const FedValues feeds = {{x, f32(waves({2 + i % 2, 8, 8, 4}, i))}};
      inputs.push_back(evaluate(graph, node.inputs, feeds));
      expected.push_back(evaluate(output, feeds));
    }
    std::atomic<int> wrong = 0;
    on_threads(4, [&](size_t i) {
      HeapMemory memory;
      for (int round = 0; round < 100; ++round)
        wrong += !same_bits(run_kernel(view, inputs[i], memory, {})[0], expected[i]);
    });
    CHECK(wrong == 0);
  }
}

}  // namespace troupe
