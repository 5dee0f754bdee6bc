// Sends routes to processes, again and again until they are taken.
#include "training/group/route_sender.hpp"

#include "graph/base/mutant.hpp"
#include "training/group/services.hpp"

namespace troupe {
namespace {

// A process that does not take routes within this time is ending, and must not delay the others.
constexpr std::chrono::seconds kRouteTimeout{2};
// A process that is joining may not have all its links yet: it gets the routes again after each
// kRoutePause while the caller waits, and after each kRouteLater then, as long as it is a member.
constexpr std::chrono::milliseconds kRoutePause{20}, kRouteLater{500};
constexpr int kRouteTries = 50;

}  // namespace

void RouteSender::send_all(Done done) {
  current_ = true;
  ++round_;
  const auto agents = master_.members().agents();
  const Done ended = when_all(1 + agents.size(), std::move(done));
  for (const auto& [task, agent] : agents)
    send_patiently(task, round_, kRouteTries, [ended] { ended(Errc::ok, {}); });
  send(master_.process().task(), ended);
}

void RouteSender::came(const std::string& task) {
  if (mutant(Mutant::newcomer_without_routes)) return;
  if (current_) send_patiently(task, round_, kRouteTries, [] {});
}

void RouteSender::send_patiently(const std::string& task, int64_t round, int tries,
                                 std::function<void()> done) {
  send(task, [this, task, round, tries, done](Errc code, const std::string& text) {
    if (code == Errc::ok || round != round_ || !master_.members().agents().count(task))
      return done();
    if (tries > 0 && code != Errc::timeout)
      return shards_.later(kRoutePause, [this, task, round, tries, done] {
        send_patiently(task, round, tries - 1, done);
      });
    master_.process().log()->debug("routes not taken yet: peer={} error={}", task, text);
    done();
    shards_.later(kRouteLater, [this, task, round] { send_patiently(task, round, 0, [] {}); });
  });
}

void RouteSender::send(const std::string& task, Done done) {
  shards_.ask_service<ParameterService, caf::unit_t>(
      task, "parameters", kRouteTimeout, table_.routes(master_.session()),
      [done = std::move(done)](Errc code, const std::string& text, const caf::unit_t&) {
        done(code, text);
      });
}

}  // namespace troupe
