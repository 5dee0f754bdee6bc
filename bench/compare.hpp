// train --peers [--loaded] [--rounds R] [--only A,B]: the same training steps by several programs,
// which take turns on the same cores: ours, the loop of oneDNN calls (bench/onednn/), and PyTorch
// and TensorFlow if bench/peers/install.sh has installed them. The output names the missing ones.
//
// A program prints "ready" when it is loaded. On "steps N" it runs N steps and prints the
// milliseconds of each, "loss" and the loss of the last step; on "memory" it prints the MiB that it
// held before it made the model, and its peak. It exits when its input ends. All have the same
// weights and batch, so their losses must agree, otherwise the benchmark fails. --rounds 0 checks
// only that.
#pragma once

#include "bench/bench.hpp"

namespace troupe::bench {

int compare(const Options& options);

}  // namespace troupe::bench
