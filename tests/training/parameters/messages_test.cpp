// Control messages on the wire: the effect of sizes that a peer claims.
#include "training/parameters/messages.hpp"

#include <sys/resource.h>

#include <doctest/doctest.h>

#include "actors/async/messages.hpp"
#include "tests/support/optimizers.hpp"

namespace troupe {
namespace {

int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Reads a T from short bytes in which each field in turn claims to be a sequence of 4 GiB.
template <class T>
void read_hostile(caf::actor_system& system) {
  for (size_t zeros = 0; zeros < 64; ++zeros) {
    std::vector<char> bytes(zeros);
    bytes.insert(bytes.end(), {'\xff', '\xff', '\xff', '\xff', '\x0f', 'x', 'y', 'z'});
    caf::binary_deserializer source(system, bytes);
    T out;
    (void)source(out);
  }
}

// Reads a T of a well-formed member, whose lists have that many entries.
template <class T>
bool can_read(caf::actor_system& system, T message) {
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  REQUIRE(!sink(message));
  caf::binary_deserializer source(system, bytes);
  T out;
  return !source(out);
}

template <class... Ts>
void read_all_hostile(caf::actor_system& system) {
  (read_hostile<Ts>(system), ...);
}

}  // namespace

TEST_CASE("a slice comes back from its message, with every setting of its optimizer") {
  Slice slice{.id = 3,
              .parameter = "w",
              .dtype = DType::f64,
              .shape = {4, 5},
              .offset = 5,
              .size = 10,
              .optimizer = {},
              .shard = 2};
  CHECK(!from_spec(to_spec(slice)).optimizer);
  for (const Optimizer& optimizer : every_optimizer(1.0 / 3)) {
    slice.optimizer = optimizer;
    const Slice read = from_spec(to_spec(slice));
    CHECK(describe(read) == describe(slice));
    CHECK(describe(*read.optimizer) == describe(optimizer));
  }
  SliceSpec spec = to_spec(slice);
  spec.optimizer = "lion(learning rate 1)";
  CHECK_THROWS_WITH_AS(from_spec(spec), doctest::Contains("there is no optimizer 'lion'"), Error);
}

TEST_CASE("a list of a message that has too many entries is not read") {
  caf::actor_system_config config;
  caf::actor_system system(config);
  for (const size_t count : {kListMax, kListMax + 1}) {
    CAPTURE(count);
    const bool good = count <= kListMax;
    const std::vector<std::string> texts(count);
    CHECK(can_read(system, InstallParts{.fetches = texts}) == good);
    CHECK(can_read(system, InstallParts{.feeds = texts}) == good);
    CHECK(can_read(system, InstallParts{.devices = texts}) == good);
    CHECK(can_read(system, ConnectParts{.tasks = texts}) == good);
    CHECK(can_read(system, Description{.devices = texts}) == good);
    CHECK(can_read(system, Waits{.lines = texts}) == good);
    CHECK(can_read(system, RouteParameters{.tasks = texts}) == good);
    const std::vector<SliceSpec> slices(count);
    CHECK(can_read(system, RouteParameters{.slices = slices}) == good);
    CHECK(can_read(system, CreateShard{.slices = slices}) == good);
    CHECK(can_read(system, ShardDescription{.slices = slices}) == good);
  }
}

TEST_CASE("no control message takes the memory that its sizes only claim") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  const int64_t before = peak_kib();
  read_all_hostile<InstallGraph, InstallParts, PartsInstalled, ConnectParts, FindService,
                   Description, EdgeCounts, Waits, TraceEvents>(system);
  read_all_hostile<CreateShard, DescribeShard, ShardDescription, SetInitial, BeginEpoch,
                   SetRateScale, ChangeRule, CaptureShard, WriteShard, ShardFile, DropContainer,
                   RouteParameters, ShardLost, CountPushes, PushesCounted>(system);
  CHECK(peak_kib() - before < 64 << 10);
}

}  // namespace troupe
