// The explicit placer: requested devices, colocation, kernels, and its errors when no device fits.
#include <doctest/doctest.h>

#include "graph/device_name.hpp"
#include "graph/op.hpp"
#include "placement/passes/passes.hpp"
#include "placement/placement.hpp"
#include "tests/support/engine/toy_ops.hpp"

using namespace troupe;

namespace {

const std::vector<std::string> kDevices = {
    "/job:ps/task:0/device:cpu:0",      "/job:worker/task:0/device:cpu:0",
    "/job:worker/task:0/device:cuda:0", "/job:worker/task:1/device:cpu:0",
    "/job:worker/task:1/device:cpu:1",  "/job:client/task:0/device:cpu:0"};

bool has_kernel(const Node& node, const std::string& device) {
  return find_kernel(node, *parse_device_name(device).kind) != nullptr;
}

// The device and the reason of every node, one node a line.
std::string placed(const std::string& lines, bool soft = true) {
  const auto graph = graph_from_text("troupe graph 1\n" + lines, toy_ops());
  std::vector<int32_t> nodes;
  for (const auto& node : graph->nodes()) nodes.push_back(node->id);
  const Placement placement = place(*graph, nodes,
                                    {.devices = kDevices,
                                     .default_device = "/job:client/task:0/device:cpu:0",
                                     .has_kernel = has_kernel,
                                     .soft = soft});
  std::string text;
  for (int32_t id : nodes)
    text += graph->node(id).name + " on " + placement.devices.at(id) + ": " +
            placement.reasons.at(id) + "\n";
  return text;
}

std::string refusal(const std::string& lines, bool soft = true) {
  return error_of([&] { placed(lines, soft); });
}

const std::string kAll =
    "there are /job:ps/task:0/device:cpu:0, /job:worker/task:0/device:cpu:0, "
    "/job:worker/task:0/device:cuda:0, "
    "/job:worker/task:1/device:cpu:0, /job:worker/task:1/device:cpu:1, "
    "/job:client/task:0/device:cpu:0";
const std::string kRemedy = "; correct the name, or start its process first";

}  // namespace

TEST_CASE("a node that wishes nothing goes to the default device") {
  CHECK(placed("a = Source()\n") ==
        "a on /job:client/task:0/device:cpu:0: no wish: the default device\n");
}

TEST_CASE("a partial wish takes the default device if it fits, else the first that does") {
  CHECK(placed("a = Source() on \"/job:worker\"\n"
               "b = Source() on \"/job:worker/task:1\"\n"
               "c = Source() on \"/job:worker/task:1/device:cpu:1\"\n"
               "d = Source() on \"/device:cpu:0\"\n") ==
        "a on /job:worker/task:0/device:cpu:0: asked for /job:worker\n"
        "b on /job:worker/task:1/device:cpu:0: asked for /job:worker/task:1\n"
        "c on /job:worker/task:1/device:cpu:1: asked for /job:worker/task:1/device:cpu:1\n"
        "d on /job:client/task:0/device:cpu:0: asked for /device:cpu:0\n");
}

TEST_CASE("a device without the kernel is passed over") {
  CHECK(placed("a = Source() dtype=f32 on \"/job:worker/task:0\"\n"
               "b = Mul(a, a) on \"/job:worker/device:cuda\"\n") ==
        "a on /job:worker/task:0/device:cpu:0: asked for /job:worker/task:0\n"
        "b on /job:worker/task:0/device:cuda:0: asked for /job:worker/device:cuda\n");
}

TEST_CASE("soft placement falls back to a cpu device of the same task, and says so") {
  CHECK(placed("a = Source() on \"/device:cuda\"\n") ==
        "a on /job:worker/task:0/device:cpu:0: asked for /device:cuda, but Source has no kernel "
        "there\n");
  CHECK(refusal("a = Source() on \"/device:cuda\" at \"train.cpp\":7\n", false) ==
        "Source node a made at train.cpp:7: Source has no kernel for f32 on /device:cuda, and soft "
        "placement is off; " +
            kAll);
}

TEST_CASE("an op without any kernel for its dtype is refused where it was made") {
  CHECK(refusal("a = Source() dtype=i32 shape=[2, 2] on \"/job:ps\"\n"
                "m = MatMul(a, a) on \"/job:ps\" at \"train.cpp\":7\n") ==
        "MatMul node m made at train.cpp:7: MatMul has no kernel for i32 on /job:ps, nor has a cpu "
        "device of that task; " +
            kAll);
}

TEST_CASE("a wish for a device that is not there is refused, soft or not") {
  CHECK(refusal("a = Source() on \"/job:ps/task:7\" at \"train.cpp\":7\n") ==
        "Source node a made at train.cpp:7: wants /job:ps/task:7, but no device fits; " + kAll +
            kRemedy);
}

TEST_CASE("colocated nodes share one device, whichever of them wished for it") {
  CHECK(placed("a = Source()\n"
               "b = Source() on \"/job:worker\" with a\n"
               "c = Source() on \"/task:1\" with b\n") ==
        "a on /job:worker/task:1/device:cpu:0: asked for /job:worker/task:1\n"
        "b on /job:worker/task:1/device:cpu:0: with a, asked for /job:worker/task:1\n"
        "c on /job:worker/task:1/device:cpu:0: with b, asked for /job:worker/task:1\n");
}

TEST_CASE("colocated nodes need a device with the kernels of all") {
  CHECK(placed("a = Source() on \"/job:worker/task:0\"\n"
               "b = Mul(a, a) on \"/device:cuda\" with a\n") ==
        "a on /job:worker/task:0/device:cpu:0: asked for /job:worker/task:0/device:cuda, but "
        "Source has no kernel "
        "there\n"
        "b on /job:worker/task:0/device:cpu:0: with a, asked for /job:worker/task:0/device:cuda, "
        "but Source has no "
        "kernel there\n");
}

TEST_CASE("colocated nodes with contrary wishes are refused, naming both") {
  CHECK(refusal("a = Source() on \"/job:ps\" at \"train.cpp\":1\n"
                "b = Source() on \"/job:worker\" with a at \"train.cpp\":2\n") ==
        "Source node b made at train.cpp:2: wants /job:worker, but it is colocated with the Source "
        "node a made at "
        "train.cpp:1, which wants /job:ps; give both the same device, or do not colocate them");
}

TEST_CASE("a partner that is not needed still lends its wish") {
  const auto graph = graph_from_text(
      "troupe graph 1\na = Source() on \"/job:ps\"\nb = Source() with a\n", toy_ops());
  const Placement placement =
      place(*graph, {1},
            {.devices = kDevices, .default_device = kDevices.back(), .has_kernel = has_kernel});
  CHECK(placement.devices == std::map<int32_t, std::string>{{1, kDevices[0]}});
}

TEST_CASE("without devices the placer says so") {
  const auto graph = graph_from_text("troupe graph 1\na = Source()\n", toy_ops());
  CHECK(error_of([&] { place(*graph, {0}, {}); }) ==
        "Source node a: wants any device, but no device fits; there are no devices at all" +
            kRemedy);
}
