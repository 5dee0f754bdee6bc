// Implements devices/work.hpp.
#include "devices/work.hpp"

#include <map>

namespace troupe {
namespace {

// Filled before main(), by the files of ops.
std::map<std::string_view, FlopsRule>& rules() {
  static std::map<std::string_view, FlopsRule> all;
  return all;
}

}  // namespace

FlopsOf::FlopsOf(const char* op, FlopsRule rule) { rules()[op] = rule; }

FlopsRule flops_rule(std::string_view op) {
  const auto it = rules().find(op);
  return it == rules().end() ? nullptr : it->second;
}

WorkCount::WorkCount(const KernelCall& call) : node_(*call.view().node) {
  for (int i = 0; i < call.context.input_count(); ++i) {
    const Tensor& input = call.context.input(i);
    inputs_.push_back(input.shape());
    bytes_ += input.byte_size();
  }
}

KernelWork WorkCount::after(const Tensor* outputs) const {
  KernelWork out{bytes_, -1};
  std::vector<Shape> shapes;
  for (size_t i = 0; i < node_.outputs.size(); ++i) {
    if (!outputs[i].defined()) return out;  // the kernel has failed
    shapes.push_back(outputs[i].shape());
    out.bytes += outputs[i].byte_size();
  }
  if (const FlopsRule rule = flops_rule(node_.op->name)) out.flops = rule(node_, inputs_, shapes);
  return out;
}

}  // namespace troupe
