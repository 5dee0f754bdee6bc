// Prints accuracies and tables.
#include "apps/train_digits/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace troupe;

namespace {

int64_t count_right(const Tensor& classes, const Tensor& labels) {
  const auto got = classes.data<int64_t>(), want = labels.data<int64_t>();
  int64_t right = 0;
  for (int64_t i = 0; i < labels.size(); ++i) right += got[i] == want[i];
  return right;
}

double percent_of(int64_t right, int64_t all) {
  return 100.0 * static_cast<double>(right) / static_cast<double>(all);
}

// The part of the network that a node belongs to, below its outermost scope: "conv1" for
// tower0/conv1/Relu, "gradients of conv1" for nodes that the gradient pass added for it, "Dropout"
// for tower0/Dropout, which is in no scope of its own.
std::string part_of(std::string_view node) {
  constexpr std::string_view kGradients = "minimize/gradients/";
  const auto below = [](std::string_view name) { return name.substr(name.find('/') + 1); };
  const auto first = [](std::string_view name) {
    const size_t scope = name.find('/');
    return scope != name.npos ? name.substr(0, scope) : name.substr(0, name.find('_'));
  };
  node = below(node);
  if (node.substr(0, kGradients.size()) != kGradients) return std::string(first(node));
  const std::string_view forward = below(node.substr(kGradients.size()));
  return detail::concat("gradients of ", first(forward.substr(0, forward.rfind('/'))));
}

// "conv1 5, conv2 6", in lines of `width` at most, each but the first after `indent` spaces.
std::string wrapped(const std::vector<std::pair<std::string, int>>& parts, size_t width,
                    size_t indent) {
  std::string out;
  size_t column = 0;
  for (const auto& [name, count] : parts) {
    const std::string word = detail::concat(name, " ", count);
    if (column > 0) out += ",", ++column;
    if (column > 0 && column + 1 + word.size() >= width) {
      out.append("\n").append(indent, ' ');
      column = 0;
    } else if (column > 0) {
      out += " ", ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

// A row for each device and tower: how many nodes, of which parts of the network.
void print_devices(const std::vector<std::string>& all, const std::vector<PlacedNode>& nodes) {
  constexpr size_t kColumns = 100;
  struct Row {
    int nodes = 0;
    std::vector<std::pair<std::string, int>> parts;  // in the order of the graph
  };
  std::map<std::string, std::map<std::string, Row>> devices;  // by device and outermost scope
  size_t width = 6;
  for (const std::string& device : all) {
    if (device.find("/job:client/") == device.npos) devices[device];
    width = std::max(width, device.size());
  }
  for (const PlacedNode& n : nodes) {
    Row& row = devices[n.device][n.node.substr(0, n.node.find('/'))];
    ++row.nodes;
    const std::string part = part_of(n.node);
    auto found = std::find_if(row.parts.begin(), row.parts.end(),
                              [&](const auto& p) { return p.first == part; });
    if (found == row.parts.end()) found = row.parts.insert(found, {part, 0});
    ++found->second;
  }
  const int w = static_cast<int>(width);
  const size_t indent = width + 18;
  std::printf(
      "\nWhere the nodes of a training step ran (the graph file names each one)\n"
      "  %-*s %5s  %-6s  %s\n",
      w, "device", "nodes", "scope", "of which");
  for (const auto& [device, scopes] : devices) {
    if (scopes.empty())
      std::printf("  %-*s %5d  %-6s  %s\n", w, device.c_str(), 0, "", "parameters only");
    for (const auto& [scope, row] : scopes)
      std::printf("  %-*s %5d  %-6s  %s\n", w, device.c_str(), row.nodes, scope.c_str(),
                  wrapped(row.parts, kColumns - indent, indent).c_str());
  }
}

void print_edges(const std::vector<CutEdge>& edges) {
  size_t width = 6;
  for (const CutEdge& e : edges) width = std::max(width, e.tensor.size());
  const int w = static_cast<int>(width);
  std::printf("\nWhat crossed between devices in these steps\n  %-*s %10s %12s  %s\n", w, "tensor",
              "transfers", "bytes", "from -> to");
  for (const CutEdge& e : edges)
    std::printf("  %-*s %10lld %12lld  %s -> %s\n", w, e.tensor.c_str(),
                static_cast<long long>(e.transfers), static_cast<long long>(e.bytes),
                e.source.c_str(), e.destination.c_str());
}

}  // namespace

namespace {

constexpr int64_t kAtOnce = 1000;  // images; bounds the memory of the layers

std::string recovered(const TrainResult& result) {
  if (result.recoveries == 0) return "";
  return detail::concat(
      "  (shards recovered",
      result.lost_updates ? detail::concat(", ", result.lost_updates, " acknowledged updates lost")
                          : "",
      ")");
}

}  // namespace

void print_results(const Outcomes& results) {
  const bool validated = results[0].second.validation.has_value();
  std::printf("\n%-14s %10s %10s %s%12s  %s\n", "rule", "steps", "seconds",
              validated ? "  validation " : "", "test", "weights");
  for (const auto& [rule, o] : results) {
    char validation[16] = "";
    if (o.validation) std::snprintf(validation, sizeof validation, "%10.2f %% ", *o.validation);
    std::printf("%-14s %10lld %10.1f %s%10.2f %%  sha256 %s%s\n", to_string(rule).c_str(),
                static_cast<long long>(o.result.steps), o.result.seconds, validation, o.test,
                o.result.weights_sha256.c_str(), recovered(o.result).c_str());
  }
  for (const auto& [rule, o] : results)
    std::printf("newest checkpoint of %s: %s\n", to_string(rule).c_str(),
                o.result.checkpoint.empty() ? "none" : o.result.checkpoint.c_str());
}

double accuracy_percent(Session& session, const Network& net, const Dataset& images) {
  Callable classify = session.prepare({net.classes}, {net.images});
  const int64_t n = images.size();
  int64_t right = 0;
  for (int64_t begin = 0; begin < n; begin += kAtOnce) {
    const int64_t end = std::min(n, begin + kAtOnce);
    right += count_right(classify({images.features.rows(begin, end)})[0],
                         images.labels.rows(begin, end));
  }
  return percent_of(right, n);
}

struct RunningAccuracy::State {
  Callable classify;
  Dataset images;
  std::mutex mutex;  // guards the rest
  bool asked = false;
  std::optional<double> percent;
};

RunningAccuracy::RunningAccuracy(Session& session, const Network& net, const Dataset& images)
    : state_(std::make_shared<State>()) {
  state_->classify = session.prepare({net.classes}, {net.images});
  const int64_t n = std::min(images.size(), kAtOnce);
  state_->images = {images.features.rows(0, n), images.labels.rows(0, n)};
}

void RunningAccuracy::ask() {
  {
    std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->asked, true)) return;
  }
  RunOptions run;
  run.timeout = std::chrono::seconds(10);
  state_->classify.start({state_->images.features}, run, [state = state_](RunResult result) {
    std::lock_guard lock(state->mutex);
    state->asked = false;
    if (result.code == Errc::ok)
      state->percent =
          percent_of(count_right(result.values[0], state->images.labels), state->images.size());
  });
}

std::string RunningAccuracy::shown() const {
  std::lock_guard lock(state_->mutex);
  if (!state_->percent) return "";
  return detail::concat("validation ", std::round(*state_->percent * 10) / 10, " %");
}

void StepTrace::look(const TrainProgress& progress) {
  if (!trace_.empty()) return;
  if (begun_ < 0 && progress.step >= at_) {
    session_.start_trace();
    begun_ = progress.step;
  } else if (begun_ >= 0 && progress.step >= begun_ + 2) {
    trace_ = session_.stop_trace();
  }
}

std::string StepTrace::end() {
  if (begun_ >= 0 && trace_.empty()) trace_ = session_.stop_trace();
  return trace_;
}

void print_tables(Session& session, const Callable& whole, const std::vector<Callable>& steps) {
  print_devices(session.devices(), session.placement(whole));
  std::printf(
      "\nWhere the parameters lived, and what moved between them and the workers\n"
      "  %-12s %10s %10s %10s %14s %14s %10s %10s  %s\n",
      "parameter", "from", "elements", "bytes", "pulled bytes", "pushed bytes", "updates",
      "staleness", "shard");
  for (const ParameterSlice& p : parameter_slices(session))
    std::printf("  %-12s %10lld %10lld %10lld %14lld %14lld %10lld %10.2f  %s\n",
                p.parameter.c_str(), static_cast<long long>(p.offset),
                static_cast<long long>(p.size), static_cast<long long>(p.bytes),
                static_cast<long long>(p.pulled_bytes), static_cast<long long>(p.pushed_bytes),
                static_cast<long long>(p.version), p.staleness, p.task.c_str());
  std::vector<CutEdge> edges;
  for (const Callable& step : steps)
    for (CutEdge& e : session.cut_edges(step)) edges.push_back(std::move(e));
  print_edges(edges);
}
