// The choice of the instruction set: the best available, or TROUPE_ISA.
#include "devices/threads/isa.hpp"

#include <cstdlib>

#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr Isa kAll[] = {Isa::avx512, Isa::avx2, Isa::sse2};  // the best first

Isa choose() {
  if (const char* wanted = std::getenv("TROUPE_ISA")) {
    const Isa named = isa_from_string(wanted);
    if (!has_isa(named))
      throw Error(Errc::bad_configuration, "TROUPE_ISA is ", wanted,
                  ", which this processor does not have; unset it, or name another");
    return named;
  }
  for (const Isa isa : kAll)
    if (has_isa(isa)) return isa;
  return Isa::sse2;
}

}  // namespace

const char* to_string(Isa isa) {
  return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "sse2";
}

Isa isa_from_string(const std::string& text) {
  for (const Isa isa : kAll)
    if (text == to_string(isa)) return isa;
  throw Error(Errc::bad_configuration, "unknown instruction set \"", text,
              "\" in TROUPE_ISA; there are sse2, avx2 and avx512");
}

bool has_isa(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::avx2:
      return __builtin_cpu_supports("avx2");
    default:
      return true;
  }
}

Isa isa() {
  static const Isa chosen = choose();
  return chosen;
}

}  // namespace troupe
