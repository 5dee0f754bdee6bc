// ShardOrders: how the actor of a ParameterGroup asks services of processes, and the shards behind
// them, for something. Every order is answered once: by the one who was asked, by a deadline, or by
// the loss of his process.
//
// Owner: the group. For its actor only, but for set_actor() and a poster().
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "actors/guard.hpp"
#include "actors/master.hpp"
#include "training/gather.hpp"
#include "training/shard_table.hpp"

namespace troupe {

class ShardOrders {
 public:
  using Done = Gather::Done;
  template <class Answer>
  using Then = std::function<void(Errc, const std::string& text, const Answer&)>;
  static constexpr std::chrono::seconds kOrderTimeout{30};  // for an answer
  static constexpr std::chrono::seconds kFileTimeout{300};  // when files are read or written first

  ShardOrders(Master& master, const ShardTable& table) : master_(master), table_(table) {}

  void set_actor(const caf::actor& actor) { actor_ = actor; }  // when there is one
  void attach(caf::event_based_actor* self) { self_ = self; }  // by it, when it begins
  // Brings work to the actor from any thread; work that comes after its end is dropped, so it may
  // hold what the actor keeps alive.
  using Poster = std::function<void(std::function<void()> work)>;
  Poster poster() const;
  void later(std::chrono::milliseconds pause, std::function<void()> work) const;

  // Asks the service of that name in a process.
  template <class Answer, class Message>
  void ask_service(const std::string& task, const std::string& service,
                   std::chrono::seconds timeout, Message message, Then<Answer> then);
  // Asks a shard, through the shards service of its process.
  template <class Answer, class Message>
  void ask(int32_t shard, Message message, Then<Answer> then);
  template <class Message>
  void order(int32_t shard, Message message, Done done);  // the same, without an answer's content
  // Orders to shards there that are under way end with peer_lost.
  void lost(const std::string& task, const std::string& reason);

 private:
  void find_service(const std::string& task, const std::string& name,
                    std::function<void(Errc, const std::string&, caf::actor)> then);

  Master& master_;
  const ShardTable& table_;
  caf::actor actor_;
  caf::event_based_actor* self_ = nullptr;
  struct Open {
    std::string task;
    std::function<void(const std::string&)> fail;
  };
  std::map<uint64_t, Open> open_;  // orders to shards under way, by number
  uint64_t next_open_ = 0;
};

template <class Answer, class Message>
void ShardOrders::ask_service(const std::string& task, const std::string& service,
                              std::chrono::seconds timeout, Message message, Then<Answer> then) {
  find_service(task, service,
               [self = self_, task, timeout, message = std::move(message), then = std::move(then)](
                   Errc code, const std::string& text, const caf::actor& found) {
                 if (code != Errc::ok) {
                   then(code, text, Answer{});
                   return;
                 }
                 const auto failed = [then, task](const caf::error& e) {
                   const auto [error, why] = from_caf(e);
                   then(error, detail::concat(task, ": ", why), Answer{});
                 };
                 auto asked = self->request(found, timeout, message);
                 if constexpr (std::is_same_v<Answer, caf::unit_t>)
                   asked.then([then] { then(Errc::ok, {}, Answer{}); }, failed);
                 else
                   asked.then([then](const Answer& answer) { then(Errc::ok, {}, answer); }, failed);
               });
}

template <class Answer, class Message>
void ShardOrders::ask(int32_t shard, Message message, Then<Answer> then) {
  constexpr bool files = std::is_same_v<Message, WriteShard> || std::is_same_v<Message, BeginEpoch>;
  const std::string task = table_.shards.at(shard).task;
  // CAF does not tell who asks that the process is gone: lost() ends the order.
  const uint64_t number = next_open_++;
  const auto once = [this, number, then = std::move(then)](Errc code, const std::string& text,
                                                           const Answer& answer) {
    if (open_.erase(number)) then(code, text, answer);
  };
  open_[number] = {task, [once](const std::string& text) { once(Errc::peer_lost, text, {}); }};
  ask_service<Answer>(task, "shards", files ? kFileTimeout : kOrderTimeout, std::move(message),
                      once);
}

template <class Message>
void ShardOrders::order(int32_t shard, Message message, Done done) {
  ask<caf::unit_t>(shard, std::move(message),
                   [done = std::move(done)](Errc code, const std::string& text,
                                            const caf::unit_t&) { done(code, text); });
}

}  // namespace troupe
