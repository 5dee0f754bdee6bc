// ShardRequests: requests of a ParameterGroup's actor to services of processes, and to the shards
// behind them. Requests end as actors/async/requests.hpp defines.
//
// Owner: the group. Thread: its actor's, except set_actor() and the functions of poster().
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "actors/master/master.hpp"
#include "actors/async/ask.hpp"
#include "actors/async/when_all.hpp"
#include "training/shards/shard_service.hpp"
#include "training/group/shard_table.hpp"

namespace troupe {

class ShardRequests {
 public:
  using Done = WhenDone;
  template <class Answer>
  using Then = Requests::Then<Answer>;
  static constexpr std::chrono::seconds kAnswerTimeout{30};
  static constexpr std::chrono::seconds kFileTimeout{300};  // for answers that follow the reading
                                                            // or writing of files

  ShardRequests(Master& master, const ShardTable& table) : master_(master), table_(table) {}

  void set_actor(Asker actor) { actor_ = std::move(actor); }  // once the actor exists
  // The actor calls these when it begins, and for its messages.
  void attach(caf::scheduled_actor* self) { requests_.attach(self); }
  void run(const WithRequests& work) { work.work(requests_); }
  void end() { caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown); }  // any thread
  // Posts work to the actor from any thread. Work posted after the actor's end is dropped, so it
  // may hold references to objects that the actor keeps alive.
  using Poster = std::function<void(std::function<void()> work)>;
  Poster poster() const;
  void later(std::chrono::milliseconds pause, std::function<void()> work) const;

  // Sends a request to the service of that name in a process. `timeout` is for its answer; finding
  // the service takes at most the smaller of that and kAnswerTimeout.
  template <class Service, class Answer, class Message>
  void ask_service(const std::string& task, const std::string& service,
                   std::chrono::seconds timeout, Message message, Then<Answer> then);
  // Sends a request to a shard, through the shard service of its process.
  template <class Answer, class Message>
  void ask(int32_t shard, Message message, Then<Answer> then);
  template <class Message>
  void ask(int32_t shard, Message message, Done done);  // the same, for answers without content
  // Asks all these shards at once for message_of(shard). Calls each(shard, answer) for the answers
  // without an error, and `done` after the last one, with the first error or ok.
  template <class Answer, class MessageOf, class Each>
  void ask_all(const std::vector<int32_t>& shards, const MessageOf& message_of, Each each,
               Done done);
  template <class MessageOf>
  void ask_all(const std::vector<int32_t>& shards, const MessageOf& message_of, Done done);
  void describe(const std::vector<int32_t>& shards,
                std::function<void(int32_t shard, const ShardDescription&)> each, Done done);
  void count_pushes(const std::vector<int32_t>& shards,
                    std::function<void(int32_t shard, const PushesCounted&)> each, Done done);
  // Tells shards the rate scale that holds from the updates of `step` on.
  void scale_rates(const std::vector<int32_t>& shards, double scale, int64_t step, Done done);
  // Tells shards the rule that holds from `step` on.
  void change_rule(const std::vector<int32_t>& shards, const Aggregation& rule, int64_t step,
                   Done done);

 private:
  void find_service(const std::string& task, const std::string& name, std::chrono::seconds timeout,
                    Then<caf::actor> then);

  Master& master_;
  const ShardTable& table_;
  Asker actor_;
  Requests requests_;
};

template <class Service, class Answer, class Message>
void ShardRequests::ask_service(const std::string& task, const std::string& service,
                                std::chrono::seconds timeout, Message message, Then<Answer> then) {
  const auto told = [task, then = std::move(then)](Errc code, const std::string& text,
                                                   const Answer& answer) {
    then(code, code == Errc::ok ? text : detail::concat(task, ": ", text), answer);
  };
  find_service(task, service, std::min(timeout, kAnswerTimeout),
               [this, timeout, message = std::move(message), told](
                   Errc code, const std::string& text, const caf::actor& found) {
                 if (code == Errc::ok)
                   requests_.ask<Answer>(caf::actor_cast<Service>(found), timeout, message, told);
                 else
                   told(code, text, {});
               });
}

template <class Answer, class Message>
void ShardRequests::ask(int32_t shard, Message message, Then<Answer> then) {
  constexpr bool files = std::is_same_v<Message, WriteShard> || std::is_same_v<Message, BeginEpoch>;
  ask_service<ShardService, Answer>(table_.shards.at(shard).task, "shards",
                                    files ? kFileTimeout : kAnswerTimeout, std::move(message),
                                    std::move(then));
}

template <class Message>
void ShardRequests::ask(int32_t shard, Message message, Done done) {
  ask<caf::unit_t>(shard, std::move(message),
                   [done = std::move(done)](Errc code, const std::string& text,
                                            const caf::unit_t&) { done(code, text); });
}

template <class Answer, class MessageOf, class Each>
void ShardRequests::ask_all(const std::vector<int32_t>& shards, const MessageOf& message_of,
                            Each each, Done done) {
  const WhenDone ended = when_all(shards.size(), std::move(done));
  for (int32_t shard : shards)
    ask<Answer>(shard, message_of(shard),
                [shard, each, ended](Errc code, const std::string& text, const Answer& answer) {
                  if (code == Errc::ok) each(shard, answer);
                  ended(code, text);
                });
}

template <class MessageOf>
void ShardRequests::ask_all(const std::vector<int32_t>& shards, const MessageOf& message_of,
                            Done done) {
  ask_all<caf::unit_t>(
      shards, message_of, [](int32_t, const caf::unit_t&) {}, std::move(done));
}

}  // namespace troupe
