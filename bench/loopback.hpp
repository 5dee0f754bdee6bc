// A plain TCP connection on loopback, as the bound of benchmarks that send between processes.
#pragma once

#include <cstdint>

namespace troupe::bench {

// Bytes per second through one loopback TCP connection in blocks of `block` bytes, each answered by
// one byte. Throws: Error(io).
double raw_bytes_per_second(int64_t block, int blocks);

}  // namespace troupe::bench
