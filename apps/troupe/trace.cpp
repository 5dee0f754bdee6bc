// troupe trace: the tables of a trace, or of a run of a program.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>

#include "apps/troupe/line.hpp"
#include "apps/troupe/program.hpp"
#include "apps/troupe/verbs.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace options = boost::program_options;
using namespace troupe;

namespace {

constexpr const char* kTraceVariable = "TROUPE_TRACE_OUT";

options::options_description trace_options() {
  options::options_description out(
      "troupe trace [options] FILE, or troupe trace [options] -- PROGRAM [ARGS...]\n"
      "FILE is a trace of Session::stop_trace(), as train_digits writes one, - is standard input. "
      "A PROGRAM is run with TROUPE_TRACE_OUT, so that its sessions are traced from beginning to "
      "end");
  out.add_options()("nodes", options::value<int>()->default_value(20), "how many of the slowest")(
      "steps", options::value<int>()->default_value(10), "how many of the first")(
      "peak", options::value<double>(),
      "GFLOP/s of one thread that count as 100 %; without it: those of a product of two matrices "
      "of "
      "f32, measured here; 0: leave the share out")(
      "session", options::value<int>(),
      "which of the sessions that PROGRAM closes, counted from 1 in the order in which it made "
      "them; "
      "without it: the last one")(
      "out", options::value<std::string>(),
      "keep the trace of PROGRAM in this file, for chrome://tracing or ui.perfetto.dev")(
      "help", "print this");
  return out;
}

// Of one thread, in floating-point operations a second: the best of some products of 512 x 512.
double measured_peak() {
  constexpr int64_t n = 512;
  constexpr int kTimes = 12;
  Graph graph;
  const Output a = placeholder(graph, DType::f32, {n, n});
  const Output c = reduce_sum(matmul(a, a));
  ProcessOptions one;
  one.threads = 1;
  Session session = Session::local(graph, one);
  const Callable product = session.prepare({c}, {a});
  const Tensor ones = Tensor::zeros(DType::f32, {n, n});
  double best = 0;
  for (int i = 0; i < kTimes; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    product({ones});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * n * n * n / took.count());
  }
  return best;
}

}  // namespace

int trace(const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const Line line = parse("trace", trace_options(), {arguments.begin(), dashes});
  if (line.help) return 0;
  const std::vector<std::string> program(dashes == arguments.end() ? dashes : dashes + 1,
                                         arguments.end());
  if (line.words.size() + (program.empty() ? 0 : 1) != 1)
    throw Error(Errc::invalid_argument,
                "trace wants one FILE, or -- and a PROGRAM; see troupe trace --help");
  TraceTables tables;
  tables.nodes = line.given["nodes"].as<int>();
  tables.steps = line.given["steps"].as<int>();
  if (tables.nodes < 0 || tables.steps < 0)
    throw Error(Errc::invalid_argument, "--nodes and --steps want 0 or more, got ", tables.nodes,
                " and ", tables.steps);
  if (line.given.count("peak")) {
    tables.peak_flops = line.given["peak"].as<double>() * 1e9;
    if (!(tables.peak_flops >= 0 && tables.peak_flops < 1e18))
      throw Error(Errc::invalid_argument, "--peak wants GFLOP/s, 0 or more, got ",
                  line.given["peak"].as<double>());
  }
  if (line.given.count("out") && program.empty())
    throw Error(Errc::invalid_argument, "--out keeps the trace of a PROGRAM; FILE is one already");
  const int session = session_of(line.given, !program.empty());
  const std::string text =
      program.empty()
          ? read_file(line.words[0], "file with a trace")
          : texts_from_program(program, kTraceVariable,
                               "does it close its session, with this version of Troupe?")
                .of("trace", session);
  if (line.given.count("out")) {
    const std::string path = line.given["out"].as<std::string>();
    errno = 0;
    std::ofstream out(path, std::ios::binary);
    out << text;
    if (!out.flush())
      throw Error(Errc::io, "cannot write ", path, ": ",
                  errno ? std::strerror(errno) : "unknown reason",
                  "; name another place with --out");
  }
  if (!line.given.count("peak")) tables.peak_flops = measured_peak();
  std::cout << describe_trace(text, tables);
  if (tables.peak_flops > 0)
    std::cout << "\n% of peak: of " << static_cast<int64_t>(tables.peak_flops / 1e8) / 10.0
              << " GFLOP/s a thread"
              << (line.given.count("peak") ? "" : ", a product of matrices of f32 here and now")
              << "; some convolutions need fewer than they are counted for, and go past it\n";
  return 0;
}
