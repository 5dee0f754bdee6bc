// LaneAdmission: decides which costly nodes of a step go to other lanes, and when. A costly node
// goes as soon as it is ready, unless the step would then take more memory than one thread that
// fires nodes in the order of their numbers (placement/memory_plan.hpp: earliest_firings()). A node
// that finds no memory beside others of its step is put off until one of these has ended.
//
// Owner: the step. Thread: the step's owner thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/engine/step_state.hpp"

namespace troupe {

class LaneAdmission {
 public:
  // A kernel for a lane. The owner of the step decides: a lane reads no counts.
  struct Job {
    Firing firing;
    bool may_reuse = false;  // input 0
    bool timed = false;
  };

  // `program`: of the whole partition.
  explicit LaneAdmission(const Program& program) : program_(program) {}
  void arm();

  // A costly node is ready.
  void admit(Firing f);
  // Nothing else is ready: nodes that wait may go now.
  void let_go();
  bool waits() const { return !waiting_.empty(); }
  std::vector<Job>& batch() { return batch_; }  // jobs that are to begin
  void job_ended(Firing f);
  int64_t jobs() const { return jobs_; }  // in the batch and on lanes
  // The step ends early: nothing that has not begun begins.
  void drop_all();

  // The owner thread is the only lane of its process, for which so many actors wait; null: it is
  // not. Before a costly node the step gives way to them.
  void on_only_lane(const std::atomic<int64_t>* actors) { actors_ = actors; }
  bool is_on_only_lane() const { return actors_; }
  bool give_way() { return gives_way_ = actors_ && actors_->load(std::memory_order_relaxed) > 0; }
  bool gives_way() const { return gives_way_; }
  bool take_gives_way() { return std::exchange(gives_way_, false); }

  // A node has found no memory. True: it fires again when there may be more. `others`: more of the
  // step is to run, and may let memory go.
  bool put_off(Firing f, bool others);
  bool has_put_off() const { return !put_off_.empty(); }
  // Nothing of the step runs here, or is to, but nodes that were put off. Returns the one to fire
  // alone.
  Firing fire_alone();
  // The put-off node that one thread would fire first. Requires: has_put_off().
  Firing take_put_off();
  // An iteration begins: the node that was to fire alone fires for that iteration, too.
  void iteration_begins() { last_try_ = {}; }

 private:
  void begin_job(Firing f);

  const Program& program_;
  std::vector<Firing> waiting_;       // for memory, the lowest number first
  std::vector<Firing> on_their_way_;  // on lanes; kept where the program has earliest firings
  uint32_t ahead_ = kNone;            // the one on a lane that is ahead of its turn
  std::vector<Job> batch_;
  std::vector<Firing> put_off_;
  Firing last_try_;  // the put-off node that fires with nothing beside it
  int64_t jobs_ = 0;
  const std::atomic<int64_t>* actors_ = nullptr;
  bool gives_way_ = false;
};

}  // namespace troupe
