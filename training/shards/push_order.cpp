// The sequences of replicas: what is parked, what is next, and what is fenced.
#include "training/shards/push_order.hpp"

#include "graph/base/mutant.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

constexpr size_t kTicketsMax = 8;

// True if both are the same push of their replica and slice, whatever number in sequence it has.
bool same_push(const Push& a, const Push& b) {
  return a.step == b.step && a.write == b.write && a.number == b.number;
}

}  // namespace

void add(Tickets& tickets, Ticket ticket) {
  if (std::find(tickets.begin(), tickets.end(), ticket) != tickets.end()) return;
  if (tickets.size() >= kTicketsMax) tickets.erase(tickets.begin());
  tickets.push_back(ticket);
}

void PushOrder::refuse_parked(int32_t replica, Sequence& sequence, PushRefusal reason,
                              const std::string& why, std::vector<Refused>& refused) {
  for (auto& [number, waiting] : std::exchange(sequence.parked, {}))
    refused.push_back({replica, std::move(waiting.tickets), reason, why});
}

uint64_t PushOrder::incarnation(int32_t replica) const {
  const auto it = sequences_.find(replica);
  return it == sequences_.end() ? 0 : it->second.incarnation;
}

void PushOrder::renew(int32_t replica, uint64_t incarnation, std::vector<Refused>& refused) {
  Sequence& sequence = sequences_[replica];
  if (!mutant(Mutant::parked_forgotten))
    refuse_parked(replica, sequence, PushRefusal::incarnation,
                  detail::concat("replica ", replica, " has a newer incarnation, ", incarnation),
                  refused);
  sequence = {.incarnation = incarnation};
}

PushOrder::Place PushOrder::place(Push& p, Ticket ticket, const Slice& slice,
                                  std::vector<Refused>& refused) {
  Sequence& sequence = sequences_[p.replica];
  if (p.sequence <= sequence.next) return p.sequence == sequence.next ? Place::next : Place::before;
  if (p.sequence > sequence.next + kStepsInFlightMax) {
    refused.push_back({p.replica,
                       {ticket},
                       PushRefusal::gap,
                       detail::concat("sequence ", p.sequence, " of replica ", p.replica, " for ",
                                      describe(slice), " came before ", sequence.next, "; at most ",
                                      kStepsInFlightMax, " may be under way")});
    return Place::refused;
  }
  const int64_t number = p.sequence;
  auto [it, fresh] = sequence.parked.try_emplace(number);
  Waiting& waiting = it->second;
  if (!fresh && !same_push(waiting.push, p)) {
    // The replica gave up the parked push, and its number to this one.
    refused.push_back({p.replica, std::exchange(waiting.tickets, {}), PushRefusal::incarnation,
                       detail::concat("sequence ", number, " of replica ", p.replica, " for ",
                                      describe(slice), " is now that of ",
                                      p.write == 0 ? "" : "another write of ", "step ", p.step)});
    fresh = true;
  }
  if (fresh) waiting.push = std::move(p);
  add(waiting.tickets, ticket);
  return fresh ? Place::parked : Place::repeated;
}

std::optional<PushOrder::Waiting> PushOrder::done(int32_t replica) {
  Sequence& sequence = sequences_[replica];
  ++sequence.next;
  const auto first = sequence.parked.begin();
  if (first == sequence.parked.end() || first->first != sequence.next) return std::nullopt;
  std::optional<Waiting> out = std::move(first->second);
  sequence.parked.erase(first);
  return out;
}

Tickets* PushOrder::parked(const Push& p) {
  Sequence& sequence = sequences_[p.replica];
  if (p.incarnation != sequence.incarnation) return nullptr;
  const auto it = sequence.parked.find(p.sequence);
  const bool same = it != sequence.parked.end() && same_push(it->second.push, p);
  return same ? &it->second.tickets : nullptr;
}

bool PushOrder::passed(const Push& p) const {
  const auto it = sequences_.find(p.replica);
  return it != sequences_.end() && p.incarnation == it->second.incarnation &&
         p.sequence < it->second.next;
}

int64_t PushOrder::parked() const {
  int64_t n = 0;
  for (const auto& [replica, sequence] : sequences_) n += std::ssize(sequence.parked);
  return n;
}

int64_t PushOrder::parked(int32_t replica) const {
  const auto it = sequences_.find(replica);
  return it == sequences_.end() ? 0 : std::ssize(it->second.parked);
}

void PushOrder::forget(uint64_t from) {
  for (auto& [replica, sequence] : sequences_)
    for (auto& [number, waiting] : sequence.parked)
      std::erase_if(waiting.tickets, [&](const Ticket& t) { return t.to == from; });
}

void PushOrder::keep_only(const std::set<int32_t>& replicas) {
  std::erase_if(sequences_, [&](const auto& s) { return !replicas.count(s.first); });
}

void PushOrder::begin_again(const std::string& why, std::vector<Refused>& refused) {
  for (auto& [replica, sequence] : sequences_) {
    refuse_parked(replica, sequence, PushRefusal::epoch, why, refused);
    sequence = {};
  }
}

}  // namespace troupe
