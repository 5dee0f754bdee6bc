// Print: y = x, and writes a line about x to stderr: text, run, step, type and the first elements.
// Attributes: `text`; `every`: print the first of that many firings; `most`: limit of lines while
// the node is installed in a process, -1: none; `elements`: the number of elements shown.
//   x, y: any dtype and shape
#include <atomic>
#include <iostream>
#include <sstream>

#include "devices/kernel_call.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  for (const auto& [name, least] : {std::pair{"every", 1}, {"most", -1}, {"elements", 0}})
    if (ctx.attr<int64_t>(name) < least)
      throw ctx.error("wants ", name, " of at least ", least, ", got ", ctx.attr<int64_t>(name));
  return {ctx.input(0)};
}

std::vector<Output> gradient(const GradientContext& ctx) { return {ctx.output_gradient(0)}; }

struct Firings final : KernelState {
  mutable std::atomic<int64_t> count{0};
  static std::unique_ptr<KernelState> make(const Node&) { return std::make_unique<Firings>(); }
};

void put_elements(std::ostream& out, const Tensor& x, int64_t most) {
  const int64_t n = std::min(most, x.size());
  with_type(x.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) {
      out << (i ? " " : "");
      if constexpr (std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t>)
        out << int{x.data<T>()[i]};
      else
        detail::put(out, x.data<T>()[i]);
    }
  });
  if (n < x.size()) out << (n ? " ..." : "...");
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t firing = ctx.state<Firings>().count.fetch_add(1, std::memory_order_relaxed);
  const int64_t every = ctx.attr<int64_t>("every"), most = ctx.attr<int64_t>("most");
  if (firing % every == 0 && (most < 0 || firing / every < most)) {
    std::ostringstream line;
    line << std::boolalpha << ctx.attr<std::string>("text") << ": node=" << ctx.node().name
         << " run=" << KernelCall::of(ctx).run().run;
    if (ctx.step() >= 0) line << " step=" << ctx.step();
    line << " type=" << TensorType{x.dtype(), x.shape()} << " values=[";
    put_elements(line, x, ctx.attr<int64_t>("elements"));
    line << "]\n";
    std::cerr << line.str() << std::flush;
  }
  ctx.set_output(0, x);
}

}  // namespace

Op print_op() {
  return {.name = "Print",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"text", AttrKind::text},
                    {"every", AttrKind::integer, int64_t{1}},
                    {"most", AttrKind::integer, int64_t{-1}},
                    {"elements", AttrKind::integer, int64_t{10}}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu, nullptr, Firings::make}},
          .stateful = true,
          .precision = Precision::kept};
}

Output print(Output x, std::string_view text, PrintOptions options, Origin at) {
  return add_node({.op = "Print",
                   .inputs = {x},
                   .attrs = {{"text", std::string(text)},
                             {"every", options.every},
                             {"most", options.most},
                             {"elements", options.elements}}},
                  at);
}

}  // namespace troupe
