// this_machine(): reads the processor's name, memory, cores and GPUs from the system.
#include "troupe/device.hpp"

#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "devices/device.hpp"
#include "devices/threads/isa.hpp"

namespace troupe {
namespace {

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const size_t at = line.find(": "); at != line.npos) return line.substr(at + 2);
  return "";
}

}  // namespace

Machine this_machine() {
  Machine out;
  out.processor = processor_name();
  for (const Isa one : {Isa::avx512, Isa::avx2, Isa::sse2})
    if (has_isa(one)) out.instructions.push_back(to_string(one));
  out.uses = to_string(isa());
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) out.cores = CPU_COUNT(&cores);
  out.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  out.cuda_devices = cuda_device_count();
  return out;
}

}  // namespace troupe
