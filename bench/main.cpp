// troupe_bench NAME [--json] [options]: the project's benchmarks. docs/benchmarks.md has results
// with their commands and machine.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "apps/flags.hpp"
#include "bench/bench.hpp"
#include "troupe/error.hpp"

namespace troupe::bench {

Options::Options(const std::string& bench, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& keys, const std::vector<std::string>& flags) {
  Flags line("troupe_bench", "troupe_bench " + bench);
  line.add("json", &flags_["json"], "a line of JSON for each result");
  for (const std::string& key : flags) line.add(key, &flags_[key], "");
  for (const std::string& key : keys) line.add(key, &values_[key], "");
  line.parse(arguments);
}

int64_t Options::integer(const std::string& key, int64_t fallback) const {
  const std::string text = this->text(key, std::to_string(fallback));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Errc::invalid_argument, "--", key, " wants a whole number, got \"", text, "\"");
  return value;
}

std::string Options::text(const std::string& key, const std::string& fallback) const {
  return values_.at(key).value_or(fallback);
}

bool Options::flag(const std::string& key) const { return flags_.at(key); }
bool Options::given(const std::string& key) const { return values_.at(key).has_value(); }

void report(const Options& options, const std::string& bench, const std::string& metric,
            double value, const std::string& unit,
            const std::vector<std::pair<std::string, std::string>>& config) {
  std::string text;
  for (const auto& [key, v] : config)
    text += detail::concat(text.empty() ? "\"" : ", \"", key, "\": ", v);
  if (options.json())
    std::printf(
        "{\"bench\": \"%s\", \"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"config\": "
        "{%s}}\n",
        bench.c_str(), metric.c_str(), value, unit.c_str(), text.c_str());
  else
    std::printf("%-10s %-18s %12.4g %-8s %s\n", bench.c_str(), metric.c_str(), value, unit.c_str(),
                text.c_str());
  std::fflush(stdout);
}

double quantile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::lround(p * static_cast<double>(values.size() - 1)))];
}

}  // namespace troupe::bench

namespace {

void usage(std::ostream& out) {
  out << "usage: troupe_bench NAME [--json] [options]\n"
         "  dispatch [--nodes N]                    cost of an op, of an empty step, runs a "
         "second\n"
         "  graph [--nodes N]                       building, preparing and running a large graph\n"
         "  ops [--only OP]                         each op at several sizes, against a roofline\n"
         "  train [--model M] [--threads N] [--steps S] [--passes on|off] [--trace FILE]\n"
         "        [--compute f32|bf16|f16]\n"
         "                                          a training step in one process; M is mlp, "
         "cnn,\n"
         "                                          resnet20, inception, lstm, gpt or\n"
         "                                          sparse-lr\n"
         "    --peers [--rounds R] [--only A,B]     beside a loop of oneDNN calls, PyTorch and\n"
         "                                          TensorFlow (bench/peers/install.sh)\n"
         "    --loaded                              while another process holds one of the cores\n"
         "  memory [--model M] [--recompute]        what a step holds, against all its tensors\n"
         "  mixed --data DIR [--compute C] [--steps S] [--seed N]\n"
         "                                          accuracy of a network in f32, bf16 and f16; "
         "DIR\n"
         "                                          holds the four IDX files of MNIST, or others\n"
         "                                          like them\n"
         "  trace [--model M] [--threads N]         what a trace costs the steps that are in it\n"
         "  word2vec [--batch B] [--steps S] [--threads N] [--corpus FILE]\n"
         "                                          skip-gram with negatives on a text of 10,000 "
         "words\n"
         "  startup [--model M]                     process start to first trained step\n"
         "  remote [--shards S] [--processes P]     fetch one scalar from each shard in other "
         "processes\n"
         "  recovery [--only A,B] [--rounds R] [--kills K] [--mib M]\n"
         "                                          how soon a training hears of a death and goes "
         "on\n"
         "  killed --to FILE --checkpoints DIR [--rule sync|async]\n"
         "                                          the training that bench/peers/killed.py kills\n"
         "  push_pull [--mib M]                     a parameter of M MiB pulled and pushed over "
         "loopback\n"
         "  scale [--model M] [--workers W] [--rule sync|async] [--rounds R] [--steps S]\n"
         "                                          W workers of one thread against one process of "
         "W "
         "threads\n"
         "  shard [--kib K] [--workers W]           pushes of K KiB a second that shards take\n"
         "  embedding [--rows A,B] [--bulk N] [--table 1]\n"
         "                                          rows of tables of A and B rows, read and "
         "trained;\n"
         "                                          --table: made on first touch\n"
         "  rules [--only A,B] [--updates N] [--shards S] [--svg FILE]\n"
         "        [--spread-percent S] [--delay-percent D]\n"
         "                                          the aggregation rules with workers in virtual "
         "time\n"
         "  switch [--model M] [--every N] [--steps S]\n"
         "                                          the longest step around a change of the rule\n"
         "  collective [--mib M | --kib K] [--processes P]\n"
         "                                          an all-reduce over P processes\n"
         "  transfer [--mib M] [--rounds R]         a tensor that another process of the machine "
         "reads\n"
         "  links [--mib M] [--rounds R]            blocks of M MiB through a link and a loop of "
         "calls, with\n"
         "                                          and without TLS\n"
         "  compress [--mib M]                      bytes of a push by codec, and what the codec "
         "costs\n"
         "  footprint [--seconds S]                 an idle actor-node in a cluster of five\n";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::bench;
  struct Bench {
    int (*run)(const Options&);
    std::vector<std::string> keys = {}, flags = {};
  };
  const std::map<std::string, Bench> benches = {
      {"dispatch", {dispatch, {"nodes"}}},
      {"remote", {remote, {"shards", "processes"}}},
      {"recovery", {recovery, {"only", "rounds", "kills", "mib"}, {"child"}}},
      {"killed", {killed, {"to", "checkpoints", "rule", "every", "pause-ms"}}},
      {"train",
       {train,
        {"model", "threads", "steps", "rounds", "only", "trace", "passes", "compute"},
        {"contestant", "peers", "loaded", "recompute"}}},
      {"push_pull", {push_pull, {"mib"}}},
      {"scale", {scale, {"model", "workers", "rule", "rounds", "steps"}}},
      {"shard", {shard, {"kib", "workers"}}},
      {"embedding", {embedding, {"rows", "bulk", "table"}}},
      {"rules", {rules, {"only", "updates", "shards", "svg", "spread-percent", "delay-percent"}}},
      {"collective", {collective, {"mib", "kib", "processes"}}},
      {"transfer", {transfer, {"mib", "rounds"}}},
      {"compress", {compress, {"mib"}}},
      {"links", {links, {"mib", "rounds"}}},
      {"footprint", {footprint, {"seconds"}}},
      {"graph", {graph, {"nodes"}}},
      {"startup", {startup, {"model", "rounds"}, {"child"}}},
      {"switch", {switching, {"model", "every", "steps"}}},
      {"memory", {memory, {"model", "steps"}, {"recompute"}}},
      {"mixed", {mixed, {"data", "compute", "steps", "seed", "threads"}}},
      {"ops", {ops, {"only"}}},
      {"word2vec", {word2vec, {"batch", "steps", "threads", "corpus"}}},
      {"trace", {trace, {"model", "threads"}}}};
  const std::string name = argc > 1 ? argv[1] : "";
  const std::vector<std::string> words(argv + 1, argv + argc);
  auto it = benches.find(name);
  if (name.empty() || std::find(words.begin(), words.end(), "--help") != words.end()) {
    usage(std::cout);
    return 0;
  }
  if (it == benches.end()) {
    std::cerr << "troupe_bench: no benchmark is called \"" << name << "\"\n";
    usage(std::cerr);
    return 64;
  }
  try {
    const auto& [run, keys, flags] = it->second;
    return run(Options(name, {argv + 2, argv + argc}, keys, flags));
  } catch (const troupe::Error& e) {
    std::cerr << "troupe_bench " << name << ": " << e.what() << "\n";
    return troupe::exit_code(e.code());
  } catch (const std::exception& e) {
    std::cerr << "troupe_bench " << name << ": " << e.what() << "\n";
    return troupe::exit_code(troupe::Errc::internal);
  }
}
