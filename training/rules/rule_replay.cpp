// Updates in a recorded order: one for each gradient, between the pulls of a replica; or one for
// each step, of the replicas that made it.
#include "training/rules/rule_replay.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "graph/base/mutant.hpp"
#include "training/rules/rule_by_steps.hpp"
#include "training/rules/rule_record.hpp"

namespace troupe {
namespace {

// The events of a slice from a step on.
class Recorded {
 public:
  Recorded(std::shared_ptr<const std::string> bytes, int64_t first, std::string slice)
      : bytes_(std::move(bytes)), first_(first), slice_(std::move(slice)), reader_(*bytes_) {}

  bool next(OrderEvent& event) {
    while (reader_.next(event))
      if (event.step >= first_) return true;
    return false;
  }
  // The first event ahead that `is` is true of; nothing: there is none.
  template <class Is>
  std::optional<OrderEvent> ahead(const Is& is) const {
    Recorded from(*this);
    OrderEvent event;
    while (from.next(event))
      if (is(event)) return event;
    return std::nullopt;
  }
  std::string foreign(const char* what, int32_t replica, int64_t step) const {
    return detail::concat("the record has no ", what, " of ", slice_, " by replica ", replica,
                          " in step ", step,
                          " here; a replay is the same program with the same arguments, seed and "
                          "number of replicas");
  }

 private:
  std::shared_ptr<const std::string> bytes_;
  int64_t first_;
  std::string slice_;
  OrderReader reader_;
};

// Each gradient is an update.
class ReplayedPushes final : public AggregationRule {
 public:
  ReplayedPushes(std::unique_ptr<AggregationRule> rule, std::string name,
                 std::shared_ptr<const std::string> events)
      : rule_(std::move(rule)), recorded_(std::move(events), rule_->next_step(), std::move(name)) {
    go_on();
  }

  Aggregation kind() const override { return rule_->kind(); }

  PushVerdict look(int32_t replica, int64_t step) const override {
    if (held_.count({replica, step})) return {PushVerdict::waiting};
    const PushVerdict verdict = rule_->look(replica, step);
    if (verdict.kind != PushVerdict::kept || comes(OrderEvent::push, replica, step)) return verdict;
    return {PushVerdict::refused, recorded_.foreign("gradient", replica, step),
            Errc::bad_configuration};
  }
  void push(Contribution c) override { held_.emplace(Key{c.replica, c.step}, std::move(c)); }

  bool take(std::vector<Contribution>& out) override {
    const bool read =
        std::all_of(reads_.begin(), reads_.end(), [](const auto& r) { return r.second; });
    if (!next_ || (!read && !mutant(Mutant::replay_before_pulls))) return false;
    auto first = held_.find({next_->replica, next_->step});
    if (mutant(Mutant::replay_any_push)) first = held_.begin();
    if (first == held_.end()) return false;
    rule_->push(std::move(first->second));
    held_.erase(first);
    rule_->take(out);
    ++updates_;
    go_on();
    return true;
  }

  PullVerdict pull(int32_t replica, int64_t step) const override {
    if (step < 0 || reads_.count({replica, step})) return {};
    if (const auto last = last_.find(replica); last != last_.end() && last->second == step)
      return {PullVerdict::gone, detail::concat("step ", step, " of replica ", replica,
                                                " is done again, and its values are gone")};
    if (comes(OrderEvent::pull, replica, step)) return {PullVerdict::wait};
    return {PullVerdict::gone, recorded_.foreign("read", replica, step), Errc::bad_configuration};
  }
  void pulled(int32_t replica, int64_t step) override {
    last_[replica] = step;
    if (const auto read = reads_.find({replica, step}); read != reads_.end()) read->second = true;
  }

  // It moves with each update, as each may let pulls go.
  int64_t open_to() const override { return updates_; }
  int compare_step(int64_t step) const override { return rule_->compare_step(step); }
  int64_t next_step() const override { return rule_->next_step(); }
  std::vector<ReplicaProgress> progress() const override { return rule_->progress(); }
  int64_t held() const override { return std::ssize(held_); }
  std::vector<int32_t> missing() const override {
    for (const auto& [read, answered] : reads_)
      if (!answered) return {read.first};
    return next_ && !held_.empty() ? std::vector{next_->replica} : std::vector<int32_t>{};
  }

 private:
  using Key = std::pair<int32_t, int64_t>;  // replica, step

  // Reads the pulls between the newest update and the next one, and that one.
  void go_on() {
    reads_.clear();
    next_.reset();
    for (OrderEvent event; !next_ && recorded_.next(event);) {
      if (event.kind == OrderEvent::pull) reads_.emplace(Key{event.replica, event.step}, false);
      if (event.kind == OrderEvent::push) next_ = event;
    }
  }
  // True if this is the next event of its replica. Reads ahead once for each request that waits.
  bool comes(OrderEvent::Kind kind, int32_t replica, int64_t step) const {
    const auto known = expected_.find(replica);
    if (known != expected_.end() && known->second == std::pair(kind, step)) return true;
    std::optional<OrderEvent> event;
    for (const auto& [read, answered] : reads_)
      if (read.first == replica && !answered)
        event = {.kind = OrderEvent::pull, .step = read.second, .replica = replica};
    if (!event && next_ && next_->replica == replica) event = next_;
    if (!event)
      event = recorded_.ahead([replica](const OrderEvent& e) {
        return e.kind != OrderEvent::round && e.replica == replica;
      });
    if (!event || event->kind != kind || event->step != step) return false;
    expected_[replica] = {kind, step};
    return true;
  }

  const std::unique_ptr<AggregationRule> rule_;
  Recorded recorded_;
  std::map<Key, bool> reads_;       // before the next update; true: answered
  std::optional<OrderEvent> next_;  // the next update; none: the record is over
  std::map<Key, Contribution> held_;
  std::map<int32_t, int64_t> last_;  // by replica: the step of its newest answer
  // By replica: its next event as it was found ahead.
  mutable std::map<int32_t, std::pair<OrderEvent::Kind, int64_t>> expected_;
  int64_t updates_ = 0;
};

// A step is the update of the replicas that made it. A gradient of another replica is late at once,
// and its replica goes on with the next step.
class ReplayedRounds final : public RuleBySteps {
 public:
  ReplayedRounds(const Aggregation& rule, const std::vector<ReplicaProgress>& progress,
                 std::string name, std::shared_ptr<const std::string> events)
      : RuleBySteps(progress), rule_(rule), recorded_(std::move(events), step_, std::move(name)) {
    for (const ReplicaProgress& p : progress) counted_[p.replica] = p;
    read_round();
  }

  Aggregation kind() const override { return rule_; }

  PushVerdict look(int32_t replica, int64_t step) const override {
    if (step < step_) {
      const ReplicaProgress& p = counted_.at(replica);
      const bool known = p.behind(step) < ReplicaProgress::kWindow && p.has(step);
      return {known ? PushVerdict::applied : PushVerdict::late};
    }
    const auto round =
        next_ && next_->step == step ? next_ : recorded_.ahead([step](const OrderEvent& e) {
          return e.kind == OrderEvent::round && e.step == step;
        });
    if (!round)
      return {PushVerdict::refused, recorded_.foreign("update", replica, step),
              Errc::bad_configuration};
    const auto& makers = round->replicas;
    if (!std::binary_search(makers.begin(), makers.end(), replica) &&
        !mutant(Mutant::replay_any_round))
      return {PushVerdict::late};
    return look_ahead(replica, step);
  }

  bool take(std::vector<Contribution>& out) override {
    if (!open() || !next_ || next_->step != step_ || open()->size() < next_->replicas.size())
      return false;
    for (const auto& [replica, contribution] : *open()) counted_.at(replica).count(step_);
    end_step(out);
    read_round();
    return true;
  }
  bool go_on(int32_t replica, int64_t first) override {
    leave(replica, first);
    return false;
  }
  std::optional<int32_t> skip(std::vector<Contribution>&) override {
    if (!next_ || next_->step != step_ || !next_->replicas.empty()) return std::nullopt;
    empty_ = step_++;
    read_round();
    return first_.begin()->first;
  }

  PullVerdict pull(int32_t replica, int64_t step) const override {
    return pull_of(replica, step, "as it did in the record");
  }

 private:
  void read_round() {
    next_.reset();
    for (OrderEvent event; !next_ && recorded_.next(event);)
      if (event.kind == OrderEvent::round) next_ = event;
  }

  const Aggregation rule_;
  Recorded recorded_;
  std::optional<OrderEvent> next_;              // none: the record is over
  std::map<int32_t, ReplicaProgress> counted_;  // the gradients that made updates
};

}  // namespace

std::unique_ptr<AggregationRule> replayed(std::unique_ptr<AggregationRule> rule, std::string name,
                                          std::shared_ptr<const std::string> events) {
  if (!order_decides(rule->kind())) return rule;
  if (rule->kind().by_steps())
    return std::make_unique<ReplayedRounds>(rule->kind(), rule->progress(), std::move(name),
                                            std::move(events));
  return std::make_unique<ReplayedPushes>(std::move(rule), std::move(name), std::move(events));
}

}  // namespace troupe
