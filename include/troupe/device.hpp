// Machine: the processor, memory and GPUs that this process can use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct Machine {
  std::string processor;  // as the system calls it; empty: unknown
  // Its instruction sets that kernels are compiled for, best first: avx512, avx2, sse2.
  std::vector<std::string> instructions;
  std::string uses;          // the set in use; TROUPE_ISA selects another
  int cores = 0;             // available to this process
  int64_t memory_bytes = 0;  // of the machine
  int cuda_devices = 0;
};
// Throws: Error(bad_configuration) if TROUPE_ISA names an instruction set that is not available.
Machine this_machine();

}  // namespace troupe
