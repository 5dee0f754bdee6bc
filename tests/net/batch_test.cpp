// Batches: what is put off runs once, at the end, and never stays behind.
#include "net/batch.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>

namespace troupe {
namespace {

const int keys[kPutOffMax + 1] = {};

}  // namespace

TEST_CASE("without a batch nothing is put off") {
  bool done = false;
  Batch::put_off(&keys[0], [&] { done = true; });
  CHECK(done);
}

TEST_CASE("a batch does what was put off at its end, once by key, in order") {
  std::string done;
  {
    const Batch batch;
    Batch::put_off(&keys[0], [&] { done += 'a'; });
    Batch::put_off(&keys[1], [&] { done += 'b'; });
    Batch::put_off(&keys[0], [&] { done += 'c'; });
    CHECK(done.empty());
  }
  CHECK(done == "ab");
}

TEST_CASE("an inner batch ends what the outer one has put off, which goes on") {
  std::string done;
  const Batch outer;
  Batch::put_off(&keys[0], [&] { done += 'a'; });
  { const Batch inner; }
  CHECK(done == "a");
  Batch::put_off(&keys[0], [&] { done += 'b'; });
  CHECK(done == "a");
  Batch::finish();
  CHECK(done == "ab");
}

TEST_CASE("what is put off while a batch ends is done, too, also under a key that was done") {
  int done = 0;
  {
    const Batch batch;
    Batch::put_off(&keys[0], [&] {
      ++done;
      Batch::put_off(&keys[0], [&] { ++done; });
    });
  }
  CHECK(done == 2);
}

TEST_CASE("no more than kPutOffMax things are put off") {
  size_t done = 0;
  const Batch batch;
  for (size_t i = 0; i < kPutOffMax; ++i) Batch::put_off(&keys[i], [&] { ++done; });
  CHECK(done == 0);
  Batch::put_off(&keys[kPutOffMax], [&] { ++done; });
  CHECK(done == kPutOffMax);
  Batch::finish();
  CHECK(done == kPutOffMax + 1);
}

TEST_CASE("a batch is its thread's own") {
  bool done = false;
  const Batch batch;
  std::thread([&] { Batch::put_off(&keys[0], [&] { done = true; }); }).join();
  CHECK(done);
}

}  // namespace troupe
