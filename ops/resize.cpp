// Resize: images of another height and width; troupe/ops/images.hpp says what an output is made of.
//   x: [batch, h, w, channels]   y: [batch, height, width, channels]
#include "ops/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "devices/isa.hpp"

namespace troupe {

std::vector<AttrSpec> resize_attrs(std::vector<AttrSpec> more) {
  more.push_back({"method", AttrKind::integer});
  more.push_back({"sampling", AttrKind::integer});
  return more;
}

Attrs to_attrs(ResizeOptions options) {
  return {{"method", static_cast<int64_t>(options.method)},
          {"sampling", static_cast<int64_t>(options.sampling)}};
}

ResizeOptions resize_options(const Node& node) {
  return {static_cast<ResizeMethod>(node.attr<int64_t>("method")),
          static_cast<ResizeSampling>(node.attr<int64_t>("sampling"))};
}

void check_resize(const InferContext& ctx, const Shape& x, int64_t height, int64_t width) {
  const int64_t method = ctx.attr<int64_t>("method"), sampling = ctx.attr<int64_t>("sampling");
  if (method < 0 || method > static_cast<int64_t>(ResizeMethod::bilinear) || sampling < 0 ||
      sampling > static_cast<int64_t>(ResizeSampling::asymmetric))
    throw ctx.error("wants a method of 0 or 1 and a sampling of 0, 1 or 2, got ", method, " and ",
                    sampling);
  if (x.ndim() != 4) throw ctx.error("wants images [batch, height, width, channels], got ", x);
  if (height < -1 || width < -1 || height == 0 || width == 0)
    throw ctx.error("wants a height and a width of at least 1, got ", height, " and ", width);
  if (x[1] == 0 || x[2] == 0) throw ctx.error("cannot make pixels of none: ", x);
}

ResizeTable resize_table(int64_t from, int64_t to, ResizeOptions options) {
  ResizeTable table;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const auto inside = [&](double place) {
    return static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(from - 1)));
  };
  for (int64_t i = 0; i < to; ++i) {
    const double n = static_cast<double>(i);
    double place = n * scale;
    if (options.sampling == ResizeSampling::half_pixel) place = (n + 0.5) * scale - 0.5;
    if (options.sampling == ResizeSampling::align_corners)
      place = to > 1 ? n * static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
    if (options.method == ResizeMethod::nearest) {
      const bool to_middle = options.sampling != ResizeSampling::asymmetric;
      table.low.push_back(inside(std::floor(to_middle ? place + 0.5 : place)));
      table.high.push_back(table.low.back());
      table.weight.push_back(0);
      continue;
    }
    const double below = std::floor(place);
    table.low.push_back(inside(below));
    table.high.push_back(inside(below + 1));
    table.weight.push_back(table.low.back() == table.high.back() ? 0 : place - below);
  }
  return table;
}

namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& x = ctx.input(0);
  const int64_t height = ctx.attr<int64_t>("height"), width = ctx.attr<int64_t>("width");
  check_resize(ctx, x, height, width);
  if (height < 1 || width < 1)
    throw ctx.error("wants a height and a width of at least 1, got ", height, " and ", width);
  if (resize_options(ctx.node()).method == ResizeMethod::bilinear && !is_floating(ctx.dtype(0)))
    throw ctx.error("is bilinear between f32 or f64, got ", ctx.dtype(0),
                    "; cast them, or take the nearest");
  return {Shape{x[0], height, width, x[3]}};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  if (!is_floating(ctx.input(0).dtype())) return {Output{}};
  return {resize_gradient(ctx.output_gradient(0), ctx.input(0), resize_options(ctx.node()))};
}

// One row of pixels, between the rows `top` and `bottom` of the input.
struct RowLoop {
  template <class T>
  static void run(const T* top, const T* bottom, T down, const int64_t* low, const int64_t* high,
                  const double* weight, T* y, int64_t width, int64_t c) {
    for (int64_t j = 0; j < width; ++j, y += c) {
      const T across = static_cast<T>(weight[j]);
      const T *a = top + low[j] * c, *b = top + high[j] * c;
      const T *d = bottom + low[j] * c, *e = bottom + high[j] * c;
      TROUPE_INDEPENDENT
      for (int64_t k = 0; k < c; ++k) {
        const T upper = a[k] + (b[k] - a[k]) * across, lower = d[k] + (e[k] - d[k]) * across;
        y[k] = upper + (lower - upper) * down;
      }
    }
  }
};

template <class T>
void bilinear(KernelContext& ctx, const ResizeTable& rows, const ResizeTable& columns) {
  const Shape from = ctx.input(0).shape();
  const T* x = ctx.input(0).data<T>();
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  const int64_t height = output.dim(1), width = output.dim(2), c = from[3];
  ctx.parallel(from[0], [&](int64_t b) {
    const T* image = x + b * from[1] * from[2] * c;
    for (int64_t i = 0; i < height; ++i) {
      const auto row = static_cast<size_t>(i);
      in_isa<RowLoop>(image + rows.low[row] * from[2] * c, image + rows.high[row] * from[2] * c,
                      static_cast<T>(rows.weight[row]), columns.low.data(), columns.high.data(),
                      columns.weight.data(), y + (b * height + i) * width * c, width, c);
    }
  });
}

void nearest(KernelContext& ctx, const ResizeTable& rows, const ResizeTable& columns) {
  const Tensor& input = ctx.input(0);
  const Shape from = input.shape();
  const char* x = static_cast<const char*>(input.raw());
  Tensor& output = ctx.output();
  char* y = static_cast<char*>(output.mutable_raw());
  const int64_t height = output.dim(1), width = output.dim(2);
  const int64_t pixel = from[3] * size_of(input.dtype());
  ctx.parallel(from[0], [&](int64_t b) {
    char* to = y + b * height * width * pixel;
    for (const int64_t i : rows.low)
      for (const int64_t j : columns.low) {
        std::memcpy(to, x + ((b * from[1] + i) * from[2] + j) * pixel, static_cast<size_t>(pixel));
        to += pixel;
      }
  });
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ResizeOptions options = resize_options(ctx.node());
  const auto table = [&](int d, const char* size) {
    return resize_table(x.dim(d), ctx.attr<int64_t>(size), options);
  };
  if (x.dim(1) == 0 || x.dim(2) == 0) throw ctx.error("cannot make pixels of none: ", x.shape());
  if (x.size() == 0) {
    ctx.output();
    return;
  }
  if (options.method == ResizeMethod::nearest)
    nearest(ctx, table(1, "height"), table(2, "width"));
  else if (x.dtype() == DType::f32)
    bilinear<float>(ctx, table(1, "height"), table(2, "width"));
  else
    bilinear<double>(ctx, table(1, "height"), table(2, "width"));
}

}  // namespace

Op resize_op() {
  return {.name = "Resize",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = resize_attrs({{"height", AttrKind::integer}, {"width", AttrKind::integer}}),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output resize(Output x, int64_t height, int64_t width, ResizeOptions options, Origin at) {
  Attrs attrs = to_attrs(options);
  attrs["height"] = height;
  attrs["width"] = width;
  return add_node({.op = "Resize", .inputs = {x}, .attrs = std::move(attrs)}, at);
}

}  // namespace troupe
