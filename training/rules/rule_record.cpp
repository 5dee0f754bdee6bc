// Records the updates of a rule, and the pulls between them where each gradient is an update. A
// step whose values are read again after another update is refused: nobody could tell with which
// values its gradients were made. The training then goes back to its newest checkpoint.
#include "training/rules/rule_record.hpp"

#include <map>

#include "graph/base/mutant.hpp"

namespace troupe {
namespace {

class RecordedRule final : public AggregationRule {
 public:
  RecordedRule(std::unique_ptr<AggregationRule> rule, uint32_t slice, std::string name,
               std::shared_ptr<OrderBuffer> to)
      : rule_(std::move(rule)),
        slice_(slice),
        name_(std::move(name)),
        to_(std::move(to)),
        rounds_(rule_->kind().by_steps()) {}

  Aggregation kind() const override { return rule_->kind(); }
  PushVerdict look(int32_t replica, int64_t step) const override {
    return rule_->look(replica, step);
  }
  void push(Contribution c) override { rule_->push(std::move(c)); }
  bool go_on(int32_t replica, int64_t first) override { return rule_->go_on(replica, first); }

  std::optional<int32_t> skip(std::vector<Contribution>& lost) override {
    const int64_t before = rule_->next_step();
    const std::optional<int32_t> left = rule_->skip(lost);
    if (left && rounds_)
      for (int64_t step = before; step < rule_->next_step(); ++step)
        to_->add(slice_, {.kind = OrderEvent::round, .step = step});
    return left;
  }

  bool take(std::vector<Contribution>& out) override {
    if (!rule_->take(out)) return false;
    ++updates_;
    OrderEvent round{.kind = OrderEvent::round, .step = out.at(0).step};
    for (const Contribution& c : out) {
      round.replicas.push_back(c.replica);
      if (!rounds_)
        to_->add(slice_, {.kind = OrderEvent::push, .step = c.step, .replica = c.replica});
    }
    if (rounds_) to_->add(slice_, round);
    return true;
  }

  PullVerdict pull(int32_t replica, int64_t step) const override {
    const auto read = reads_.find(replica);
    if (read != reads_.end() && step >= 0 && read->second.step == step &&
        read->second.updates != updates_ && !mutant(Mutant::record_reads_again))
      return {PullVerdict::gone,
              detail::concat("replica ", replica, " reads ", name_, " again in step ", step,
                             ", and other gradients have counted meanwhile: a record has the ",
                             "values of a step once")};
    return rule_->pull(replica, step);
  }
  void pulled(int32_t replica, int64_t step) override {
    if (rounds_) return;
    const auto [read, fresh] = reads_.try_emplace(replica, Read{step, updates_});
    if (!fresh && read->second.step == step && read->second.updates == updates_) return;
    read->second = {step, updates_};
    to_->add(slice_, {.kind = OrderEvent::pull, .step = step, .replica = replica});
  }

  int64_t local_steps(int64_t step) const override { return rule_->local_steps(step); }
  int64_t open_to() const override { return rule_->open_to(); }
  int64_t looks() const override { return rule_->looks(); }
  int compare_step(int64_t step) const override { return rule_->compare_step(step); }
  int64_t next_step() const override { return rule_->next_step(); }
  std::vector<ReplicaProgress> progress() const override { return rule_->progress(); }
  int64_t held() const override { return rule_->held(); }
  std::vector<int32_t> missing() const override { return rule_->missing(); }

 private:
  struct Read {
    int64_t step = 0, updates = 0;  // made before it
  };

  const std::unique_ptr<AggregationRule> rule_;
  const uint32_t slice_;
  const std::string name_;
  const std::shared_ptr<OrderBuffer> to_;
  const bool rounds_;              // a step is one update, and its pulls need no record
  std::map<int32_t, Read> reads_;  // by replica: the newest
  int64_t updates_ = 0;
};

}  // namespace

bool order_decides(const Aggregation& rule) {
  return rule.kind != Aggregation::Kind::sync && !rule.local();
}

std::unique_ptr<AggregationRule> recorded(std::unique_ptr<AggregationRule> rule, uint32_t slice,
                                          std::string name, std::shared_ptr<OrderBuffer> to) {
  if (!order_decides(rule->kind())) return rule;
  return std::make_unique<RecordedRule>(std::move(rule), slice, std::move(name), std::move(to));
}

}  // namespace troupe
