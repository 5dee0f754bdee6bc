// troupe chaos: a program on a local cluster that is struck by faults, with a report.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>

#include "apps/actor-node/signals.hpp"
#include "apps/console_log.hpp"
#include "apps/flags.hpp"
#include "apps/folder_claim.hpp"
#include "apps/troupe/chaos/run.hpp"
#include "apps/troupe/program.hpp"
#include "apps/troupe/verbs.hpp"
#include "apps/words.hpp"

using troupe::Errc;
using troupe::Error;
using troupe::detail::concat;
using Millis = std::chrono::milliseconds;

namespace {

constexpr int kNodesMax = 64, kExitUnavailable = 69;
constexpr int kExitNothingShown = 2;  // a check that could not fail

struct ChaosOptions {
  std::optional<int64_t> seed;
  std::string every = "10s", lasts = "10m", delay = "50ms";
  std::optional<std::string> kinds, faults, disk, compare, run_dir;
  std::optional<int> until;
  std::string resume_with = "--resume", result = "sha256 ([0-9a-f]{64})";
  bool kill_program = false, dry_run = false, expect_same = false, check_leaks = false;
  int disk_mib = 64, throttle_kib = 1024;
  ClusterFlags cluster{{1, 1}, 0, 10'000, 3, {}};
};

void add_options(Flags& flags, ChaosOptions& to) {
  flags.add("seed", &to.seed, "of the schedule (default: a new one, which is printed)");
  flags.add("every", &to.every, "time between faults, as 10s, 500ms or 2m");
  flags.add("for", &to.lasts, "no fault begins later than this after the first step");
  flags.add("kinds", &to.kinds,
            "kinds of faults, with weights if wanted, as kill=3,stop,reset (default: all)");
  flags.add("faults", &to.faults,
            "a whole schedule instead of a drawn one: SECONDS:KIND:PROCESS[>PROCESS]"
            "[:MILLISECONDS] ..., as printed by --dry-run");
  flags.add("until", &to.until, "the first so many faults of the schedule");
  flags.add("dry-run", &to.dry_run, "print the schedule and end");
  flags.add("kill-program", &to.kill_program, "let PROGRAM be killed, too, and start it again");
  flags.add("resume-with", &to.resume_with, "words that PROGRAM gets when it is started again");
  flags.add("delay-by", &to.delay, "later arrival of bytes under `delay`");
  flags.add("throttle-to", &to.throttle_kib, "KiB per second of a link under `throttle`");
  flags.add("disk", &to.disk,
            "folder for a small disk, which disk_full fills: PROGRAM has its checkpoints there. "
            "Its files are gone at the end");
  flags.add("disk-mib", &to.disk_mib, "size of that disk");
  flags.add("expect-same", &to.expect_same,
            "run PROGRAM undisturbed first; another result under faults is exit code 1, and a run "
            "without a fault 2");
  flags.add("result", &to.result,
            "regular expression: its first group, or all of it, in the last line of PROGRAM that "
            "matches is the result");
  flags.add("compare", &to.compare,
            "file that PROGRAM writes, as the result; it implies --expect-same");
  flags.add("check-leaks", &to.check_leaks,
            "exit code 1 if open files, threads or memory of a node grow by more than 5 %");
  flags.add("ps", &to.cluster.processes.ps, "nodes that hold parameter shards");
  flags.add("workers", &to.cluster.processes.workers, "nodes that compute");
  flags.add("threads", &to.cluster.threads, "lanes of each node; 0: one per core");
  flags.add("restarts", &to.cluster.restarts, "as of actor-node up");
  flags.add("frozen-after", &to.cluster.frozen_after, "as of actor-node up");
  flags.add("plugin", &to.cluster.plugins, "as of actor-node up");
  flags.add("run-dir", &to.run_dir,
            "folder for logs and pid files, in nodes/; the logs are kept (default: a temporary "
            "one)");
}

Millis time_of(const char* flag, const std::string& text) {
  constexpr double kMost = 86'400e3;
  double value = 0;
  size_t end = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    end = 0;
  }
  const std::string unit = text.substr(end);
  value *= unit == "ms" ? 1 : unit == "s" ? 1e3 : unit == "m" ? 60e3 : unit == "h" ? 3600e3 : 0;
  if (end == 0 || !(value >= 1 && value <= kMost))
    throw Error(Errc::invalid_argument, flag,
                " wants a time from 1ms to 24h with its unit, as 500ms, 10s or 5m, got \"", text,
                "\"");
  return Millis(static_cast<int64_t>(value));
}

void check(const ChaosOptions& given, const std::vector<std::string>& program) {
  const auto refuse = [](const auto&... parts) { throw Error(Errc::invalid_argument, parts...); };
  const Processes& p = given.cluster.processes;
  if (program.empty() && !given.dry_run) refuse("no PROGRAM given; see troupe chaos --help");
  if (p.ps < 0 || p.workers < 1 || p.ps > kNodesMax || p.ps + p.workers > kNodesMax)
    refuse("wants at least one worker and at most ", kNodesMax, " nodes, got --ps ", p.ps,
           " --workers ", p.workers);
  if (given.until.value_or(1) < 1) refuse("--until wants at least 1 fault, got ", *given.until);
  if (given.disk_mib < 1 || given.disk_mib > 65'536)
    refuse("--disk-mib wants 1 to 65536, got ", given.disk_mib);
  if (given.throttle_kib < 1) refuse("--throttle-to wants at least 1, got ", given.throttle_kib);
  if (given.faults && (given.kinds || given.seed))
    refuse("--faults is a whole schedule: ", given.kinds ? "--kinds" : "--seed",
           " does not go with it");
  if (given.faults && given.kill_program)
    refuse("--faults says itself if PROGRAM is killed; leave out --kill-program");
}

// The kinds that may be drawn. One that is not possible is named; one that was asked for by name
// ends the run: returns its exit code.
std::optional<int> weigh(const ChaosOptions& given, SmallDisk& disk, RunOutput& output,
                         Weights& weights) {
  weights = given.kinds ? read_weights(*given.kinds) : usual_weights();
  bool by_name = given.kinds && weights[FaultKind::disk_full] > 0;
  if (given.faults)
    for (const Fault& fault : read_faults(*given.faults, given.cluster.processes))
      by_name |= fault.kind == FaultKind::disk_full;
  const bool may_be_drawn = !given.faults && weights[FaultKind::disk_full] > 0;
  if (!may_be_drawn && !by_name) return std::nullopt;
  if (!given.disk && by_name)
    throw Error(Errc::invalid_argument, "disk_full wants --disk, the folder of checkpoints");
  std::string why = "no --disk names the folder of checkpoints";
  if (given.disk) why = given.dry_run ? "" : disk.mount(*given.disk, given.disk_mib);
  if (why.empty()) return std::nullopt;
  output.say(concat("chaos: not possible here: disk_full: ", why));
  weights[FaultKind::disk_full] = 0;
  return by_name ? std::optional(kExitUnavailable) : std::nullopt;
}

std::vector<Fault> schedule_of(const ChaosOptions& given, const Weights& weights,
                               RunOutput& output) {
  ScheduleOptions options{0,
                          time_of("--every", given.every),
                          time_of("--for", given.lasts),
                          given.cluster.processes,
                          weights,
                          given.kill_program};
  std::vector<Fault> out;
  if (given.faults) {
    out = read_faults(*given.faults, given.cluster.processes);
  } else {
    options.seed = given.seed ? static_cast<uint64_t>(*given.seed) : std::random_device{}();
    out = draw_faults(options);
    output.say(concat("chaos: --seed ", options.seed, " draws ", out.size(),
                      " faults, from the first step on"));
  }
  if (given.until) out.resize(std::min(out.size(), static_cast<size_t>(*given.until)));
  return out;
}

// When the file of --compare was last written; nothing: it is not there.
std::optional<std::filesystem::file_time_type> written(const ChaosOptions& given) {
  std::error_code none;
  if (!given.compare) return std::nullopt;
  const auto time = std::filesystem::last_write_time(*given.compare, none);
  return none ? std::nullopt : std::optional(time);
}

// `before`: written() before the run. Throws: Error(invalid_argument) if the run has not written
// the file, as then it is the result of another one.
std::string result_of(const ChaosOptions& given, const RunOutput& output,
                      const std::optional<std::filesystem::file_time_type>& before) {
  if (!given.compare) return output.result();
  if (before && written(given) == before)
    throw Error(Errc::invalid_argument, "--compare: PROGRAM has not written ", *given.compare,
                " in this run, so its result is not there");
  return read_file(*given.compare, "result of PROGRAM");
}

// The report behind a run under faults. Returns the exit code.
int report(const ChaosOptions& given, const ChaosRun& run, int code, RunOutput& output) {
  for (const std::string& line : run.injector().table()) output.say("chaos: " + line);
  if (!run.injector().begun())
    output.say("chaos: PROGRAM has finished no step on a worker, so there was no fault");
  if (code != 0 || stop_requested)
    output.say(concat("chaos: again: --faults '", to_string(run.injector().happened()), "'"));
  if (!given.check_leaks || stop_requested) return code;
  const std::vector<std::string> leaks = run.leaks().found();
  for (const std::string& line : leaks) output.say("chaos: leak: " + line);
  if (leaks.empty() && run.leaks().compared() > 0)
    output.say(concat("chaos: no leak in ", run.leaks().compared(),
                      " processes that lived long "
                      "enough to compare"));
  return code == 0 && !leaks.empty() ? 1 : code;
}

// A run without faults and one with them must have one result. Returns the exit code.
int compare(const std::string& quiet, const std::string& disturbed, RunOutput& output) {
  const bool same = quiet == disturbed && !quiet.empty();
  const auto shown = [](const std::string& text) {
    return text.empty() ? "nothing" : text.size() > 100 ? concat(text.size(), " bytes") : text;
  };
  output.say(same ? concat("chaos: the same result as undisturbed: ", shown(quiet))
                  : concat("chaos: ANOTHER RESULT: undisturbed ", shown(quiet), ", under faults ",
                           shown(disturbed)));
  return same ? 0 : 1;
}

// True if a check that was asked for had nothing to check.
bool shows_nothing(const ChaosOptions& given, const ChaosRun& run, RunOutput& output) {
  const bool compares = given.expect_same || given.compare;
  std::string why;
  if ((compares || given.check_leaks) && run.injector().struck() == 0)
    why = "no fault has struck";
  else if (given.check_leaks && run.leaks().compared() == 0)
    why = "no process lived long enough to look for leaks";
  if (!why.empty()) output.say(concat("chaos: nothing is shown: ", why));
  return !why.empty();
}

int run(const ChaosOptions& given, const std::vector<std::string>& program, RunOutput& output) {
  SmallDisk disk;
  Weights weights;
  RunPlan plan{program, words_of(given.resume_with), given.cluster, {}, {}};
  plan.sizes = {time_of("--delay-by", given.delay), int64_t{given.throttle_kib} << 10};
  if (const auto code = weigh(given, disk, output, weights)) return *code;
  const std::vector<Fault> faults = schedule_of(given, weights, output);
  if (given.dry_run) {
    for (const Fault& fault : faults) output.say(to_string(fault));
    return 0;
  }
  unsetenv("TROUPE_TLS_DIR");  // one certificate names one process, and all links are on loopback
  catch_signals({SIGTERM, SIGINT, SIGHUP, SIGCHLD});
  signal(SIGPIPE, SIG_IGN);
  std::optional<ScratchFolder> scratch;
  std::filesystem::path folder = std::filesystem::absolute(
      given.run_dir ? std::filesystem::path(*given.run_dir) : scratch.emplace().path());
  std::filesystem::create_directories(folder);
  const FolderClaim claim(folder, "--run-dir");
  folder /= "nodes";  // `up` claims its own
  std::filesystem::create_directories(folder);
  std::string quiet;
  const bool twice = given.expect_same || given.compare;
  if (twice) {
    output.say("chaos: first PROGRAM runs undisturbed");
    const auto before = written(given);
    ChaosRun first(plan, folder, disk, output);
    if (const int code = first.run(); code != 0 || stop_requested) return code;
    quiet = result_of(given, output, before);
    output.forget_result();
    disk.clear();
    if (quiet.empty())
      throw Error(Errc::invalid_argument,
                  "PROGRAM has no result to compare; --result or "
                  "--compare say where it is");
    output.say("chaos: now under faults");
  }
  plan.faults = faults;
  const auto before = written(given);
  ChaosRun second(plan, folder, disk, output);
  int code = report(given, second, second.run(), output);
  if (stop_requested) return code;
  if (code == exit_code(Errc::peer_lost) && scratch) {  // `up` has given up, and names a log
    scratch->keep();
    output.say(concat("chaos: the logs are kept in ", folder.string()));
  }
  if (twice) {
    const int same = compare(quiet, code == 0 ? result_of(given, output, before) : "", output);
    if (code == 0) code = same;
  }
  return code == 0 && shows_nothing(given, second, output) ? kExitNothingShown : code;
}

}  // namespace

int chaos(const std::vector<std::string>& arguments) {
  ChaosOptions given;
  Flags flags("troupe chaos",
              "troupe chaos [options] PROGRAM [ARGS...]: PROGRAM on a local cluster that is struck "
              "by faults while it learns");
  add_options(flags, given);
  flags.end_at_word();
  if (!flags.parse(arguments)) return 0;
  check(given, flags.command);
  RunOutput output(given.result);
  int code = 0;
  try {
    code = run(given, flags.command, output);
  } catch (...) {
    output.finish();
    throw;
  }
  output.finish();
  return code;
}
