// What this process can compute with. Implemented in devices/machine.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct Machine {
  std::string processor;                  // as the system calls it; empty: not known
  std::vector<std::string> instructions;  // sets that our own kernels are compiled for and that are
                                          // there, the best first: avx512, avx2, sse2
  std::string uses;                       // the one of them that they use; TROUPE_ISA names another
  int cores = 0;                          // that this process may use
  int64_t memory_bytes = 0;               // of the machine
  int cuda_devices = 0;
};
// Throws: Error(bad_configuration) if TROUPE_ISA names an instruction set that is not there.
Machine this_machine();

}  // namespace troupe
