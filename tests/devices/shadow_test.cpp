// The shadow accelerator: its memory cannot be reached from the host, its queue is asynchronous and
// ordered, and its results are the CPU's.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "graph/base/buffer.hpp"
#include "tests/support/engine/device_reply.hpp"
#include "tests/support/engine/small_ops.hpp"

namespace troupe {
namespace {

struct Fixture {
  std::unique_ptr<Device> shadow = make_shadow_device("/job:a/task:0/device:shadow:0", 1 << 20);

  DeviceReply upload(const Tensor& value) {
    return wait_for([&](Device::Done done) { shadow->copy_from_host(value, done); });
  }
  DeviceReply download(const Tensor& value) {
    return wait_for([&](Device::Done done) { shadow->copy_to_host(value, done); });
  }
  DeviceReply fence() {
    return wait_for([&](Device::Done done) { shadow->fence(done); });
  }
};

const Tensor kValues = Tensor::of<float>({1, -2, 3, -4, 5, 6}, Shape{6});

TEST_CASE_FIXTURE(Fixture, "a value comes back from the device as it went") {
  for (const Tensor& value : {kValues, kValues.rows(1, 3), kValues.reshaped(Shape{1, 1, 2, 1, 3}),
                              Tensor::zeros(DType::i64, Shape{0}), Tensor::scalar(7.0)}) {
    const DeviceReply up = upload(value);
    REQUIRE(up.code == Errc::ok);
    CHECK(!up.value.on_host());
    CHECK(same_bits(download(up.value).value, value));
  }
}

TEST_CASE_FIXTURE(Fixture, "host code that reads a device's value is refused") {
  const Tensor value = upload(kValues).value;
  CHECK_THROWS_AS(value.data<float>(), InternalError);
  CHECK_THROWS_AS(value.rows(1, 2).data<float>(), InternalError);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE_FIXTURE(Fixture, "host code that follows a device's address anyway dies of SIGSEGV") {
  const Tensor value = upload(kValues).value;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    _exit(*static_cast<const volatile char*>(value.raw()));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}
#endif

TEST_CASE_FIXTURE(Fixture, "kernels give the CPU's results") {
  const auto cpu = make_cpu_device("cpu", 1 << 20);
  const Tensor on_device = upload(kValues).value;
  for (const char* op : {"AddOne", "Pair", "Alias", "Pass"})
    for (const Shape& shape : {Shape{6}, Shape{-1}}) {
      CAPTURE(op);
      LaunchedNode node(op, shape);
      const auto expected = node.launch(*cpu, kValues);
      const auto got = node.launch(*shadow, on_device, /*may_reuse=*/true);
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(!got[i].on_host());
        CHECK(same_bits(download(got[i]).value, expected[i]));
      }
    }
  CHECK(same_bits(download(on_device).value, kValues));
}

TEST_CASE_FIXTURE(Fixture, "an op that shares its input's elements takes no memory on the device") {
  const Tensor x = upload(kValues).value;
  const int64_t used = shadow->memory().stats().used_bytes;
  LaunchedNode alias("Alias", Shape{6});
  const Tensor y = alias.launch(*shadow, x)[0];
  CHECK(buffer_of(y) == buffer_of(x));
  CHECK(shadow->memory().stats().used_bytes == used);
}

TEST_CASE_FIXTURE(
    Fixture,
    "a chain is launched without waiting, in order, and its values may go before it has run") {
  Tensor value = upload(kValues).value;
  LaunchedNode add("AddOne", Shape{6});
  // The queue's thread waits until the whole chain has been launched.
  std::promise<void> go;
  shadow->fence([&](Errc, std::string, Tensor) { go.get_future().wait(); });
  for (int i = 0; i < 100; ++i) value = add.launch(*shadow, value)[0];
  go.set_value();
  const Tensor got = download(value).value;
  for (int64_t i = 0; i < 6; ++i) CHECK(got.values<float>()[i] == kValues.values<float>()[i] + 100);
}

TEST_CASE_FIXTURE(Fixture, "a kernel that fails is reported once, by the next done") {
  const Tensor x = upload(kValues).value;
  LaunchedNode fail("Fail", Shape{6}), add("AddOne", Shape{6});
  const Tensor y = fail.launch(*shadow, x)[0];
  add.launch(*shadow, y);
  const DeviceReply reply = download(y);
  CHECK(reply.code == Errc::invalid_argument);
  CHECK(reply.text.find(describe(fail.node)) == 0);
  CHECK(reply.text.find("cannot be done") != std::string::npos);
  CHECK(!reply.value.defined());
  CHECK(fence().code == Errc::ok);
  CHECK(same_bits(download(x).value, kValues));
}

TEST_CASE_FIXTURE(Fixture, "a shape that depends on values is refused at launch") {
  const Tensor x = upload(kValues).value;
  LaunchedNode positive("Positive", Shape{6});
  CHECK_THROWS_AS(positive.launch(*shadow, x), Error);
  CHECK(fence().code == Errc::ok);
}

TEST_CASE_FIXTURE(Fixture, "there is no kernel for what finishes later or is not implemented") {
  LaunchedNode later("Later", Shape{6}), add("AddOne", Shape{6});
  CHECK(shadow->kernel_for(later.node) == nullptr);
  CHECK(shadow->kernel_for(add.graph.node(0)) == nullptr);
  CHECK(shadow->kernel_for(add.node) != nullptr);
}

TEST_CASE_FIXTURE(Fixture, "the budget holds for copies and outputs, and names the device") {
  const Tensor large = Tensor::zeros(DType::f32, Shape{1 << 17});
  const Tensor held = upload(large).value;
  REQUIRE(held.defined());
  const DeviceReply refused = upload(large);
  CHECK(refused.code == Errc::out_of_memory);
  CHECK(refused.text.find("/job:a/task:0/device:shadow:0") != std::string::npos);
  LaunchedNode add("AddOne", Shape{1 << 17});
  CHECK_THROWS_AS(add.launch(*shadow, held), Error);
  CHECK(fence().code == Errc::ok);
}

TEST_CASE_FIXTURE(Fixture, "work may put more work in the queue, even past its bound") {
  std::promise<void> done;
  std::atomic<int> count{0};
  shadow->fence([&](Errc, std::string, Tensor) {
    for (int i = 0; i < 3000; ++i)
      shadow->fence([&](Errc, std::string, Tensor) {
        if (++count == 3000) done.set_value();
      });
  });
  done.get_future().wait();
  CHECK(count == 3000);
}

TEST_CASE("more launches than the queue holds run in order") {
  auto shadow = make_shadow_device("shadow", 64 << 20);
  const Tensor x =
      wait_for([&](Device::Done done) { shadow->copy_from_host(kValues, done); }).value;
  LaunchedNode add("AddOne", Shape{6});
  Tensor y = x;
  for (int i = 0; i < 5000; ++i) y = add.launch(*shadow, y)[0];
  const Tensor got = wait_for([&](Device::Done done) { shadow->copy_to_host(y, done); }).value;
  CHECK(got.values<float>()[0] == 5001);
}

TEST_CASE("a device that goes away finishes its queue, and its values may outlive it") {
  Tensor left;
  std::atomic<int> finished{0};
  {
    auto shadow = make_shadow_device("shadow", 1 << 20);
    for (int i = 0; i < 50; ++i)
      shadow->copy_from_host(kValues, [&](Errc code, std::string, Tensor value) {
        finished += code == Errc::ok;
        left = std::move(value);
      });
  }
  CHECK(finished == 50);
  CHECK(left.defined());
}

}  // namespace
}  // namespace troupe
