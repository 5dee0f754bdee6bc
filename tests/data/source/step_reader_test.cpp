// When a StepReader works, how others see that it moves, and how it is stopped.
#include <atomic>
#include <chrono>
#include <thread>

#include "data/bytes.hpp"
#include "data/reading.hpp"
#include "tests/data/source/numbers.hpp"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSoon{20};  // far less than the work that is stopped takes

template <class F>
bool comes(const F& condition) {
  for (const auto end = Clock::now() + kSoon; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return false;
}

// For threads that should do nothing meanwhile.
void yield_often() {
  for (int i = 0; i < 200; ++i) std::this_thread::yield();
}

// A filter that counts its calls.
struct Counted {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<const Registry> known =
      ops_with({}, {function("counted", {.keep = [calls = calls](const SourceCall&) {
                               ++*calls;
                               return true;
                             }})});
  std::shared_ptr<SharedStages> stages(const Source& source) const {
    return std::make_shared<SharedStages>(plan_source(source.spec()), functions_of(known));
  }
};

TEST_CASE("a reader makes nothing before the first read, and no step that nobody may ask for") {
  const Numbers n(100);
  const Counted counted;
  StepReader reader(counted.stages(n.source.filter("counted").batch(1).prefetch(2, 3)), 0, 1,
                    false);
  yield_often();
  CHECK(*counted.calls == 0);
  CHECK(reader.doing() == "is idle");
  Replies replies;
  CHECK(replies.read(reader, 50) == std::pair(Errc::ok, std::vector{50}));
  // Records up to step 53, and one behind, which tells if an epoch ends there.
  CHECK(comes([&] { return *counted.calls == 55; }));
  yield_often();
  CHECK(*counted.calls == 55);
}

TEST_CASE("a late step of before a jump does not make the reader run ahead") {
  const Numbers n(200);
  std::atomic<bool> inside = false, go_on = false;
  std::atomic<int> calls = 0;
  const auto known = ops_with({}, {function("held", {.fields = {{"image", {DType::u8, {}}}},
                                                     .map = [&](const SourceCall& call) {
                                                       ++calls;
                                                       if (call["image"].item<uint8_t>() == 150) {
                                                         inside = true;
                                                         while (!go_on) std::this_thread::yield();
                                                       }
                                                       return call.record();
                                                     }})});
  StepReader reader(
      std::make_shared<SharedStages>(
          plan_source(n.source.map("held").batch(1).prefetch(2, 2).spec()), functions_of(known)),
      0, 1, false);
  Replies late, replies;
  reader.read(150, late.one());
  REQUIRE(comes([&] { return inside.load(); }));
  CHECK(replies.read(reader, 5) == std::pair(Errc::ok, std::vector{5}));
  go_on = true;
  CHECK(comes([&] {
    std::lock_guard lock(late.mutex);
    return late.all.size() == 1;
  }));
  yield_often();
  CHECK(calls <= 1 + 2 + 3);  // 150, steps ahead of it, 5 and those ahead of it
}

TEST_CASE("a reader that goes to a far step is seen to move, and can be stopped") {
  const Numbers n(200);
  const Counted counted;
  StepReader reader(counted.stages(n.source.repeat(1'000'000).filter("counted").batch(2)), 0, 1,
                    false);
  std::atomic<int> code = -1;
  reader.read(99'000'000,
              [&](Errc c, const std::string&, const Record&) { code = static_cast<int>(c); });
  REQUIRE(comes([&] { return *counted.calls > 3; }));
  CHECK(reader.waits());
  const auto before = reader.moved();
  CHECK(comes([&] { return reader.moved() > before; }));
  has(reader.doing(), "makes step 99000000, of its files");
  const auto begin = Clock::now();
  reader.stop();
  CHECK(code == static_cast<int>(Errc::cancelled));
  CHECK(!reader.waits());
  CHECK(comes([&] { return reader.ended(); }));
  CHECK(Clock::now() - begin < kSoon);
  CHECK(*counted.calls < 150'000'000);
  Replies replies;
  CHECK(replies.read(reader, 0).first == Errc::cancelled);
}

TEST_CASE("stopping waits for no function, and a function that hangs does not move") {
  const Numbers n(4);
  std::atomic<bool> inside = false, go_on = false;
  const auto known = ops_with({}, {function("hang", {.keep = [&](const SourceCall&) {
                                              inside = true;
                                              while (!go_on) std::this_thread::yield();
                                              return true;
                                            }})});
  StepReader reader(std::make_shared<SharedStages>(
                        plan_source(n.source.filter("hang").batch(1).spec()), functions_of(known)),
                    0, 1, false);
  reader.read(0, [](Errc, const std::string&, const Record&) {});
  REQUIRE(comes([&] { return inside.load(); }));
  const auto last = reader.moved();
  yield_often();
  CHECK(reader.moved() == last);
  reader.stop();
  CHECK(!reader.ended());
  go_on = true;
  CHECK(comes([&] { return reader.ended(); }));
}

TEST_CASE("the bytes of a file are seen to be read, and reading them can be stopped") {
  const TempFile file("bytes", std::string(3 << 20, 'x'));
  ByteSource bytes(file.path());
  std::string some(300 << 10, '\0');
  Reading reading;
  {
    const Reading::Scope scope(reading);
    const auto before = reading.last();
    CHECK(bytes.read(some) == static_cast<int64_t>(some.size()));
    CHECK(reading.last() > before);
    reading.stop();
    CHECK(refusal_of([&] { bytes.read(some); }).code == Errc::cancelled);
  }
  CHECK(bytes.read(some) == static_cast<int64_t>(some.size()));  // no longer for that reading
}

TEST_CASE("a function without memory fails as that, and not as bad data") {
  const Numbers n(2);
  const auto known = ops_with(
      {}, {function("full", {.fields = {{"image", {DType::u8, {}}}},
                             .map = [](const SourceCall&) -> Record { throw std::bad_alloc(); }})});
  const Stage stage = build_stages(*n.source.map("full").spec(), functions_of(known));
  const Refusal refused = refusal_of([&] { stage->open(0)->next()->make(); });
  CHECK(refused.code == Errc::out_of_memory);
  has(refused.text, "there is no memory for function full");
}

TEST_CASE("a step of an epoch that failed is the next one again") {
  const Numbers n(6);
  const auto fails = std::make_shared<std::atomic<bool>>(true);
  const auto known = ops_with({}, {function("once", {.keep = [fails](const SourceCall& call) {
                                              if (call["image"].item<uint8_t>() == 3 && *fails)
                                                throw call.bad("not now");
                                              return true;
                                            }})});
  SourcePlan plan = plan_source(n.source.filter("once").batch(2).spec());
  plan.epochs = 1;
  SourceSteps steps(std::make_shared<SharedStages>(plan, functions_of(known)));
  std::vector<int> seen;
  const auto read = [&] {
    while (const auto record = steps.next())
      for (const int value : values_of(*record)) seen.push_back(value);
  };
  has(refusal_of(read).text, "not now");
  *fails = false;
  while (refusal_of(read).code != Errc::ok)
    continue;  // steps that were made ahead have failed, too
  CHECK(seen == range(0, 6));
}

TEST_CASE("a wait for a step is told of its work, and ends with an exception of the one told") {
  const Numbers n(4);
  std::atomic<bool> go_on = false;
  const auto known = ops_with({}, {function("hang", {.keep = [&](const SourceCall&) {
                                              while (!go_on) std::this_thread::yield();
                                              return true;
                                            }})});
  SourcePlan plan = plan_source(n.source.filter("hang").batch(2).spec());
  plan.epochs = 1;
  SourceSteps steps(std::make_shared<SharedStages>(plan, functions_of(known)));
  const Refusal refused = refusal_of([&] {
    steps.next([](const std::string& doing) {
      has(doing, "makes step 0");
      throw Error(Errc::cancelled, "enough");
    });
  });
  CHECK(refused.text == "enough");
  go_on = true;
  CHECK(values_of(*steps.next()) == std::vector{0, 1});
}

}  // namespace
}  // namespace troupe
