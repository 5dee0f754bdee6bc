// The decision which task computes which replica, call by call.
#include "training/loop/replica_places.hpp"

#include <doctest/doctest.h>

#include <random>

#include "troupe/error.hpp"

namespace troupe {
namespace {

using Millis = ReplicaPlaces::Millis;
using Step = std::pair<int64_t, int64_t>;
using Steps = std::vector<Step>;
using Tasks = std::set<std::string>;

std::string worker(int64_t task) { return detail::concat("/job:worker/task:", task); }

Tasks workers(const std::vector<int64_t>& tasks) {
  Tasks out;
  for (const int64_t task : tasks) out.insert(worker(task));
  return out;
}

// One replica for each of so many named.
ReplicaPlaces::Named named(int64_t count) {
  ReplicaPlaces::Named out;
  for (int64_t i = 0; i < count; ++i) out[worker(i)] = {i};
  return out;
}

std::vector<std::string> texts(const ReplicaActions& actions) {
  std::vector<std::string> out;
  for (const ReplicaActions::Move& move : actions.moves) out.push_back(to_string(move));
  return out;
}

// The number of named that each worker has.
std::map<std::string, int64_t> loads(const ReplicaPlaces& places, int64_t count) {
  std::map<std::string, int64_t> out;
  const auto elsewhere = places.places();
  for (int64_t i = 0; i < count; ++i) {
    const auto at = elsewhere.find(worker(i));
    ++out[at == elsewhere.end() ? worker(i) : at->second];
  }
  return out;
}

}  // namespace

TEST_CASE("a replica moves when its task has been away for long enough, and not before") {
  ReplicaPlaces places(named(3), Millis(5000));
  CHECK(places.see(workers({0, 1, 2}), {}, Millis(0)).moves.empty());
  CHECK(places.begin(1, 7, Millis(10)).starts == Steps{{1, 7}});
  CHECK(places.see(workers({0, 2}), {}, Millis(1000)).moves.empty());
  CHECK(places.tick(Millis(5999)).moves.empty());
  CHECK(texts(places.tick(Millis(6000))) ==
        std::vector<std::string>{"replica 1 moves from /job:worker/task:1 to /job:worker/task:0: "
                                 "/job:worker/task:1 has been away for 5 s"});
  CHECK(places.tick(Millis(60'000)).moves.empty());
  CHECK(places.places() == std::map<std::string, std::string>{{worker(1), worker(0)}});
}

TEST_CASE("a task that lacks a device of others keeps its own replicas, and gets no others") {
  ReplicaPlaces places(named(3), Millis(2000));
  const Tasks unfit = workers({1});
  CHECK(places.see(workers({0, 1, 2}), {}, Millis(0), unfit).moves.empty());
  CHECK(places.see(workers({0, 1}), {}, Millis(0), unfit).moves.empty());
  CHECK(places.tick(Millis(2000)).moves.at(0).to == worker(0));
  CHECK(places.see(workers({0}), {}, Millis(2000)).moves.empty());
  CHECK(places.tick(Millis(4000)).moves.at(0).to == worker(0));
  CHECK(loads(places, 3) == std::map<std::string, int64_t>{{worker(0), 3}});
  const auto back = places.see(workers({0, 1}), {}, Millis(5000), unfit).moves;
  REQUIRE(back.size() == 1);
  CHECK(back[0].named == worker(1));
  CHECK(back[0].to == worker(1));
}

TEST_CASE("a task that is back in time keeps its replicas, and its next absence counts anew") {
  ReplicaPlaces places(named(2), Millis(5000));
  places.see(workers({0, 1}), {}, Millis(0));
  places.see(workers({0}), {}, Millis(100));
  CHECK(places.see(workers({0, 1}), {}, Millis(5000)).moves.empty());
  CHECK(places.see(workers({0}), {}, Millis(5200)).moves.empty());
  CHECK(places.tick(Millis(10'100)).moves.empty());
  CHECK(places.tick(Millis(10'200)).moves.size() == 1);
}

TEST_CASE("no time, no other task, or another job: a replica waits for its task") {
  SUBCASE("never") {
    ReplicaPlaces places(named(2), Millis(0));
    CHECK(!places.moves());
    CHECK(places.see(workers({0}), {}, Millis(0)).moves.empty());
    CHECK(places.begin(1, 0, Millis(0)).starts == Steps{{1, 0}});
  }
  SUBCASE("nobody is there") {
    ReplicaPlaces places(named(2), Millis(10));
    CHECK(places.see({}, {}, Millis(0)).moves.empty());
    CHECK(places.tick(Millis(1000)).moves.empty());
    CHECK(places.see(workers({5}), {}, Millis(2000)).moves.size() == 2);
  }
  SUBCASE("another job") {
    ReplicaPlaces places({{"/job:chief/task:0", {0}}}, Millis(10));
    CHECK(places.see(workers({0}), {}, Millis(0)).moves.empty());
    CHECK(places.see({"/job:chief/task:1"}, {}, Millis(0)).moves.size() == 1);
  }
}

TEST_CASE("named whose tasks have never been there move at once, as evenly as can be") {
  ReplicaPlaces places(named(8), Millis(5000));
  SUBCASE("one worker") {
    CHECK(places.see(workers({0}), {}, Millis(0)).moves.size() == 7);
    CHECK(loads(places, 8) == std::map<std::string, int64_t>{{worker(0), 8}});
  }
  SUBCASE("three workers, of which the graph does not name one") {
    CHECK(places.see(workers({0, 1, 12}), {}, Millis(0)).moves.size() == 6);
    CHECK(loads(places, 8) ==
          std::map<std::string, int64_t>{{worker(0), 3}, {worker(1), 3}, {worker(12), 2}});
  }
  SUBCASE("by number, not by letter") {
    ReplicaPlaces one({{worker(0), {0}}}, Millis(5000));
    CHECK(one.see(workers({10, 2}), {}, Millis(0)).moves.at(0).to == worker(2));
  }
}

TEST_CASE("workers that come take named from the busiest, each between two of its steps") {
  ReplicaPlaces places(named(4), Millis(5000));
  places.see(workers({0}), {}, Millis(0));
  for (int64_t r = 0; r < 4; ++r) CHECK(places.begin(r, 3, Millis(1)).starts == Steps{{r, 3}});
  CHECK(places.see(workers({0, 2}), {}, Millis(2)).moves.empty());
  CHECK(places.ended(0, Millis(3)).moves.empty());  // that of the new worker goes first
  CHECK(places.begin(0, 4, Millis(3)).starts == Steps{{0, 4}});
  CHECK(texts(places.ended(2, Millis(4))) ==
        std::vector<std::string>{"replica 2 moves from /job:worker/task:0 to /job:worker/task:2: "
                                 "/job:worker/task:2 has room"});
  CHECK(places.begin(2, 4, Millis(4)).starts == Steps{{2, 4}});
  CHECK(places.ended(3, Millis(5)).moves.at(0).to == worker(2));
  CHECK(loads(places, 4) == std::map<std::string, int64_t>{{worker(0), 2}, {worker(2), 2}});
  for (int64_t r = 0; r < 4; ++r) CHECK(places.ended(r, Millis(6)).moves.empty());
}

TEST_CASE("a spare that has taken a replica keeps it when its own task is back") {
  ReplicaPlaces places(named(2), Millis(100));
  places.see(workers({0, 1, 2}), {}, Millis(0));
  CHECK(places.see(workers({0, 2}), {}, Millis(0)).moves.empty());
  CHECK(places.tick(Millis(100)).moves.at(0).to == worker(2));
  CHECK(places.see(workers({0, 1, 2}), {}, Millis(200)).moves.empty());
}

TEST_CASE("the replicas of one task move together: early ones are held, none that others need") {
  ReplicaPlaces places({{worker(0), {0, 1}}, {worker(1), {2}}}, Millis(100));
  places.see(workers({0, 1, 2}), {}, Millis(0));
  places.begin(0, 5, Millis(0));
  places.begin(1, 4, Millis(0));
  CHECK(places.see(workers({0, 1, 2}), workers({0}), Millis(1)).moves.empty());
  CHECK(places.is_wanted(worker(0)));
  CHECK(places.ended(1, Millis(2)).moves.empty());
  CHECK(places.begin(1, 5, Millis(2)).starts == Steps{{1, 5}});  // replica 0 may wait for it
  CHECK(places.ended(0, Millis(3)).moves.empty());
  CHECK(places.begin(0, 6, Millis(3)).starts.empty());
  const ReplicaActions moved = places.ended(1, Millis(4));
  REQUIRE(moved.moves.size() == 1);
  CHECK(moved.moves[0].to == worker(2));
  CHECK(moved.moves[0].why == "/job:worker/task:0 leaves");
  CHECK(moved.starts == Steps{{0, 6}});
  CHECK(!places.is_wanted(worker(0)));
}

TEST_CASE("steps that are held are taken back, and begin anew") {
  ReplicaPlaces places({{worker(0), {0, 1}}, {worker(1), {2}}}, Millis(100));
  places.see(workers({0, 1}), {}, Millis(0));
  places.begin(1, 4, Millis(0));
  places.see(workers({0, 1}), workers({0}), Millis(1));
  CHECK(places.begin(0, 6, Millis(1)).starts.empty());
  CHECK(places.take_back() == Steps{{0, 6}});
  CHECK(places.take_back().empty());
  CHECK(places.ended(1, Millis(2)).moves.size() == 1);
  CHECK(places.begin(0, 6, Millis(3)).starts == Steps{{0, 6}});
}

TEST_CASE("a worker that leaves keeps its replicas if nobody can take them") {
  ReplicaPlaces places(named(2), Millis(100));
  places.see(workers({0, 1}), {}, Millis(0));
  CHECK(places.see(workers({0, 1}), workers({0, 1}), Millis(1)).moves.empty());
  CHECK(!places.is_wanted(worker(0)));
  CHECK(places.see(workers({0, 1, 3}), workers({0, 1}), Millis(2)).moves.size() == 2);
}

TEST_CASE("replicas of a worker that has left, though its step ran on, are not waited for") {
  ReplicaPlaces places(named(2), Millis(5000));
  places.see(workers({0, 1}), {}, Millis(0));
  places.begin(1, 3, Millis(10));
  CHECK(places.see(workers({0, 1}), workers({1}), Millis(100)).moves.empty());
  CHECK(texts(places.see(workers({0}), {}, Millis(200))) ==
        std::vector<std::string>{"replica 1 moves from /job:worker/task:1 to /job:worker/task:0: "
                                 "/job:worker/task:1 has left"});
  CHECK(places.ended(1, Millis(210)).moves.empty());
  // A later absence without a word is waited out.
  CHECK(places.see(workers({0, 1}), {}, Millis(300)).moves.size() == 1);
  CHECK(places.see(workers({0}), {}, Millis(400)).moves.empty());
  CHECK(places.tick(Millis(5400)).moves.size() == 1);
}

TEST_CASE("a step that waits for a worker that has left is taken by the next one that comes") {
  ReplicaPlaces places(named(1), Millis(5000));
  places.see(workers({0}), {}, Millis(0));
  CHECK(places.see(workers({0}), workers({0}), Millis(100)).moves.empty());
  CHECK(places.see({}, {}, Millis(200)).moves.empty());
  CHECK(places.begin(0, 3, Millis(300)).starts == Steps{{0, 3}});  // it waits for its task
  CHECK(texts(places.see(workers({4}), {}, Millis(400))) ==
        std::vector<std::string>{"replica 0 moves from /job:worker/task:0 to /job:worker/task:4: "
                                 "/job:worker/task:0 has left"});
}

// Whatever comes and goes: at most as many moves as are needed, and every step starts at last.
TEST_CASE("any workers that come, leave and are lost: all steps start, and the load is even") {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    std::mt19937 draw(seed);
    const auto below = [&](int64_t n) {
      return static_cast<int64_t>(draw() % static_cast<uint64_t>(n));
    };
    const int64_t count = 1 + below(8);
    ReplicaPlaces places(named(count), Millis(500));
    std::map<int64_t, int64_t> running, next;
    int64_t asked = 0, begun = 0, moves = 0;
    const auto take = [&](const ReplicaActions& actions) {
      for (const auto& move : actions.moves) CHECK(move.from != move.to);
      moves += std::ssize(actions.moves);
      for (const auto& [replica, step] : actions.starts) {
        CHECK(step == next[replica]);
        CHECK(running.emplace(replica, step).second);
        ++begun;
      }
    };
    Tasks present, leaving;
    Millis now(0);
    for (int64_t r = 0; r < count; ++r) ++asked, take(places.begin(r, 0, now));
    for (int event = 0; event < 300; ++event) {
      now += Millis(below(200));
      const std::string task = worker(below(8));
      const int64_t kind = below(10);
      if (kind == 0) present.insert(task), leaving.erase(task);
      if (kind == 1) present.erase(task), leaving.erase(task);
      if (kind == 2 && present.count(task)) leaving.insert(task);
      if (kind <= 2) take(places.see(present, leaving, now));
      if (kind == 3) take(places.tick(now));
      if (kind <= 3 || running.empty()) continue;
      const int64_t replica = std::next(running.begin(), below(std::ssize(running)))->first;
      next[replica] = running.extract(replica).mapped() + 1;
      take(places.ended(replica, now));
      ++asked, take(places.begin(replica, next[replica], now));
      CHECK(begun == asked);  // each has a task of its own, so none is held
    }
    present = workers({1, 4, 9});
    take(places.see(present, {}, now));
    take(places.tick(now + Millis(1000)));
    for (int64_t r = 0; r < count; ++r) take(places.ended(r, now + Millis(1000)));
    int64_t least = count, most = 0;
    for (const std::string& task : present) {
      const int64_t its = loads(places, count)[task];
      least = std::min(least, its), most = std::max(most, its);
    }
    CHECK(most - least <= 1);
    moves = 0;
    for (int64_t r = 0; r < count; ++r) take(places.ended(r, now + Millis(2000)));
    CHECK(moves == 0);
  }
}

}  // namespace troupe
