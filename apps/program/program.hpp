// The frame of a program: the flags that all programs have, and how they begin and end.
//
//   int main(int argc, char** argv) {
//     Options given;  // a ProgramOptions with more fields
//     return run_program(given, "a sentence for --help", argc, argv,
//                        [&](Flags& flags) { flags.add("steps", &given.steps, "of the training");
//                        },
//                        [&] { return run(given); });
//   }
//
// Owner: main(). Thread: its own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags.hpp"
#include "apps/program/cluster.hpp"
#include "apps/program/out_folder.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/progress_line.hpp"
#include "troupe/training.hpp"

// For --help.
inline constexpr const char* kRules =
    "sync, sync-backup:B, async, async-damped, ssp:S, ssp-damped:S, local:H or diloco:H; and "
    "+NAME=RULE for a parameter";

struct ProgramOptions {
  std::string name;  // of the program
  std::optional<std::string> data, spec, cluster;
  int64_t seed = 1;
  int wait = 60;             // seconds
  struct Training {          // of all that are in sight
    int patience = 120;      // seconds
    double move_after = 10;  // seconds
    std::string bad_gradients = "fail";
    troupe::TrainOptions::Compression compression;
    std::optional<std::string> record, replay;
  } training;
  std::vector<std::string> plugins;
  bool resume = false;
  std::string out;
  struct Trust {
    std::optional<std::string> secret_file, tls;
  } trust;
  std::string log_format = "text", log_level = "warn";

  Cluster where() const;
  // The ops of the plugins, and the sink for log lines; made once.
  const troupe::ProcessOptions& process() const;
  troupe::LogSink say() const;  // for the program's own words on standard error
  struct Trainings {            // of this run, so far
    std::string unsaved;  // why one has left no checkpoint of its last step; the run's error then
    bool begun = false;   // without --resume: the checkpoints of earlier runs are gone
  };
  mutable Trainings trainings;

 private:
  mutable std::optional<troupe::ProcessOptions> process_;
};

// The words of --help for flags whose meaning depends on the program; empty: it has no such flag.
struct FlagTexts {
  std::string data, seed, resume;
};
void add_common_flags(Flags& flags, ProgramOptions& to, const FlagTexts& texts);

// For --batch, of all replicas, and --replicas. Throws: Error(invalid_argument) for less than one
// replica, and for a batch that they cannot share equally.
void check_batch(int64_t batch, int64_t replicas);

// Reads the command line into `options`, runs, and returns the exit code. Each exception becomes a
// line on standard error and an exit code.
int run_program(ProgramOptions& options, const std::string& summary, int argc, char** argv,
                const std::function<void(Flags&)>& add, const std::function<int()>& run);

struct Trained {
  troupe::TrainResult result;
  troupe::TrainOptions options;  // with the folder of its checkpoints, for after_training()
};

// The updates that a shard makes in so many steps: under async and ssp one for each replica. The
// schedules of optimizers count these.
int64_t updates_in(int64_t steps, const std::string& rule, int64_t replicas);

// Ops and source functions of the program beside those of `known`, which plugins may have brought.
std::shared_ptr<const troupe::Registry> ops_beside(
    const troupe::Registry& known, const std::vector<troupe::Op>& ops,
    const std::vector<troupe::SourceFunction>& functions = {});

// train() with a progress line, with events as lines, and with checkpoints in --out: about ten, or
// those of `options.checkpoint_every`. Without --resume old checkpoints are removed, and a line
// says so. `options.on_progress` is called, too. `curve`, if there is one, is in curve.csv at each
// checkpoint, and a resumed training begins with that. `more` adds words to the line of progress.
Trained train_in_sight(troupe::Session& session, const std::vector<troupe::Tower>& towers,
                       troupe::TrainOptions options, const ProgramOptions& given,
                       const OutFolder& out, const std::string& label, Plot* curve = nullptr,
                       const std::function<std::string()>& more = {});

struct Fitted {
  troupe::FitResult result;
  troupe::TrainOptions options;  // as of Trained
};

// fit() in the same way by the rule of that name, with a checkpoint for each epoch, and after each
// epoch a line with its loss, scores and seconds.
Fitted fit_in_sight(troupe::Session& session, const std::vector<troupe::Tower>& towers,
                    const troupe::Source& data, troupe::FitOptions options,
                    const ProgramOptions& given, const OutFolder& out, const std::string& rule);

// Does the work that follows a training. If a process is lost on the way, the work is done again,
// with the parameters of the last checkpoint, as a ps that is back has none.
void after_training(troupe::Session& session, const troupe::TrainOptions& options,
                    const std::function<void()>& work);
