// Requests: the open requests of one actor. Each ends once: with the answer, at its deadline, or
// with peer_lost as soon as the asked actor has ended or its process is gone; at once, if that
// happened before the request. CAF alone would leave the requests of a lost process to the
// deadline. A typed handle has the compiler check the message and its answer.
//
// Owner: the owner of the actor; the Requests outlive the actor. Thread: the actor's only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"

namespace troupe {

class Requests {
 public:
  // Called with the result of a request; an Answer of caf::unit_t has no content.
  template <class Answer>
  using Then = std::function<void(Errc, const std::string& text, const Answer&)>;

  // Called by the actor when it begins. Takes over the actor's down messages.
  void attach(caf::scheduled_actor* self);
  template <class Answer, class Handle, class Message>
  void ask(const Handle& actor, std::chrono::milliseconds timeout, Message message,
           Then<Answer> then);

 private:
  using Fail = std::function<void(const caf::error&)>;
  uint64_t open(const caf::actor& whom, Fail fail);
  bool close(const caf::actor& whom, uint64_t number);  // false: it has ended
  void lost(const caf::actor_addr& whom, const caf::error& reason);

  caf::scheduled_actor* self_ = nullptr;
  std::map<caf::actor_addr, std::map<uint64_t, Fail>> open_;  // by asked actor and number
  uint64_t next_ = 0;
};

template <class Answer, class Handle, class Message>
void Requests::ask(const Handle& actor, std::chrono::milliseconds timeout, Message message,
                   Then<Answer> then) {
  using Promised = caf::response_type_t<typename Handle::signatures, Message>;
  static_assert(std::is_same_v<Promised, caf::detail::type_list<Answer>> ||
                    std::is_same_v<Promised, caf::message>,  // an untyped handle
                "the actor gives another answer to this message");
  const auto whom = caf::actor_cast<caf::actor>(actor);
  const auto fail = [then](const caf::error& error) {
    const auto [code, text] = from_caf(error);
    then(code, text, Answer{});
  };
  const uint64_t number = open(whom, fail);
  const auto failed = [this, whom, number, fail](const caf::error& error) {
    if (close(whom, number)) fail(error);
  };
  const caf::message_id id = self_->new_request_id(caf::message_priority::normal);
  if (whom) {
    whom->eq_impl(id, self_->ctrl(), self_->context(), std::move(message));
    self_->request_response_timeout(caf::duration{timeout}, id);
  } else {
    self_->eq_impl(id.response_id(), self_->ctrl(), self_->context(),
                   caf::make_error(caf::sec::invalid_argument));
  }
  const caf::response_handle<caf::scheduled_actor, caf::message, false> asked(id.response_id(),
                                                                              self_);
  if constexpr (std::is_same_v<Answer, caf::unit_t>)
    asked.then(
        [this, whom, number, then] {
          if (close(whom, number)) then(Errc::ok, {}, Answer{});
        },
        failed);
  else
    asked.then(
        [this, whom, number, then](const Answer& answer) {
          if (close(whom, number)) then(Errc::ok, {}, answer);
        },
        failed);
}

}  // namespace troupe
