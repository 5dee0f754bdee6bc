// Walks all ops and fails for each one without a test.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/support/op_cases.hpp"
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

// Ops that no table can hold, with the place of their tests.
const std::map<std::string, std::string> kElsewhere = {
    {"BarrierInsert", "waits between steps: tests/ops/state/barrier_test.cpp"},
    {"BarrierTake", "waits between steps: tests/ops/state/barrier_test.cpp"},
    {"CloseBarrier", "waits between steps: tests/ops/state/barrier_test.cpp"},
    {"CloseQueue", "waits between steps: tests/ops/state/queue_test.cpp"},
    {"Dequeue", "waits between steps: tests/ops/state/queue_test.cpp"},
    {"Enqueue", "waits between steps: tests/ops/state/queue_test.cpp"},
    {"Fused", "has a program: tests/ops/elementwise/fused_test.cpp"},
    {"Parameter", "pulls from a shard: tests/ops/state/parameter_test.cpp"},
    {"PushFiniteGradient", "pushes to a shard: tests/training/loop/mixed_precision_test.cpp"},
    {"PushGradient", "pushes to a shard: tests/ops/state/parameter_test.cpp"},
    {"QueueSize", "waits between steps: tests/ops/state/queue_test.cpp"},
    {"ReadSource", "reads files: tests/training/input/source_training_test.cpp"},
    {"Argument", "stands in a function: tests/graph/function_test.cpp"},
    {"Branch", "opens a frame: tests/ops/control_flow/control_flow_test.cpp"},
    {"Call", "runs a function: tests/graph/function_test.cpp"},
    {"Capture", "stands in a frame: tests/ops/control_flow/control_flow_test.cpp"},
    {"Function", "opens a frame: tests/graph/function_test.cpp"},
    {"Loop", "opens a frame: tests/ops/control_flow/control_flow_test.cpp"},
    {"LoopVariable", "stands in a frame: tests/ops/control_flow/control_flow_test.cpp"},
    {"Merge", "joins frames: tests/ops/control_flow/control_flow_test.cpp"},
    {"Parameter", "pulls from a shard: tests/ops/state/parameter_test.cpp"},
    {"PushGradient", "pushes to a shard: tests/ops/state/parameter_test.cpp"},
    {"Restore", "stands in a frame: tests/ops/control_flow/control_flow_test.cpp"},
    {"Return", "stands in a function: tests/graph/function_test.cpp"},
    {"Save", "stands in a frame: tests/ops/control_flow/control_flow_test.cpp"},
    {"PushRowGradient",
     "pushes to a shard: tests/ops/state/sum_rows_test.cpp, row_updates_test.cpp"},
    {"ParameterRows",
     "pulls from a shard: tests/placement/passes/pull_rows_test.cpp, row_updates_test.cpp"},
    {"WriteParameter", "writes to a shard: tests/training/parameters/parameter_writes_test.cpp"},
    {"WriteParameterRows",
     "writes to a shard: tests/training/parameters/parameter_writes_test.cpp"},
    {"While", "reads a frame: tests/ops/control_flow/control_flow_test.cpp"},
};

struct Tested {
  const OpCase* value = nullptr;  // one value case, of a single node if there is such a case
  bool refusal = false, bad_shape = false, gradient = false;
};

// Everything of a case except shapes and values, as text.
template <class Case>
std::string form_of(const Case& c) {
  std::string form;
  for (const Tensor& input : c.inputs) form += detail::concat(input.dtype(), ", ");
  for (const AttrSpec& spec : builtin_ops()->get(c.op).attrs) {
    const auto given = c.attrs.find(spec.name);
    if (given != c.attrs.end())
      form += spec.name + "=" + to_string(given->second) + " ";
    else if (spec.default_value)
      form += spec.name + "=" + to_string(*spec.default_value) + " ";
  }
  return form;
}

const std::vector<OpCases>& tables() {
  static const auto all = [] {
    std::vector<OpCases> tables;
    for (const auto& cases : listed_cases()) tables.push_back(cases());
    return tables;
  }();
  return all;
}

std::map<std::string, Tested> tested_ops() {
  std::map<std::string, Tested> tested;
  std::map<std::string, std::set<std::string>> good;
  for (const OpCases& table : tables())
    for (const OpCase& c : table.values) {
      Tested& op = tested[c.op];
      if (!op.value || op.value->build) op.value = &c;
      const auto is_f64 = [](const Tensor& t) { return t.dtype() == DType::f64 && t.size() > 0; };
      if (c.smooth && std::any_of(c.inputs.begin(), c.inputs.end(), is_f64)) op.gradient = true;
      good[c.op].insert(form_of(c));
    }
  for (const OpCases& table : tables())
    for (const OpError& e : table.errors) {
      tested[e.op].refusal = true;
      // The form is that of a value case, so only shapes can be wrong.
      if (!e.when_run && good[e.op].count(form_of(e))) tested[e.op].bad_shape = true;
    }
  return tested;
}

// The error for the first shapes that the op refuses with the dtypes of `c`; empty if it accepts
// all.
std::string refused_shapes(const OpCase& c) {
  if (c.build || c.inputs.empty()) return {};
  for (const auto& [first, others] :
       std::vector<std::pair<Shape, Shape>>{{{}, {}},
                                            {{0}, {0}},
                                            {{3}, {3}},
                                            {{2, 3}, {2, 3}},
                                            {{1, 2, 3, 4}, {1, 2, 3, 4}},
                                            {{1, 1, 1, 1, 1, 1, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 2}},
                                            {{2}, {3}}}) {
    Graph graph;
    NodeSpec spec{.op = c.op, .attrs = c.attrs};
    for (const Tensor& input : c.inputs)
      spec.inputs.push_back(
          placeholder(graph, input.dtype(), spec.inputs.empty() ? first : others));
    try {
      graph.add(spec);
    } catch (const Error& e) {
      return e.what();
    }
  }
  return {};
}

}  // namespace

TEST_CASE("every op has value cases, bad shapes refused, and a gradient check or its excuse") {
  const auto tested = tested_ops();
  for (const Op* op : builtin_ops()->all()) {
    if (kElsewhere.count(op->name)) continue;
    const auto it = tested.find(op->name);
    const Tested t = it == tested.end() ? Tested{} : it->second;
    CHECK_MESSAGE(t.value != nullptr, op->name, " has no OpCase in a listed table of tests/ops");
    CHECK_MESSAGE(t.refusal, op->name, " has no OpError in a listed table of tests/ops");
    const std::string refused = t.bad_shape || !t.value ? "" : refused_shapes(*t.value);
    CHECK_MESSAGE(refused.empty(), op->name, " has no OpError for bad shapes, as in: ", refused);
    const bool excused = !op->no_gradient.empty();
    CHECK_MESSAGE((op->gradient || excused), op->name,
                  " has no gradient and no `no_gradient` that says why");
    CHECK_MESSAGE((t.gradient || excused), op->name,
                  " has no smooth case with an f64 input, so its gradient is not checked");
  }
}

TEST_CASE("every op that a file of ops/ makes is listed in ops/all.cpp") {
  const auto read = [](const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  const auto found = [](const std::string& text, const std::regex& what) {
    std::vector<std::string> names;
    for (std::sregex_iterator at(text.begin(), text.end(), what), end; at != end; ++at)
      names.push_back(at->str(1));
    return names;
  };
  const std::string folder = source_dir() + "/ops", list = read(folder + "/all.cpp");
  const std::regex made(R"(\nOp (\w+)_op\(\) \{)");
  const std::regex family(R"(\nstd::vector<Op> (\w+)_ops\(\) \{)"), named(R"x("([A-Z]\w*)")x");
  size_t count = 0;
  const auto is_listed = [&](const std::filesystem::path& file, const std::string& entry) {
    CHECK_MESSAGE(list.find(entry) != list.npos, file.filename().string(),
                  " makes an op that nobody gets; add ", entry, " to ops/all.cpp");
  };
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".cpp") continue;
    const std::string source = read(file.path());
    for (const std::string& name : found(source, made)) {
      ++count;
      is_listed(file.path(), "OP(" + name + ")");
    }
    const std::vector<std::string> families = found(source, family);
    for (const std::string& name : families) is_listed(file.path(), "FAMILY(" + name + ")");
    if (families.empty()) continue;
    const std::vector<std::string> rows = found(source, named);  // each for its node, too
    for (const std::string& name : std::set<std::string>(rows.begin(), rows.end())) {
      ++count;
      CHECK_MESSAGE(builtin_ops()->find(name), file.path().filename().string(), " has a row ", name,
                    " that is no op");
    }
  }
  CHECK(count == builtin_ops()->all().size());
}

TEST_CASE("tables and excuses name ops that exist") {
  for (const auto& entry : tested_ops())
    CHECK_MESSAGE(builtin_ops()->find(entry.first), entry.first);
  for (const auto& entry : kElsewhere) CHECK_MESSAGE(builtin_ops()->find(entry.first), entry.first);
}

}  // namespace troupe
