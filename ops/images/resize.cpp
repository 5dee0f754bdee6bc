// Resize: y = images of another size; each pixel is computed from the pixels of x around its
// centre.
//   x: [batch, h, w, channels]   y: [batch, height, width, channels]
//   Nearest: any dtype. Bilinear: floats, first along rows, then between two rows, as a + (b - a) *
//   part, so that equal pixels stay unchanged.
//
// ResizeGradient: dx = for each pixel of x, the sum over the pixels of y that it contributed to, of
// dy times its part.
//   dy: [batch, height, width, channels], floats   x_like: [batch, h, w, channels], only its shape
//   is read   dx: the shape of x_like.
#include <algorithm>
#include <cmath>

#include "devices/threads/isa.hpp"
#include "ops/images/resizing.hpp"
#include "ops/support/rows.hpp"

namespace troupe {

// dL/dx of a resize to height and width, from dy = dL/dy. Only the shape of x_like is read.
Output resize_gradient(Output dy, Output x_like, int64_t height, int64_t width,
                       ResizeOptions options, Origin at = Origin::here());

namespace {

// Elements of one job: at least 20 us.
constexpr int64_t kElementsOfJob = 1 << 16;

const char* to_string(Interpolation interpolation) {
  return interpolation == Interpolation::nearest ? "nearest" : "bilinear";
}

const char* to_string(PixelGrid grid) {
  return grid == PixelGrid::half_pixel      ? "half_pixel"
         : grid == PixelGrid::align_corners ? "align_corners"
                                            : "asymmetric";
}

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

// Throws: Error from ctx for an unknown word.
template <class Context>
ResizeOptions resize_options(const Context& ctx) {
  const std::string& interpolation = ctx.template attr<std::string>("interpolation");
  const std::string& grid = ctx.template attr<std::string>("grid");
  ResizeOptions options;
  if (interpolation == "nearest")
    options.interpolation = Interpolation::nearest;
  else if (interpolation != "bilinear")
    throw ctx.error("interpolates nearest or bilinear, not \"", interpolation, "\"");
  if (grid == "align_corners")
    options.grid = PixelGrid::align_corners;
  else if (grid == "asymmetric")
    options.grid = PixelGrid::asymmetric;
  else if (grid != "half_pixel")
    throw ctx.error("has grids half_pixel, align_corners and asymmetric, not \"", grid, "\"");
  return options;
}

// The shape of y, [batch, size, channels], for x.
template <class Context>
Shape resized_shape(const Context& ctx, const Shape& x) {
  require_images(ctx, x);
  const auto& size = image_size(ctx, 1);
  if (x[1] == 0 || x[2] == 0)
    throw ctx.error("there are no pixels in ", x, "; pass images that have some");
  return {x[0], size[0], size[1], x[3]};
}

// For each pixel of one dimension of y: the two pixels of x around it, and the weight of the upper
// one.
struct Neighbours {
  Tensor low, high;  // i64; equal if the weight is 0
  Tensor part;       // f64; all 0 for nearest interpolation, which takes `low`
};
Neighbours neighbours(KernelContext& ctx, int64_t n, int64_t resized, ResizeOptions options);

// The position of pixel i's centre among n source pixels.
double position(PixelGrid grid, double i, double n, double resized) {
  if (grid == PixelGrid::half_pixel) return (i + 0.5) * n / resized - 0.5;
  if (grid == PixelGrid::asymmetric) return i * n / resized;
  return resized > 1 ? i * (n - 1) / (resized - 1) : 0;
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

// A kernel for each dtype: bilinear interpolation of 16-bit floats widens them
// (ops/support/narrow.hpp).
std::vector<Kernel> resize_kernels() {
  std::vector<Kernel> kernels;
  for (const DType dtype : kDTypes)
    if (!is_half(dtype)) kernels.push_back({DeviceKind::cpu, dtype, cpu});
  return kernels;
}

template <class Context>
void check_shapes(const Context& ctx, const Shape& dy, const Shape& x) {
  const Shape wanted = resized_shape(ctx, x);
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", that of ", x, " resized, got ", dy);
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  resize_options(ctx);
  check_shapes(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Linear in dy. Writing g for the gradient of dx, the gradient of dy is resize(g).
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  const auto& size = ctx.attr<std::vector<int64_t>>("size");
  return {resize(ctx.output_gradient(0), size[0], size[1],
                 resize_options(InferContext(ctx.node(), {}))),
          Output{}};
}

struct AddRow {
  template <class T>
  static void run(const T* x, T factor, T* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i] * factor;
  }
};

template <class T>
void scatter_along(const Neighbours& across, int64_t width, int64_t c, const T* dy, T* dx) {
  const int64_t *low = across.low.data<int64_t>(), *high = across.high.data<int64_t>();
  const double* parts = across.part.data<double>();
  for (int64_t i = 0; i < width; ++i, dy += c) {
    const T part = static_cast<T>(parts[i]);
    T *a = dx + low[i] * c, *b = dx + high[i] * c;
    for (int64_t k = 0; k < c; ++k) a[k] += dy[k] * (1 - part);
    if (part == 0) continue;
    for (int64_t k = 0; k < c; ++k) b[k] += dy[k] * part;
  }
}

// One image after the other: first along a row of dy, then into one or two rows of dx.
template <class T>
void cpu_gradient(KernelContext& ctx) {
  const Shape shape = ctx.input(1).shape(), y = ctx.input(0).shape();
  check_shapes(ctx, y, shape);
  const T* dy = ctx.input(0).data<T>();
  T* dx = ctx.output(0, shape).template mutable_data<T>();
  const int64_t line = shape[2] * shape[3], image = shape[1] * line, batch = shape[0];
  if (batch * image == 0) return;
  const ResizeOptions options = resize_options(ctx);
  const Neighbours down = neighbours(ctx, shape[1], y[1], options);
  const Neighbours across = neighbours(ctx, shape[2], y[2], options);
  const int64_t more = y[1] * y[2] * y[3];
  const int64_t images = std::max<int64_t>(1, kElementsOfJob / std::max(image, more));
  const int64_t jobs = (batch + images - 1) / images;
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{jobs, line});
  T* rows = scratch.mutable_data<T>();
  const int64_t *low = down.low.data<int64_t>(), *high = down.high.data<int64_t>();
  const double* parts = down.part.data<double>();
  ctx.parallel(jobs, [&](int64_t job) {
    T* row = rows + job * line;
    for (int64_t b = job * images; b < std::min(batch, (job + 1) * images); ++b) {
      T* to = dx + b * image;
      std::fill_n(to, image, T{0});
      for (int64_t r = 0; r < y[1]; ++r) {
        const T part = static_cast<T>(parts[r]);
        std::fill_n(row, line, T{0});
        scatter_along(across, y[2], y[3], dy + b * more + r * y[2] * y[3], row);
        in_isa<AddRow>(row, 1 - part, to + low[r] * line, line);
        if (part != 0) in_isa<AddRow>(row, part, to + high[r] * line, line);
      }
    }
  });
}

}  // namespace

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

Op resize_gradient_op() {
  return {.name = "ResizeGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = resize_attrs(),
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = float_kernels(cpu_gradient<float>, cpu_gradient<double>)};
}

Output resize_gradient(Output dy, Output x_like, int64_t height, int64_t width,
                       ResizeOptions options, Origin at) {
  return add_node(
      {.op = "ResizeGradient", .inputs = {dy, x_like}, .attrs = to_attrs(height, width, options)},
      at);
}

}  // namespace troupe
