// train --peers [--loaded] [--rounds R] [--only A,B]: the same training steps by several programs,
// which take turns on the same cores: ours, the loop of oneDNN calls (bench/onednn/), and PyTorch
// and TensorFlow where bench/peers/install.sh has put them. One that is missing is said to be.
//
// A program says "ready" when it is loaded. To "steps N" it does N steps and answers with the
// milliseconds of each, "loss" and the loss of the last one; to "memory" with the MiB it held
// before it made the model, and its peak. It ends with its input. All have the same weights and
// batch, so their losses must agree: else the benchmark fails. --rounds 0 is that alone.
#pragma once

#include "bench/bench.hpp"

namespace troupe::bench {

int compare(const Options& options);

}  // namespace troupe::bench
