// TrainHands: who carries out what a TrainLoop decides, one function for each kind of order: the
// trainer with threads and files, the simulator in virtual time, tests in thought. What an order
// wants, and how it is answered, says TrainOrder.
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
