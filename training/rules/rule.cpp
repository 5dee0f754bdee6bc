// Implements training/rules/rule.hpp: the list of aggregation rules.
#include "training/rules/rule.hpp"

#include "training/rules/rule_async.hpp"
#include "training/rules/rule_sync.hpp"

namespace troupe {

std::vector<SlotProgress> slots_at(int32_t count, int64_t next_step) {
  std::vector<SlotProgress> out;
  for (int32_t slot = 0; slot < count; ++slot)
    out.push_back({.slot = slot, .next_step = next_step});
  return out;
}

void SlotProgress::count(int64_t step) {
  const int64_t ahead = -behind(step);
  if (ahead > 0) {
    counted = (ahead >= kWindow ? 0 : counted << ahead) | 1;
    next_step = step + 1;
  } else {
    counted |= uint64_t{1} << -ahead;
  }
}

void AggregationRule::go_on(int32_t, int64_t) {}
std::optional<int32_t> AggregationRule::skip(std::vector<Contribution>&) { return std::nullopt; }

std::unique_ptr<AggregationRule> make_rule(Aggregation kind, std::vector<SlotProgress> progress) {
  for (size_t i = 0; i < progress.size(); ++i) {
    const SlotProgress& p = progress[i];
    if (i > 0 && progress[i - 1].slot >= p.slot)
      throw Error(Errc::invalid_argument, "slots must ascend, got ", progress[i - 1].slot,
                  " before ", p.slot);
    if (p.next_step < 0)
      throw Error(Errc::invalid_argument, "slot ", p.slot, " cannot begin at step ", p.next_step);
    if (kind == Aggregation::sync && p.next_step != progress[0].next_step)
      throw Error(Errc::invalid_argument, "synchronous slots begin together, but slot ",
                  progress[0].slot, " is at step ", progress[0].next_step, " and slot ", p.slot,
                  " at step ", p.next_step);
  }
  switch (kind) {
    case Aggregation::sync:
      return make_sync_rule(progress);
    case Aggregation::async:
      return make_async_rule(progress);
  }
  throw InternalError("unknown aggregation rule ", static_cast<int>(kind));
}

}  // namespace troupe
