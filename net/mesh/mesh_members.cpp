// Membership of a mesh: judges greetings, spreads and learns members, and reports members that come
// and go.
#include <caf/all.hpp>

#include "net/wire/address.hpp"
#include "net/link/greetings.hpp"
#include "net/mesh/mesh_core.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr size_t kNewestMax = 1 << 16;  // remembered incarnations
constexpr auto kCourtesy = 300ms;       // the larger name leaves the first dial to the smaller name
// If a peer was heard this recently, its process is alive and another process cannot take its task.
// Longer than a heartbeat and a tick.
constexpr auto kAliveWithin = 800ms;
constexpr auto kReserved = 30s;  // a drawn task number stays reserved

// True if this process can dial `address`, which arrived over the link `said_by`. A loopback
// address is usable only if that link is on loopback, too: another machine's loopback is not this
// one's.
bool can_be_dialled(const Link& said_by, const std::string& address) {
  return !address.empty() &&
         (!is_loopback_address(address) || is_loopback_address(said_by.peer_address()));
}

}  // namespace

Greeting Mesh::Core::judge(Link& link, const Greeting& theirs) {
  const Hello& h = theirs.hello;
  if (theirs.kind == GreetingKind::ask_task) return answer_task(h);
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
  if (const auto known = newest_.find(name);
      known != newest_.end() && h.incarnation < known->second.incarnation)
    return refusal(self_, Refusal::stale_incarnation,
                   detail::concat(name, " was started anew meanwhile; this is its incarnation ",
                                  h.incarnation, ", the newest is ", known->second.incarnation));
  if (const auto it = peers_.find(name); it != peers_.end()) {
    Peer& peer = it->second;
    if (peer.member.incarnation == h.incarnation && peer.link->peer().node == h.node)
      return refusal(self_, Refusal::linked, "there is a link already");
    if (clock_.now() - peer.link->last_heard() < kAliveWithin ||
        peer.member.incarnation == h.incarnation)
      return taken(peer.member.address);
    peer.link->close_now(
        detail::concat("incarnation ", h.incarnation, " of ", name, " takes its place"));
  }
  for (const auto& [other, peer] : peers_)
    if (peer.link->peer().node == h.node)
      return refusal(self_, Refusal::same_node,
                     detail::concat(name, " has the node id of ", other, "; start it again"));
  if (peers_.size() >= kMembersMax)
    return refusal(self_, Refusal::busy,
                   detail::concat("the cluster has ", kMembersMax, " members, its limit"));
  // Both sides may have dialled at once. The dialling side decides, and both sides decide alike:
  // the link dialled by the smaller name stays.
  if (dialler)
    for (const auto& other : std::vector(links_)) {
      if (other->state() != Link::State::provisional || other->peer().name() != name) continue;
      if (name < self_.name())
        return refusal(self_, Refusal::linked, "the other side's dial goes first");
      other->close_now("our dial goes first", Refusal::linked);
    }
  return {GreetingKind::hello, Refusal::none, "", self_};
}

Greeting Mesh::Core::answer_task(const Hello& asker) {
  if (auto no = misfit(self_, asker)) return *no;
  // The oldest member draws the numbers, so that two askers get different ones.
  Member oldest = member_of(self_);
  for (const auto& [name, peer] : peers_)
    if (std::pair(peer.member.incarnation, peer.member.name()) <
        std::pair(oldest.incarnation, oldest.name()))
      oldest = peer.member;
  Greeting out{GreetingKind::redirect, Refusal::none, "", self_};
  out.hello.address = oldest.address;
  if (oldest.name() != self_.name()) return out;
  const TimePoint now = clock_.now();
  std::erase_if(reserved_, [&](const auto& r) { return r.second <= now; });
  for (int32_t task = 0;; ++task) {
    const std::string name = task_name(asker.job, task);
    if (name == self_.name() || peers_.count(name) || reserved_.count(name)) continue;
    if (static_cast<size_t>(task) > kMembersMax)
      return refusal(self_, Refusal::busy, "too many tasks ask for a number");
    reserved_[name] = now + kReserved;
    out.kind = GreetingKind::assigned;
    out.hello.job = asker.job;
    out.hello.task = task;
    return out;
  }
}

void Mesh::Core::established(Link& link) {
  const Hello& h = link.peer();
  const std::string name = h.name();
  if (peers_.count(name)) return link.close_now("there is a link already", Refusal::linked);
  Peer peer;
  peer.member = member_of(h);
  if (!can_be_dialled(link, h.address)) peer.member.address.clear();
  const Member newcomer = peer.member;
  peer.link = link.shared_from_this();
  if (newest_.size() >= kNewestMax)
    std::erase_if(newest_, [&](const auto& n) { return !peers_.count(n.first); });
  Life& life = newest_[name];
  // The same process again: kept handles of its actors work again.
  if (life.incarnation == h.incarnation) peer.port = life.port.lock();
  if (peer.port)
    peer.port->reopen(peer.link);
  else
    peer.port =
        std::make_shared<PeerPort>(system_, transport_, options_.kinds, peer.link, dropped_);
  life = {h.incarnation, peer.port};
  {
    std::lock_guard lock(mutex_);
    peers_.emplace(name, std::move(peer));
  }
  targets_.met(link);
  if (!newcomer.address.empty() && !targets_.has(newcomer.address))
    targets_.add(newcomer.address, name, clock_.now(), kBackoffFirst);
  log_->debug("link established: peer={} address={} incarnation={}", name, h.address,
              h.incarnation);
  peers_.at(name).caf = bridge_->attach(link.shared_from_this());

  std::vector<Member> others;
  for (const auto& [other, p] : peers_) {
    if (other == name) continue;
    if (!p.member.address.empty()) others.push_back(p.member);
    if (!newcomer.address.empty()) tell_members(*p.link, {newcomer});
  }
  tell_members(link, others);
}

void Mesh::Core::tell_members(Link& link, const std::vector<Member>& list) {
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

void Mesh::Core::learn(Link& link, std::span<const std::byte> payload) {
  Reader in(payload);
  std::vector<Member> said;
  const auto count = in.number<uint32_t>();
  for (uint32_t i = 0; i < count && in.good(); ++i) {
    Member& m = said.emplace_back();
    m.job = in.text(kNameMax);
    m.task = in.number<int32_t>();
    m.incarnation = in.number<uint64_t>();
    m.address = in.text(kAddressMax);
    if (m.address.empty()) in.fail();
  }
  if (!in.good() || !in.at_end()) return link.fail_protocol("a list of members cannot be read");
  for (const Member& m : said) {
    const std::string name = m.name();
    if (name == self_.name() || peers_.count(name) || !can_be_dialled(link, m.address)) continue;
    if (const auto known = newest_.find(name);
        known != newest_.end() && m.incarnation < known->second.incarnation)
      continue;
    targets_.add(m.address, name, clock_.now(), self_.name() < name ? 0ms : kCourtesy);
    std::lock_guard lock(mutex_);
    if (heard_of_.size() < kMembersMax) heard_of_.insert(name);
  }
}

void Mesh::Core::agent_known(const NodeId& node, const caf::actor& agent) {
  if (stopped_) return;
  for (auto& [name, peer] : peers_) {
    if (peer.link->peer().node != node || peer.announced) continue;
    {
      std::lock_guard lock(mutex_);
      peer.announced = true;
      peer.agent = agent;
      heard_of_.erase(name);
    }
    log_->info("peer up: peer={} address={} incarnation={}", name, peer.member.address,
               peer.member.incarnation);
    const Member member = peer.member;
    if (listener_) listener_->up(member, agent);
    return;
  }
}

void Mesh::Core::closed(Link& link, const std::string& reason, Refusal why) {
  const std::shared_ptr<Link> self = link.shared_from_this();
  std::erase(links_, self);
  if (find(link)) drop(link.peer().name(), reason);
  if (link.rejected() && clock_.now() - warned_ >= 1s) {
    warned_ = clock_.now();  // at most one line a second: strangers must not fill the log
    log_->error(
        "link closed, its peer does not keep to the protocol; see what runs there: peer={} "
        "address={} reason={}",
        link.label(), link.peer().address, reason);
  }
  if (link.role() == Link::Role::dialler) {
    if (const auto address = targets_.ended(link, why, peers_.empty(), clock_.now()))
      return refused(*address, reason);
    if (is_final(why) && clock_.now() - warned_ >= 1s) {
      warned_ = clock_.now();
      log_->warn("no link to a process that does not fit: peer={} reason={} text={}", link.label(),
                 to_string(why), reason);
    }
  } else if (why != Refusal::none && why != Refusal::linked && clock_.now() - warned_ >= 1s) {
    warned_ = clock_.now();  // at most one line a second: strangers must not fill the log
    log_->warn("refused a connection: peer={} reason={} text={}", link.label(), to_string(why),
               reason);
  }
}

void Mesh::Core::drop(const std::string& name, const std::string& reason) {
  Peer peer;
  {
    std::lock_guard lock(mutex_);
    const auto it = peers_.find(name);
    peer = std::move(it->second);
    peers_.erase(it);
  }
  targets_.lost(name, peer.leaving, clock_.now());
  if (peer.announced) log_->info("peer down: peer={} reason={}", name, reason);
  if (peer.caf) peer.caf->closed();
  if (peer.announced && listener_) listener_->down(peer.member, reason);
  peer.port->shut();
}

void Mesh::Core::refused(const std::string& address, const std::string& reason) {
  if (std::exchange(refused_, true)) return;
  const std::string text = detail::concat(address, " refuses this process: ", reason);
  log_->error("refused: address={} reason={}", address, reason);
  if (listener_) listener_->refused(Errc::bad_configuration, text);
}

}  // namespace troupe
