// The swarm of faults.
#include "chaos/fault_plan.hpp"

#include <array>
#include <utility>

namespace troupe::sim {
namespace {

enum Kind {
  worker_dies,
  ps_dies,
  program_dies,
  freezes,
  link_ends,
  link_cut,
  corrupted,
  disk,
  power_fails,
  messages,
  kKinds
};

}  // namespace

void FaultPlan::swarm() {
  std::array<int64_t, kKinds> weights{};
  int64_t sum = 0;
  for (int64_t& weight : weights) sum += weight = draw.chance(0.5) ? 0 : draw.between(1, 4);
  if (sum == 0) weights[draw.below(kKinds)] = sum = 1;
  for (int64_t n = draw.between(1, 12); n > 0; --n) {
    if (!faults_.empty() && draw.chance(0.2)) {  // several at a time
      const Fault& last = faults_.back();
      faults_.push_back(
          {last.at + draw.between(0, 50), last.kind, last.who, last.other, last.lasts});
      elsewhere(faults_.back());
      continue;
    }
    int64_t left = draw.between(1, sum);
    int kind = -1;
    while (left > 0) left -= weights[static_cast<size_t>(++kind)];
    swarm_fault(kind);
  }
  if (draw.chance(0.2)) lose_folders();
  if (o_.late_program)
    put(0, FaultKind::late, in_.servers() + 1, Fault::kAny, draw.between(100, 5000));
}

void FaultPlan::swarm_fault(int kind) {
  const int64_t at = anywhere(), lasts = draw.between(50, 5000);
  const int a = anybody(), b = anybody_but(a);
  switch (kind) {
    case worker_dies:
      return put(at, FaultKind::kill, worker(), Fault::kAny, 20 + lasts / 3);
    case ps_dies:
      return put(at, FaultKind::kill, ps(), Fault::kAny, 20 + lasts / 3);
    case program_dies:
      return put(at, FaultKind::kill, client(), Fault::kAny, 20 + lasts / 3);
    case freezes:
      return put(at, FaultKind::freeze, a, Fault::kAny, lasts);
    case link_ends:
      return put(at, FaultKind::reset, a, b, 0);
    case power_fails:
      return put(at, FaultKind::power, Fault::kAny, Fault::kAny, 20 + lasts / 3);
    case corrupted:
      return put(at, damage(), Fault::kAny, Fault::kAny, draw.between(0, 1 << 20));
    case disk:
      put(at, FaultKind::disk_full, writer(), Fault::kAny, lasts);
      return put(anywhere(), FaultKind::disk_error, writer(), Fault::kAny, draw.between(0, 30));
    case link_cut:
      return put(at, any_cut(), a, b, lasts);
    default:
      for (int64_t m = draw.between(1, 10); m > 0; --m)
        put(anywhere(), message_fault(), Fault::kAny, Fault::kAny, 0);
  }
}

void FaultPlan::lose_folders() {
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].kind != FaultKind::kill || faults_[i].who >= in_.ps) continue;
    const int64_t reader = draw.between(-1, in_.ps);
    const int who = reader == in_.ps ? in_.servers() : static_cast<int>(reader);
    faults_.push_back({faults_[i].at, draw.chance(0.5) ? FaultKind::blind : FaultKind::refused, who,
                       Fault::kAny, draw.between(100, 3000)});
  }
}

void FaultPlan::in_training(FaultKind kind, int who, int other, int64_t lasts) {
  if (kind == FaultKind::cut_from && draw.chance(0.5)) std::swap(who, other);
  faults_.push_back({draw.between(calm_.begun, calm_.ended), kind, who, other, lasts});
}

// Mostly in mid-training.
int64_t FaultPlan::anywhere() {
  if (draw.chance(0.1)) return draw.between(1, calm_.begun);
  return draw.between(calm_.begun, calm_.ended + (calm_.ended - calm_.begun) / 5);
}
int FaultPlan::anybody_but(int one) {
  for (;;)
    if (const int out = anybody(); out != one) return out;
}
FaultKind FaultPlan::message_fault() {
  return static_cast<FaultKind>(static_cast<int>(FaultKind::drop) +
                                static_cast<int>(draw.below(3)));
}
// The same happens to other processes.
void FaultPlan::elsewhere(Fault& fault) {
  if (fault.who == Fault::kAny || fault.kind == FaultKind::late) return;
  fault.who = fault.kind == FaultKind::kill ? server() : anybody();
  if (fault.other != Fault::kAny) fault.other = anybody_but(fault.who);
}

}  // namespace troupe::sim
