// The loop: files and time in, faults and lines out.
#include "apps/troupe/chaos/run.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "apps/actor-node/signals.hpp"
#include "troupe/error.hpp"

using namespace std::chrono_literals;
using troupe::detail::concat;

namespace {

constexpr auto kStartAgain = 100ms;  // after a kill of the program
constexpr auto kStop = 10s;          // from the request to end to the kill
constexpr auto kLeakLook = 1s;

}  // namespace

ChaosRun::ChaosRun(const RunPlan& plan, const std::filesystem::path& folder, SmallDisk& disk,
                   RunOutput& output)
    : plan_(plan),
      output_(output),
      cluster_(plan.cluster, folder, proxies_),
      injector_(plan.faults, plan.sizes, cluster_, proxies_, disk,
                [&output](const std::string& line) { output.say(line); }) {}

int ChaosRun::run() {
  while (!code_ && !stop_requested && !cluster_.ready()) {
    wait(20ms);
  }
  if (!code_ && !stop_requested) start_program(false);
  while (!code_ && !stop_requested) {
    wait(std::chrono::ceil<std::chrono::milliseconds>(tick_at_ - Time::now()));
    if (Time::now() >= tick_at_) tick();
  }
  end();
  return code_.value_or(128 + stop_signal.load());
}

void ChaosRun::wait(std::chrono::milliseconds most) {
  std::vector<pollfd> files;
  most = std::min(most, proxies_.ask(files));
  output_.ask(files);
  files.push_back({signal_file(), POLLIN, 0});
  poll(files.data(), files.size(), static_cast<int>(std::max<int64_t>(0, most.count())));
  if (files.back().revents) {
    wait_for_signal(0ms);
    look_at_children();
  }
  proxies_.serve();
  output_.serve();
}

void ChaosRun::look_at_children() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const bool supervisor = pid == cluster_.supervisor();
    const bool program = cluster_.ended(pid);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (program && injector_.has_killed_program() && killed) {
      again_ = true;
      start_at_ = tick_at_ = Time::now() + kStartAgain;
    } else if ((program || supervisor) && !code_ && !stop_requested) {
      code_ = code;
      if (supervisor)
        output_.say(
            concat("chaos: the cluster has ended with code ", code, ": ", cluster_.last_words()));
    }
  }
}

void ChaosRun::start_program(bool again) {
  std::vector<std::string> words = plan_.program;
  if (again) words.insert(words.end(), plan_.resume_with.begin(), plan_.resume_with.end());
  const int end = output_.open_pipe();
  cluster_.start_program(words, end);
  close(end);
}

void ChaosRun::tick() {
  const auto now = Time::now();
  if (again_ && now >= start_at_) {
    again_ = false;
    start_program(true);
  }
  if (!injector_.begun() && !plan_.faults.empty()) {
    const StepsByWorker steps = cluster_.steps();
    if (std::any_of(steps.begin(), steps.end(), [](const auto& s) { return s.second > 0; }))
      injector_.begin(now);
  }
  tick_at_ = now + injector_.tick(now);
  if (again_) tick_at_ = std::min(tick_at_, start_at_);
  // No look after the faults: the program may ask for more memory by then.
  if (injector_.begun() && injector_.calm() && now - looked_at_ >= kLeakLook && !looked_last_) {
    looked_at_ = now;
    looked_last_ = injector_.done();
    for (const std::string& node : plan_.cluster.processes.nodes())
      if (const pid_t pid = cluster_.pid_of(node)) leaks_.look(node, pid, now);
  }
}

void ChaosRun::end() {
  injector_.heal(Time::now());
  const auto deadline = Time::now() + kStop;
  cluster_.stop(stop_signal ? stop_signal.load() : SIGTERM);
  bool killed = false;
  while (cluster_.any_running()) {
    wait(100ms);
    if (killed || Time::now() < deadline) continue;
    killed = true;
    cluster_.kill_all();
  }
  output_.finish();
}
