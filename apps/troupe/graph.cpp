// troupe graph: a graph as text, DOT or SVG, and what the passes make of it.
#include <unistd.h>

#include <algorithm>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>

#include "apps/flags.hpp"
#include "apps/plugins.hpp"
#include "apps/troupe/program.hpp"
#include "apps/troupe/verbs.hpp"
#include "apps/words.hpp"
#include "troupe/graph.hpp"
#include "troupe/custom_op.hpp"

using namespace troupe;

namespace {

constexpr const char* kGraphVariable = "TROUPE_GRAPH_OUT";

// A line that a session wrote below its graph: "# call: fetches a:0 b:0; feeds x:0".
struct Call {
  std::vector<std::string> fetches, feeds;
};

std::vector<Call> calls_in(const std::string& text) {
  static const std::string kHead = "# call: fetches ", kFeeds = "; feeds";
  std::vector<Call> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t feeds = line.find(kFeeds);
    if (line.rfind(kHead, 0) != 0 || feeds == line.npos) continue;
    out.push_back({words_of(line.substr(kHead.size(), feeds - kHead.size())),
                   words_of(line.substr(feeds + kFeeds.size()))});
  }
  return out;
}

// The outputs of all nodes that nobody reads, without nodes in branches and loops: these run only
// for values that leave their frame.
std::vector<std::string> ends_of(const Graph& graph) {
  std::set<int32_t> read;
  for (const auto& node : graph.nodes()) {
    for (const Output& input : node->inputs) read.insert(input.node);
    read.insert(node->control_inputs.begin(), node->control_inputs.end());
    read.insert(node->frame);
  }
  std::vector<std::string> out;
  for (const auto& node : graph.nodes())
    if (node->frame < 0 && !read.count(node->id)) out.push_back(node->name);
  return out;
}

std::vector<Output> outputs_of(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<Output> out;
  for (const std::string& name : names) out.push_back(graph.output(name, Origin{}));
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// The lines of one that the other does not have, with a sign before each.
std::string changes(const std::string& before, const std::string& after) {
  const auto missing = [](const std::vector<std::string>& from, const std::vector<std::string>& in,
                          const char* sign) {
    const std::multiset<std::string> there(in.begin(), in.end());
    std::string out;
    for (const std::string& line : from)
      if (!there.count(line)) out += sign + line + "\n";
    return out;
  };
  const std::vector<std::string> old = lines_of(before), now = lines_of(after);
  return missing(old, now, "- ") + missing(now, old, "+ ");
}

std::string passes_text(const Graph& graph, const Call& call) {
  std::string out = "fetches " + joined(call.fetches) +
                    (call.feeds.empty() ? "" : "; feeds " + joined(call.feeds)) + "\n";
  std::string before = to_text(graph);
  for (const PassResult& pass :
       explain_passes(graph, outputs_of(graph, call.fetches), outputs_of(graph, call.feeds))) {
    out += detail::concat("== ", pass.pass, ": ", pass.nodes_before, " nodes before, ",
                          pass.nodes_after, " after\n", changes(before, pass.graph));
    before = pass.graph;
  }
  return out + "== the graph that runs\n" + before;
}

// Names of placeholders of whose shape a size is open.
std::vector<std::string> open_placeholders(const Graph& graph) {
  std::vector<std::string> out;
  for (const auto& node : graph.nodes())
    if (node->op->name == "Placeholder" && !node->outputs[0].shape.is_known())
      out.push_back(detail::concat(node->name, " ", node->outputs[0]));
  return out;
}

// The text of a graph, with `batch` for the first size of placeholders where that is open.
std::string with_batch(const Graph& graph, int64_t batch) {
  std::string out;
  for (std::string line : lines_of(to_text(graph))) {
    static const std::string kOp = " = Placeholder() ", kShape = " shape=[-1";
    const size_t op = line.find(kOp), shape = line.find(kShape, op);
    if (op != line.npos && line.find(' ') == op && shape != line.npos)
      line.replace(shape, kShape.size(), " shape=[" + std::to_string(batch));
    out += line + "\n";
  }
  return out;
}

std::string memory_text(const Graph& graph, const Call& call, bool has_batch) {
  std::string out = "fetches " + joined(call.fetches) +
                    (call.feeds.empty() ? "" : "; feeds " + joined(call.feeds)) + "\n";
  bool whole = true;
  for (const MemoryPlan& plan :
       explain_memory(graph, outputs_of(graph, call.fetches), outputs_of(graph, call.feeds))) {
    out += to_text(plan);
    whole = whole && plan.unknown == 0;
  }
  const std::vector<std::string> open = open_placeholders(graph);
  if (whole || open.empty()) return out;
  std::string names;
  for (const std::string& name : open) names += (names.empty() ? "" : ", ") + name;
  return out + "what is not counted depends on sizes that are open: of " + names +
         (has_batch ? "" : "; --batch N counts with N for the first one of each") + "\n";
}

bool in_path(const char* program) {
  const char* const path = std::getenv("PATH");
  for (std::string rest = path ? path : ""; !rest.empty();) {
    const size_t end = rest.find(':');
    const std::filesystem::path file = std::filesystem::path(rest.substr(0, end)) / program;
    if (access(file.c_str(), X_OK) == 0) return true;
    rest.erase(0, end == rest.npos ? end : end + 1);
  }
  return false;
}

// Graphviz writes where our standard output goes.
void write_svg(const std::string& dot) {
  if (!in_path("dot"))
    throw Error(Errc::bad_configuration,
                "there is no program dot in PATH, which draws SVG; install graphviz, or take "
                "--format dot and draw it elsewhere");
  std::cout.flush();
  FILE* const pipe = popen("dot -Tsvg", "w");
  const bool wrote = pipe && std::fwrite(dot.data(), 1, dot.size(), pipe) == dot.size();
  if (!pipe || pclose(pipe) != 0 || !wrote)
    throw Error(Errc::io, "dot could not draw the graph; look at what it said");
}

void show(const Graph& graph, const std::string& format) {
  if (format == "text")
    std::cout << to_text(graph);
  else if (format == "dot")
    std::cout << to_dot(graph);
  else
    write_svg(to_dot(graph));
}

struct GraphOptions {
  std::string format = "text";
  std::vector<std::string> fetches, feeds, plugins;
  std::optional<int> session;
  bool passes = false, memory = false;
  std::optional<int64_t> batch;
};

void add_options(Flags& flags, GraphOptions& to) {
  flags.add("format", &to.format, "text, dot, or svg, which Graphviz draws");
  flags.add("fetch", &to.fetches,
            "only what this node, or this output name:index, needs; may be given again");
  flags.add("feed", &to.feeds, "an output that is given instead of computed; may be given again");
  flags.add("session", &to.session,
            "which of the sessions that PROGRAM makes and that prepare a call, counted from 1; "
            "without it: the last one");
  flags.add("passes", &to.passes,
            "what each pass takes away (-) and puts in (+), and the graph that runs in the end; of "
            "--fetch, else of the calls that the program prepared, else of all nodes outside of "
            "branches and loops that nobody reads");
  flags.add("memory", &to.memory,
            "what a step of these calls takes of each device's memory at most, and the ten largest "
            "values then");
  flags.add("batch", &to.batch,
            "with --memory: what to count with where the first size of a placeholder is open");
  flags.add("plugin", &to.plugins, "shared library with ops of the graph; may be given again");
}

// The value of --batch, 0 without it.
int64_t batch_of(const GraphOptions& given) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (!given.batch) return 0;
  if (!given.memory) throw Error(Errc::invalid_argument, "--batch is for --memory; give that, too");
  if (*given.batch < 1 || *given.batch > kMost)
    throw Error(Errc::invalid_argument, "--batch wants 1 to ", kMost, ", got ", *given.batch);
  return *given.batch;
}

}  // namespace

int graph(const std::vector<std::string>& arguments) {
  GraphOptions given;
  Flags flags("troupe graph",
              "troupe graph [options] FILE, or troupe graph [options] -- PROGRAM [ARGS...]\n"
              "FILE is a graph as to_text() writes it, - is standard input. A PROGRAM is run with "
              "TROUPE_GRAPH_OUT, so that its sessions write their graph when they prepare a call");
  add_options(flags, given);
  flags.take_words();
  if (!flags.parse(arguments)) return 0;
  const std::vector<std::string>& program = flags.command;
  const std::string& format = given.format;
  if (format != "text" && format != "dot" && format != "svg")
    throw Error(Errc::invalid_argument, "--format wants text, dot or svg, got \"", format, "\"");
  if (flags.words.size() + (program.empty() ? 0 : 1) != 1)
    throw Error(Errc::invalid_argument,
                "graph wants one FILE, or -- and a PROGRAM; see troupe graph --help");
  const auto ops = ops_with_plugins(plugins_for(given.plugins));
  const int session = session_of(given.session, !program.empty());
  std::string text;
  if (!program.empty())
    text = texts_from_program(program, kGraphVariable,
                              "does it prepare a call of a session, with this version of Troupe?")
               .of("graph", session);
  else
    text = read_file(flags.words[0], "file with a graph as text");
  const auto whole = graph_from_text(text, ops);
  const Call asked{given.fetches, given.feeds};
  const bool memory = given.memory;
  const int64_t batch = batch_of(given);
  if (memory || given.passes) {
    if (format != "text")
      throw Error(Errc::invalid_argument, memory ? "--memory" : "--passes",
                  " is shown as text; leave out --format");
    if (memory && given.passes)
      throw Error(Errc::invalid_argument, "--memory and --passes are shown one at a time");
    std::vector<Call> calls = {asked};
    if (asked.fetches.empty()) calls = calls_in(text);
    if (calls.empty()) calls = {{ends_of(*whole), asked.feeds}};
    const auto sized = batch > 0 ? graph_from_text(with_batch(*whole, batch), ops) : nullptr;
    for (const Call& call : calls)
      std::cout << (memory ? memory_text(sized ? *sized : *whole, call, batch > 0)
                           : passes_text(*whole, call));
    return 0;
  }
  if (asked.fetches.empty()) {
    show(*whole, format);
    return 0;
  }
  const auto needed =
      explain_passes(*whole, outputs_of(*whole, asked.fetches), outputs_of(*whole, asked.feeds));
  show(*graph_from_text(needed[0].graph, ops), format);
  return 0;
}
