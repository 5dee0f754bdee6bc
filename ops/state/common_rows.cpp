// CommonRows: the common number of rows of tensors, checked in the step if their sizes are unknown
// before. For scan() and map_rows(); attribute `function` names the caller.
//   shapes: of each tensor, from ShapeOf, i64[1 or more]   rows: their first element, i64[]
#include "ops/support/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  for (int i = 0; i < ctx.input_count(); ++i)
    if (ctx.dtype(i) != DType::i64 || ctx.input(i).ndim() != 1 || ctx.input(i)[0] == 0)
      throw ctx.error("wants shapes of tensors with rows, i64[1 or more], got ", ctx.dtype(i),
                      ctx.input(i));
  return {Shape{}};
}

void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto rows_of = [&](int i) { return *ctx.input(i).data<int64_t>(); };
  std::string counts = std::to_string(rows_of(0));
  bool same = true;
  for (int i = 1; i < ctx.input_count(); ++i) {
    counts += ", " + std::to_string(rows_of(i));
    same = same && rows_of(i) == rows_of(0);
  }
  if (!same)
    throw ctx.error(ctx.attr<std::string>("function"), " wants xs with one number of rows, got ",
                    counts, "; cut or pad them before");
  *ctx.output().mutable_data<int64_t>() = rows_of(0);
}

}  // namespace

Op common_rows_op() {
  return {.name = "CommonRows",
          .inputs = {"shapes..."},
          .outputs = {"rows"},
          .attrs = {{"function", AttrKind::text}},
          .infer_dtypes = infer_i64,
          .infer_shapes = infer_shapes,
          .no_gradient = "sizes do not depend on values",
          .kernels = {{DeviceKind::cpu, DType::i64, cpu}}};
}

}  // namespace troupe
