// Bursts: deferred work runs once, at the end of the burst, and is never left over.
#include "devices/threads/burst.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>

namespace troupe {
namespace {

const int keys[kPutOffMax + 1] = {};

}  // namespace

TEST_CASE("without a burst nothing is put off") {
  bool done = false;
  Burst::put_off(&keys[0], [&] { done = true; });
  CHECK(done);
}

TEST_CASE("a burst does what was put off at its end, once by key, in order") {
  std::string done;
  {
    const Burst burst;
    Burst::put_off(&keys[0], [&] { done += 'a'; });
    Burst::put_off(&keys[1], [&] { done += 'b'; });
    Burst::put_off(&keys[0], [&] { done += 'c'; });
    CHECK(done.empty());
  }
  CHECK(done == "ab");
}

TEST_CASE("an inner burst ends what the outer one has put off, which goes on") {
  std::string done;
  const Burst outer;
  Burst::put_off(&keys[0], [&] { done += 'a'; });
  { const Burst inner; }
  CHECK(done == "a");
  Burst::put_off(&keys[0], [&] { done += 'b'; });
  CHECK(done == "a");
  Burst::finish();
  CHECK(done == "ab");
}

TEST_CASE("what is put off while a burst ends is done, too, also under a key that was done") {
  int done = 0;
  {
    const Burst burst;
    Burst::put_off(&keys[0], [&] {
      ++done;
      Burst::put_off(&keys[0], [&] { ++done; });
    });
  }
  CHECK(done == 2);
}

TEST_CASE("no more than kPutOffMax things are put off") {
  size_t done = 0;
  const Burst burst;
  for (size_t i = 0; i < kPutOffMax; ++i) Burst::put_off(&keys[i], [&] { ++done; });
  CHECK(done == 0);
  Burst::put_off(&keys[kPutOffMax], [&] { ++done; });
  CHECK(done == kPutOffMax);
  Burst::finish();
  CHECK(done == kPutOffMax + 1);
}

TEST_CASE("a burst is its thread's own") {
  bool done = false;
  const Burst burst;
  std::thread([&] { Burst::put_off(&keys[0], [&] { done = true; }); }).join();
  CHECK(done);
}

}  // namespace troupe
