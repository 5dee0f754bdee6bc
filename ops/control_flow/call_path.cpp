// CallPath: y = the path of a call of a function that calls itself: a number of 64 bits for where
// the call stands, by attribute `key` (empty: the node's name), and for the iterations and the call
// that it is in. Two calls have the same one with a chance of 2^-64.
//   path: i64 scalars, of troupe/ops/iteration_path.hpp   y: i64 scalar
#include "ops/control_flow/call_path.hpp"
#include "ops/random/random.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext&) { return {DType::i64}; }

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
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "it is a whole number",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .stateful = true};  // whoever computes a call again restores it: its name is its key
}

Output call_path(Graph& graph, Origin at) { return add_drawing(graph, {.op = "CallPath"}, at); }

}  // namespace troupe
