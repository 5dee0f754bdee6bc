// FakeShards: a ParameterPort that answers from a map; and fire(), which starts an asynchronous
// kernel without an engine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "devices/run_context.hpp"
#include "graph/op.hpp"
#include "troupe/op.hpp"

namespace troupe {

class FakeShards final : public ParameterPort {
 public:
  struct Push {
    std::string parameter;
    int64_t replica, step;
    Tensor gradient;
  };
  std::map<std::string, Tensor> values;
  std::vector<Push> pulls, pushes;  // the requests, in order

  struct Write {
    std::string parameter;
    int64_t replica, step;
    ParameterWrite change;
  };
  std::vector<Write> writes;

  void pull(const std::string& parameter, const ParameterStep& at, Reply reply) override {
    pulls.push_back({parameter, at.replica, at.step, {}});
    const auto it = values.find(parameter);
    if (it == values.end()) return reply(Errc::peer_lost, "nobody holds " + parameter, {});
    reply(Errc::ok, "", it->second);
  }
  // Takes values[parameter] to be the requested rows.
  void pull_rows(const std::string& parameter, const ParameterStep& at, Tensor indices,
                 Reply reply) override {
    pulls.push_back({parameter, at.replica, at.step, std::move(indices)});
    const auto it = values.find(parameter);
    if (it == values.end()) return reply(Errc::peer_lost, "nobody holds " + parameter, {});
    reply(Errc::ok, "", it->second);
  }
  void push(const std::string& parameter, const ParameterStep& at, Tensor gradient,
            Reply reply) override {
    pushes.push_back({parameter, at.replica, at.step, gradient});
    if (!values.count(parameter)) return reply(Errc::peer_lost, "nobody holds " + parameter, {});
    reply(Errc::ok, "", {});
  }
  void write(const std::string& parameter, const ParameterStep& at, ParameterWrite change,
             Reply reply) override {
    writes.push_back({parameter, at.replica, at.step, std::move(change)});
    if (!values.count(parameter)) return reply(Errc::peer_lost, "nobody holds " + parameter, {});
    reply(Errc::ok, "", {});
  }
};

// The result of one firing.
struct FakeFiring {
  int replies = 0;  // must become 1
  std::vector<Tensor> outputs;
  Errc code = Errc::ok;
  std::string text;
};

// Starts the CPU kernel of `node`, which must finish at once.
inline FakeFiring fire(const Node& node, std::vector<Tensor> inputs, const RunContext& step) {
  struct Context final : AsyncContext {
    Context(const Node& node, std::vector<Tensor> inputs, const RunContext& step,
            FakeFiring& result)
        : node_(node), inputs_(std::move(inputs)), step_(step), result_(result) {}
    const Tensor& input(int i) const override { return inputs_[static_cast<size_t>(i)]; }
    const Node& node() const override { return node_; }
    const RunContext& run() const override { return step_; }
    bool waits() const override { return result_.replies == 0; }
    bool done(std::vector<Tensor> outputs) override {
      ++result_.replies;
      result_.outputs = std::move(outputs);
      return true;
    }
    void fail(Errc code, std::string text) override {
      ++result_.replies;
      result_.code = code;
      result_.text = std::move(text);
    }
    const Node& node_;
    std::vector<Tensor> inputs_;
    RunContext step_;
    FakeFiring& result_;
  };
  FakeFiring result;
  find_kernel(node, DeviceKind::cpu)
      ->start(std::make_shared<Context>(node, std::move(inputs), step, result));
  return result;
}

}  // namespace troupe
