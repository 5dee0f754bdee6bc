// MessageKinds: the message types of the data plane, by the number of their kind. The room that
// owns a type adds it. Inside a process these messages are ordinary CAF messages of one element; to
// another process they travel by the codec, never through CAF's serialisation.
//
// Owner: filled by the process before its mesh begins, constant from then on. Thread: any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <caf/make_message.hpp>
#include <caf/message.hpp>
#include <caf/type_erased_tuple.hpp>

#include "net/wire/codec.hpp"

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Tensor)  // CAF's own wire format does not know it

namespace troupe {

// The reason why a message does not reach its receiver, or loses its tensor on the way.
struct Loss {
  Errc code = Errc::ok;
  std::string text;
  std::string task = {};  // of the receiver, if the loss happens on the sender's side
};

class MessageKind {
 public:
  virtual ~MessageKind() = default;
  virtual bool holds(const caf::type_erased_tuple& message) const = 0;
  // `reliable`: the way changes no bytes, so that elements need no checksum.
  virtual Encoded encode(const caf::type_erased_tuple& message, bool reliable) const = 0;
  // Returns false if the header is not an output of encode().
  virtual bool claim(std::span<const std::byte> header, TensorClaim& claim) const = 0;
  // Requires: claim() accepts the header. `payload` is the tensor of the claim; undefined: lost.
  virtual caf::message decode(std::span<const std::byte> header, Tensor payload) const = 0;
  // The answer that tells the sender of `message` that no other answer will come; empty if its kind
  // has no answer.
  virtual caf::message refusal(const caf::type_erased_tuple& message, const Loss& loss) const = 0;
  // The form in which the receiver gets `message` without its tensor: with an error; empty if its
  // kind has no field for an error.
  virtual caf::message failed_form(const caf::type_erased_tuple& message,
                                   const Loss& loss) const = 0;
  // The task that `message` says it comes from; empty if it says none.
  virtual std::string_view speaker(const caf::type_erased_tuple& message) const = 0;
};

class MessageKinds {
 public:
  // Adds the type M, with its fields in inspect(). A function `refusal_of(const M&, const Loss&)`
  // beside it makes its refusal, `failed_form_of` its failed form; `speaker_of(const M&)` names its
  // speaker. `checked`: its elements get a crc32c, as TCP's own checksum misses one bad packet in
  // 2^16.
  template <class M>
  void add(uint16_t kind, bool checked = false) {
    if (kinds_.size() <= kind) kinds_.resize(kind + size_t{1});
    kinds_[kind] = std::make_unique<const Of<M>>(kind, checked);
  }
  const MessageKind* find(
      const caf::type_erased_tuple& message) const;  // null if its type is not here
  // Requires: the kind has been added.
  const MessageKind& at(uint16_t kind) const { return *kinds_.at(kind); }
  Encoded encode(const caf::type_erased_tuple& message) const {
    return find(message)->encode(message, false);
  }
  // The claim of a message that arrives. Returns nothing and sets `why` if its kind is not known or
  // its header cannot be read.
  std::optional<TensorClaim> claim(uint16_t kind, std::span<const std::byte> header,
                                   std::string& why) const;

 private:
  template <class M>
  class Of final : public MessageKind {
   public:
    Of(uint16_t kind, bool checked) : kind_(kind), checked_(checked) {}
    bool holds(const caf::type_erased_tuple& message) const override {
      return message.match_elements<M>();
    }
    Encoded encode(const caf::type_erased_tuple& message, bool reliable) const override {
      Encoded out;
      out.kind = kind_;
      out.header.reserve(160);
      FieldWriter writer(out, checked_ && !reliable);
      writer(message.get_as<M>(0));
      return out;
    }
    bool claim(std::span<const std::byte> header, TensorClaim& claim) const override {
      M fields;
      FieldReader reader(header, claim);
      reader(fields);
      return reader.complete();
    }
    caf::message decode(std::span<const std::byte> header, Tensor payload) const override {
      M out;
      TensorClaim claim;
      FieldReader reader(header, claim, std::move(payload));
      reader(out);
      return caf::make_message(std::move(out));
    }
    caf::message refusal(const caf::type_erased_tuple& message, const Loss& loss) const override {
      if constexpr (requires(const M& m) { refusal_of(m, loss); })
        return caf::make_message(refusal_of(message.get_as<M>(0), loss));
      return {};
    }
    caf::message failed_form(const caf::type_erased_tuple& message,
                             const Loss& loss) const override {
      if constexpr (requires(const M& m) { failed_form_of(m, loss); })
        return caf::make_message(failed_form_of(message.get_as<M>(0), loss));
      return {};
    }
    std::string_view speaker(const caf::type_erased_tuple& message) const override {
      if constexpr (requires(const M& m) { speaker_of(m); })
        return speaker_of(message.get_as<M>(0));
      return {};
    }

   private:
    const uint16_t kind_;
    const bool checked_;
  };

  std::vector<std::unique_ptr<const MessageKind>> kinds_;  // by number; null: no such kind
};

}  // namespace troupe
