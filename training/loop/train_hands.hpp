// TrainHands: executes TrainLoop's orders, one virtual per kind of order. Implemented by Trainer
// (threads, files), the simulator (virtual time) and test fakes. TrainOrder defines each order and
// its answer.
// Owner: the driver of a TrainLoop. Thread: the one that drives the loop.
#pragma once

#include <string>

#include "training/loop/train_loop.hpp"

namespace troupe {

class TrainHands {
 public:
  virtual ~TrainHands() = default;
  void carry_out(const TrainOrders& orders);

 protected:
  virtual void start_step(int64_t replica, int64_t step) = 0;
  virtual void cancel() = 0;
  virtual void take_snapshot(int64_t step) = 0;
  virtual void pause(int64_t step) = 0;
  virtual void restore() = 0;
  virtual void ask_epoch() = 0;
  virtual void finish() = 0;
  virtual void give_up(Errc code, const std::string& text) = 0;
  virtual void tell(Errc about, const std::string& text) = 0;
};

}  // namespace troupe
