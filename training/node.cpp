// Implements include/troupe/node.hpp.
#include "troupe/node.hpp"

#include <condition_variable>
#include <mutex>

#include "actors/process.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kStopPoll{
    50};  // a signal handler cannot wake a condition variable

class NodeListener final : public MeshListener {
 public:
  explicit NodeListener(Process& process) : process_(process) {}
  void up(const Member& member, const caf::actor&) override {
    process_.log()->info("member up: peer={} incarnation={} address={}", member.name(),
                         member.incarnation, member.address);
  }
  void down(const Member& member, const std::string& reason) override {
    process_.log()->warn("member down: peer={} incarnation={} reason={}", member.name(),
                         member.incarnation, reason);
    process_.peer_down(member, reason);
  }
  void refused(Errc code, const std::string& reason) override {
    std::lock_guard lock(mutex);
    refusal = {code, reason};
  }
  std::mutex mutex;  // guards the next
  std::pair<Errc, std::string> refusal{Errc::ok, {}};

 private:
  Process& process_;
};

}  // namespace

void run_node(const NodeOptions& options, const std::atomic<bool>& stop) {
  if (options.task < 0)
    throw Error(Errc::invalid_argument, "--task is ", options.task, "; tasks count from 0");
  ClusterOptions cluster;
  cluster.cluster = options.cluster;
  cluster.listen = options.listen;
  cluster.seeds = options.seeds;
  cluster.insecure = options.insecure;
  const std::string name = detail::concat("/job:", options.job, "/task:", options.task);
  Process process(name, Process::draw_incarnation(), options.process, cluster);
  std::atomic<bool> leave{false};
  process.on_leave = [&leave] { leave = true; };
  NodeListener listener(process);
  // Whatever way we leave, the process stops before what it calls is gone.
  struct StopFirst {
    Process& process;
    ~StopFirst() { process.stop(); }
  } stop_first{process};
  const std::string address = process.start(&listener);
  process.log()->info("listening: address={} cluster={} incarnation={}", address, options.cluster,
                      process.incarnation());
  if (options.on_listening) options.on_listening(address);
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  while (!stop && !leave) {
    never.wait_for(lock, kStopPoll);
    std::lock_guard told(listener.mutex);
    if (listener.refusal.first != Errc::ok)
      throw Error(listener.refusal.first, "the cluster refused ", name, ": ",
                  listener.refusal.second);
  }
  process.log()->info("leaving: reason={}", stop ? "asked by a signal" : "asked by an operator");
}

}  // namespace troupe
