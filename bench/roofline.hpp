// The peak speed of one core of this machine, measured in the same run: f32 multiply-adds in
// registers, and bytes moved by a loop that reads two arrays and writes a third.
#pragma once

#include <cstdint>
#include <map>

namespace troupe::bench {

class Roofline {
 public:
  Roofline();
  double flops() const { return flops_; }  // per second; a multiply-add counts as two
  // Bytes per second, read and written, of a loop over `working_set` bytes in total.
  double bandwidth(int64_t working_set);
  // A lower bound of the time, in seconds.
  double seconds(double flop, double bytes);

 private:
  double flops_;
  std::map<int64_t, double> bandwidth_;  // by working set, a power of two
};

}  // namespace troupe::bench
