// A shard that records the order of its updates, and shards that repeat it: the same values, in
// whatever order their requests come.
#include <algorithm>

#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

using Kind = Aggregation::Kind;
using Events = std::shared_ptr<const std::string>;

constexpr int64_t kSteps = 2;

// Two replicas that pull, compute with the values that they have read, and push, step by step.
class Run {
 public:
  // `replay`: the events to repeat; null: they are recorded.
  Run(const Aggregation& rule, Events replay)
      : script_({.rule = rule, .replicas = replicas_at(2, 0), .slices = {slice_w()}}) {
    auto order = std::make_unique<ShardOrder>();
    if (replay)
      order->replay[0] = replay;
    else
      order->record = record_;
    script_.shard.set_order(std::move(order));
    REQUIRE(script_.shard.set_rule(1, rule, replicas_at(2, 0)));
    REQUIRE(script_.shard.set_initial(1, 0, vector_of({1, 2, 3, 4}), script_.last));
  }

  // The replicas act in this order as far as they can, and then in turn.
  void go(const std::vector<int32_t>& order) {
    for (const int32_t replica : order) act(replica);
    for (bool moved = true; moved;) {
      moved = act(0);
      moved = act(1) || moved;
    }
  }
  bool ended() const { return replicas_[0].step == kSteps && replicas_[1].step == kSteps; }
  Tensor values() const { return script_.shard.values(0); }
  Events events() const {
    const OrderChunk chunk = record_->take();
    const auto mine = chunk.events.find(0);
    return std::make_shared<const std::string>(mine == chunk.events.end() ? "" : mine->second);
  }

 private:
  struct Replica {
    int64_t step = 0;
    bool waits = false;
    Tensor read;  // defined: the push is next
  };

  bool act(int32_t number) {
    Replica& r = replicas_[static_cast<size_t>(number)];
    if (r.waits || r.step == kSteps) return false;
    r.waits = true;
    if (r.read.defined()) {
      const float* const read = r.read.data<float>();
      const auto n = static_cast<float>(number + 1);
      const Tensor gradient = vector_of(
          {read[0] / 4 + n, read[1] / 8 - n, read[2] * n / 16, static_cast<float>(r.step) + n});
      Push push = script_.make_push(number, r.step, gradient);
      push.sequence = sent_[static_cast<size_t>(number)]++;
      push.first = r.step;
      script_.push(push);
    } else {
      script_.last.clear();
      script_.shard.pull({.slice = 0,
                          .replica = number,
                          .step = r.step,
                          .epoch = 1,
                          .ticket = script_.ticket_of(number, r.step),
                          .first = r.step},
                         1, script_.last);
    }
    const ShardActions answers = std::move(script_.last);
    for (const ShardAction& answer : answers) take(answer);
    return true;
  }
  void take(const ShardAction& answer) {
    if (const auto* pulled = std::get_if<Pulled>(&answer.message)) {
      Replica& r = replicas_[pulled->ticket % 1000];
      r.waits = false;
      if (pulled->code == Errc::ok) {
        r.read = pulled->values;
      } else {  // the step is over without this replica
        REQUIRE(pulled->code == Errc::stale);
        ++r.step;
      }
      return;
    }
    const auto& pushed = std::get<Acknowledged>(answer.message);
    REQUIRE(pushed.code == Errc::ok);
    Replica& r = replicas_[pushed.ticket % 1000];
    r.waits = false;
    r.read.reset();
    ++r.step;
  }

  ShardScript script_;
  std::shared_ptr<OrderBuffer> record_ = std::make_shared<OrderBuffer>();
  Replica replicas_[2];
  int64_t sent_[2] = {0, 0};
};

// All orders in which the replicas can make their requests.
std::vector<std::vector<int32_t>> orders() {
  std::vector<int32_t> order(kSteps * 4, 0);
  std::fill(order.begin() + kSteps * 2, order.end(), 1);
  std::vector<std::vector<int32_t>> out;
  do out.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  return out;
}

void repeat_all(const Aggregation& rule, size_t least_different) {
  const auto all = orders();
  std::vector<std::string> different;
  for (const auto& recorded : all) {
    Run first(rule, nullptr);
    first.go(recorded);
    REQUIRE(first.ended());
    const Events events = first.events();
    if (std::find(different.begin(), different.end(), *events) != different.end()) continue;
    different.push_back(*events);
    for (const auto& other : all) {
      Run again(rule, events);
      again.go(other);
      REQUIRE(again.ended());
      REQUIRE(same_bits(again.values(), first.values()));
    }
  }
  CHECK(different.size() >= least_different);
}

TEST_CASE("any order of two replicas under async is repeated, whatever order requests come in") {
  repeat_all(Aggregation::async, 20);
}

TEST_CASE("any order under ssp is repeated") { repeat_all({Kind::ssp, 1}, 10); }

TEST_CASE("any order under damped rules is repeated with its staleness") {
  repeat_all({Kind::async, 0, true}, 20);
}

TEST_CASE("any choice of gradients under sync-backup is repeated") {
  repeat_all({Kind::sync_backup, 1}, 4);
}

TEST_CASE("a request that the record does not have names slice, replica and step") {
  OrderWriter writer;
  writer.add({OrderEvent::pull, 0, 0});
  writer.add({OrderEvent::push, 0, 0});
  const auto refusal = [&](const Aggregation& rule, int32_t replica, int64_t step, bool push) {
    ShardScript script({.rule = rule, .replicas = replicas_at(2, 0), .slices = {slice_w()}});
    script.shard.set_order(std::make_unique<ShardOrder>(
        ShardOrder{.replay = {{0, std::make_shared<const std::string>(writer.bytes())}}}));
    REQUIRE(script.shard.set_rule(1, rule, replicas_at(2, 0)));
    REQUIRE(script.shard.set_initial(1, 0, vector_of({1, 2, 3, 4}), script.last));
    if (push) {
      const auto& answer = only<Acknowledged>(script.push(replica, step, vector_of({1, 1, 1, 1})));
      CHECK(answer.code == Errc::bad_configuration);
      return answer.text;
    }
    const auto& answer = only<Pulled>(script.pull(replica, step));
    CHECK(answer.code == Errc::bad_configuration);
    return answer.text;
  };
  CHECK(refusal(Aggregation::async, 1, 0, false).find("no read of w by replica 1 in step 0 here") !=
        std::string::npos);
  CHECK(refusal(Aggregation::async, 0, 3, false).find("replica 0 in step 3") != std::string::npos);
  CHECK(refusal(Aggregation::async, 0, 0, true).find("no gradient of w by replica 0 in step 0") !=
        std::string::npos);  // its pull is next
  CHECK(refusal({Kind::sync_backup, 1}, 1, 0, true).find("no update of w by replica 1 in step 0") !=
        std::string::npos);
}

TEST_CASE("a step that reads again after another update is refused where the order is recorded") {
  ShardScript script(
      {.rule = Aggregation::async, .replicas = replicas_at(2, 0), .slices = {slice_w()}});
  const auto record = std::make_shared<OrderBuffer>();
  script.shard.set_order(std::make_unique<ShardOrder>(ShardOrder{.record = record}));
  REQUIRE(script.shard.set_rule(1, Aggregation::async, replicas_at(2, 0)));
  REQUIRE(script.shard.set_initial(1, 0, vector_of({1, 2, 3, 4}), script.last));
  CHECK(only<Pulled>(script.pull(0, 0)).code == Errc::ok);
  CHECK(only<Pulled>(script.pull(0, 0)).code == Errc::ok);  // with the same values
  CHECK(only<Acknowledged>(script.push(1, 0, vector_of({1, 1, 1, 1}))).code == Errc::ok);
  const auto& again = only<Pulled>(script.pull(0, 0));
  CHECK(again.code == Errc::stale);
  CHECK(again.text.find("replica 0 reads w again in step 0") == 0);
  CHECK(only<Pulled>(script.pull(0, -1)).code == Errc::ok);  // no step's
  const OrderChunk chunk = record->take();
  OrderReader reader(chunk.events.at(0));
  OrderEvent event;
  REQUIRE(reader.next(event));
  CHECK(event == OrderEvent{OrderEvent::pull, 0, 0});
  REQUIRE(reader.next(event));
  CHECK(event == OrderEvent{OrderEvent::push, 0, 1});
  CHECK_FALSE(reader.next(event));
}

TEST_CASE("sync and local steps have no order to record") {
  for (const Aggregation& rule :
       {Aggregation::sync, Aggregation{.kind = Kind::local, .bound = 1}}) {
    auto made = make_rule(rule, replicas_at(2, 0));
    const AggregationRule* const before = made.get();
    ShardOrder order{.record = std::make_shared<OrderBuffer>()};
    order.replay[0] = std::make_shared<const std::string>();
    CHECK(order.of(slice_w(), std::move(made)).get() == before);
  }
}

}  // namespace
}  // namespace troupe
