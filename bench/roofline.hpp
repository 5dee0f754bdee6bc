// What one core of this machine can do at best, measured in the run that asks: multiply-adds of
// f32 in registers, and bytes moved by a loop that reads two arrays and writes a third.
#pragma once

#include <cstdint>
#include <map>

namespace troupe::bench {

class Roofline {
 public:
  Roofline();
  double flops() const { return flops_; }  // a second; a multiply-add is two
  // Bytes a second, read and written, of a loop over that many bytes in all.
  double bandwidth(int64_t working_set);
  // Seconds that nothing can be faster than.
  double seconds(double flop, double bytes);

 private:
  double flops_;
  std::map<int64_t, double> bandwidth_;  // by the power of two that is the working set
};

}  // namespace troupe::bench
