// The instruction set that the library's kernels use in this process, and loops compiled for each
// one.
//
// One binary runs on every x86-64: a kernel writes its loop once, as the static function `run` of a
// struct, and calls it through in_isa<Loop>(arguments). The compiler makes a copy of it, with all
// functions that it calls, for each instruction set; the processor decides which copy runs. The
// copies use no fused multiply-add: sums and products have the same bits in each.
// Owner: none, free functions. Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

enum class Isa : uint8_t {
  sse2,    // on every x86-64
  avx2,    // 32 bytes at a time
  avx512,  // 64 bytes: AVX-512 F, BW, DQ and VL
};
const char* to_string(Isa isa);
Isa isa_from_string(const std::string& text);  // Throws: Error(bad_configuration).

bool has_isa(Isa isa);  // true if processor and system support it

// The best one available, or the one that the environment variable TROUPE_ISA names; constant for
// the life of the process. Throws: Error(bad_configuration) for an unknown name, or a set that this
// machine does not have.
Isa isa();

#if defined(__clang__)
#define TROUPE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"), flatten))
#define TROUPE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TROUPE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"), flatten))
#define TROUPE_INDEPENDENT _Pragma("GCC ivdep")  // before a loop of independent iterations
#endif
#define TROUPE_AVX2 __attribute__((target("avx2"), flatten))
#define TROUPE_SSE2 __attribute__((flatten))

template <class Loop, class... Args>
TROUPE_AVX512 auto run_in_avx512(Args... args) {
  return Loop::run(args...);
}
template <class Loop, class... Args>
TROUPE_AVX2 auto run_in_avx2(Args... args) {
  return Loop::run(args...);
}
template <class Loop, class... Args>
TROUPE_SSE2 auto run_in_sse2(Args... args) {
  return Loop::run(args...);
}

// Runs Loop::run(args...) in the copy for isa().
template <class Loop, class... Args>
auto in_isa(Args... args) {
  switch (isa()) {
    case Isa::avx512:
      return run_in_avx512<Loop>(args...);
    case Isa::avx2:
      return run_in_avx2<Loop>(args...);
    default:
      return run_in_sse2<Loop>(args...);
  }
}

}  // namespace troupe
