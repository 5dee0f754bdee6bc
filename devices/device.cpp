// The loss of a device.
#include "devices/device.hpp"

#include <utility>

namespace troupe {

void Device::lose(const std::string& reason) {
  std::function<void(const std::string&)> told;
  {
    std::lock_guard lock(mutex_);
    if (lost()) return;
    loss_ = reason;
    lost_.store(true, std::memory_order_release);
    told = std::exchange(told_, {});
  }
  if (told) told(reason);
}

void Device::on_loss(std::function<void(const std::string& reason)> told) {
  {
    std::lock_guard lock(mutex_);
    if (!lost() || !told) {
      told_ = std::move(told);
      return;
    }
  }
  told(loss_);
}

Error device_lost(const Device& device) {
  return Error(Errc::device_lost, "device ", device.name(), " is lost: ", device.loss(),
               "; its process has to begin anew");
}

}  // namespace troupe
