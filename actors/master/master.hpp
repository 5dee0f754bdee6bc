// Master: the actor behind a Session. It joins three objects, each with its own state and lock:
// Members (the members of the cluster), Calls (the prepared calls and their installations) and
// RunTable (the runs under way); it owns the actors that they need, and ends them in order. When it
// dies, the steps under way are lost; workers and shards keep their state.
//
// Owner: the session. Thread: any; listener functions are called on the network thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/master/calls.hpp"
#include "actors/async/gate.hpp"
#include "actors/master/members.hpp"
#include "actors/master/run_table.hpp"
#include "troupe/session.hpp"

namespace troupe {

// The period of checks for deadlines and stalls.
inline constexpr std::chrono::milliseconds kMasterTick{50};
// The period of attempts for an install that failed although its tasks are up.
inline constexpr std::chrono::milliseconds kInstallRetry{500};
// A closing session waits this long for other processes: for the steps it cancels, then for their
// answers that they have dropped its parts.
inline constexpr std::chrono::milliseconds kCloseTimeout{2000};

class Master : public MeshListener {
 public:
  Master(Process& process, Graph& graph, uint64_t session);
  ~Master() override;

  // The program's threads enter here. stop() shuts it, and waits until they have left.
  const std::shared_ptr<Gate>& gate() const { return gate_; }

  // Members.
  void up(const Member& member, const caf::actor& agent) override { members_.up(member, agent); }
  void down(const Member& member, const std::string& reason) override {
    members_.down(member, reason);
  }
  void refused(Errc code, const std::string& reason) override { members_.refused(code, reason); }
  StepResult refusal() const { return members_.refusal(); }
  void add_listener(MeshListener* listener) { members_.add_listener(listener); }
  void remove_listener(MeshListener* listener) { members_.remove_listener(listener); }
  std::map<std::string, caf::actor> agents() const { return members_.agents(); }  // by task
  std::vector<std::string> devices() const;  // ours, and those of all members so far
  size_t wait_for_count(size_t count, const std::string& but, std::chrono::milliseconds timeout) {
    return members_.wait_for_count(count, but, timeout);
  }
  std::vector<std::string> wait_for(const std::vector<std::string>& tasks,
                                    std::chrono::milliseconds timeout) {
    return members_.wait_for(tasks, timeout);
  }
  // Members that others know of and that are not up here yet.
  std::vector<std::string> heard_of() const { return members_.heard_of(); }

  // Calls.
  using Ensure = Calls::Ensure;
  void set_ensure(Ensure ensure) { calls_.set_ensure(std::move(ensure)); }
  int64_t prepare(const std::vector<Output>& fetches, const std::vector<Output>& feeds) {
    return calls_.prepare(fetches, feeds);
  }
  void wait_ready(int64_t call, std::chrono::milliseconds timeout) {
    calls_.wait_ready(call, timeout);
  }
  std::vector<PlacedNode> placement(int64_t call) const { return calls_.placement(call); }
  std::vector<CutEdge> cut_edges(int64_t call) const { return calls_.cut_edges(call); }
  std::string dot(int64_t call) const { return calls_.dot(call); }
  std::string describe() const { return calls_.describe(); }
  int64_t become(const std::string& node, const std::shared_ptr<const Op>& op, bool by_name) {
    const std::lock_guard one_by_one(becoming_);
    return calls_.become(node, op, by_name);
  }

  std::vector<OpHandle> op_actors(const std::string& node) const {
    return calls_.op_actors(node);
  }

  // Runs.
  RunResult run(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options) {
    return runs_->run(call, feeds, options);
  }
  void start(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options,
             std::function<void(RunResult)> done) {
    runs_->start(call, feeds, options, std::move(done));
  }
  void cancel_all(Errc code, const std::string& text) { runs_->cancel_all(code, text); }
  void set_next_step(int64_t replica, int64_t step) { runs_->set_next_step(replica, step); }
  std::optional<int64_t> next_step(int64_t replica) { return runs_->next_step(replica); }

  uint64_t session() const { return session_; }
  Graph& graph() { return graph_; }
  Process& process() { return process_; }
  std::vector<RunUnderWay> under_way(std::chrono::milliseconds at_least);
  void start_trace();
  std::string stop_trace();
  // Cancels all runs, waits until they and all visits have ended, and makes all processes drop the
  // session's parts.
  void stop();

 private:
  class Door;

  void finished(const FinishStep& message);
  void failed(const FinishStep& message);
  void later(std::function<void()> work);  // runs on the asker: the network thread may be in here
  void tick(caf::event_based_actor* self);
  void take_back_parts();

  Process& process_;
  Graph& graph_;
  const uint64_t session_;
  caf::actor asker_, door_, clock_;  // send requests to agents; receive FinishStep; tick
  Members members_;
  Calls calls_;
  const std::shared_ptr<RunTable> runs_;
  caf::actor_clock::time_point retry_at_{};  // used by the clock actor only

  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>(*this);
  std::atomic<bool> stopped_{false};
  std::mutex becoming_;  // taken before those of the three objects
};

}  // namespace troupe
