// Proxy actors and their PeerPort, and Doors of net/mesh/mesh.hpp.
#include "net/mesh/peer_port.hpp"

#include <caf/all.hpp>

#include "devices/threads/burst.hpp"
#include "net/caf/caf_bridge.hpp"
#include "net/mesh/mesh.hpp"

namespace troupe {
namespace {

class PeerProxy final : public caf::monitorable_actor {
 public:
  PeerProxy(caf::actor_config& config, std::shared_ptr<PeerPort> port)
      : monitorable_actor(config), port_(std::move(port)) {}

  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit*) override {
    if (port_->post(id(), message->sender, message->content())) return;
    // The data plane carries no other messages: a request gets an error, other messages are
    // dropped.
    bounce(message, caf::make_error(caf::sec::unexpected_message));
  }
  const char* name() const override { return "proxy"; }
  void die() { cleanup(caf::make_error(caf::exit_reason::remote_link_unreachable), nullptr); }

 private:
  const std::shared_ptr<PeerPort> port_;
};

}  // namespace

// Doors

void Doors::open(caf::strong_actor_ptr actor) {
  if (!actor) return;
  const uint64_t id = actor->id();
  std::unique_lock lock(mutex_);
  actors_[id].swap(actor);
}
void Doors::close(uint64_t actor_id) {
  caf::strong_actor_ptr gone;  // released outside the lock
  std::unique_lock lock(mutex_);
  if (auto it = actors_.find(actor_id); it != actors_.end()) {
    gone = std::move(it->second);
    actors_.erase(it);
  }
  lock.unlock();
}
caf::strong_actor_ptr Doors::find(uint64_t actor_id) const {
  std::shared_lock lock(mutex_);
  const auto it = actors_.find(actor_id);
  return it == actors_.end() ? nullptr : it->second;
}
void Doors::close_all() {
  std::unordered_map<uint64_t, caf::strong_actor_ptr> actors;  // released outside the lock
  std::lock_guard lock(mutex_);
  actors.swap(actors_);
}

caf::strong_actor_ptr PeerPort::proxy(uint64_t actor_id) {
  std::lock_guard lock(mutex_);
  if (!link_) return nullptr;
  auto& entry = proxies_[actor_id];
  if (!entry) {
    caf::actor_config config;  // the remote actor's ids, so that the handles compare equal
    entry = caf::make_actor<PeerProxy, caf::strong_actor_ptr>(actor_id, node_, &system_, config,
                                                              shared_from_this());
  }
  caf::strong_actor_ptr out = entry;
  if (proxies_.size() > kProxiesMax)
    std::erase_if(proxies_, [](const auto& p) { return p.second->strong_refs == 1; });
  return out;
}

bool PeerPort::post(uint64_t target, const caf::strong_actor_ptr& sender,
                    const caf::type_erased_tuple& message) {
  const MessageKind* const kind = kinds_->find(message);
  if (!kind) return false;
  std::shared_ptr<Link> link;
  {
    std::lock_guard lock(mutex_);
    link = link_;
  }
  // A sender in a third process has no id on this link.
  const uint64_t from = sender && sender->node() == system_.node() ? sender->id() : 0;
  const auto encoded = link ? kind->encode(message, link->is_local()) : Encoded{};
  const Errc code = link ? link->send(target, from, encoded, true) : Errc::peer_lost;
  if (code == Errc::ok) {
    Burst::put_off(link.get(), [link] { link->flush(); });
    return true;
  }
  dropped_->fetch_add(1, std::memory_order_relaxed);
  const Loss loss{code,
                  code == Errc::peer_lost ? detail::concat("the link to ", name_, " is gone")
                                          : detail::concat("too much waits to be sent to ", name_),
                  name_};
  caf::message answer = kind->refusal(message, loss);
  if (code == Errc::out_of_memory && answer.empty()) {
    const caf::message failed = kind->failed_form(message, loss);
    link->send_or_end(target, from, failed.empty() ? encoded : kinds_->encode(failed));
  }
  // From the net thread, like all answers: the sender may hold a mutex now.
  if (sender && !answer.empty())
    transport_.post([sender, answer = std::move(answer)]() mutable {
      sender->enqueue(nullptr, caf::make_message_id(), std::move(answer), nullptr);
    });
  return true;
}

void PeerPort::shut() {
  std::unordered_map<uint64_t, caf::strong_actor_ptr> proxies;
  {
    std::lock_guard lock(mutex_);
    link_ = nullptr;
    proxies.swap(proxies_);
  }
  for (const auto& [id, proxy] : proxies) static_cast<PeerProxy*>(proxy->get())->die();
}

void PeerPort::reopen(std::shared_ptr<Link> link) {
  std::lock_guard lock(mutex_);
  link_ = std::move(link);
}

}  // namespace troupe
