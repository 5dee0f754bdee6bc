// Reads the common flags, and runs a training with progress, events and checkpoints.
#include "apps/program/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/console_log.hpp"
#include "apps/failpoints.hpp"
#include "apps/plugins.hpp"
#include "apps/program/checkpoints.hpp"
#include "troupe/custom_op.hpp"

using namespace troupe;

namespace {

constexpr int64_t kCheckpoints = 10;  // in one training

}  // namespace

const ProcessOptions& ProgramOptions::process() const {
  if (!process_) {
    ProcessOptions out;
    out.ops = ops_with_plugins(plugins_for(plugins));
    out.log = console_log(log_format, name);
    out.log_level = ::log_level(log_level);
    process_ = std::move(out);
  }
  return *process_;
}

Cluster ProgramOptions::where() const {
  Cluster out = find_cluster(spec, cluster, wait);
  if (trust.secret_file && trust.secret_file->empty())
    throw Error(Errc::invalid_argument, "--secret-file names no file");
  out.secret_file = trust.secret_file.value_or("");
  if (trust.tls && trust.tls->empty()) throw Error(Errc::invalid_argument, "--tls names no folder");
  out.tls_dir = trust.tls.value_or("");
  return out;
}

LogSink ProgramOptions::say() const { return console_voice(log_format, name); }

void add_common_flags(Flags& flags, ProgramOptions& to, const FlagTexts& texts) {
  if (!texts.data.empty()) flags.add("data", &to.data, texts.data);
  if (!texts.seed.empty()) flags.add("seed", &to.seed, texts.seed);
  if (!texts.resume.empty())
    flags.add("resume", &to.resume, texts.resume + ", with the same flags; else they are removed");
  flags.add("spec", &to.spec, "file that says where the nodes of a cluster listen, to run there");
  flags.add("cluster", &to.cluster, "name of that cluster (default: troupe)");
  flags.add("secret-file", &to.trust.secret_file,
            "file of that cluster's secret; without it: the one that TROUPE_SECRET_FILE names");
  flags.add("tls", &to.trust.tls,
            "folder of ca.pem, cert.pem and key.pem, for a cluster whose links are encrypted; "
            "without it: the one that TROUPE_TLS_DIR names");
  flags.add("wait", &to.wait, "seconds until its nodes must be there");
  flags.add("patience", &to.training.patience,
            "seconds that a training waits for lost processes, or for room on the disk at its end");
  flags.add("move-after", &to.training.move_after,
            "seconds after which the replicas of a worker that is away move to others; 0: never");
  flags.add("bad-gradients", &to.training.bad_gradients,
            "fail, skip or roll-back: what follows from gradients that are NaN or infinite");
  flags.add("compress", &to.training.compression.gradients,
            "codec of gradients: none, bf16, f16, int8, sign or topk:F, or a list by parameter, as "
            "fc1/w=int8,conv*=bf16");
  flags.add("compress-values", &to.training.compression.values,
            "codec of the values that steps pull, in the same form: none, bf16 or f16");
  flags.add("record", &to.training.record,
            "folder for the order of all updates, so that --replay gives the same bits");
  flags.add("replay", &to.training.replay,
            "folder of such a record: its order decides again; with the same other flags");
  flags.add("plugin", &to.plugins,
            "shared library with ops that the cluster has, too; may be given again");
  flags.add("out", &to.out, "folder for the files that it writes");
  flags.add("log-format", &to.log_format, "text or json");
  flags.add("log-level", &to.log_level, "trace, debug, info, warn or error");
}

void check_batch(int64_t batch, int64_t replicas) {
  if (replicas < 1)
    throw Error(Errc::invalid_argument, "--replicas wants at least 1, got ", replicas);
  if (batch < replicas || batch % replicas != 0)
    throw Error(Errc::invalid_argument, "--batch wants a multiple of the ", replicas,
                " replicas, got ", batch);
}

int64_t updates_in(int64_t steps, const std::string& rule, int64_t replicas) {
  return aggregation_from_string(rule).by_steps() ? steps : steps * replicas;
}

std::shared_ptr<const Registry> ops_beside(const Registry& known, const std::vector<Op>& ops,
                                           const std::vector<SourceFunction>& functions) {
  auto out = std::make_shared<Registry>();
  for (const Op* op : known.all()) out->add(*op);
  for (const SourceFunction* function : known.functions()) out->add(*function);
  for (const Op& op : ops) out->add(op);
  for (const SourceFunction& function : functions) out->add(function);
  return out;
}

int run_program(ProgramOptions& options, const std::string& summary, int argc, char** argv,
                const std::function<void(Flags&)>& add, const std::function<int()>& run) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line is seen when it is said, in a pipe, too
  return exit_code_of(console_voice("text", options.name), [&] {
    Flags flags(options.name, options.name + ": " + summary);
    add(flags);
    std::optional<std::string> failpoints;
    add_failpoints(flags, failpoints);
    if (!flags.parse({argv + 1, argv + argc})) return 0;
    return exit_code_of(options.say(), [&] {
      if (list_failpoints(failpoints)) return 0;
      if (failpoints) set_fail_points(*failpoints);
      const int code = run();
      if (code == 0 && !options.trainings.unsaved.empty())
        throw Error(Errc::io, options.trainings.unsaved);
      return code;
    });
  });
}

namespace {

TrainOptions::BadGradients bad_gradients_of(const std::string& text) {
  if (text == "fail") return TrainOptions::BadGradients::fail;
  if (text == "skip") return TrainOptions::BadGradients::skip;
  if (text == "roll-back") return TrainOptions::BadGradients::roll_back;
  throw Error(Errc::invalid_argument, "--bad-gradients wants fail, skip or roll-back, got \"", text,
              "\"");
}

// The options that every training in sight has.
void set_in_sight(TrainOptions& options, ProgressLine& line, const ProgramOptions& given,
                  const OutFolder& out, const std::string& label) {
  options.resume = given.resume;
  options.bad_gradients = bad_gradients_of(given.training.bad_gradients);
  options.patience = std::chrono::seconds(given.training.patience);
  options.compression = given.training.compression;
  if (!(given.training.move_after >= 0 && given.training.move_after <= 86'400))
    throw Error(Errc::invalid_argument, "--move-after wants 0 (never) to 86400 s, got ",
                given.training.move_after);
  options.move_after = std::chrono::milliseconds(std::llround(given.training.move_after * 1000));
  // Each training of the program has a folder of its own in it.
  const std::filesystem::path name = "order-" + label;
  if (given.training.record)
    options.record = (std::filesystem::path(*given.training.record) / name).string();
  if (given.training.replay)
    options.replay = (std::filesystem::path(*given.training.replay) / name).string();
  if (!options.resume) remove_checkpoints(options.checkpoint_dir, label);
  // The trainings to come lose theirs, too: if this run is cut off before them, --resume must not
  // take the earlier run's for its own.
  if (!options.resume && !std::exchange(given.trainings.begun, true)) remove_all_checkpoints(out);
  options.on_event = [&line, label, begin = std::chrono::steady_clock::now()](const TrainEvent& e) {
    line.end();
    std::printf("%s [%.1f s] %s\n", label.c_str(),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
                e.text.c_str());
  };
}

void say_result(const TrainResult& result, const std::string& label, const ProgramOptions& given) {
  if (!result.unsaved.empty()) given.trainings.unsaved = result.unsaved;
  std::printf("%s: %lld steps in %.2f s, weights sha256 %s%s\n", label.c_str(),
              static_cast<long long>(result.steps), result.seconds, result.weights_sha256.c_str(),
              result.recoveries ? "  (shards recovered)" : "");
}

}  // namespace

Trained train_in_sight(Session& session, const std::vector<Tower>& towers, TrainOptions options,
                       const ProgramOptions& given, const OutFolder& out, const std::string& label,
                       Plot* curve, const std::function<std::string()>& more) {
  ProgressLine line(label);
  std::string folder = "checkpoint-" + label;
  std::replace(folder.begin(), folder.end(), '/', '_');  // of names of parameters in a rule
  options.checkpoint_dir = (out / folder).string();
  if (options.checkpoint_every == 0)
    options.checkpoint_every = std::max<int64_t>(1, options.steps / kCheckpoints);
  options.data_seed = static_cast<uint64_t>(given.seed);
  if (curve && given.resume) curve->add_csv(out / "curve.csv");
  const auto keep_curve = [&](int64_t step) {
    if (curve && step % options.checkpoint_every == 0)
      write_extra(out / "curve.csv", to_csv(*curve), given.say());
  };
  keep_curve(0);  // the one of an earlier run is gone
  TrainOptions wrapped = options;
  set_in_sight(wrapped, line, given, out, label);
  wrapped.on_progress = [&](const TrainProgress& p) {
    line.show(p, more ? more() : "");
    if (options.on_progress) options.on_progress(p);
    if (p.step > 0) keep_curve(p.step);
  };
  if (options.on_pause)
    wrapped.on_pause = [&](const TrainPause& p) {
      line.end();
      const bool goes_on = options.on_pause(p);
      keep_curve(p.step);  // the checkpoint comes after it
      return goes_on;
    };
  const TrainResult result = train(session, towers, wrapped);
  line.end();
  say_result(result, label, given);
  return {result, std::move(options)};
}

Fitted fit_in_sight(Session& session, const std::vector<Tower>& towers, const Source& data,
                    FitOptions options, const ProgramOptions& given, const OutFolder& out,
                    const std::string& rule) {
  ProgressLine line(rule);
  options.seed = static_cast<uint64_t>(given.seed);
  options.train.rule = aggregation_from_string(rule);
  options.train.checkpoint_dir = (out / "checkpoints").string();
  FitOptions wrapped = options;
  set_in_sight(wrapped.train, line, given, out, rule);
  wrapped.on_step = [&](const TrainProgress& p) {
    line.show(p);
    if (options.on_step) options.on_step(p);
  };
  auto begin = std::chrono::steady_clock::now();
  wrapped.on_epoch = [&](const FitEpoch& epoch) {
    line.end();
    const auto now = std::chrono::steady_clock::now();
    std::string scores;
    for (const auto& [name, score] : epoch.scores) {
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.5g", score);
      scores += detail::concat(", validation ", name, " ", digits);
    }
    if (epoch.rate_scale != 1) scores += detail::concat(", rate scale ", epoch.rate_scale);
    std::printf("%s epoch %lld/%lld: loss %.4f%s, %.1f s\n", rule.c_str(),
                static_cast<long long>(epoch.epoch), static_cast<long long>(options.epochs),
                epoch.loss, scores.c_str(), std::chrono::duration<double>(now - begin).count());
    begin = now;
    return !options.on_epoch || options.on_epoch(epoch);
  };
  FitResult result = fit(session, towers, data, wrapped);
  line.end();
  say_result(result.training, rule, given);
  return {std::move(result), std::move(options.train)};
}

void after_training(Session& session, const TrainOptions& options,
                    const std::function<void()>& work) {
  const auto end = std::chrono::steady_clock::now() + options.patience;
  for (;;) {
    try {
      return work();
    } catch (const Error& e) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      if ((e.code() != Errc::peer_lost && e.code() != Errc::stale) || left.count() <= 0) throw;
      std::printf("%s: a process was lost after the training; its last checkpoint is loaded: %s\n",
                  to_string(options.rule.value_or(Aggregation::sync)).c_str(), e.what());
      load_parameters(session, options.checkpoint_dir, left);
    }
  }
}
