// What conv2d and its two gradients share: shape rules, sizes, and the layouts that oneDNN is
// given.
//   x: [batch, height, width, in]   filter: [height, width, in, out]
//   y: [batch, height', width', out]
#pragma once

#include <algorithm>
#include <array>

#include "ops/node.hpp"
#include "ops/onednn.hpp"
#include "ops/window.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

std::vector<AttrSpec> convolution_attrs();
Attrs convolution_attrs(Conv2dOptions options);
Conv2dOptions convolution_options(const Node& node);

// For infer_shapes. Throws: Error from ctx naming the shapes that do not fit.
Shape convolution_output(const InferContext& ctx, const Shape& x, const Shape& filter);
// Throws unless dy can be the gradient of what convolution_output() gives.
void require_convolution_gradient(const InferContext& ctx, const Shape& dy, const Shape& x,
                                  const Shape& filter);

// One convolution with everything known.
struct ConvolutionSizes {
  int64_t batch, height, width, in;  // x
  int64_t window_height, window_width, out;
  int64_t stride;
  Sliding down, across;

  ConvolutionSizes(const Shape& x, const Shape& filter, Conv2dOptions options);
  bool is_empty() const;  // no products to sum
  std::array<int64_t, 8> key() const {
    return {batch, height, width, in, window_height, window_width, out, stride};
  }
};

// Calls f(index of x's channels, of the filter's [in, out] matrix, of y's channels) for every pixel
// pair of a convolution, in a fixed order: by output pixel, then by place in the window. Indices
// count elements.
template <class F>
void for_each_tap(const ConvolutionSizes& s, F f) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t oy = 0; oy < s.down.size; ++oy)
      for (int64_t ox = 0; ox < s.across.size; ++ox) {
        const int64_t y = ((b * s.down.size + oy) * s.across.size + ox) * s.out;
        for (int64_t ky = 0; ky < s.window_height; ++ky)
          for (int64_t kx = 0; kx < s.window_width; ++kx) {
            const int64_t iy = oy * s.stride - s.down.before + ky;
            const int64_t ix = ox * s.stride - s.across.before + kx;
            if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
            f(((b * s.height + iy) * s.width + ix) * s.in,
              (ky * s.window_width + kx) * s.in * s.out, y);
          }
      }
}

// The same in oneDNN's words. Images are NHWC, and so is what oneDNN is given; filters it may lay
// out as it likes, which makes it 3 to 6 times faster, so they are reordered before or after.
struct ConvolutionTypes {
  dnnl::memory::desc x, filter, any_filter, y;
  dnnl::memory::dims strides, before, after;
  explicit ConvolutionTypes(const ConvolutionSizes& sizes);

  dnnl::convolution_forward::primitive_desc forward() const;
  // Of the pass that goes back to x or to the filter.
  template <class Pass>
  typename Pass::primitive_desc backward() const {
    return {{dnnl::algorithm::convolution_direct, x, any_filter, y, strides, before, after},
            onednn_attr(),
            onednn_engine(),
            forward()};
  }
};

// A pass over some images, and the layout of the filter, or of its gradient, that oneDNN chose.
struct CompiledConvolution {
  std::unique_ptr<OneDnnPrimitive> primitive;
  dnnl::memory::desc filter;
};
using CompileConvolution = CompiledConvolution(const ConvolutionTypes& types);

// A pass over all images, in jobs of a few images each. How many is part of the numerics, as a
// filter's gradient is a sum over jobs, so it follows from the sizes alone.
struct ConvolutionPass {
  ConvolutionPass(const ConvolutionSizes& sizes, CompileConvolution* compile);

  int64_t batch = 0, images = 0;            // of all; of a job
  std::unique_ptr<OneDnnPrimitive> job;     // the pass over `images`
  std::unique_ptr<OneDnnPrimitive> rest;    // over those that are left at the end, if any are
  std::unique_ptr<OneDnnPrimitive> pack;    // the filter from our layout to oneDNN's, and
  std::unique_ptr<OneDnnPrimitive> unpack;  // back; null when they agree
  int64_t filter_bytes = 0;                 // in oneDNN's layout
  int64_t scratch_bytes = 0;                // of a job; a multiple of 64

  int64_t jobs() const { return (batch + images - 1) / images; }
  // Runs all jobs. addresses(job, its first image) gives what `compile` lists as arguments;
  // done(first image, images) is called after each job, on its thread.
  template <class Addresses, class Done>
  void run(KernelContext& ctx, const Addresses& addresses, const Done& done) const {
    Tensor scratch;
    if (scratch_bytes > 0) scratch = ctx.scratch(DType::u8, Shape{scratch_bytes * jobs()});
    uint8_t* const at = scratch.defined() ? scratch.mutable_data<uint8_t>() : nullptr;
    ctx.parallel(jobs(), [&](int64_t i) {
      const bool whole = (i + 1) * images <= batch;
      const std::array<const void*, 3> given = addresses(i, i * images);
      (whole ? *job : *rest)
          .execute(ctx, {given[0], given[1], given[2]}, at ? at + i * scratch_bytes : nullptr);
      done(i * images, whole ? images : batch - i * images);
    });
  }
};

struct ConvolutionState final : KernelState {
  Conv2dOptions options;
  ShapeCache<std::array<int64_t, 8>, ConvolutionPass> passes;
};
std::unique_ptr<KernelState> prepare_convolution(const Node& node);

// What f32 kernels begin with: actual shapes are checked, the output is made. Of the shapes that
// are given x and filter have now. Without products to sum the output is set to 0, and there is no
// pass.
std::shared_ptr<const ConvolutionPass> convolution_pass(KernelContext& ctx, const Shape& x,
                                                        const Shape& filter,
                                                        CompileConvolution* compile);
// Runs a pass that turns images and the filter, input 1, into images: conv2d and its input
// gradient. Arguments: images, filter, output.
void run_with_filter(KernelContext& ctx, const ConvolutionPass& pass, const Tensor& images);

// The f64 kernel of all three, plain loops: adds up in the output what
// add(output, index of an element of x, of the filter, of y) adds, for all products.
template <class Add>
void sum_products(KernelContext& ctx, const Shape& x, const Shape& filter, Add add) {
  check_actual_shapes(ctx);
  Tensor& output = ctx.output();
  double* sums = output.mutable_data<double>();
  std::fill_n(sums, output.size(), 0.0);
  const ConvolutionSizes s(x, filter, ctx.state<ConvolutionState>().options);
  if (!s.is_empty())
    for_each_tap(s, [&](int64_t at_x, int64_t at_filter, int64_t at_y) {
      for (int64_t c = 0; c < s.in; ++c)
        for (int64_t o = 0; o < s.out; ++o)
          add(sums, at_x + c, at_filter + c * s.out + o, at_y + o);
    });
  ctx.finish(0, output.size());
}

}  // namespace troupe
