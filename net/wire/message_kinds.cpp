// Looks up kinds of messages.
#include "net/wire/message_kinds.hpp"

namespace troupe {

const MessageKind* MessageKinds::find(const caf::type_erased_tuple& message) const {
  for (const auto& kind : kinds_)
    if (kind && kind->holds(message)) return kind.get();
  return nullptr;
}

std::optional<TensorClaim> MessageKinds::claim(uint16_t kind, std::span<const std::byte> header,
                                               std::string& why) const {
  if (kind >= kinds_.size() || !kinds_[kind]) {
    why = detail::concat("message kind ", kind, " is not known");
    return std::nullopt;
  }
  if (header.size() > kHeaderMax) {
    why = detail::concat("a message header of ", header.size(), " bytes is past the limit of ",
                         kHeaderMax);
    return std::nullopt;
  }
  TensorClaim out;
  if (kinds_[kind]->claim(header, out)) return out;
  why = detail::concat("a message header of kind ", kind, " and ", header.size(),
                       " bytes cannot be read");
  return std::nullopt;
}

}  // namespace troupe
