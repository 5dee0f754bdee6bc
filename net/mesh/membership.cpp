// Judges greetings, and spreads and learns members.
#include "net/mesh/membership.hpp"

#include <caf/all.hpp>

#include "graph/base/mutant.hpp"
#include "net/link/greetings.hpp"
#include "net/wire/address.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr size_t kMembersMax = 1024;  // in one cluster
// With tasks that were members before: newcomers, whoever they are, keep no restarted process out.
constexpr size_t kPlacesMax = 2 * kMembersMax;
constexpr size_t kNewestMax = 1 << 16;  // remembered incarnations
// If a peer was heard this recently, its process is alive and another process cannot take its task.
// Longer than a heartbeat and a tick.
constexpr auto kAliveWithin = 800ms;
constexpr auto kReserved = 30s;  // a task number, drawn or of a lost member, stays reserved
constexpr auto kTellAgainEvery = 60s;
constexpr size_t kToldAtOnce = 8;  // peers; in a larger cluster others tell the rest

// True if this process can dial `address`, which arrived over the link `said_by`. A loopback
// address is usable only if that link is on loopback, too: another machine's loopback is not this
// one's.
bool can_be_dialled(const Link& said_by, const std::string& address) {
  return !address.empty() &&
         (!is_loopback_address(address) || is_loopback_address(said_by.peer_address()));
}

std::string task_name(const std::string& job, int32_t task) {
  return detail::concat("/job:", job, "/task:", task);
}

Member member_of(const Hello& hello) {
  return {hello.job, hello.task, hello.incarnation, hello.address};
}

void tell_members(Link& link, const std::vector<Member>& list) {
  constexpr size_t kPerFrame = 256;  // at most 264 bytes each
  for (size_t at = 0; at < list.size(); at += kPerFrame) {
    std::vector<std::byte> payload;
    Writer out(payload);
    const size_t count = std::min(kPerFrame, list.size() - at);
    out.number(static_cast<uint32_t>(count));
    for (size_t i = at; i < at + count; ++i) {
      out.text(list[i].job);
      out.number(list[i].task);
      out.number(list[i].incarnation);
      out.text(list[i].address);
    }
    link.send_control(Control::members, payload);
  }
}

}  // namespace

std::string Member::name() const { return task_name(job, task); }

Membership::Membership(caf::actor_system& system, Transport& transport, const MeshOptions& options)
    : system_(system), transport_(transport), kinds_(options.kinds) {
  self_.cluster = options.cluster;
  self_.job = options.job;
  self_.task = options.task;
  self_.incarnation = options.incarnation;
  self_.node = node_id_of(system.node());
  self_.fingerprint = options.fingerprint;
  self_.ops = options.ops;
  self_.machine = machine_bits();
  self_.silence = static_cast<uint32_t>(options.silence.count());
}

bool Membership::is_old(const std::string& name, uint64_t incarnation) const {
  const auto known = newest_.find(name);
  return known != newest_.end() && incarnation < known->second.incarnation;
}

Greeting Membership::judge(const Link& link, const Greeting& theirs,
                           const std::vector<std::shared_ptr<Link>>& links, TimePoint now) {
  const Hello& h = theirs.hello;
  if (theirs.kind == GreetingKind::ask_task) return answer_task(h, now);
  if (theirs.kind != GreetingKind::hello)
    return refusal(self_, Refusal::malformed, "that was not asked");
  if (auto no = misfit(self_, h)) return *no;
  const std::string name = h.name();
  const bool dialler = link.role() == Link::Role::dialler;
  if (h.node == self_.node)
    return h.incarnation == self_.incarnation && name == self_.name()
               ? refusal(self_, Refusal::itself, "that is ourselves")
               : refusal(self_, Refusal::same_node,
                         detail::concat(name, " has the node id of ", self_.name(),
                                        "; start it again"));
  const auto taken = [&](const std::string& address) {
    return refusal(self_, Refusal::task_taken,
                   detail::concat(name, " runs already, at ", address,
                                  "; give this process another task number, or stop that one"));
  };
  if (name == self_.name()) return taken(self_.address);
  if (is_old(name, h.incarnation) && !mutant(Mutant::old_incarnation_let_in))
    return refusal(self_, Refusal::stale_incarnation,
                   detail::concat(name, " was started anew meanwhile; this is its incarnation ",
                                  h.incarnation, ", the newest is ", newest_.at(name).incarnation,
                                  "; if the clock was set back, give --incarnation a larger one"));
  if (const auto it = peers_.find(name); it != peers_.end()) {
    Peer& peer = it->second;
    if (peer.member.incarnation == h.incarnation && peer.link->peer().node == h.node)
      return refusal(self_, Refusal::linked, "there is a link already");
    if (now - peer.link->last_heard() < kAliveWithin || peer.member.incarnation == h.incarnation)
      return taken(peer.member.address);
    peer.link->close_now(
        detail::concat("incarnation ", h.incarnation, " of ", name, " takes its place"));
  }
  for (const auto& [other, peer] : peers_)
    if (peer.link->peer().node == h.node)
      return refusal(self_, Refusal::same_node,
                     detail::concat(name, " has the node id of ", other, "; start it again"));
  if (peers_.size() >= (newest_.count(name) > 0 ? kPlacesMax : kMembersMax))
    return refusal(self_, Refusal::busy,
                   detail::concat("the cluster has ", kMembersMax, " members, its limit"));
  // Both sides may have dialled at once. The dialling side decides, and both sides decide alike:
  // the link dialled by the smaller name stays.
  if (dialler)
    for (const auto& other : std::vector(links)) {
      if (other->state() != Link::State::provisional || other->peer().name() != name) continue;
      if (name < self_.name())
        return refusal(self_, Refusal::linked, "the other side's dial goes first");
      other->close_now("our dial goes first", Refusal::linked);
    }
  return {GreetingKind::hello, Refusal::none, "", self_};
}

Greeting Membership::answer_task(const Hello& asker, TimePoint now) {
  if (auto no = misfit(self_, asker)) return *no;
  // The oldest member that can be dialled draws the numbers, so that two askers get different ones.
  Member oldest = member_of(self_);
  for (const auto& [name, peer] : peers_)
    if (!peer.member.address.empty() && std::pair(peer.member.incarnation, peer.member.name()) <
                                            std::pair(oldest.incarnation, oldest.name()))
      oldest = peer.member;
  Greeting out{GreetingKind::redirect, Refusal::none, "", self_};
  out.hello.address = oldest.address;
  if (oldest.name() != self_.name()) return out;
  std::erase_if(reserved_, [&](const auto& r) { return r.second <= now; });
  if (reserved_.size() >= kMembersMax)
    return refusal(self_, Refusal::busy, "too many tasks ask for a number");
  for (int32_t task = 0;; ++task) {
    const std::string name = task_name(asker.job, task);
    if (name == self_.name() || peers_.count(name) || reserved_.count(name)) continue;
    reserved_[name] = now + kReserved;
    out.kind = GreetingKind::assigned;
    out.hello.job = asker.job;
    out.hello.task = task;
    return out;
  }
}

Member Membership::add(Link& link) {
  const Hello& h = link.peer();
  const std::string name = h.name();
  Peer peer;
  peer.member = member_of(h);
  if (!can_be_dialled(link, h.address)) peer.member.address.clear();
  Member newcomer = peer.member;
  peer.link = link.shared_from_this();
  if (newest_.size() >= kNewestMax)
    std::erase_if(newest_, [&](const auto& n) { return !has(n.first); });
  Life& life = newest_[name];
  // The same process again: kept handles of its actors work again.
  if (life.incarnation == h.incarnation) peer.port = life.port.lock();
  if (peer.port)
    peer.port->reopen(peer.link);
  else
    peer.port = std::make_shared<PeerPort>(system_, transport_, kinds_, peer.link, dropped_);
  life = {h.incarnation, peer.port};
  std::lock_guard lock(mutex_);
  peers_.emplace(name, std::move(peer));
  return newcomer;
}

Peer Membership::remove(const std::string& name, TimePoint now) {
  std::erase_if(reserved_, [&](const auto& r) { return r.second <= now; });
  if (reserved_.size() < kMembersMax) reserved_[name] = now + kReserved;
  std::lock_guard lock(mutex_);
  return std::move(peers_.extract(name).mapped());
}

void Membership::introduce(Link& link) {
  const Peer& newcomer = *find(link);
  std::vector<Member> others;
  for (const auto& [name, peer] : peers_) {
    if (&peer == &newcomer) continue;
    if (!peer.member.address.empty()) others.push_back(peer.member);
    if (!newcomer.member.address.empty()) tell_members(*peer.link, {newcomer.member});
  }
  tell_members(link, others);
}

void Membership::introduce_again(TimePoint now) {
  if (now - told_at_ < kTellAgainEvery) return;
  told_at_ = now;
  for (size_t i = 0; i < std::min(kToldAtOnce, peers_.size()); ++i) {
    auto peer = peers_.upper_bound(told_last_);
    if (peer == peers_.end()) peer = peers_.begin();
    told_last_ = peer->first;
    std::vector<Member> others;
    for (const auto& [name, other] : peers_)
      if (name != peer->first && !other.member.address.empty()) others.push_back(other.member);
    if (!others.empty()) tell_members(*peer->second.link, others);
  }
}

std::optional<std::vector<Member>> Membership::learn(const Link& link,
                                                     std::span<const std::byte> payload) {
  Reader in(payload);
  std::vector<Member> said;
  const auto count = in.number<uint32_t>();
  for (uint32_t i = 0; i < count && in.good(); ++i) {
    Member& m = said.emplace_back();
    m.job = in.text(kNameMax);
    m.task = in.number<int32_t>();
    m.incarnation = in.number<uint64_t>();
    m.address = in.text(kAddressMax);
    if (!is_good_name(m.job) || m.task < 0 || m.address.empty() || !is_printable(m.address))
      in.fail();
  }
  if (!in.good() || !in.at_end()) return std::nullopt;
  std::erase_if(said, [&](const Member& m) {
    const std::string name = m.name();
    return name == self_.name() || has(name) || !can_be_dialled(link, m.address) ||
           is_old(name, m.incarnation);
  });
  std::lock_guard lock(mutex_);
  for (const Member& m : said)
    if (heard_of_.size() < kMembersMax) heard_of_.insert(m.name());
  return said;
}

std::optional<Member> Membership::announce(const NodeId& node) {
  Peer* const peer = find(node);
  if (!peer || peer->announced) return std::nullopt;
  std::lock_guard lock(mutex_);
  peer->announced = true;
  heard_of_.erase(peer->member.name());
  return peer->member;
}

Peer* Membership::find(const Link& link) {
  const auto it = peers_.find(link.peer().name());
  return it != peers_.end() && it->second.link.get() == &link ? &it->second : nullptr;
}

Peer* Membership::find(const NodeId& node) {
  for (auto& [name, peer] : peers_)
    if (peer.link->peer().node == node) return &peer;
  return nullptr;
}

bool Membership::is_up(const std::string& task) const {
  std::lock_guard lock(mutex_);
  const auto it = peers_.find(task);
  return task == self_.name() || (it != peers_.end() && it->second.announced);
}

std::vector<std::string> Membership::heard_of() const {
  std::lock_guard lock(mutex_);
  return {heard_of_.begin(), heard_of_.end()};
}

caf::strong_actor_ptr Membership::proxy(const std::string& task, uint64_t actor_id) const {
  std::shared_ptr<PeerPort> port;
  {
    std::lock_guard lock(mutex_);
    const auto it = peers_.find(task);
    // The listener is not told of the end of a link that it was not told of.
    if (it != peers_.end() && it->second.announced) port = it->second.port;
  }
  return port ? port->proxy(actor_id) : nullptr;
}

std::map<std::string, PeerStats> Membership::stats() const {
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
    p.local = s.local;
  }
  return out;
}

}  // namespace troupe
