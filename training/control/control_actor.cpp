// Passes requests of visitors on, and their answers back.
#include "training/control/control_actor.hpp"

#include <errno.h>

#include <set>
#include <utility>

#include "actors/async/ask.hpp"
#include "actors/async/guard.hpp"
#include "graph/base/name_pattern.hpp"

namespace troupe {
namespace {

constexpr int kOpenMax = 64;         // requests without an answer
constexpr size_t kRowsMax = 50'000;  // of a ledger, about 10 MB
constexpr size_t kTextMax = 4096;    // of a rule or a pattern

struct ControlState {
  const char* name = "training control";
  Requests requests;
  int open = 0;
};
using Actor = ControlActor::extend_with<Asker>;
using Self = Actor::stateful_pointer<ControlState>;

// The answer to a request: given by any thread, or when it is dropped, as the training has ended.
// The actor delivers it.
template <class Answer>
class Reply {
 public:
  explicit Reply(Self self)
      : asker_(self), promise_(self->template make_response_promise<Answer>()), open_(self->state) {
    ++open_.open;
  }
  ~Reply() {
    fail(Errc::stale, "the training has ended, or has been closed, before it took the request");
  }
  Reply(const Reply&) = delete;
  caf::typed_response_promise<Answer> promise() const { return promise_; }
  void give(Answer answer) {
    deliver([promise = promise_, answer = std::move(answer)]() mutable {
      promise.deliver(std::move(answer));
    });
  }
  void fail(Errc code, const std::string& text) {
    deliver([promise = promise_, error = to_caf(code, text)]() mutable { promise.deliver(error); });
  }

 private:
  void deliver(std::function<void()> work) {
    if (std::exchange(given_, true)) return;
    with_requests(asker_, [work = std::move(work), &state = open_](Requests&) {
      --state.open;
      work();
    });
  }

  const Asker asker_;
  caf::typed_response_promise<Answer> promise_;
  ControlState& open_;  // of the actor, which touches it alone
  bool given_ = false;
};

// Calls `ask` with the reply to a request; an exception is the answer.
template <class Answer, class Ask>
caf::result<Answer> answer_later(Self self, const Ask& ask) {
  if (self->state.open >= kOpenMax)
    return to_caf(Errc::out_of_memory, "too many requests wait for this training; ask again later");
  const auto reply = std::make_shared<Reply<Answer>>(self);
  try {
    ask(reply);
  } catch (const Error& e) {
    reply->fail(e.code(), e.what());
  }
  return reply->promise();
}

LedgerTold told_of(const std::vector<PushCount>& rows, const std::string& pattern,
                   std::string left_out) {
  LedgerTold out;
  out.left_out = std::move(left_out);
  std::set<std::string> reasons;
  for (const PushCount& row : rows)
    for (const auto& [reason, count] : row.refused) reasons.insert(reason);
  out.reasons.assign(reasons.begin(), reasons.end());
  size_t more = 0;
  for (const PushCount& row : rows) {
    if (!pattern.empty() && !matches_name(pattern, row.parameter)) continue;
    if (out.parameters.size() >= kRowsMax) {
      ++more;
      continue;
    }
    out.parameters.push_back(row.parameter);
    out.tasks.push_back(row.task);
    for (const int64_t n : {row.offset, row.replica, row.received, row.applied, row.merged,
                            row.late, row.duplicate, row.held})
      out.counts.push_back(n);
    for (const std::string& reason : out.reasons) {
      const auto count = row.refused.find(reason);
      out.counts.push_back(count == row.refused.end() ? 0 : count->second);
    }
  }
  if (more > 0)
    out.left_out += detail::concat(out.left_out.empty() ? "" : "; ", more,
                                   " rows beyond the first ", kRowsMax, "; name fewer parameters");
  return out;
}

void check_length(const char* what, const std::string& text) {
  if (text.size() > kTextMax)
    throw Error(Errc::invalid_argument, "the ", what, " has ", text.size(), " bytes; at most ",
                kTextMax);
}

TermChange change_of(const ChangeTerms& m) {
  check_length("rule", m.rule);
  TermChange out;
  if (!m.rule.empty()) out.rule = aggregation_from_string(m.rule);
  out.rate_scale = m.rate_scale;
  out.step = m.step;
  return out;
}

Actor::behavior_type run_control(Self self, const ControlPort& port) {
  self->set_exception_handler(to_error);
  self->state.requests.attach(self);
  self->set_default_handler([](caf::scheduled_actor*, caf::message_view&) {
    return caf::result<caf::message>(
        to_caf(Errc::bad_configuration, "a training does not understand that message"));
  });
  return {
      [self, port](const AskTraining&) {
        return answer_later<TrainingTold>(self, [&](const auto& reply) {
          port.ask([reply](TrainingTold told) {
            told.program = program_invocation_short_name;
            reply->give(std::move(told));
          });
        });
      },
      [self, port](const AskLedger& m) {
        return answer_later<LedgerTold>(self, [&](const auto& reply) {
          check_length("pattern of parameters", m.parameters);
          const auto rows = std::make_shared<std::vector<PushCount>>();
          port.ledger(rows,
                      [reply, rows, pattern = m.parameters](Errc code, const std::string& text) {
                        if (code == Errc::ok)
                          reply->give(told_of(*rows, pattern, text));
                        else
                          reply->fail(code, text);
                      });
        });
      },
      [self, port](const ChangeTerms& m) {
        return answer_later<TermsTaken>(self, [&](const auto& reply) {
          const int64_t number = port.number();
          port.change(change_of(m),
                      [reply, number](Errc code, const std::string& text, int64_t from) {
                        if (code == Errc::ok)
                          reply->give({number, from});
                        else
                          reply->fail(code, text);
                      });
        });
      },
      [self](const WithRequests& m) { m.work(self->state.requests); },
  };
}

}  // namespace

// It is no work for its process until somebody asks.
ControlActor spawn_control(caf::actor_system& system, ControlPort port) {
  return system.spawn<caf::lazy_init>(run_control, std::move(port));
}

}  // namespace troupe
