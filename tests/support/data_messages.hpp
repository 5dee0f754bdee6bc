// The data messages of the library as bytes, for tests of net/.
#pragma once

#include <memory>

#include "actors/async/step_messages.hpp"
#include "training/parameters/messages.hpp"

namespace troupe {

inline std::shared_ptr<const MessageKinds> data_kinds() {
  static const std::shared_ptr<const MessageKinds> kinds = [] {
    auto out = std::make_shared<MessageKinds>();
    add_step_messages(*out);
    add_parameter_messages(*out);
    return out;
  }();
  return kinds;
}

template <class M>
Encoded encode(const M& message) {
  return data_kinds()->encode(caf::make_message(message));
}

}  // namespace troupe
