// Runs the programs of `train --peers` in turn and compares their times and losses.
#include "bench/compare.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "bench/models.hpp"
#include "troupe/error.hpp"

namespace troupe::bench {
namespace {

constexpr double kTurnSeconds = 0.4;             // of one program in one round
constexpr double kLossTolerance = 1e-3;          // relative: programs sum in other orders
constexpr std::chrono::milliseconds kRest{250};  // until the last program's threads sleep

// The first `count` cores that this process may use.
cpu_set_t first_cores(int64_t count) {
  cpu_set_t ours, some;
  CPU_ZERO(&ours);
  CPU_ZERO(&some);
  sched_getaffinity(0, sizeof ours, &ours);
  for (int core = 0; core < CPU_SETSIZE && count > 0; ++core) {
    if (!CPU_ISSET(core, &ours)) continue;
    CPU_SET(core, &some);
    --count;
  }
  if (count > 0)
    throw Error(Errc::invalid_argument,
                "--threads wants more cores than this process may use: ", count, " are missing");
  return some;
}

// A child process with pipes, on a given set of cores.
class Child {
 public:
  Child(const std::vector<std::string>& command, const cpu_set_t& cores) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) throw Error(Errc::io, "no pipe");
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) throw Error(Errc::io, "cannot start ", command[0]);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      sched_setaffinity(0, sizeof cores, &cores);
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
  }
  Child(const Child&) = delete;
  ~Child() {
    std::fclose(to_);
    std::fclose(from_);
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  void say(const std::string& line) {
    std::fprintf(to_, "%s\n", line.c_str());
    std::fflush(to_);
  }
  std::optional<std::string> line() {
    std::string text;
    for (int c; (c = std::fgetc(from_)) != EOF;) {
      if (c == '\n') return text;
      text += static_cast<char>(c);
    }
    return std::nullopt;  // the child has ended
  }

 private:
  pid_t pid_ = -1;
  FILE *to_ = nullptr, *from_ = nullptr;
};

// A process that computes all the time on the last of the cores.
class Load {
 public:
  explicit Load(cpu_set_t cores) {
    int last = 0;
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &cores)) last = core;
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CPU_ZERO(&cores);
    CPU_SET(last, &cores);
    sched_setaffinity(0, sizeof cores, &cores);
    for (volatile uint64_t i = 0;;) i = i + 1;
  }
  Load(const Load&) = delete;
  ~Load() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

struct Contestant {
  std::string name;
  std::vector<std::string> command;
  std::unique_ptr<Child> child = nullptr;
  std::vector<double> times = {};    // milliseconds, of all rounds
  std::vector<double> medians = {};  // of each round
  double loss = 0, rss_over_idle_mib = 0;

  bool is_peer() const { return name != "troupe" && name != "onednn"; }

  // Runs n steps. False: the program has ended, or its answer is malformed.
  bool steps(int64_t n, std::vector<double>& out) {
    child->say("steps " + std::to_string(n));
    const auto line = child->line();
    if (!line) return false;
    std::istringstream in(*line);
    double ms = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (!(in >> ms)) return false;
      out.push_back(ms);
    }
    std::string word;
    return static_cast<bool>(in >> word >> loss) && word == "loss";
  }
  bool memory() {
    child->say("memory");
    const auto line = child->line();
    double idle = 0, peak = 0;
    if (!line || !(std::istringstream(*line) >> idle >> peak)) return false;
    rss_over_idle_mib = peak - idle;
    return true;
  }
  bool start(const cpu_set_t& cores) {
    child = std::make_unique<Child>(command, cores);
    return child->line() == "ready";
  }
};

std::filesystem::path own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

// The Python that bench/peers/install.sh installed, in the folder of the peers' programs.
std::filesystem::path peers_python() {
  if (const char* folder = std::getenv("TROUPE_PEERS"))
    return std::filesystem::path(folder) / "bin/python";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::filesystem::path root =
      cache ? std::filesystem::path(cache) : std::filesystem::path(home ? home : "/") / ".cache";
  return root / "troupe/peers/bin/python";
}

std::vector<Contestant> contestants(const Options& options, const std::string& model,
                                    int64_t threads, const std::string& file) {
  const std::string n = std::to_string(threads);
  const std::filesystem::path folder = own_folder();
  std::vector<Contestant> all;
  all.push_back(
      {"troupe",
       {folder / "troupe_bench", "train", "--contestant", "--model", model, "--threads", n}});
  if (model != "gpt")  // nobody has written its loop
    all.push_back({"onednn", {folder / "onednn_steps", model, n, file}});
  if (options.flag("peers")) {
    const std::filesystem::path python = peers_python();
    const std::string script = TROUPE_SOURCE_DIR "/bench/peers/contestant.py";
    if (std::filesystem::exists(python))
      for (const char* const peer : {"torch", "torch-compiled", "tensorflow", "tensorflow-jit"})
        all.push_back({peer, {python, script, peer, model, n, file}});
    else
      std::cerr << "train: skipped PyTorch and TensorFlow: there is no " << python.string()
                << "; run bench/peers/install.sh\n";
  }
  const std::string only = detail::concat(",", options.text("only", ""), ",");
  if (only != ",,")
    std::erase_if(all, [&](const Contestant& c) {
      return c.name != "troupe" && only.find(detail::concat(",", c.name, ",")) == std::string::npos;
    });
  return all;
}

void check_losses(const std::vector<Contestant>& all, int64_t steps) {
  for (const Contestant& c : all)
    if (!(std::abs(c.loss - all[0].loss) <= kLossTolerance * std::abs(all[0].loss)))
      throw InternalError("after ", steps, " steps the loss is ", all[0].loss, ", but by ", c.name,
                          " it is ", c.loss, ": they do not compute the same");
}

class Comparison {
 public:
  Comparison(const Options& options, const std::string& file)
      : options_(options),
        model_(options.text("model", "mlp")),
        threads_(options.integer("threads", 1)),
        rounds_(options.integer("rounds", 10)),
        cores_(first_cores(threads_)),
        all_(contestants(options, model_, threads_, file)) {
    if (rounds_ < 0)
      throw Error(Errc::invalid_argument, "--rounds wants at least 0, got ", rounds_);
  }

  void run() {
    start();
    if (rounds_ == 0) return;
    std::optional<Load> load;
    if (options_.flag("loaded")) load.emplace(cores_);
    for (int64_t r = 0; r < rounds_; ++r)
      for (Contestant& c : all_) turn(c);
    for (Contestant& c : all_) c.memory();
    for (const Contestant& c : all_) say(c);
    say_ratios();
  }

 private:
  // Runs the first steps, in which programs compile, and compares their losses after the last of
  // them.
  void start() {
    constexpr int64_t kFirstSteps = 4;
    std::vector<Contestant> good;
    for (Contestant& c : all_) {
      std::vector<double> times;
      if (!c.start(cores_) || !c.steps(kFirstSteps, times)) {
        if (!c.is_peer()) throw Error(Errc::io, c.name, " does not run: ", c.command[0]);
        std::cerr << "train: skipped " << c.name << ": it does not run here\n";
        continue;
      }
      good.push_back(std::move(c));
    }
    all_ = std::move(good);
    check_losses(all_, kFirstSteps);
    for (const Contestant& c : all_)
      report(options_, "train", "loss", c.loss, "nats", config(c.name, "fourth_step"));
  }

  void turn(Contestant& c) {
    std::this_thread::sleep_for(kRest);
    std::vector<double> times;
    if (!c.steps(2, times)) throw Error(Errc::io, c.name, " has ended");
    const double ms = std::max(1e-3, times.back());
    const auto n =
        std::clamp<int64_t>(static_cast<int64_t>(std::lround(kTurnSeconds * 1e3 / ms)), 3, 2'000);
    times.clear();
    if (!c.steps(n, times)) throw Error(Errc::io, c.name, " has ended");
    c.medians.push_back(quantile(times, 0.5));
    c.times.insert(c.times.end(), times.begin(), times.end());
  }

  std::vector<std::pair<std::string, std::string>> config(const std::string& program,
                                                          const std::string& statistic) const {
    return {{"model", "\"" + model_ + "\""},
            {"threads", std::to_string(threads_)},
            {"loaded", options_.flag("loaded") ? "true" : "false"},
            {"program", "\"" + program + "\""},
            {"statistic", "\"" + statistic + "\""}};
  }

  void say(const Contestant& c) const {
    report(options_, "train", "step_ms", quantile(c.times, 0.5), "ms", config(c.name, "median"));
    report(options_, "train", "step_ms_best", quantile(c.times, 0), "ms",
           config(c.name, "minimum"));
    report(options_, "train", "rss_over_idle_mib", c.rss_over_idle_mib, "MiB",
           config(c.name, "maximum"));
  }

  // Prints the time of each program divided by ours: as the median over the rounds, because
  // programs that take turns have the same neighbours within a round, and for the best steps.
  void say_ratios() const {
    const Contestant& ours = all_[0];
    double best = INFINITY, best_of_minima = INFINITY;
    for (size_t i = 1; i < all_.size(); ++i) {
      const Contestant& c = all_[i];
      std::vector<double> ratios;
      for (size_t r = 0; r < c.medians.size(); ++r)
        ratios.push_back(c.medians[r] / ours.medians[r]);
      const double median = quantile(ratios, 0.5);
      const double minima = quantile(c.times, 0) / quantile(ours.times, 0);
      report(options_, "train", "times_ours", median, "x", config(c.name, "median"));
      report(options_, "train", "times_ours_best", minima, "x", config(c.name, "minimum"));
      if (!c.is_peer()) continue;
      best = std::min(best, median);
      best_of_minima = std::min(best_of_minima, minima);
    }
    if (!std::isfinite(best)) return;
    report(options_, "train", "times_ours", best, "x", config("best_peer", "median"));
    report(options_, "train", "times_ours_best", best_of_minima, "x",
           config("best_peer", "minimum"));
  }

  const Options& options_;
  const std::string model_;
  const int64_t threads_, rounds_;
  const cpu_set_t cores_;
  std::vector<Contestant> all_;
};

// A file that the destructor removes.
struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() / "troupe-model-XXXXXX").string();
  TemporaryFile() {
    const int fd = mkstemp(path.data());
    if (fd < 0) throw Error(Errc::io, "no temporary file ", path);
    close(fd);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() { unlink(path.c_str()); }
};

}  // namespace

int compare(const Options& options) {
  const TemporaryFile file;
  signal(SIGPIPE, SIG_IGN);  // the missing output shows that a program has ended
  write_model(options.text("model", "mlp"), file.path);
  Comparison(options, file.path).run();
  return 0;
}

}  // namespace troupe::bench
