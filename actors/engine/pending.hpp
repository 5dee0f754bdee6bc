// Pending: everything that a step waits for from outside its owner thread, and the order to stop.
// The owner counts what is outstanding; other threads read the lists to say who waits for whom.
//
// Owner: the step. Thread: each function says which; one mutex guards what several threads use.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/engine/program/program.hpp"
#include "actors/engine/step_result.hpp"
#include "actors/engine/step_state.hpp"

namespace troupe {

class AsyncFiring;

class Pending {
 public:
  explicit Pending(const Program& program)
      : program_(program),
        received_(program.edges.receives.size()),
        awaited_(program.edges.receives.size()) {}

  // The owner. `registered`: values of edges may come for the step.
  void arm(bool registered);

  // The owner. Nodes that have fired and not settled, lane jobs excepted, and values not received.
  int64_t outstanding = 0;
  // The owner waits for the values of these edges, by index in Program::Edges::receives.
  void await(const std::vector<size_t>& edges);
  bool has_received(size_t edge) const { return received_[edge]; }
  // False: the value came before; the sender repeated itself.
  bool receive(size_t edge);
  void add_async(Firing node, std::shared_ptr<AsyncFiring> firing);
  void async_answered(Firing node);
  // The step ends early: async kernels and values that have not come are not waited for.
  void abandon();

  // Any thread. The first reason counts.
  void stop(Errc code, std::string text);
  bool stopped() const { return stop_.load(std::memory_order_acquire); }
  const std::atomic<bool>& stop_flag() const { return stop_; }
  StepResult stop_reason() const;

  // The thread that runs the node.
  void begins_on_lane(Firing node);
  void ends_on_lane(Firing node);

  // Any thread. Names of nodes.
  std::vector<std::string> waiting_for() const;

 private:
  const Program& program_;
  std::vector<bool> received_;  // by edge; true where nothing is awaited. The owner's
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // guards the rest
  StepResult stop_reason_;
  std::map<Firing, std::shared_ptr<AsyncFiring>> async_;
  std::vector<bool> awaited_;  // as received_, negated
  std::vector<Firing> on_lanes_;
};

}  // namespace troupe
