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

void Mesh::Core::message(Link& link, Received got) {
  Peer* peer = find(link);
  if (!peer) return;
  const MessageKind& kind = options_.kinds->at(got.kind);
  caf::message message = kind.decode(got.header, std::move(got.payload));
  const auto refuse = [&](const Loss& loss) {
    const caf::message answer = kind.refusal(message, loss);
    if (got.sender && !answer.empty())
      link.send_or_end(got.sender, got.target, options_.kinds->encode(answer));
  };
  if (got.code != Errc::ok) {
    const Loss loss{got.code, std::move(got.text)};
    caf::message failed = kind.failed_form(message, loss);
    if (failed.empty()) return refuse(loss);
    message = std::move(failed);
  }
  const caf::strong_actor_ptr door = doors_.find(got.target);
  if (!door) {
    dropped_->fetch_add(1, std::memory_order_relaxed);
    log_->debug("message for an actor that is not there: peer={} actor={} kind={}",
                peer->member.name(), got.target, got.kind);
    return refuse({Errc::stale, detail::concat("actor ", got.target, " is not in ", self_.name())});
  }
  caf::strong_actor_ptr from = got.sender ? peer->port->proxy(got.sender) : nullptr;
  door->enqueue(std::move(from), caf::make_message_id(), std::move(message), nullptr);
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
