// The control actor and TrainingRequests: each request is answered once, by the training, by the
// state at a moment when it is busy, or when the training has ended; and requests are bounded.
#include <doctest/doctest.h>

#include <cmath>
#include <mutex>
#include <vector>

#include <caf/all.hpp>

#include "training/control/control_actor.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kSoon{20};

TrainingTold at_step(int64_t step, const std::string& phase = "trains") {
  TrainingTold out;
  out.step = step;
  out.phase = phase;
  return out;
}

// A control actor whose port keeps questions open.
class Control {
 public:
  Control() : self_(system_) {
    ControlPort port;
    port.ask = [this](TrainingRequests::Then then) {
      std::lock_guard lock(mutex_);
      open_.push_back(std::move(then));
    };
    port.ledger = [this](std::shared_ptr<std::vector<PushCount>> out, const WhenDone& done) {
      *out = rows;
      done(Errc::ok, "ps 1 does not answer");
    };
    port.change = [](const TermChange& change, const TrainingRequests::Taken& taken) {
      if (change.step < 0) throw Error(Errc::invalid_argument, "the step is ", change.step);
      taken(Errc::ok, {}, change.step + 1);
    };
    port.number = [] { return int64_t{3}; };
    actor_ = spawn_control(system_, port);
  }
  ~Control() {
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
    self_->wait_for(actor_);
  }
  template <class Message>
  auto request(const Message& message) {
    return self_->request(actor_, kSoon, message);
  }
  // The error, or ok.
  template <class Answer, class Handle>
  std::pair<Errc, std::string> end_of(Handle& handle, Answer* out = nullptr) {
    std::pair<Errc, std::string> result{Errc::ok, ""};
    handle.receive(
        [&](const Answer& answer) {
          if (out) *out = answer;
        },
        [&](const caf::error& error) { result = from_caf(error); });
    return result;
  }
  // Answers all open questions, or drops them.
  void answer(int64_t step) {
    std::lock_guard lock(mutex_);
    for (const auto& then : open_) then(at_step(step));
    open_.clear();
  }
  void drop() {
    std::lock_guard lock(mutex_);
    open_.clear();
  }
  std::vector<PushCount> rows;

 private:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_;
  std::mutex mutex_;
  std::vector<TrainingRequests::Then> open_;
  ControlActor actor_;
};

TEST_CASE("requests past the bound are refused, and all others are answered once") {
  Control control;
  std::vector<decltype(control.request(AskTraining{}))> open;
  for (int i = 0; i < 64; ++i) open.push_back(control.request(AskTraining{}));
  auto more = control.request(AskTraining{});
  CHECK(control.end_of<TrainingTold>(more).first == Errc::out_of_memory);
  SUBCASE("by the training") {
    control.answer(7);
    for (auto& one : open) {
      TrainingTold told;
      CHECK(control.end_of(one, &told).first == Errc::ok);
      CHECK(told.step == 7);
    }
  }
  SUBCASE("by its end") {
    control.drop();
    for (auto& one : open) {
      const auto [code, text] = control.end_of<TrainingTold>(one);
      CHECK(code == Errc::stale);
      CHECK(text.find("the training has ended") != text.npos);
    }
  }
  auto next = control.request(ChangeTerms{"sync", 0, 4});
  TermsTaken taken;
  CHECK(control.end_of(next, &taken).first == Errc::ok);
  CHECK(taken.training == 3);
  CHECK(taken.from == 5);
}

TEST_CASE("nonsense is an error, and the actor lives") {
  Control control;
  const auto refused = [&](const ChangeTerms& m) {
    auto handle = control.request(m);
    return control.end_of<TermsTaken>(handle);
  };
  CHECK(refused({"best", 0, 0}).second.find("unknown aggregation rule") != std::string::npos);
  CHECK(refused({std::string(5000, 'a'), 0, 0}).second == "the rule has 5000 bytes; at most 4096");
  CHECK(refused({"sync", 0, -1}).second == "the step is -1");
  auto pattern = control.request(AskLedger{std::string(5000, '*')});
  CHECK(control.end_of<LedgerTold>(pattern).second ==
        "the pattern of parameters has 5000 bytes; at most 4096");
}

TEST_CASE("a ledger has the rows of parameters that match, and a bounded number of them") {
  Control control;
  for (int i = 0; i < 50'010; ++i) {
    PushCount& row = control.rows.emplace_back();
    row.parameter.push_back(i % 2 ? 'b' : 'w');
    row.replica = i;
    row.received = 5;
    row.merged = 3;
    if (i == 4) row.refused["epoch"] = 2;
  }
  const auto told = [&](const std::string& pattern) {
    auto handle = control.request(AskLedger{pattern});
    LedgerTold out;
    CHECK(control.end_of(handle, &out).first == Errc::ok);
    return out;
  };
  const LedgerTold w = told("w*");
  CHECK(w.parameters.size() == 25'005);
  CHECK(w.left_out == "ps 1 does not answer");
  CHECK(w.reasons == std::vector<std::string>{"epoch"});
  const auto third = w.counts.begin() + 2 * (static_cast<int64_t>(kLedgerCounts) + 1);
  CHECK(std::vector<int64_t>(third, third + 9) == std::vector<int64_t>{0, 4, 5, 0, 3, 0, 0, 0, 2});
  const LedgerTold all = told("*");
  CHECK(all.parameters.size() == 50'000);
  CHECK(all.left_out ==
        "ps 1 does not answer; 10 rows beyond the first 50000; name fewer parameters");
}

TEST_CASE("a training that is busy is asked nothing, and its last state stays") {
  TrainingRequests requests;
  TrainingTold told;
  const auto ask = [&] { requests.ask([&](const TrainingTold& state) { told = state; }); };
  ask();
  CHECK(told.phase == "");
  CHECK(!requests.change({}, {}));
  TrainingRequests::Training training;
  training.ask = [](const TrainingRequests::Then& then) { then(at_step(5)); };
  int changes = 0;
  training.change = [&](const TermChange&, const TrainingRequests::Taken&) { ++changes; };
  requests.begin(training, at_step(0, "begins"));
  ask();
  CHECK(told.phase == "begins");
  CHECK(told.training == 1);
  requests.go_on();
  ask();
  CHECK(told.step == 5);
  requests.rest(at_step(6, "in the pause of step 6"));
  ask();
  CHECK(told.step == 6);
  CHECK(requests.change({}, {}));
  CHECK(changes == 1);
  requests.end(at_step(9, ""));
  requests.go_on();  // the pause ends late
  ask();
  CHECK(told.step == 9);
  CHECK(told.phase == "");
  CHECK(told.training == 1);
  CHECK(!requests.change({}, {}));
}

TEST_CASE("losses and scales that are not finite travel as they are") {
  caf::actor_system_config config;
  caf::actor_system system(config);
  const auto travelled = [&system](auto message) {
    std::vector<char> bytes;
    caf::binary_serializer sink(system, bytes);
    REQUIRE(!sink(message));
    caf::binary_deserializer source(system, bytes);
    decltype(message) out;
    REQUIRE(!source(out));
    return out;
  };
  for (const double value : {0.0, -0.0, 0.1, 1e300, -HUGE_VAL, HUGE_VAL}) {
    TrainingTold told;
    told.loss = told.remaining_s = value;
    CHECK(travelled(told).loss == value);
    CHECK(travelled(told).remaining_s == value);
    CHECK(travelled(ChangeTerms{.rule = {}, .rate_scale = value, .step = 3}).rate_scale == value);
  }
  TrainingTold told;
  told.loss = std::nan("");
  CHECK(std::isnan(travelled(told).loss));
}

}  // namespace
}  // namespace troupe
