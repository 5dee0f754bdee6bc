// startup [--model M] [--rounds R]: the time from the start of a process to the end of its first
// training step, as a program experiences it: this program starts itself. The started process
// measures the parts.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "bench/bench.hpp"
#include "bench/models.hpp"
#include "troupe/session.hpp"

namespace troupe::bench {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Runs in the started process: prints when each part ended.
int child(const std::string& name) {
  const double main = now_ms();
  Graph graph;
  const Model model = make_model(graph, name);
  const double built = now_ms();
  Session session = Session::local(graph);
  const double session_made = now_ms();
  std::vector<Output> fed;
  for (const auto& [unused, output] : model.fed) fed.push_back(output);
  const Callable step = session.prepare({model.loss, model.update}, fed);
  const double prepared = now_ms();
  step(model.feeds);
  std::printf("%.3f %.3f %.3f %.3f %.3f\n", main, built, session_made, prepared, now_ms());
  return 0;
}

}  // namespace

int startup(const Options& options) {
  const std::string model = options.text("model", "mlp");
  if (options.flag("child")) return child(model);
  const int64_t rounds = options.integer("rounds", 11);
  if (rounds < 1) throw Error(Errc::invalid_argument, "--rounds wants at least 1, got ", rounds);
  make_model(*std::make_unique<Graph>(), model);  // throws for an unknown name
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "'" + program + "' startup --child --model '" + model + "'";
  std::map<std::string, std::vector<double>> all;
  for (int64_t r = 0; r < rounds; ++r) {
    const double begin = now_ms();
    FILE* out = popen(("exec " + command).c_str(), "r");
    double main = 0, built = 0, session = 0, prepared = 0, stepped = 0;
    const bool good = out && std::fscanf(out, "%lf %lf %lf %lf %lf", &main, &built, &session,
                                         &prepared, &stepped) == 5;
    if (out) pclose(out);
    if (!good) throw Error(Errc::io, "the process that was started says nothing: ", command);
    all["startup_ms"].push_back(stepped - begin);
    all["load_ms"].push_back(main - begin);
    all["build_ms"].push_back(built - main);
    all["session_ms"].push_back(session - built);
    all["prepare_ms"].push_back(prepared - session);
    all["first_step_ms"].push_back(stepped - prepared);
  }
  const auto say = [&](const std::string& metric, double value, const char* statistic) {
    report(options, "startup", metric, value, "ms",
           {{"model", "\"" + model + "\""}, {"statistic", detail::concat("\"", statistic, "\"")}});
  };
  for (const auto& [metric, times] : all) say(metric, quantile(times, 0.5), "median");
  say("startup_ms_best", quantile(all["startup_ms"], 0), "minimum");
  return 0;
}

}  // namespace troupe::bench
