// The CUDA device: copies, order, memory, and cuBLAS matmul against the CPU's. The suite "gpu"
// skips on a machine without a GPU.

#include <cmath>
#include <iostream>
#include <numeric>

#include "devices/device.hpp"
#include "devices/memory/pool.hpp"
#include "devices/run_context.hpp"
#include "tests/support/engine/device_reply.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// The first GPU. Without one, each test says so and ends.
struct Gpu {
  std::unique_ptr<Device> device;

  Gpu() {
    if (cuda_device_count() > 0)
      device = make_cuda_device("/job:a/task:0/device:cuda:0", 0, int64_t{64} << 20);
    else
      std::cout << "skipped: no CUDA device\n";
  }
  DeviceReply upload(const Tensor& value) {
    return wait_for([&](Device::Done done) { device->copy_from_host(value, done); });
  }
  DeviceReply download(const Tensor& value) {
    return wait_for([&](Device::Done done) { device->copy_to_host(value, done); });
  }
};

// 0, 1/8, 2/8, ...: their products are exact in both dtypes, so CPU and GPU agree to the bit.
template <class T>
Tensor ramp(const Shape& shape) {
  Tensor tensor = Tensor::empty(dtype_of<T>, shape);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.mutable_data<T>()[i] = static_cast<T>(i % 17) / 8 - 1;
  return tensor;
}

std::vector<Tensor> launch(Device& device, const Node& node, const std::vector<Tensor>& inputs) {
  const Kernel* kernel = device.kernel_for(node);
  REQUIRE(kernel);
  const NodeView view = NodeView::make(node, *kernel);
  std::vector<uint32_t> slots(inputs.size());
  std::iota(slots.begin(), slots.end(), 0u);
  std::vector<Tensor> outputs(view.outputs.size());
  const RunContext step;
  KernelCall call;
  call.bind(view, inputs.data(), slots.data(), static_cast<int32_t>(inputs.size()), outputs.data(),
            device.memory(), step, /*may_reuse_input0=*/false);
  device.launch(call);
  return outputs;
}

struct Product {
  Shape a, b;
  MatmulOptions options = {};
};

template <class T>
void check_product(Gpu& gpu, const Product& product) {
  CAPTURE(to_string(product.a));
  CAPTURE(to_string(product.b));
  const Tensor a = ramp<T>(product.a), b = ramp<T>(product.b);
  Graph graph;
  const Output c = matmul(constant(graph, a), constant(graph, b), product.options);
  const auto cpu = make_cpu_device("cpu", 1 << 20);
  const Tensor expected = launch(*cpu, graph.node(c.node), {a, b})[0];
  const Tensor on_gpu =
      launch(*gpu.device, graph.node(c.node), {gpu.upload(a).value, gpu.upload(b).value})[0];
  CHECK(!on_gpu.on_host());
  CHECK(same_bits(gpu.download(on_gpu).value, expected));
  // Inputs on the host are uploaded automatically.
  CHECK(
      same_bits(gpu.download(launch(*gpu.device, graph.node(c.node), {a, b})[0]).value, expected));
}

TEST_CASE("a GPU that is not there is refused, with what to do") {
  const int missing = cuda_device_count();
  const auto make = [&] { make_cuda_device("/job:a/task:0/device:cuda:9", missing, 1 << 20); };
  CHECK(error_text(Errc::bad_configuration, make)
            .starts_with("device /job:a/task:0/device:cuda:9 wants GPU "));
}

TEST_SUITE("gpu") {
  TEST_CASE_FIXTURE(Gpu, "a value comes back from the GPU as it went") {
    if (!device) return;
    const Tensor values = ramp<float>(Shape{4, 3});
    for (const Tensor& value : {values, values.rows(1, 3), Tensor::zeros(DType::i64, Shape{0}),
                                Tensor::scalar(7.0), Tensor::zeros(DType::u8, Shape{5 << 20})}) {
      const DeviceReply up = upload(value);
      REQUIRE(up.code == Errc::ok);
      CHECK(!up.value.on_host());
      CHECK_THROWS_AS(up.value.data<float>(), InternalError);
      CHECK(same_bits(download(up.value).value, value));
    }
  }

  TEST_CASE_FIXTURE(Gpu, "a product on the GPU has the bits of the CPU's where sums are exact") {
    if (!device) return;
    for (const Product& product :
         std::vector<Product>{{{2, 3}, {3, 4}},
                              {{3, 2}, {3, 4}, {.transpose_a = true}},
                              {{2, 3}, {4, 3}, {.transpose_b = true}},
                              {{3, 2}, {4, 3}, {.transpose_a = true, .transpose_b = true}},
                              {{5, 2, 3}, {5, 3, 4}},
                              {{5, 2, 3}, {3, 4}},
                              {{2, 3}, {5, 3, 4}},
                              {{2, 0}, {0, 3}},
                              {{0, 3}, {3, 4}},
                              {{65, 130}, {130, 33}}}) {
      check_product<float>(*this, product);
      check_product<double>(*this, product);
    }
  }

  TEST_CASE_FIXTURE(Gpu, "kernels and copies happen in the order they were asked for") {
    if (!device) return;
    Graph graph;
    const Tensor half = Tensor::of<float>({0.5f, 0, 0, 0.5f}, Shape{2, 2});
    const Output c = matmul(constant(graph, half), constant(graph, half));
    Tensor value = upload(Tensor::of<float>({1, 0, 0, 1}, Shape{2, 2})).value;
    const Tensor factor = upload(half).value;
    for (int i = 0; i < 100; ++i) value = launch(*device, graph.node(c.node), {value, factor})[0];
    CHECK(download(value).value.values<float>()[0] == std::ldexp(1.0f, -100));
  }

  TEST_CASE_FIXTURE(Gpu, "the budget holds, and blocks are used again") {
    if (!device) return;
    const Tensor large = Tensor::zeros(DType::u8, Shape{40 << 20});
    Tensor first = upload(large).value;
    const DeviceReply refused = upload(large);
    CHECK(refused.code == Errc::out_of_memory);
    CHECK(refused.text.find("/job:a/task:0/device:cuda:0") != std::string::npos);
    const int64_t allocations = device->memory().stats().system_allocations;
    first.reset();
    CHECK(upload(large).code == Errc::ok);
    CHECK(device->memory().stats().system_allocations == allocations);
  }

  TEST_CASE_FIXTURE(Gpu, "ops without a CUDA kernel are left to the CPU") {
    if (!device) return;
    Graph graph;
    const Output x = constant(graph, Tensor::scalar(1.0f));
    CHECK(device->kernel_for(graph.node(relu(x).node)) == nullptr);
  }

  TEST_CASE_FIXTURE(Gpu, "values may outlive the GPU's device") {
    if (!device) return;
    const Tensor value = upload(ramp<float>(Shape{10})).value;
    device.reset();
    CHECK(value.defined());
  }
}

}  // namespace
}  // namespace troupe
