// Resize: y = images of another size; each pixel is computed from the pixels of x around its
// centre.
//   x: [batch, h, w, channels]   y: [batch, height, width, channels]
//   Nearest: any dtype. Bilinear: floats, first along rows, then between two rows, as a + (b - a) *
//   part, so that equal pixels stay unchanged.
#include "devices/threads/isa.hpp"
#include "ops/images/resizing.hpp"
#include "ops/support/rows.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (resize_options(ctx).interpolation == Interpolation::bilinear && !is_floating(ctx.dtype(0)))
    throw ctx.error("interpolates floats, got ", ctx.dtype(0),
                    "; cast it, or take the nearest pixels");
  return {resized_shape(ctx, ctx.input(0))};
}

// Linear: dx = each dy distributed to its source pixels, by their parts.
std::vector<Output> gradient(const GradientContext& ctx) {
  const auto& size = ctx.attr<std::vector<int64_t>>("size");
  return {resize_gradient(ctx.output_gradient(0), ctx.input(0), size[0], size[1],
                          resize_options(InferContext(ctx.node(), {})))};
}

// Shared by the jobs: y as rows [batch * height], cut by its shape alone.
struct Rows {
  int64_t h, w, height, width, channels, total, of_job;
  Neighbours down, across;

  Rows(KernelContext& ctx, const Shape& x, const Shape& y)
      : h(x[1]),
        w(x[2]),
        height(y[1]),
        width(y[2]),
        channels(x[3]),
        total(y[0] * y[1]),
        of_job(std::max<int64_t>(8, kElementsOfJob / std::max<int64_t>(1, y[2] * y[3]))),
        down(neighbours(ctx, h, height, resize_options(ctx))),
        across(neighbours(ctx, w, width, resize_options(ctx))) {}
  int64_t jobs() const { return (total + of_job - 1) / of_job; }
  // The lower and the upper source row, among all rows of x, for row r of y.
  int64_t low(int64_t r) const { return r / height * h + down.low.data<int64_t>()[r % height]; }
  int64_t high(int64_t r) const { return r / height * h + down.high.data<int64_t>()[r % height]; }
  double part(int64_t r) const { return down.part.data<double>()[r % height]; }
};

void take_nearest(KernelContext& ctx, const Rows& rows, char* y) {
  const char* x = static_cast<const char*>(ctx.input(0).raw());
  const int64_t pixel = rows.channels * size_of(ctx.input(0).dtype());
  const int64_t* across = rows.across.low.data<int64_t>();
  const int64_t from = rows.w * pixel, to = rows.width * pixel;
  ctx.parallel(rows.jobs(), [&](int64_t job) {
    const int64_t first = job * rows.of_job, last = std::min(first + rows.of_job, rows.total);
    for (int64_t r = first; r < last; ++r) {
      if (r > first && rows.low(r) == rows.low(r - 1))
        std::memcpy(y + r * to, y + (r - 1) * to, static_cast<size_t>(to));
      else
        copy_rows(
            rows.width, pixel, x + rows.low(r) * from, y + r * to,
            [=](int64_t i) { return across[i]; }, same_row);
    }
  });
}

struct BetweenRows {
  template <class T>
  static void run(const T* a, const T* b, T part, T* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = a[i] + (b[i] - a[i]) * part;
  }
};

template <class T>
void along_row(const Rows& rows, const T* x, T* y) {
  const int64_t *low = rows.across.low.data<int64_t>(), *high = rows.across.high.data<int64_t>();
  const double* parts = rows.across.part.data<double>();
  const int64_t c = rows.channels;
  for (int64_t i = 0; i < rows.width; ++i, y += c) {
    const T *a = x + low[i] * c, *b = x + high[i] * c;
    const T part = static_cast<T>(parts[i]);
    if (part == 0)
      std::copy_n(a, c, y);
    else
      for (int64_t k = 0; k < c; ++k) y[k] = a[k] + (b[k] - a[k]) * part;
  }
}

// Keeps two neighbouring rows of x, already resized to y's width: the even and the odd one.
template <class T>
void interpolate(KernelContext& ctx, const Rows& rows, T* y) {
  const T* x = ctx.input(0).data<T>();
  const int64_t line = rows.width * rows.channels;
  Tensor kept = ctx.scratch(dtype_of<T>, Shape{rows.jobs(), 2, line});
  T* lines = kept.mutable_data<T>();
  ctx.parallel(rows.jobs(), [&](int64_t job) {
    int64_t held[2] = {-1, -1};
    const auto row = [&](int64_t number) -> const T* {
      T* to = lines + (2 * job + (number & 1)) * line;
      if (std::exchange(held[number & 1], number) != number)
        along_row(rows, x + number * rows.w * rows.channels, to);
      return to;
    };
    const int64_t first = job * rows.of_job, last = std::min(first + rows.of_job, rows.total);
    for (int64_t r = first; r < last; ++r) {
      const T* low = row(rows.low(r));
      const T part = static_cast<T>(rows.part(r));
      if (part == 0)
        std::copy_n(low, line, y + r * line);
      else
        in_isa<BetweenRows>(low, row(rows.high(r)), part, y + r * line, line);
    }
  });
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = resized_shape(ctx, x.shape());
  Tensor& y = ctx.output(0, shape);
  if (y.size() == 0) return;
  const Rows rows(ctx, x.shape(), shape);
  if (resize_options(ctx).interpolation == Interpolation::nearest)
    take_nearest(ctx, rows, static_cast<char*>(y.mutable_raw()));
  else if (x.dtype() == DType::f32)
    interpolate(ctx, rows, y.mutable_data<float>());
  else
    interpolate(ctx, rows, y.mutable_data<double>());
}

const char* to_string(Interpolation interpolation) {
  return interpolation == Interpolation::nearest ? "nearest" : "bilinear";
}

const char* to_string(PixelGrid grid) {
  return grid == PixelGrid::half_pixel      ? "half_pixel"
         : grid == PixelGrid::align_corners ? "align_corners"
                                            : "asymmetric";
}

// The position of pixel i's centre among n source pixels.
double position(PixelGrid grid, double i, double n, double resized) {
  if (grid == PixelGrid::half_pixel) return (i + 0.5) * n / resized - 0.5;
  if (grid == PixelGrid::asymmetric) return i * n / resized;
  return resized > 1 ? i * (n - 1) / (resized - 1) : 0;
}

// A kernel for each dtype: bilinear interpolation of 16-bit floats widens them
// (ops/support/narrow.hpp).
std::vector<Kernel> resize_kernels() {
  std::vector<Kernel> kernels;
  for (const DType dtype : kDTypes)
    if (!is_half(dtype)) kernels.push_back({DeviceKind::cpu, dtype, cpu});
  return kernels;
}

}  // namespace

std::vector<AttrSpec> resize_attrs() {
  return {{"size", AttrKind::integers},
          {"interpolation", AttrKind::text, std::string("bilinear")},
          {"grid", AttrKind::text, std::string("half_pixel")}};
}

Attrs to_attrs(int64_t height, int64_t width, ResizeOptions options) {
  return {{"size", std::vector<int64_t>{height, width}},
          {"interpolation", std::string(to_string(options.interpolation))},
          {"grid", std::string(to_string(options.grid))}};
}

Neighbours neighbours(KernelContext& ctx, int64_t n, int64_t resized, ResizeOptions options) {
  Neighbours all{ctx.scratch(DType::i64, Shape{resized}), ctx.scratch(DType::i64, Shape{resized}),
                 ctx.scratch(DType::f64, Shape{resized})};
  int64_t *low = all.low.mutable_data<int64_t>(), *high = all.high.mutable_data<int64_t>();
  double* part = all.part.mutable_data<double>();
  const bool nearest = options.interpolation == Interpolation::nearest;
  const double half = options.grid == PixelGrid::asymmetric ? 0 : 0.5;
  for (int64_t i = 0; i < resized; ++i) {
    double at = position(options.grid, static_cast<double>(i), static_cast<double>(n),
                         static_cast<double>(resized));
    if (nearest) at = std::floor(at + half);
    at = std::clamp(at, 0.0, static_cast<double>(n - 1));
    low[i] = static_cast<int64_t>(at);
    part[i] = at - static_cast<double>(low[i]);
    high[i] = part[i] > 0 ? low[i] + 1 : low[i];
  }
  return all;
}

Op resize_op() {
  return {.name = "Resize",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = resize_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = resize_kernels()};
}

Output resize(Output x, int64_t height, int64_t width, ResizeOptions options, Origin at) {
  return add_node({.op = "Resize", .inputs = {x}, .attrs = to_attrs(height, width, options)}, at);
}

}  // namespace troupe
