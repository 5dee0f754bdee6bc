// Implements training/shard_orders.hpp.
#include "training/shard_orders.hpp"

#include <vector>

#include "actors/messages.hpp"

namespace troupe {

ShardOrders::Poster ShardOrders::poster() const {
  return [actor = actor_](std::function<void()> work) {
    caf::anon_send(actor, RemoteRequest{[work = std::move(work)](auto*) { work(); }});
  };
}

void ShardOrders::later(std::chrono::milliseconds pause, std::function<void()> work) const {
  self_->delayed_send(self_, pause, RemoteRequest{[work = std::move(work)](auto*) { work(); }});
}

void ShardOrders::find_service(const std::string& task, const std::string& name,
                               std::function<void(Errc, const std::string&, caf::actor)> then) {
  if (task == master_.process().task()) {
    then(Errc::ok, {}, master_.process().services().actor(name));
    return;
  }
  const auto agents = master_.agents();
  auto it = agents.find(task);
  if (it == agents.end()) {
    then(Errc::peer_lost, task + " is not there", {});
    return;
  }
  self_->request(it->second, kOrderTimeout, FindService{name})
      .then([then](const caf::actor& service) { then(Errc::ok, {}, service); },
            [then, task](const caf::error& e) {
              const auto [code, text] = from_caf(e);
              then(code, detail::concat(task, ": ", text), {});
            });
}

void ShardOrders::lost(const std::string& task, const std::string& reason) {
  std::vector<std::function<void(const std::string&)>> open;
  for (const auto& [number, order] : open_)
    if (order.task == task) open.push_back(order.fail);
  for (const auto& fail : open) fail(detail::concat(task, " is gone: ", reason));
}

}  // namespace troupe
