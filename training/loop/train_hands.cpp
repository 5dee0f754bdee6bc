// Passes each order to its function.
#include "training/loop/train_hands.hpp"

namespace troupe {

void TrainHands::carry_out(const TrainOrders& orders) {
  for (const TrainOrder& order : orders) switch (order.kind) {
      case TrainOrder::start:
        start_step(order.replica, order.step);
        break;
      case TrainOrder::cancel:
        cancel();
        break;
      case TrainOrder::snapshot:
        take_snapshot(order.step);
        break;
      case TrainOrder::pause:
        pause(order.step);
        break;
      case TrainOrder::restore:
        restore();
        break;
      case TrainOrder::ask_epoch:
        ask_epoch();
        break;
      case TrainOrder::finish:
        finish();
        break;
      case TrainOrder::fail:
        give_up(order.code, order.text);
        break;
      case TrainOrder::tell:
        tell(order.code, order.text);
        break;
    }
}

}  // namespace troupe
