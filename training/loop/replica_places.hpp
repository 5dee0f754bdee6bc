// ReplicaPlaces: the tasks that compute the replicas of a training. A program places each replica
// on a named task; another task may stand for it. A plain state without threads, clocks or sockets:
// events come in, actions go out. TrainDriver carries them out.
//
// The replicas of a named task whose place has been away for `move_after` move to the task of its
// job that has the fewest replicas, the lowest of several. Where the place has never been there,
// leaves, or has left, they do so at once. Where one task has more replicas than another one would
// have with those of a named task more, these move there; those that the program has placed there
// go first.
// Each such move makes the load more even, so nothing moves to and fro while the tasks stay.
//
// Replicas move between two steps: those of the named task are held until all of them have ended,
// but for steps that others of them may wait for. Steps on a task that is away have ended, or have
// not begun.
//
// Owner: TrainDriver; before the first step the Trainer. Thread: the training thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

struct ReplicaActions {
  struct Move {
    std::string named, from, to;
    std::set<int64_t> replicas;
    std::string why;  // "which has been away for 10 s", of `from` or of `to`
  };
  std::vector<Move> moves;                          // places() has them; before the starts
  std::vector<std::pair<int64_t, int64_t>> starts;  // replica and step
};
std::string to_string(const ReplicaActions::Move& move);  // for people

class ReplicaPlaces {
 public:
  using Millis = std::chrono::milliseconds;
  using Named = std::map<std::string, std::set<int64_t>>;  // replicas by "/job:worker/task:1"

  ReplicaPlaces() = default;  // nothing moves
  // `move_after` 0: nothing moves.
  ReplicaPlaces(const Named& named, Millis move_after);

  // The tasks that are there, those of them that are about to end, and those that can compute their
  // own replicas alone.
  ReplicaActions see(std::set<std::string> present, std::set<std::string> leaving, Millis now,
                     std::set<std::string> unfit = {});
  // A replica may begin a step: it starts now or later, unless it is taken back.
  ReplicaActions begin(int64_t replica, int64_t step, Millis now);
  ReplicaActions ended(int64_t replica, Millis now);
  ReplicaActions tick(Millis now);
  // Takes back the steps that are held.
  std::vector<std::pair<int64_t, int64_t>> take_back();

  bool moves() const { return !entries_.empty(); }
  bool is_named(const std::string& task) const { return entries_.count(task) > 0; }
  std::map<std::string, std::string> places() const;  // of named tasks, where they are others
  const std::set<std::string>& leaving() const { return leaving_; }
  // True if the task has replicas that others are going to take.
  bool is_wanted(const std::string& task) const;

 private:
  struct Entry {  // of a named task
    std::set<int64_t> replicas;
    std::string place;
  };
  using EntryAt = std::map<std::string, Entry>::iterator;

  ReplicaActions decide(Millis now);
  void move_from_lost(Millis now, ReplicaActions& out);
  void move_from_leaving(ReplicaActions& out);
  void spread(ReplicaActions& out);
  // Moves it if none of its replicas runs; else later.
  bool move_between_steps(EntryAt entry, const std::string& to, const std::string& why,
                          ReplicaActions& out);
  void move(EntryAt entry, const std::string& to, const std::string& why, ReplicaActions& out);
  void release(ReplicaActions& out);
  bool runs(const Entry& entry) const;
  bool holds(int64_t replica, int64_t step) const;
  size_t load(const std::string& task) const;  // replicas
  // The present task of the named one's job with the fewest replicas; none: there is no other one.
  std::optional<std::string> target(const std::string& named, const std::string& from) const;
  bool can_take(const std::string& task) const;

  std::map<std::string, Entry> entries_;
  Millis move_after_{0};
  std::set<std::string> present_, leaving_, unfit_, met_;
  std::map<std::string, Millis> away_since_;   // places that have been there
  std::set<std::string> left_;                 // of these, those that said that they leave
  std::map<int64_t, int64_t> running_, held_;  // steps, by replica
  std::set<std::string> wanted_;               // named tasks whose replicas move between two steps
  bool stirred_ = false;                       // there is something to decide
  Millis next_at_ = Millis::max();             // the next time at which there may be
};

}  // namespace troupe
