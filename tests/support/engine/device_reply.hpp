// The answer of a device to a copy or fence(), waited for.
#pragma once

#include <future>
#include <string>
#include <utility>

#include "troupe/tensor.hpp"

namespace troupe {

struct DeviceReply {
  Errc code = Errc::internal;
  std::string text;
  Tensor value;
};

// Calls start(done), which begins one, and waits until `done` is called.
template <class F>
DeviceReply wait_for(F&& start) {
  std::promise<DeviceReply> promise;
  start([&](Errc code, std::string text, Tensor value) {
    promise.set_value({code, std::move(text), std::move(value)});
  });
  return promise.get_future().get();
}

}  // namespace troupe
