// The traffic of a mesh: frames from the links, proxies, and queries from any thread.
#include <caf/all.hpp>

#include "net/mesh/mesh_core.hpp"

namespace troupe {

void Mesh::Core::control(Link& link, Control type, std::span<const std::byte> payload) {
  Peer* peer = find(link);
  if (!peer) return;
  if (type == Control::members) return learn(link, payload);
  peer->leaving = true;
  link.close_now("it left the cluster");
}

void Mesh::Core::caf_bytes(Link& link, std::span<const std::byte> bytes) {
  Peer* peer = find(link);
  if (peer && peer->caf) peer->caf->feed(bytes);
}

void Mesh::Core::message(Link& link, uint64_t target, uint64_t sender, PlaneMessage message) {
  Peer* peer = find(link);
  if (!peer) return;
  const caf::strong_actor_ptr door = doors_.find(target);
  if (!door) {
    dropped_->fetch_add(1, std::memory_order_relaxed);
    log_->debug("message for an actor that is not there: peer={} actor={} kind={}",
                peer->member.name(), target, message.index());
    if (sender)
      if (const auto answer = refusal_of(
              message, Errc::stale, detail::concat("actor ", target, " is not in ", self_.name())))
        link.send_or_end(sender, target, *answer);
    return;
  }
  caf::strong_actor_ptr from = sender ? peer->port->proxy(sender) : nullptr;
  door->enqueue(std::move(from), caf::make_message_id(), to_caf_message(std::move(message)),
                nullptr);
}

// Queries

bool Mesh::Core::is_up(const std::string& task) const {
  std::lock_guard lock(mutex_);
  const auto it = peers_.find(task);
  return task == self_.name() || (it != peers_.end() && it->second.announced);
}

std::vector<std::string> Mesh::Core::heard_of() const {
  std::lock_guard lock(mutex_);
  return {heard_of_.begin(), heard_of_.end()};
}

caf::strong_actor_ptr Mesh::Core::proxy(const std::string& task, uint64_t actor_id) {
  std::shared_ptr<PeerPort> port;
  {
    std::lock_guard lock(mutex_);
    const auto it = peers_.find(task);
    if (it != peers_.end()) port = it->second.port;
  }
  return port ? port->proxy(actor_id) : nullptr;
}

std::map<std::string, PeerStats> Mesh::Core::stats() const {
  std::lock_guard lock(mutex_);
  std::map<std::string, PeerStats> out;
  for (const auto& [name, peer] : peers_) {
    const LinkStats s = peer.link->stats();
    PeerStats& p = out[name];
    for (int c = 0; c < kChannels; ++c) {
      p.bytes_in += s.bytes_in[c];
      p.bytes_out += s.bytes_out[c];
    }
    p.messages_in = s.messages_in;
    p.messages_out = s.messages_out;
    p.queued_bytes = s.queued_bytes;
  }
  return out;
}

}  // namespace troupe
