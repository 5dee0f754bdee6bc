// A run whose StartStep comes late to one process, while other runs pass it: its values wait.
#include <future>

#include "actors/async/messages.hpp"
#include "actors/async/step_messages.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/within.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kSoon{60};

// The door of an agent: keeps the first StartStep back until release().
class LateDoor final : public caf::monitorable_actor {
 public:
  LateDoor(caf::actor_config& config, Agent agent)
      : monitorable_actor(config), agent_(std::move(agent)) {}
  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) override {
    if (message->content().match_elements<StartStep>() && first_) {
      first_ = false;
      kept_.set_value(std::move(message));
    } else {
      agent_->enqueue(std::move(message), unit);
    }
  }
  const char* name() const override { return "late door"; }
  void release() {
    std::future<caf::mailbox_element_ptr> kept = kept_.get_future();
    REQUIRE(kept.wait_for(kSoon) == std::future_status::ready);
    agent_->enqueue(kept.get(), nullptr);
  }

 private:
  const Agent agent_;
  bool first_ = true;  // the net thread's
  std::promise<caf::mailbox_element_ptr> kept_;
};

}  // namespace

TEST_CASE("a run whose step begins late somewhere gets its values however many others pass it") {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Process& second = cluster.process(1);
  caf::actor_config config;
  const auto door = caf::make_actor<LateDoor, caf::strong_actor_ptr>(
      second.agent().id(), second.system().node(), &second.system(), config, second.agent());
  second.open_door(door);

  Graph g;
  const Output x = placeholder(g, DType::f32, {1}, "x");
  const Output local = within(g.scope({.device = "/job:client"}), [&] { return add(x, x); });
  const Output sum = within(g.scope({.device = "/job:worker/task:0"}), [&] { return add(x, x); });
  const Output remote =
      within(g.scope({.device = "/job:worker/task:1"}), [&] { return multiply(sum, sum); });
  Session session = cluster.connect(g);
  const Callable here = session.prepare({local}, {x});
  const Callable there = session.prepare({remote}, {x});
  const auto of = [](float value) {
    return std::vector<Tensor>{Tensor::of<float>({value}, Shape{1})};
  };

  std::promise<RunResult> ended;
  there.start(of(3), {}, [&](RunResult result) { ended.set_value(std::move(result)); });
  for (int i = 0; i < 5000; ++i) here(of(1));
  // This one's value follows that of the first on its way to the second worker.
  CHECK(there(of(2)).at(0).item<float>() == 16);
  static_cast<LateDoor*>(door->get())->release();
  std::future<RunResult> end = ended.get_future();
  REQUIRE(end.wait_for(kSoon) == std::future_status::ready);
  const RunResult slow = end.get();
  CHECK(slow.text == "");
  CHECK(slow.values.at(0).item<float>() == 36);
}

}  // namespace troupe
