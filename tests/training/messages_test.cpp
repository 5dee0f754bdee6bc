// Control messages on the wire: what a peer can make of their sizes.
#include "training/messages.hpp"

#include <sys/resource.h>

#include <doctest/doctest.h>

#include "actors/messages.hpp"

namespace troupe {
namespace {

int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Reads a T out of short bytes in which every field in turn says to be a sequence of 4 GiB.
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

template <class... Ts>
void read_all_hostile(caf::actor_system& system) {
  (read_hostile<Ts>(system), ...);
}

}  // namespace

TEST_CASE("no control message takes the memory that its sizes only claim") {
  caf::actor_system_config config;
  caf::actor_system system{config};
  const int64_t before = peak_kib();
  read_all_hostile<InstallGraph, InstallParts, PartsInstalled, ConnectParts, FindService,
                   Description, EdgeCounts, Waits, TraceEvents, Leave>(system);
  read_all_hostile<CreateShard, DescribeShard, ShardDescription, SetInitial, BeginEpoch,
                   CaptureShard, WriteShard, ShardFile, DropContainer, RouteParameters, ShardLost>(
      system);
  CHECK(peak_kib() - before < 64 << 10);
}

}  // namespace troupe
