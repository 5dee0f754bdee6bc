// TrainOptions::record and replay: trainings whose order of updates is recorded, continued and
// repeated; and the options and records that are refused.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/fit.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

using Kind = Aggregation::Kind;

// A training of three towers with a record in folders of its own.
struct Recording {
  explicit Recording(const std::string& name) : checkpoints(name), record(name + "-record") {}
  TrainOptions options(const Aggregation& rule, int64_t steps) const {
    return {.rule = rule,
            .steps = steps,
            .checkpoint_dir = checkpoints.path(),
            .checkpoint_every = 10,
            .record = record.path()};
  }
  // The same training, which repeats the record.
  TrainOptions again(const Aggregation& rule, int64_t steps) const {
    TrainOptions out{.rule = rule, .steps = steps, .checkpoint_every = 10};
    out.replay = record.path();
    return out;
  }
  Folder checkpoints, record;
};

TrainResult run(const TrainOptions& options) { return LocalFit(adam(0.01), 3).train(options); }

TEST_CASE("a recorded training is repeated to the bit by each rule that arrival decides") {
  for (const Aggregation& rule : {Aggregation::async, Aggregation{Kind::async, 0, true},
                                  Aggregation{Kind::ssp, 1}, Aggregation{Kind::sync_backup, 1}}) {
    CAPTURE(to_string(rule));
    const Recording recording("record-rules");
    const TrainResult first = run(recording.options(rule, 40));
    for (int times = 0; times < 3; ++times) {
      const TrainResult again = run(recording.again(rule, 40));
      CHECK(again.weights_sha256 == first.weights_sha256);
      CHECK(again.steps == 40);
    }
  }
}

TEST_CASE("changes of the rule are the ones of the record, even if the program asks for others") {
  const Recording recording("record-changes");
  const auto asking = [](LocalFit& fit, TrainOptions options, bool others) {
    options.on_progress = [&fit, others](const TrainProgress& p) {
      if (p.step == 10)
        set_rule(fit.session, others ? Aggregation{Kind::ssp, 5} : Aggregation::async);
      if (p.step == 20 && !others) set_rule(fit.session, {Kind::sync_backup, 1});
    };
    return fit.train(options).weights_sha256;
  };
  LocalFit first(adam(0.01), 3), second(adam(0.01), 3);
  const std::string weights = asking(first, recording.options(Aggregation::sync, 40), false);
  CHECK(asking(second, recording.again(Aggregation::sync, 40), true) == weights);
}

TEST_CASE("a training that resumes continues its record") {
  const Recording recording("record-resumed");
  run(recording.options(Aggregation::async, 20));
  TrainOptions on = recording.options(Aggregation::async, 40);
  CHECK(error_text(Errc::invalid_argument, [&] { run(on); }).find("has checkpoints") !=
        std::string::npos);
  on.resume = true;
  const TrainResult first = run(on);
  CHECK(first.resumed_at == 20);
  CHECK(run(recording.again(Aggregation::async, 40)).weights_sha256 == first.weights_sha256);
}

TEST_CASE("a replay that ends with other weights than its record fails") {
  const Recording recording("record-others");
  run(recording.options(Aggregation::async, 10));
  LocalFit other(sgd(0.02), 3);
  CHECK(error_text(Errc::bad_data, [&] {
          other.train(recording.again(Aggregation::async, 10));
        }).find("ended with the weights ") != std::string::npos);
}

TEST_CASE("a record that lost its end is told, and is not repeated") {
  const Recording recording("record-lost");
  TrainOptions options = recording.options(Aggregation::async, 20);
  std::vector<std::string> warnings;
  options.on_event = [&](const TrainEvent& e) {
    if (e.kind == TrainEvent::warning) warnings.push_back(e.text);
  };
  options.pause_every = 15;  // the files of step 10 are written then
  options.on_pause = [&](const TrainPause&) {
    std::filesystem::resize_file(recording.record.path() + "/part-000001.shard-0-of-1.record", 4);
    return true;
  };
  run(options);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("the record of this training is not whole, and cannot be repeated") == 0);
  CHECK(error_text(Errc::bad_data, [&] { run(recording.again(Aggregation::async, 20)); }) != "");
}

TEST_CASE("options and records that do not fit are refused before a step") {
  const Recording recording("record-refused");
  run(recording.options(Aggregation::async, 20));
  const auto refused = [&](TrainOptions options, Errc code, const char* text) {
    CAPTURE(text);
    CHECK(error_text(code, [&] { run(options); }).find(text) != std::string::npos);
  };
  TrainOptions o = recording.options(Aggregation::async, 20);
  o.checkpoint_dir = recording.checkpoints.path() + "-2";
  refused(o, Errc::invalid_argument, "has a record already");
  o.checkpoint_dir.clear();
  refused(o, Errc::invalid_argument, "TrainOptions::record wants a checkpoint_dir");
  o = recording.again(Aggregation::async, 20);
  o.record = recording.record.path();
  refused(o, Errc::invalid_argument, "exclude each other");
  o.record.clear();
  o.steps = 30;
  refused(o, Errc::bad_configuration, "the number of steps, 20 in the record and 30 here;");
  o.steps = 20;
  o.rule = {Kind::ssp, 1};
  refused(o, Errc::bad_configuration,
          "begins with the rule async, and TrainOptions::rule is ssp:1");
  o = recording.again(Aggregation::async, 20);
  o.checkpoint_every = 5;
  refused(o, Errc::bad_configuration, "at which all replicas stand still");
  LocalFit two(adam(0.01), 2);
  CHECK(error_text(Errc::bad_configuration, [&] {
          two.train(recording.again(Aggregation::async, 20));
        }).find("the number of replicas, \"3\" in the record and \"2\" here") != std::string::npos);
  TrainOptions resumed = recording.options(Aggregation::async, 30);
  resumed.resume = true;
  resumed.record += "-2";
  refused(resumed, Errc::invalid_argument, "a record begins with its training");
  std::filesystem::remove_all(resumed.record);
}

TEST_CASE("a rule that arrival decides is not recorded where programs write parameters") {
  Fit fit;
  Output count = parameter("count", fill(fit.graph, {}, 0));
  fit.all[0].update =
      group(fit.graph, {fit.all[0].update, assign_add(count, fill(fit.graph, {}, 1))});
  Session session = Session::local(fit.graph, {.threads = 2});
  const Recording recording("record-writes");
  CHECK(error_text(Errc::invalid_argument, [&] {
          train(session, fit.all, recording.options(Aggregation::async, 10));
        }).find("writes to a parameter, which no record has") != std::string::npos);
}

}  // namespace
}  // namespace troupe
