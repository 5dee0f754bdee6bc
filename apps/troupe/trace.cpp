// troupe trace: the tables of a trace, or of a run of a program.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>

#include "apps/flags.hpp"
#include "apps/troupe/program.hpp"
#include "apps/troupe/verbs.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"

using namespace troupe;

namespace {

constexpr const char* kTraceVariable = "TROUPE_TRACE_OUT";

struct TraceOptions {
  int nodes = 20, steps = 10;
  std::optional<double> peak;
  std::optional<int> session;
  std::optional<std::string> out;
};

void add_options(Flags& flags, TraceOptions& to) {
  flags.add("nodes", &to.nodes, "how many of the slowest");
  flags.add("steps", &to.steps, "how many of the first");
  flags.add("peak", &to.peak,
            "GFLOP/s of one thread that count as 100 %; without it: those of a product of two "
            "matrices of f32, measured here; 0: leave the share out");
  flags.add("session", &to.session,
            "which of the sessions that PROGRAM closes, counted from 1 in the order in which it "
            "made them; without it: the last one");
  flags.add("out", &to.out,
            "keep the trace of PROGRAM in this file, for chrome://tracing or ui.perfetto.dev");
}

// Peak of one thread, in floating-point operations a second: the best of some 512 x 512 products.
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
  TraceOptions given;
  Flags flags("troupe trace",
              "troupe trace [options] FILE, or troupe trace [options] -- PROGRAM [ARGS...]\n"
              "FILE is a trace of Session::stop_trace(), as train_digits writes one, - is standard "
              "input. A PROGRAM is run with TROUPE_TRACE_OUT, so that its sessions are traced from "
              "beginning to end");
  add_options(flags, given);
  flags.take_words();
  if (!flags.parse(arguments)) return 0;
  const std::vector<std::string>& program = flags.command;
  if (flags.words.size() + (program.empty() ? 0 : 1) != 1)
    throw Error(Errc::invalid_argument,
                "trace wants one FILE, or -- and a PROGRAM; see troupe trace --help");
  TraceTables tables;
  tables.nodes = given.nodes;
  tables.steps = given.steps;
  if (tables.nodes < 0 || tables.steps < 0)
    throw Error(Errc::invalid_argument, "--nodes and --steps want 0 or more, got ", tables.nodes,
                " and ", tables.steps);
  if (given.peak) {
    tables.peak_flops = *given.peak * 1e9;
    if (!(tables.peak_flops >= 0 && tables.peak_flops < 1e18))
      throw Error(Errc::invalid_argument, "--peak wants GFLOP/s, 0 or more, got ", *given.peak);
  }
  if (given.out && program.empty())
    throw Error(Errc::invalid_argument, "--out keeps the trace of a PROGRAM; FILE is one already");
  const int session = session_of(given.session, !program.empty());
  const std::string text =
      program.empty()
          ? read_file(flags.words[0], "file with a trace")
          : texts_from_program(program, kTraceVariable,
                               "does it close its session, with this version of Troupe?")
                .of("trace", session);
  if (given.out) {
    errno = 0;
    std::ofstream out(*given.out, std::ios::binary);
    out << text;
    if (!out.flush())
      throw Error(Errc::io, "cannot write ", *given.out, ": ",
                  errno ? std::strerror(errno) : "unknown reason",
                  "; name another place with --out");
  }
  if (!given.peak) tables.peak_flops = measured_peak();
  std::cout << describe_trace(text, tables);
  if (tables.peak_flops > 0)
    std::cout << "\n% of peak: of " << static_cast<int64_t>(tables.peak_flops / 1e8) / 10.0
              << " GFLOP/s a thread"
              << (given.peak ? "" : ", a product of matrices of f32 here and now")
              << "; some convolutions need fewer than they are counted for, and go past it\n";
  return 0;
}
