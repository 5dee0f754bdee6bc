// troupe doctor: what this machine is, and what will be used of it.
#include <iostream>

#include "apps/troupe/verbs.hpp"
#include "troupe/error.hpp"
#include "troupe/machine.hpp"

using namespace troupe;

int doctor(const std::vector<std::string>& arguments) {
  if (!arguments.empty())
    throw Error(Errc::invalid_argument, "doctor takes no argument, got ", arguments[0]);
  const Machine machine = this_machine();
  std::string instructions;
  for (const std::string& one : machine.instructions)
    instructions += (instructions.empty() ? "" : ", ") + one;
  std::cout << "processor       " << (machine.processor.empty() ? "unknown" : machine.processor)
            << "\n"
            << "instructions    our kernels use " << machine.uses << "; there are " << instructions
            << " (TROUPE_ISA names another)\n"
            << "cores           " << machine.cores << " (--threads 0 uses them all)\n"
            << "memory          " << (machine.memory_bytes >> 20) << " MiB\n"
            << "CUDA devices    " << machine.cuda_devices << "\n";
  return 0;
}
