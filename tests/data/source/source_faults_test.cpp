// Sources under failures, with several readers, and with mistakes in their description.
#include <cmath>

#include "tests/data/source/numbers.hpp"

namespace troupe {
namespace {

std::shared_ptr<const Registry> with(const std::string& name, SourceStep step) {
  return ops_with({}, {function(name, std::move(step))});
}

int value_of(const SourceCall& call) { return call["image"].item<uint8_t>(); }

TEST_CASE("a reader may have several reads under way, of one step and of others") {
  const Numbers n(40);
  const Source source = n.source.map("doubled").batch(2);
  const auto steps = all_steps(source.repeat(1), 1)[0];
  StepReader reader(shared(source.prefetch(2, 2)), 0, 1, false);
  std::mutex mutex;
  std::condition_variable come;
  std::map<int64_t, int> right;
  int all = 0;
  for (int round = 0; round < 5; ++round)
    for (const int64_t step : {17, 0, 9, 9, 1, 2, 15, 0})
      reader.read(step, [&, step](Errc code, const std::string&, const Record& record) {
        std::lock_guard lock(mutex);
        right[step] += code == Errc::ok && values_of(record) == steps[static_cast<size_t>(step)];
        ++all;
        come.notify_all();
      });
  std::unique_lock lock(mutex);
  come.wait(lock, [&] { return all == 40; });
  CHECK(right == std::map<int64_t, int>{{0, 10}, {1, 5}, {2, 5}, {9, 10}, {15, 5}, {17, 5}});
}

TEST_CASE("a step whose stream has failed fails again, and takes no record of another epoch") {
  const Numbers n(12);
  const auto known = with("nine", {.keep = [](const SourceCall& call) {
                            if (value_of(call) == 9) throw call.bad("it is nine");
                            return true;
                          }});
  const Source source = n.source.filter("nine").batch(2);
  SourceCursor at(build_stages(*source.spec(), functions_of(known)), -1, 0, 1);
  for (int64_t step = 0; step < 3; ++step) CHECK(at.at(step));  // it reads one batch ahead
  for (int i = 0; i < 3; ++i) has(refusal_of([&] { at.at(3); }).text, "it is nine");
  CHECK(values_of(at.at(2)->make()) == std::vector{4, 5});
}

TEST_CASE("a function of the program does not replace one of the library") {
  const Numbers n(6);
  const auto own = with("select", {.map = [](const SourceCall& call) { return call.record(); }});
  const Source source = n.source.map("select", {{"fields", std::vector<std::string>{"image"}}});
  const Refusal refused = refusal_of([&] { build_stages(*source.spec(), functions_of(own)); });
  CHECK(refused.code == Errc::invalid_argument);
  has(refused.text, "registers a function select for sources, and the library has one");
}

TEST_CASE("a cache keeps every record when one has failed for a while") {
  const Numbers n(6);
  const auto fails = std::make_shared<bool>(true);
  const auto known = with("once", {.keep = [fails](const SourceCall& call) {
                            if (value_of(call) == 3 && *fails) throw call.bad("not now");
                            return true;
                          }});
  const Source source = n.source.filter("once").cache();
  const Stage stage = build_stages(*source.spec(), functions_of(known));
  const auto first = stage->open(0);
  const Refusal refused = refusal_of([&] {
    while (first->next()) continue;
  });
  CHECK(refused.code == Errc::bad_data);
  *fails = false;
  std::vector<int> seen;
  const auto stream = stage->open(0);
  while (const Lazy record = stream->next()) seen.push_back(values_of(record->make())[0]);
  CHECK(seen == range(0, 6));
}

TEST_CASE("stages of one seed draw differently, and a function may have an argument seed") {
  const Numbers n(4);
  const Source drawn = n.source.map("drawn");
  const Source other =
      drawn.map("rename", {{"from", std::string("key")}, {"to", std::string("other")}});
  const Record record = stages(Source::zip({drawn, other}))->open(0)->next()->make();
  CHECK(record[0].item<int64_t>() != record[1].item<int64_t>());
  double seed = 0;
  const auto known = ops_with(
      {}, {{"mine", [&](const Fields& fields, const SourceArgs& args) {
              ArgReader read("mine", args);
              seed = read.want<double>("seed");
              read.done();
              return SourceStep{.fields = fields,
                                .map = [](const SourceCall& call) { return call.record(); }};
            }}});
  n.source.map("mine", {{"seed", 5.0}}, 7).records(0, *known).next();
  CHECK(seed == 5);
}

TEST_CASE("replicas that share the last batches of an epoch keep each batch's own function") {
  const Numbers n(4);
  const auto known =
      with("hundred", {.fields = {{"image", {DType::u8, {-1}}}}, .map = [](const SourceCall& call) {
                         Tensor x = call["image"].clone();
                         for (int64_t i = 0; i < x.size(); ++i) x.mutable_data<uint8_t>()[i] += 100;
                         return Record{x};
                       }});
  const Source mixed =
      Source::interleave({n.source.take(2).batch(2), n.source.skip(2).batch(2).map("hundred")});
  const Stage stage = build_stages(*mixed.spec(), functions_of(known));
  std::vector<int> seen;
  for (const int64_t replica : {0, 1, 2})
    for (const int value : values_of(SourceCursor(stage, 1, replica, 3).at(0)->make()))
      seen.push_back(value);
  CHECK(sorted(seen) == std::vector{0, 1, 102, 103});
}

TEST_CASE("a rest that replicas join to other batches keeps its own function, or is refused") {
  const Numbers n(5);
  const auto plus = [](int more) {
    return SourceStep{.fields = {{"image", {DType::u8, {-1}}}},
                      .map = [more](const SourceCall& call) {
                        Tensor x = call["image"].clone();
                        for (int64_t i = 0; i < x.size(); ++i)
                          x.mutable_data<uint8_t>()[i] += static_cast<uint8_t>(more);
                        return Record{x};
                      }};
  };
  const auto known = ops_with({}, {function("ten", plus(10)), function("hundred", plus(100))});
  const auto begin = n.source.take(2).batch(1), end = n.source.skip(2).batch(1);
  const auto read = [&](const Source& source, int64_t replica) {
    const Stage stage = build_stages(*source.spec(), functions_of(known));
    SourceCursor at(stage, 1, replica, 2);
    std::vector<int> out;
    for (int64_t step = 0; const Lazy record = at.at(step); ++step)
      for (const int value : values_of(record->make())) out.push_back(value);
    return out;
  };
  // Groups: 10 102, 11 103, and the rest 104.
  const Source two = Source::interleave({begin.map("ten"), end.map("hundred")});
  std::vector<int> seen = read(two, 0);
  for (const int value : read(two, 1)) seen.push_back(value);
  CHECK(sorted(seen) == std::vector{10, 11, 102, 103, 104});
  // With cache() the batches are others, the functions are not.
  const Source cached = Source::interleave({begin.map("ten").cache(), end.map("hundred").cache()});
  CHECK(read(cached, 0) == read(two, 0));
  const Source three = Source::interleave(
      {begin.take(1), n.source.skip(1).take(1).batch(1).map("ten"), end.take(1).map("hundred")});
  has(refusal_of([&] { read(three, 0); }).text,
      "3 records are the last ones of an epoch, and 2 replicas cannot share them");
}

TEST_CASE("drop_last leaves out a step that is not full, whatever the replicas") {
  const Numbers n(23);
  const Source source = n.source.batch(4, {.drop_last = true});
  for (const int64_t replicas : {1, 2, 3})
    for (const auto& replica : all_steps(source.repeat(2), replicas)) {
      CHECK(replica.size() == static_cast<size_t>(5 / replicas * 2));
      for (const auto& step : replica) CHECK(step.size() == 4);
    }
}

TEST_CASE("padding is refused where a field cannot hold it, and may be infinite where it can") {
  const Numbers n(4);
  const auto known = with("ragged", ragged());
  const auto build = [&](double padding) {
    const Source source = n.source.map("ragged").batch(2, {.pad = true, .padding = padding});
    build_stages(*spec_from_text(source.to_text()), functions_of(known));
  };
  build(-1);
  has(refusal_of([&] { build(0.5); }).text, "a batch pads row, which is i64[-1, 2], with 0.5");
  has(refusal_of([&] { build(-INFINITY); }).text, "with -inf, and i64 has no such number");
  const Source infinite = Source::of("idx", {{"x", -INFINITY}, {"y", INFINITY}});
  CHECK(Source::from_text(infinite.to_text()).spec()->args == infinite.spec()->args);
}

TEST_CASE("prefetch() stands at the end of a source, once, within its bounds") {
  const Numbers n(4);
  has(refusal_of([&] { stages(n.source.prefetch(2).batch(2)); }).text, "put it last");
  const auto text = [](const Source& source) {
    return refusal_of([&] { plan_source(source.spec()); }).text;
  };
  has(text(n.source.prefetch(2).prefetch(1)), "prefetch() twice");
  has(text(n.source.prefetch(1000)), "at most 256 threads");
  CHECK(plan_source(n.source.prefetch(3).repeat(2).spec()).threads == 3);
}

TEST_CASE("a function, or a reader, that gives two fields of one name is refused") {
  const Numbers n(3);
  check_invalid(
      [&] {
        stages(n.source.batch(2).map(
            "length", {{"field", std::string("image")}, {"name", std::string("image")}}));
      },
      "length gives two fields of the name image; give one of them another name");
}

TEST_CASE("a program that reads a source gets the same error again, and no later record") {
  const Numbers n(6);
  Source::Records records = n.source.map("thrown").records(0, *functions());
  for (int i = 0; i < 3; ++i) CHECK(records.next());
  const std::string first = error_text(Errc::bad_data, [&] { records.next(); });
  CHECK(error_text(Errc::bad_data, [&] { records.next(); }) == first);
  SourceSteps steps(shared(n.source.map("thrown")));
  for (int i = 0; i < 3; ++i) CHECK(steps.next());
  for (int i = 0; i < 2; ++i) CHECK(error_text(Errc::bad_data, [&] { steps.next(); }) == first);
}

TEST_CASE("a batch may be larger than any epoch") {
  const Numbers n(3);
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  CHECK(stages(n.source.batch(most))->size() == 1);
  CHECK(n.source.batch(most).steps_per_epoch() == 1);
  CHECK(stages(n.source.batch(most, {.drop_last = true}))->size() == 0);
}

TEST_CASE("results of expand that are made late are made when a record is, and checked") {
  const Numbers n(3);
  int made = 0;
  const auto late = ops_with(
      {}, {{"late", [&](const Fields& fields, const SourceArgs&) {
              return SourceStep{.fields = fields, .expand = [&](const SourceCall& call) {
                                  const uint8_t x = call["image"].item<uint8_t>();
                                  return Expansion(x + 1, [&made, x](int64_t i) {
                                    ++made;
                                    if (x == 2 && i == 1) throw std::runtime_error("two");
                                    return Record{Tensor::scalar<uint8_t>(
                                        static_cast<uint8_t>(10 * x + static_cast<int>(i)))};
                                  });
                                }};
            }}});
  const Stage stage = build_stages(*n.source.expand("late").spec(), [&](std::string_view name) {
    return late->find_function(name);
  });
  const auto stream = stage->open(0);
  std::vector<Lazy> all;
  while (Lazy record = stream->next()) all.push_back(std::move(record));
  CHECK(made == 0);
  CHECK(all.size() == 6);
  CHECK(values_of(all[2]->make()) == std::vector{11});
  CHECK(values_of(all[2]->make()) == std::vector{11});
  CHECK(made == 2);
  has(error_text(Errc::bad_data, [&] { all[4]->make(); }),
      n.file.path() + ": record 2: function late failed: two");
}

}  // namespace
}  // namespace troupe
