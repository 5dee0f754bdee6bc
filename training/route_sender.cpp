// Implements training/route_sender.hpp.
#include "training/route_sender.hpp"

namespace troupe {
namespace {

// A process that does not take routes by then is going, and must not hold the others up.
constexpr std::chrono::seconds kRouteTimeout{2};
// One that is on its way in may not have all its links yet.
constexpr std::chrono::milliseconds kRoutePause{20};
constexpr int kRouteTries = 50;

}  // namespace

void RouteSender::send_all(Done done) {
  current_ = true;
  const auto agents = master_.agents();
  auto gather = std::make_shared<Gather>(1 + agents.size(), std::move(done));
  for (const auto& [task, agent] : agents)
    send_patiently(task, kRouteTries, [gather] { gather->one(Errc::ok, {}); });
  send(master_.process().task(),
       [gather](Errc code, const std::string& text) { gather->one(code, text); });
}

void RouteSender::came(const std::string& task) {
  if (current_) send_patiently(task, kRouteTries, [] {});
}

void RouteSender::send_patiently(const std::string& task, int tries, std::function<void()> done) {
  send(task, [this, task, tries, done](Errc code, const std::string& text) {
    if (code == Errc::ok || tries <= 0 || !master_.agents().count(task)) {
      if (code != Errc::ok)
        master_.process().log()->debug("routes not taken: peer={} error={}", task, text);
      done();
      return;
    }
    orders_.later(kRoutePause,
                  [this, task, tries, done] { send_patiently(task, tries - 1, done); });
  });
}

void RouteSender::send(const std::string& task, Done done) {
  orders_.ask_service<caf::unit_t>(
      task, "parameters", kRouteTimeout, table_.routes(master_.session()),
      [done = std::move(done)](Errc code, const std::string& text, const caf::unit_t&) {
        done(code, text);
      });
}

}  // namespace troupe
