// Targets: which addresses to dial and when. No sockets; the time is an argument.
#include "net/mesh/targets.hpp"

#include <set>

#include "net/link/greetings.hpp"
#include "tests/support/link_pair.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using Addresses = std::vector<std::string>;

const TimePoint kStart = TimePoint{} + 1h;

bool nobody(const std::string&) { return false; }

// Fails every dial until `end`, polling every 10 ms; returns the times of the dials.
std::vector<std::chrono::milliseconds> dials(Targets& targets, std::chrono::milliseconds end) {
  std::vector<std::chrono::milliseconds> out;
  for (auto at = 0ms; at < end; at += 10ms)
    for (const std::string& address : targets.due(kStart + at, nobody)) {
      out.push_back(at);
      targets.failed(address, kStart + at);
    }
  return out;
}

}  // namespace

TEST_CASE("a seed is dialled for ever, with growing pauses up to 2.5 s") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add_seed("s:1", kStart);
  const auto at = dials(targets, 1h);
  REQUIRE(at.size() > 1400);
  CHECK(at[0] == 0ms);
  for (size_t i = 1; i < at.size(); ++i) {
    const auto backoff = std::min<std::chrono::milliseconds>(
        100ms * (1 << std::min<size_t>(i - 1, 9)), kBackoffSeedMax);
    CHECK(at[i] - at[i - 1] >= backoff * 3 / 4);
    CHECK(at[i] - at[i - 1] <= backoff * 5 / 4 + 10ms);
  }
}

TEST_CASE("an address is not dialled twice at once, and a linked one not at all") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add("a:1", "/job:ps/task:0", kStart, 50ms);
  CHECK(targets.due(kStart, nobody).empty());
  CHECK(targets.due(kStart + 50ms, nobody) == Addresses{"a:1"});
  CHECK(targets.due(kStart + 10s, nobody).empty());
  targets.failed("a:1", kStart + 10s);
  CHECK(targets.due(kStart + 20s, [](const std::string&) { return true; }).empty());
  CHECK(targets.due(kStart + 20s, nobody) == Addresses{"a:1"});
}

TEST_CASE("who names a thousand addresses has few of them dialled at once, and delays no seed") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  for (int i = 0; i < 1000; ++i)
    targets.add("a:" + std::to_string(i), "/job:worker/task:" + std::to_string(i), kStart, 0ms);
  Addresses dialled = targets.due(kStart, nobody);
  CHECK(dialled.size() == kDialsMax);
  CHECK(targets.due(kStart + 1s, nobody).empty());
  targets.add_seed("s:1", kStart + 1s);
  CHECK(targets.due(kStart + 1s, nobody) == Addresses{"s:1"});
  // The others have their turn before those that failed.
  std::set<std::string> all(dialled.begin(), dialled.end());
  for (int round = 0; all.size() < 1000 && round < 20; ++round) {
    for (const std::string& address : dialled) targets.failed(address, kStart + 2s);
    dialled = targets.due(kStart + 2s, nobody);
    CHECK(dialled.size() <= kDialsMax);
    all.insert(dialled.begin(), dialled.end());
  }
  CHECK(all.size() == 1000);
}

TEST_CASE("a lost member is forgotten after ten minutes, one that left at once, a seed never") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add_seed("seed:1", kStart);
  targets.add("lost:1", "/job:worker/task:0", kStart, 0ms);
  targets.add("left:1", "/job:worker/task:1", kStart, 0ms);
  targets.lost("/job:worker/task:1", true, kStart);
  CHECK(!targets.has("left:1"));
  targets.lost("/job:worker/task:0", false, kStart + 1s);
  (void)dials(targets, 590s);
  CHECK(targets.has("lost:1"));
  (void)targets.due(kStart + 602s, nobody);
  CHECK(!targets.has("lost:1"));
  CHECK(targets.has("seed:1"));
}

TEST_CASE("there is a word about a missing seed every five to eight seconds, about others none") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  targets.add_seed("s:1", kStart);
  targets.add("a:1", "/job:ps/task:0", kStart, 0ms);
  int words = 0;
  for (auto at = 0ms; at < 60s; at += 10ms)
    for (const std::string& address : targets.due(kStart + at, nobody)) {
      const bool told = targets.failed(address, kStart + at);
      CHECK(!(told && address == "a:1"));
      words += told;
    }
  CHECK(words >= 7);
  CHECK(words <= 12);
}

namespace {

// One address that was dialled, and how the link to it ended.
struct Dialled {
  sim::SeededRng rng{1};
  Targets targets{rng};
  LinkPair pair;
  explicit Dialled(bool seed) {
    if (seed)
      targets.add_seed("x:1", kStart);
    else
      targets.add("x:1", "/job:ps/task:0", kStart, 0ms);
  }
  std::optional<std::string> end(bool alone, TimePoint now = kStart) {
    REQUIRE(targets.due(now, nobody) == Addresses{"x:1"});
    return end_at("x:1", alone, now);
  }
  // The address is being dialled.
  std::optional<std::string> end_at(const std::string& address, bool alone, TimePoint now) {
    pair.a.link = nullptr;
    pair.a.closed_ = pair.b.closed_ = false;
    pair.connect();
    targets.connected(address, pair.a.link);
    REQUIRE(pair.net.run_until([&] { return pair.a.closed_; }, 1s));
    return targets.ended(*pair.a.link, pair.a.refusal, alone, now);
  }
  std::optional<std::string> they_refuse(Refusal why, bool alone, TimePoint now = kStart) {
    pair.b.answer = refusal({}, why, "no");
    return end(alone, now);
  }
  std::optional<std::string> we_refuse(Refusal why, bool alone) {
    pair.a.answer = refusal({}, why, "no");
    return end(alone);
  }
  bool is_dialled_again() { return targets.due(kStart + 1s, nobody) == Addresses{"x:1"}; }
};

const Refusal kFinal[] = {Refusal::other_cluster, Refusal::other_ops, Refusal::stale_incarnation,
                          Refusal::same_node, Refusal::malformed};

}  // namespace

TEST_CASE("a seed that refuses a process without any link ends its joining") {
  for (const Refusal why : kFinal) CHECK(Dialled(true).they_refuse(why, true) == "x:1");
}

TEST_CASE("a seed's refusal while there are links, and what we judge ourselves, ends nothing") {
  for (const Refusal why : kFinal) {
    Dialled linked(true), judged(true);
    CHECK(!linked.they_refuse(why, false));
    CHECK(linked.is_dialled_again());
    CHECK(!judged.we_refuse(why, true));
    CHECK(judged.is_dialled_again());
  }
}

TEST_CASE("a seed that does not trust us, or that we do not, has the last word with all others") {
  Dialled d(true), learned(false);
  CHECK(d.they_refuse(Refusal::untrusted, true) == "x:1");  // the only one
  d.targets.add_seed("y:1", kStart);
  const auto says = [&](const char* address, Refusal why, TimePoint now) {
    d.pair.b.answer = refusal({}, why, "no");
    return d.end_at(address, true, now);
  };
  auto now = kStart + 5s;
  REQUIRE(d.targets.due(now, nobody) == Addresses{"x:1", "y:1"});
  CHECK(!says("x:1", Refusal::untrusted, now));
  CHECK(!says("y:1", Refusal::busy, now));
  now += 5s;
  REQUIRE(d.targets.due(now, nobody) == Addresses{"x:1", "y:1"});
  CHECK(!says("x:1", Refusal::untrusted, now));
  CHECK(says("y:1", Refusal::untrusted, now) == "y:1");
  CHECK(!learned.they_refuse(Refusal::untrusted, true));
  CHECK(learned.targets.has("x:1"));
}

TEST_CASE("an address that was only learned is forgotten when it refuses or does not fit") {
  for (const bool alone : {true, false})
    for (const Refusal why : kFinal) {
      Dialled refused(false), judged(false);
      CHECK(!refused.they_refuse(why, alone));
      CHECK(!refused.targets.has("x:1"));
      CHECK(!judged.we_refuse(why, alone));
      CHECK(!judged.targets.has("x:1"));
    }
}

TEST_CASE("a task that is taken is asked for again, and only a seed has the last word after 3 s") {
  for (const bool seed : {true, false}) {
    Dialled d(seed);
    CHECK(!d.they_refuse(Refusal::task_taken, true));
    CHECK(!d.they_refuse(Refusal::task_taken, true, kStart + 1s));
    CHECK(d.they_refuse(Refusal::task_taken, true, kStart + 4s).has_value() == seed);
    CHECK(d.targets.has("x:1"));
  }
}

TEST_CASE("an address that is our own is forgotten, a busy or linked one dialled again") {
  Dialled own(true), busy(true), linked(false);
  CHECK(!own.they_refuse(Refusal::itself, true));
  CHECK(!own.targets.has("x:1"));
  CHECK(!busy.they_refuse(Refusal::busy, true));
  CHECK(busy.is_dialled_again());
  CHECK(!linked.they_refuse(Refusal::linked, true));
  CHECK(linked.is_dialled_again());
}

TEST_CASE("no more than kTargetsMax addresses are kept") {
  sim::SeededRng rng(1);
  Targets targets(rng);
  for (size_t i = 0; i <= kTargetsMax; ++i) targets.add(std::to_string(i), "x", kStart, 0ms);
  std::set<std::string> kept;
  for (auto at = kStart; at < kStart + 1min; at += 1s)
    for (const std::string& address : targets.due(at, nobody)) {
      kept.insert(address);
      targets.failed(address, at);
    }
  CHECK(kept.size() == kTargetsMax);
}

}  // namespace troupe
