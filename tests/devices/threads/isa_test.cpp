// Instruction sets: their names, those of this machine, and that all copies of a loop that this
// machine can run give equal sums and products.
#include "devices/threads/isa.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <vector>

#include "troupe/error.hpp"
#include "troupe/device.hpp"

namespace troupe {
namespace {

struct Line {
  static void run(const float* x, float* y, float slope, int n) {
    for (int i = 0; i < n; ++i) y[i] = x[i] * slope + y[i];
  }
};

struct Greatest {
  static float run(const float* x, int n) {
    float most = x[0];
    for (int i = 1; i < n; ++i) most = x[i] > most ? x[i] : most;
    return most;
  }
};

}  // namespace

TEST_CASE("instruction sets are read as they are written, and others are refused") {
  for (const Isa one : {Isa::sse2, Isa::avx2, Isa::avx512})
    CHECK(isa_from_string(to_string(one)) == one);
  CHECK_THROWS_WITH_AS(isa_from_string("mmx"), doctest::Contains("there are sse2, avx2 and avx512"),
                       Error);
  CHECK(has_isa(Isa::sse2));
  CHECK(has_isa(isa()));
  const char* named = std::getenv("TROUPE_ISA");
  if (named) CHECK(to_string(isa()) == std::string(named));
}

TEST_CASE("every copy of a loop has the same bits, for any length") {
  for (const int n : {1, 3, 4, 15, 16, 17, 100}) {
    CAPTURE(n);
    std::vector<float> x(static_cast<size_t>(n)), y(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = 1.0f / static_cast<float>(i + 3);
      y[i] = static_cast<float>(i) * 0.1f;
    }
    std::vector<float> plain = y;
    for (size_t i = 0; i < x.size(); ++i) {
      const float product = x[i] * 0.7f;
      plain[i] = product + plain[i];
    }
    std::vector<float> copy = y;
    run_in_sse2<Line>(x.data(), copy.data(), 0.7f, n);
    CHECK(copy == plain);
    if (has_isa(Isa::avx2)) {
      copy = y;
      run_in_avx2<Line>(x.data(), copy.data(), 0.7f, n);
      CHECK(copy == plain);
    }
    if (has_isa(Isa::avx512)) {
      copy = y;
      run_in_avx512<Line>(x.data(), copy.data(), 0.7f, n);
      CHECK(copy == plain);
    }
    copy = y;
    in_isa<Line>(static_cast<const float*>(x.data()), copy.data(), 0.7f, n);
    CHECK(copy == plain);
    CHECK(in_isa<Greatest>(static_cast<const float*>(x.data()), n) == x[0]);
  }
}

TEST_CASE("the machine tells what it is") {
  const Machine machine = this_machine();
  CHECK(machine.uses == to_string(isa()));
  REQUIRE(!machine.instructions.empty());
  CHECK(machine.instructions.back() == "sse2");
  CHECK(machine.cores >= 1);
  CHECK(machine.memory_bytes > int64_t{64} << 20);
  CHECK(machine.cuda_devices >= 0);
}

}  // namespace troupe
