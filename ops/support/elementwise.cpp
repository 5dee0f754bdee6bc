// The frame of element-wise kernels: which elements a loop gets, by which thread. Loops are
// compiled for each function, dtype and instruction set; they come here as pointers, one call for a
// row or for a part of one.
#include "graph/op.hpp"
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// n copies of the first element, of `size` bytes, the first included.
void repeat_first(void* elements, int64_t n, int64_t size) {
  const auto repeat = [&]<class T>(T) {
    std::fill_n(static_cast<T*>(elements) + 1, n - 1, *static_cast<T*>(elements));
  };
  switch (size) {
    case 1:
      return repeat(uint8_t{});
    case 2:
      return repeat(uint16_t{});
    case 4:
      return repeat(uint32_t{});
    default:
      return repeat(uint64_t{});
  }
}

// c has n elements.
void zip_row(const Zip& zip, const void* a, bool a_once, const void* b, bool b_once, void* c,
             int64_t n) {
  if (a_once && b_once) {  // one value, again and again
    zip.both(a, b, c, 1);
    return repeat_first(c, n, zip.out);
  }
  (a_once ? zip.b_alone : b_once ? zip.a_alone : zip.both)(a, b, c, n);
}

void run_broadcast(KernelContext& ctx, const Zip& zip, const char* a, const char* b) {
  const BroadcastWalk walk = walk_inputs(ctx);
  char* c = static_cast<char*>(ctx.output_in_place().mutable_raw());
  const bool a_once = !walk.strides[0][walk.ndim - 1], b_once = !walk.strides[1][walk.ndim - 1];
  for_each_row<2>(walk, [&](int64_t to, const int64_t* at, int64_t n) {
    zip_row(zip, a + at[0] * zip.in, a_once, b + at[1] * zip.in, b_once, c + to * zip.out, n);
  });
}

}  // namespace

bool same_sizes(const Tensor& a, const Tensor& b) {
  if (a.ndim() != b.ndim()) return false;
  for (int i = 0; i < a.ndim(); ++i)
    if (a.dim(i) != b.dim(i)) return false;
  return true;
}

void run_map(KernelContext& ctx, Map* map, int64_t in, int64_t out) {
  const char* x = static_cast<const char*>(ctx.input(0).raw());
  const int64_t n = ctx.input(0).size();
  char* y = static_cast<char*>(ctx.output_in_place().mutable_raw());
  const Node& node = ctx.node();
  in_parts(ctx, n, [=, &node](int64_t at, int64_t length) {
    map(node, x + at * in, y + at * out, length);
  });
}

void map_elements_of(const ElementRun& run, Map* map, int64_t out) {
  map(*run.node, run.inputs[0], run.output, run.once[0] ? 1 : run.n);
  if (run.once[0]) repeat_first(run.output, run.n, out);
}

// Most nodes have two equal shapes, or one element on the right. Everything else takes a walk.
void run_zip(KernelContext& ctx, const Zip& zip) {
  const Tensor &a = ctx.input(0), &b = ctx.input(1);
  const char *pa = static_cast<const char*>(a.raw()), *pb = static_cast<const char*>(b.raw());
  const int64_t n = a.size();
  const bool same = same_sizes(a, b);
  if (!same && !(b.ndim() <= a.ndim() && b.size() == 1)) return run_broadcast(ctx, zip, pa, pb);
  char* c = static_cast<char*>(ctx.output_in_place().mutable_raw());
  if (n == 0) return;
  const auto run = same ? zip.both : zip.a_alone;
  const int64_t in = zip.in, b_step = same ? in : 0, out = zip.out;
  in_parts(ctx, n, [=](int64_t at, int64_t length) {
    run(pa + at * in, pb + at * b_step, c + at * out, length);
  });
}

void zip_elements_of(const ElementRun& run, const Zip& zip) {
  zip_row(zip, run.inputs[0], run.once[0], run.inputs[1], run.once[1], run.output, run.n);
}

}  // namespace troupe
