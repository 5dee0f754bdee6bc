// ShardOrders: how the actor of a ParameterGroup asks services of processes, and the shards behind
// them, for something. How an order ends is said in actors/async/requests.hpp.
//
// Owner: the group. For its actor only, but for set_actor() and a poster().
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "actors/master/master.hpp"
#include "actors/async/requests.hpp"
#include "training/parameters/gather.hpp"
#include "training/shards/shard_table.hpp"

namespace troupe {

class ShardOrders {
 public:
  using Done = Gather::Done;
  template <class Answer>
  using Then = Requests::Then<Answer>;
  static constexpr std::chrono::seconds kOrderTimeout{30};  // for an answer
  static constexpr std::chrono::seconds kFileTimeout{300};  // when files are read or written first

  ShardOrders(Master& master, const ShardTable& table) : master_(master), table_(table) {}

  void set_actor(const caf::actor& actor) { actor_ = actor; }  // when there is one
  void attach(caf::event_based_actor* self);                   // by it, when it begins
  // Brings work to the actor from any thread; work that comes after its end is dropped, so it may
  // hold what the actor keeps alive.
  using Poster = std::function<void(std::function<void()> work)>;
  Poster poster() const;
  void later(std::chrono::milliseconds pause, std::function<void()> work) const;

  // Asks the service of that name in a process. `timeout` is for its answer; finding it takes no
  // longer than that and kOrderTimeout.
  template <class Answer, class Message>
  void ask_service(const std::string& task, const std::string& service,
                   std::chrono::seconds timeout, Message message, Then<Answer> then);
  // Asks a shard, through the shards service of its process.
  template <class Answer, class Message>
  void ask(int32_t shard, Message message, Then<Answer> then);
  template <class Message>
  void order(int32_t shard, Message message, Done done);  // the same, without an answer's content

 private:
  void find_service(const std::string& task, const std::string& name, std::chrono::seconds timeout,
                    Then<caf::actor> then);

  Master& master_;
  const ShardTable& table_;
  caf::actor actor_;
  caf::event_based_actor* self_ = nullptr;
  Requests requests_;
};

template <class Answer, class Message>
void ShardOrders::ask_service(const std::string& task, const std::string& service,
                              std::chrono::seconds timeout, Message message, Then<Answer> then) {
  const auto told = [task, then = std::move(then)](Errc code, const std::string& text,
                                                   const Answer& answer) {
    then(code, code == Errc::ok ? text : detail::concat(task, ": ", text), answer);
  };
  find_service(task, service, std::min(timeout, kOrderTimeout),
               [this, timeout, message = std::move(message), told](
                   Errc code, const std::string& text, const caf::actor& found) {
                 if (code == Errc::ok)
                   requests_.ask<Answer>(found, timeout, message, told);
                 else
                   told(code, text, {});
               });
}

template <class Answer, class Message>
void ShardOrders::ask(int32_t shard, Message message, Then<Answer> then) {
  constexpr bool files = std::is_same_v<Message, WriteShard> || std::is_same_v<Message, BeginEpoch>;
  ask_service<Answer>(table_.shards.at(shard).task, "shards", files ? kFileTimeout : kOrderTimeout,
                      std::move(message), std::move(then));
}

template <class Message>
void ShardOrders::order(int32_t shard, Message message, Done done) {
  ask<caf::unit_t>(shard, std::move(message),
                   [done = std::move(done)](Errc code, const std::string& text,
                                            const caf::unit_t&) { done(code, text); });
}

}  // namespace troupe
