// How kernels get their outputs: known and inferred shapes, in place, refusals.
#include "devices/kernel_call.hpp"

#include "devices/memory/pool.hpp"
#include "tests/support/engine/small_ops.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

struct Fixture {
  std::unique_ptr<Device> cpu = make_cpu_device("cpu", 1 << 20);

  Tensor value(std::initializer_list<float> values) {
    Tensor tensor = cpu->memory().make(DType::f32, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.mutable_data<float>());
    return tensor;
  }
};

std::vector<float> list(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

TEST_CASE_FIXTURE(Fixture, "the last reader of a value writes over it") {
  for (const Shape& shape : {Shape{3}, Shape{-1}}) {
    CAPTURE(to_string(shape));
    LaunchedNode add("AddOne", shape);
    Tensor x = value({1, 2, 3});
    const void* address = x.raw();
    const Tensor y = add.launch(*cpu, std::move(x), /*may_reuse=*/true)[0];
    CHECK(y.raw() == address);
    CHECK(list(y) == std::vector<float>{2, 3, 4});
    CHECK(y.unique());
    CHECK(!add.values[0].defined());
  }
}

TEST_CASE_FIXTURE(Fixture, "a value with another reader stays as it is") {
  for (const Shape& shape : {Shape{3}, Shape{-1}}) {
    CAPTURE(to_string(shape));
    LaunchedNode add("AddOne", shape);
    const Tensor kept = value({1, 2, 3});  // a second handle
    CHECK(list(add.launch(*cpu, kept, /*may_reuse=*/true)[0]) == std::vector<float>{2, 3, 4});
    CHECK(list(kept) == std::vector<float>{1, 2, 3});
    // Another node of the step still reads the input.
    CHECK(list(add.launch(*cpu, value({1, 2, 3}), /*may_reuse=*/false)[0]) ==
          std::vector<float>{2, 3, 4});
    CHECK(list(add.values[0]) == std::vector<float>{1, 2, 3});
  }
}

TEST_CASE_FIXTURE(Fixture, "a part of a value is not written over") {
  LaunchedNode add("AddOne", Shape{2});
  Tensor whole = value({1, 2, 3, 4});
  Tensor part = whole.rows(2, 4);
  whole.reset();
  const Tensor y = add.launch(*cpu, std::move(part), /*may_reuse=*/true)[0];
  CHECK(list(y) == std::vector<float>{4, 5});
  CHECK(list(add.values[0]) == std::vector<float>{3, 4});
}

TEST_CASE_FIXTURE(Fixture, "shapes of more than four dimensions work, in place as well") {
  const Shape shape{1, 2, 1, 1, 2, 1};
  LaunchedNode add("AddOne", shape);
  Tensor x = value({1, 2, 3, 4}).reshaped(shape);
  const void* address = x.raw();
  const Tensor y = add.launch(*cpu, std::move(x), /*may_reuse=*/true)[0];
  CHECK(y.shape() == shape);
  CHECK(y.raw() == address);
  CHECK(list(add.launch(*cpu, y)[0]) == std::vector<float>{3, 4, 5, 6});
}

TEST_CASE_FIXTURE(Fixture, "a shape that is not known before is inferred when the node fires") {
  LaunchedNode pair("Pair", Shape{-1});
  for (int n : {0, 1, 5}) {
    const auto outputs = pair.launch(*cpu, Tensor::zeros(DType::f32, Shape{n}));
    CHECK(outputs[0].shape() == Shape{n});
    CHECK(outputs[1].shape() == Shape{n});
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "a kernel may say a shape that depends on values, within what the graph knows") {
  LaunchedNode positive("Positive", Shape{4});
  CHECK(list(positive.launch(*cpu, value({1, -2, 3, -4}))[0]) == std::vector<float>{1, 3});
  LaunchedNode wrong("WrongShape", Shape{4});
  CHECK_THROWS_WITH_AS(wrong.launch(*cpu, value({1, 2, 3, 4})),
                       doctest::Contains("wants output 0 of shape [77], but the graph says [4]"),
                       Error);
}

TEST_CASE_FIXTURE(Fixture,
                  "a kernel's error names node, op, origin and the shapes of this firing") {
  LaunchedNode fail("Fail", Shape{-1});
  const std::string text = error_text(Errc::invalid_argument, [&] {
    fail.launch(*cpu, value({1, 2, 3}));
  });
  CHECK(text.starts_with(describe(fail.node)));
  has(text, "f32[3]");
  has(text, "cannot be done");
}

TEST_CASE_FIXTURE(Fixture,
                  "run_kernel leaves its inputs alone and refuses kernels that finish later") {
  LaunchedNode add("AddOne", Shape{2});
  const std::vector<Tensor> inputs{value({1, 2})};
  const NodeView view = NodeView::make(add.node, *find_kernel(add.node, DeviceKind::cpu));
  CHECK(list(run_kernel(view, inputs, cpu->memory(), {})[0]) == std::vector<float>{2, 3});
  CHECK(list(inputs[0]) == std::vector<float>{1, 2});
  LaunchedNode later("Later", Shape{2});
  const NodeView async = NodeView::make(later.node, *find_kernel(later.node, DeviceKind::cpu));
  CHECK_THROWS_AS(run_kernel(async, inputs, cpu->memory(), {}), InternalError);
}

TEST_CASE_FIXTURE(Fixture,
                  "outputs come from the memory of the call, and scratch memory goes back to it") {
  LaunchedNode add("AddOne", Shape{1000});
  const int64_t before = cpu->memory().stats().used_bytes;
  auto outputs = add.launch(*cpu, Tensor::zeros(DType::f32, Shape{1000}));
  CHECK(cpu->memory().stats().used_bytes > before);
  outputs.clear();
  CHECK(cpu->memory().stats().used_bytes == before);
}

TEST_CASE("virtual CPU devices have memories and budgets of their own") {
  const auto a = make_cpu_device("/job:a/task:0/device:cpu:0", 1 << 20);
  const auto b = make_cpu_device("/job:a/task:0/device:cpu:1", 1 << 10);
  CHECK(a->memory().make(DType::f32, Shape{1000}).defined());
  CHECK_THROWS_WITH_AS(b->memory().make(DType::f32, Shape{1000}),
                       doctest::Contains("/job:a/task:0/device:cpu:1"), Error);
  CHECK(b->memory().stats().budget_bytes == 1 << 10);
  CHECK(a->on_host());
}

}  // namespace
}  // namespace troupe
