// The text form of a graph: a version line, then one node a line, each after the nodes it reads.
// For people and for tests.
//
//   troupe graph 1
//   x = Placeholder() dtype=f32 shape=[-1, 3] at "train.cpp":12
//   fc1/MatMul = MatMul(x, w) transpose_a=false transpose_b=true on "/job:worker/task:0" with w
//   after init at "train.cpp":14
//   y = Capture(x) in cond/then after cond/then
//
// "in" names the node that opens the frame of the node. "name:1" reads output 1. Blank lines and
// lines that begin with # are skipped.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "graph/attr_text.hpp"
#include "graph/base/words.hpp"
#include "graph/frames.hpp"
#include "troupe/graph.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

constexpr std::string_view kFirstLine = "troupe graph 1";
constexpr std::string_view kBeforeVersion = kFirstLine.substr(0, kFirstLine.size() - 1);
constexpr std::string_view kVersion = kFirstLine.substr(kBeforeVersion.size());

struct Reference {
  std::string name;
  int32_t index = 0;
};

// One line, not yet connected to the others.
struct Line {
  int number = 0;
  std::string name;
  const Op* op = nullptr;
  std::vector<Reference> inputs;
  Attrs attrs;
  std::string device, colocate_with, frame, file;
  std::vector<std::string> after;
  int origin_line = 0;
};

template <class... Parts>
Error at_line(int number, const Parts&... parts) {
  return Error(Errc::bad_data, "graph text, line ", number, ": ", detail::concat(parts...));
}

// An integer in the range of `what`.
int32_t parse_small(LineReader& in, const char* what, int32_t least) {
  const int64_t value = in.integer();
  if (value < least || value > INT32_MAX)
    throw Error(Errc::bad_data, what, " is a number from ", least, " to ", INT32_MAX, ", got ",
                value);
  return static_cast<int32_t>(value);
}

Reference parse_reference(LineReader& in) {
  Reference reference{in.name(), 0};
  if (in.take(":")) reference.index = parse_small(in, "an output", 0);
  return reference;
}

void parse_attr(LineReader& in, Line& line) {
  const std::string name = in.name();
  const auto& specs = line.op->attrs;
  const auto spec =
      std::find_if(specs.begin(), specs.end(), [&](const AttrSpec& s) { return s.name == name; });
  if (spec == specs.end())
    throw Error(Errc::bad_data, "op ", line.op->name, " has no attribute \"", name, "\"");
  in.expect("=");
  if (!line.attrs.emplace(name, in.attr(spec->kind)).second)
    throw Error(Errc::bad_data, "attribute ", name, " is given twice");
}

Line parse_line(std::string_view text, int number, const Registry& registry) {
  LineReader in(text);
  Line line{.number = number, .name = in.name()};
  in.expect("=");
  line.op = &registry.get(in.name());
  in.expect("(");
  if (!in.take(")")) {
    do line.inputs.push_back(parse_reference(in));
    while (in.take(","));
    in.expect(")");
  }
  std::set<std::string_view> seen;
  const auto takes = [&](std::string_view word) {
    if (!in.take(word)) return false;
    if (!seen.insert(word).second)
      throw Error(Errc::bad_data, quoted(word), " stands there twice; once is enough");
    return true;
  };
  while (!in.at_end()) {
    in.expect_blank();
    if (takes("on")) {
      line.device = in.quoted_text();
    } else if (takes("in")) {
      line.frame = in.name();
    } else if (takes("with")) {
      line.colocate_with = in.name();
    } else if (takes("after")) {
      std::set<std::string> names;
      do {
        line.after.push_back(in.name());
        if (!names.insert(line.after.back()).second)
          throw Error(Errc::bad_data, line.after.back(), " stands there twice; once is enough");
      } while (in.take(","));
    } else if (takes("at")) {
      line.file = in.quoted_text();
      in.expect(":");
      line.origin_line = parse_small(in, "a line", 0);
    } else {
      parse_attr(in, line);
    }
  }
  return line;
}

Error bad_first_line(std::string_view line) {
  constexpr size_t kShown = 40;
  if (line.starts_with(kBeforeVersion))
    return at_line(
        1, "the text has version ", line.substr(kBeforeVersion.size(), kShown),
        ", this program reads version ", kVersion,
        "; write it again with this program's version of troupe, or read it with the one "
        "that wrote it");
  return at_line(1, "expected \"", kFirstLine, "\", got ", quoted(line.substr(0, kShown)),
                 "; this is no graph");
}

std::vector<Line> parse_lines(std::string_view text, const Registry& registry) {
  std::vector<Line> lines;
  bool begun = false;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!begun && line != kFirstLine) throw bad_first_line(line);
    if (!std::exchange(begun, true) || LineReader(line).at_end() || line.starts_with('#')) continue;
    try {
      lines.push_back(parse_line(line, number, registry));
    } catch (const Error& e) {  // the reader of a line does not know its number
      throw at_line(number, e.what());
    }
  }
  if (!begun) throw at_line(1, "expected \"", kFirstLine, "\", but the text is empty");
  return lines;
}

// Explains why `lines[from]` cannot read a node that does not stand above it.
class ForwardReference {
 public:
  explicit ForwardReference(const std::vector<Line>& lines) : lines_(lines) {
    for (size_t i = 0; i < lines.size(); ++i) index_.emplace(lines[i].name, i);
  }

  Error explain(size_t from, const std::string& name) const {
    const auto target = index_.find(name);
    if (target == index_.end()) {
      std::vector<std::string> names;
      for (const Line& line : lines_) names.push_back(line.name);
      return at_line(lines_[from].number, lines_[from].name, " reads \"", name,
                     "\", and there is no such node", did_you_mean(name, names));
    }
    const std::string cycle = way(target->second, from);
    if (!cycle.empty())
      return at_line(lines_[from].number, "the graph has a cycle: ", lines_[from].name, cycle,
                     "; a node cannot depend on itself");
    return at_line(lines_[from].number, lines_[from].name, " reads ", name, " of line ",
                   lines_[target->second].number, "; a node stands below those it reads");
  }

 private:
  // " reads b, which reads a": the shortest way from line `begin` to line `goal` along the inputs;
  // empty if there is none.
  std::string way(size_t begin, size_t goal) const {
    std::vector<size_t> reader(lines_.size(), lines_.size());  // by line: a line that reads it
    std::vector<size_t> open = {begin};
    reader[begin] = goal;
    for (size_t i = 0; i < open.size() && open[i] != goal; ++i) {
      const auto visit = [&](const std::string& name) {
        const auto next = index_.find(name);
        if (next == index_.end() || reader[next->second] < lines_.size()) return;
        reader[next->second] = open[i];
        open.push_back(next->second);
      };
      for (const Reference& input : lines_[open[i]].inputs) visit(input.name);
      for (const std::string& name : lines_[open[i]].after) visit(name);
      if (!lines_[open[i]].frame.empty()) visit(lines_[open[i]].frame);
    }
    if (reader[goal] == lines_.size()) return {};
    std::vector<size_t> path = {goal};
    while (path.back() != begin) path.push_back(reader[path.back()]);
    std::string text;
    for (auto at = path.rbegin(); at != path.rend(); ++at)
      text += (text.empty() ? " reads " : ", which reads ") + lines_[*at].name;
    return text;
  }

  const std::vector<Line>& lines_;
  std::map<std::string, size_t> index_;
};

void add_line(Graph& graph, const std::vector<Line>& lines, size_t i) {
  const Line& line = lines[i];
  const auto find = [&](const std::string& name) {
    const Node* node = graph.find(name);
    if (!node) throw ForwardReference(lines).explain(i, name);
    return node->id;
  };
  if (const Node* twice = graph.find(line.name))
    throw at_line(line.number, "there is already a node called ", line.name, ", in line ",
                  lines[static_cast<size_t>(twice->id)].number, "; names are unique");
  NodeSpec spec{.op = line.op->name, .attrs = line.attrs, .name = line.name};
  for (const Reference& input : line.inputs)
    spec.inputs.push_back({&graph, find(input.name), input.index});
  for (const std::string& name : line.after) spec.control_inputs.push_back(find(name));
  if (!line.colocate_with.empty() && !graph.find(line.colocate_with))
    throw at_line(line.number, line.name, " is to stand with ", line.colocate_with,
                  ", and there is no such node above it");
  try {
    // The text gives the origin in each line, so the scope need not.
    const auto scope =
        graph.scope({.device = line.device, .colocate_with = line.colocate_with}, Origin{});
    const auto frame = open_frame(graph, line.frame.empty() ? -1 : find(line.frame), {}, Origin{});
    graph.add(std::move(spec), {line.file.c_str(), line.origin_line});
  } catch (const InternalError&) {  // a bug, not a mistake in the text
    throw;
  } catch (const Error& e) {  // Graph::add does not know the line of the text
    throw at_line(line.number, e.what());
  }
}

std::string line_of(const Graph& graph, const Node& node) {
  std::string text = node.name + " = " + node.op->name + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    text += (i ? ", " : "") + node.inputs[i].name();
    if (node.inputs[i].index) text += detail::concat(":", node.inputs[i].index);
  }
  text += ")";
  for (const auto& [name, value] : node.attrs) text += " " + name + "=" + exact_text(value);
  if (!node.device.empty()) text += " on " + quoted(node.device);
  if (!node.colocate_with.empty()) text += " with " + node.colocate_with;
  if (node.frame >= 0) text += " in " + graph.node(node.frame).name;
  for (size_t i = 0; i < node.control_inputs.size(); ++i)
    text += (i ? ", " : " after ") + graph.node(node.control_inputs[i]).name;
  if (!node.file.empty()) text += detail::concat(" at ", quoted(node.file), ":", node.line);
  return text + "\n";
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const auto& node : graph.nodes()) text += line_of(graph, *node);
  return text;
}

std::unique_ptr<Graph> graph_from_text(const std::string& text,
                                       std::shared_ptr<const Registry> registry) {
  const std::vector<Line> lines = parse_lines(text, *registry);
  auto graph = std::make_unique<Graph>(registry);
  for (size_t i = 0; i < lines.size(); ++i) add_line(*graph, lines, i);
  return graph;
}

}  // namespace troupe
