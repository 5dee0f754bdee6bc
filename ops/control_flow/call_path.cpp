// CallPath: y = the path of a call of a recursive function: a number of 64 bits that identifies the
// call's position in the graph, by attribute `key` (empty: the node's name), and the iterations and
// the call around it. Two calls have the same path with probability 2^-64.
//   path: i64 scalars, of troupe/ops/control_flow.hpp   y: i64 scalar
#include "ops/control_flow/call_path.hpp"
#include "ops/random/random.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_path(ctx);
  return {Shape{}};
}

void cpu(KernelContext& ctx) {
  uint64_t key = fnv1a64(random_key(ctx.node()));
  for (int i = 0; i < ctx.input_count(); ++i)
    key = RandomStream::key_within(key, ctx.input(i).item<int64_t>());
  *ctx.output().mutable_data<int64_t>() = static_cast<int64_t>(key);
}

}  // namespace

Op call_path_op() {
  return {.name = "CallPath",
          .inputs = {kPathInput},
          .outputs = {"y"},
          .attrs = {{"key", AttrKind::text, std::string()}},
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_shapes,
          .no_gradient = "it is a whole number",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .stateful = true};  // recomputed calls restore it, because its name is its key
}

Output call_path(Graph& graph, Origin at) { return add_drawing(graph, {.op = "CallPath"}, at); }

}  // namespace troupe
