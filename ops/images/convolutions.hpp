// What convolutions, their two gradients and transposes share: shape rules, sizes, the layouts that
// oneDNN is given, and our own loops.
//   x: [batch, ..., in]   filter: [..., in / groups, out]   y: [batch, ..., out]
// with one to three dimensions of images between.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "ops/support/node.hpp"
#include "ops/support/onednn.hpp"
#include "ops/images/window.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

std::vector<AttrSpec> convolution_attrs();
Attrs convolution_attrs(const ConvolutionOptions& options);
ConvolutionOptions convolution_options(const Node& node);  // of one that has been checked
WindowSpec window_spec(const ConvolutionOptions& options);
inline ConvolutionOptions to_convolution(Conv2dOptions options) {
  return {.strides = {options.stride},
          .padding = options.same_padding ? Padding::same : Padding::valid};
}

// ---- for infer_shapes; all throw Error from ctx naming what does not fit ----

// The options of a node, for images x and a filter that are checked as well.
ConvolutionOptions checked_convolution(const InferContext& ctx, const Shape& x,
                                       const Shape& filter);
// y of x and the filter.
Shape convolution_output(const InferContext& ctx, const Shape& x, const Shape& filter);
// Throws unless dy can be the gradient of what convolution_output() gives.
void require_convolution_gradient(const InferContext& ctx, const Shape& dy, const Shape& x,
                                  const Shape& filter);

// ---- one convolution with everything known ----

struct ConvolutionSizes {
  int dims;  // of the images
  int64_t batch, in, out, groups;
  Slidings at;

  ConvolutionSizes(const Shape& x, const Shape& filter, const ConvolutionOptions& options);
  int64_t in_of_group() const { return in / groups; }
  int64_t out_of_group() const { return out / groups; }
  bool is_depthwise() const { return groups == in && groups == out; }
  int64_t tap(int64_t d, int64_t h, int64_t w) const {
    return (d * at[1].window + h) * at[2].window + w;
  }
  int64_t taps() const { return at[0].window * at[1].window * at[2].window; }
  bool is_empty() const;  // no products to sum
  // oneDNN takes the sizes, which it counts in 32 bits, and has fast code for them. Our own loops
  // are 3 to 6 times as fast as what it has for depthwise volumes, for the filter of depthwise
  // lines, and for the way back of what is depthwise and dilated.
  enum class Pass : uint8_t { forward, to_input, to_filter };
  bool suits_onednn(Pass pass) const;
  int64_t images(Pass pass) const;  // of a job
  // With the attributes of a node: which convolution it is.
  std::array<int64_t, 9> key() const {
    return {batch,       in,           out,          at[0].input, at[1].input,
            at[2].input, at[0].window, at[1].window, at[2].window};
  }
};

// ---- oneDNN ----

// The same in oneDNN's words. Channels of images stand last, as ours do; filters it may lay out as
// it likes, which makes it 3 to 6 times faster, so they are reordered before or after.
struct ConvolutionTypes {
  dnnl::memory::desc x, filter, any_filter, y;
  dnnl::memory::dims strides, gaps, before, after;
  // Windows of one pixel that stand on every pixel: a product of matrices, x [pixels, in] with
  // filter [in, out], at which oneDNN is 1.2 to 2 times as fast as at the convolution.
  bool is_product = false;
  int64_t pixels = 0, in = 0, out = 0;
  explicit ConvolutionTypes(const ConvolutionSizes& sizes);

  dnnl::convolution_forward::primitive_desc forward() const;
  // Of the pass that goes back to x or to the filter.
  template <class Pass>
  typename Pass::primitive_desc backward() const {
    return {{dnnl::algorithm::convolution_direct, x, any_filter, y, strides, gaps, before, after},
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

// a [rows, inner] * b [inner, columns]; a transposed one lies in memory the other way round. One of
// the three is the filter in our own layout. Arguments: a, b, the product.
struct MatrixProduct {
  int64_t rows = 0, inner = 0, columns = 0;
  bool transpose_a = false, transpose_b = false;
};
CompiledConvolution compile_product(const ConvolutionTypes& types, const MatrixProduct& product);

// A pass over all images, in jobs of a few images each. How many is part of the numerics, as a
// filter's gradient is a sum over jobs, so it follows from the pass and the sizes alone.
struct ConvolutionPass {
  ConvolutionPass(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass,
                  CompileConvolution* compile);

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

class WinogradPass;  // ops/images/winograd.hpp

struct ConvolutionState final : KernelState {
  ConvolutionOptions options;
  ShapeCache<std::array<int64_t, 9>, ConvolutionPass> passes;
  ShapeCache<std::array<int64_t, 9>, WinogradPass> winograd_passes;

  static std::unique_ptr<KernelState> make(const Node& node);
  std::shared_ptr<const ConvolutionPass> pass(const ConvolutionSizes& sizes,
                                              ConvolutionSizes::Pass kind,
                                              CompileConvolution* compile) const {
    return passes.get(sizes.key(),
                      [&] { return std::make_unique<ConvolutionPass>(sizes, kind, compile); });
  }
  // Requires: suits_winograd(sizes, kind).
  std::shared_ptr<const WinogradPass> winograd_pass(const ConvolutionSizes& sizes,
                                                    ConvolutionSizes::Pass kind) const;
};

// Runs a pass that turns images and the filter, input 1, into images. Arguments: images, filter,
// output.
void run_with_filter(KernelContext& ctx, const ConvolutionPass& pass, const Tensor& images);

// ---- kernels ----

// What kernels begin with, once actual shapes have been checked: the sizes; without products to
// sum, none, and the output is 0.
template <class T>
std::optional<ConvolutionSizes> convolution_sizes(KernelContext& ctx, const Shape& x,
                                                  const Shape& filter) {
  const ConvolutionSizes sizes(x, filter, ctx.state<ConvolutionState>().options);
  if (!sizes.is_empty()) return sizes;
  Tensor& output = ctx.output();
  std::fill_n(output.mutable_data<T>(), output.size(), T{0});
  ctx.finish(0, output.size());
  return {};
}

// From dy, input 0, and the filter, input 1, to the output, which is like x.
template <class T>
void convolve_back(KernelContext& ctx, const Shape& x);

// finishes: as Kernel::finishes.
template <class T>
constexpr Kernel convolution_kernel(void (*run)(KernelContext&), bool finishes) {
  return {
      .dtype = dtype_of<T>, .run = run, .prepare = ConvolutionState::make, .finishes = finishes};
}

// Op::flops of a convolution and of its gradients: a product and a sum for each element of y and
// each of its window; borders are counted as if they were whole.
int64_t convolution_flops(const Shape& y, const Shape& filter);

// ---- our own loops ----

// Calls f(index of x's channels, of the filter's [in / groups, out] matrix, of y's channels) for
// every pair of pixels of images [first, last), in a fixed order: by output pixel, then by place in
// the window. Indices count elements.
template <class F>
void for_each_tap(const ConvolutionSizes& s, int64_t first, int64_t last, F f) {
  const int64_t matrix = s.in_of_group() * s.out;
  for_each_place(s.at, first, last, [&](int64_t out, const Place& place) {
    place.for_each([&](int64_t pixel, int64_t kd, int64_t kh, int64_t kw) {
      f(pixel * s.in, s.tap(kd, kh, kw) * matrix, out * s.out);
    });
  });
}

// Calls f(index of x's channel, of the filter's element, of y's channel, how many of y's follow
// each other) for all products of a pair of pixels.
template <class F>
void for_each_product(const ConvolutionSizes& s, F f) {
  const int64_t in = s.in_of_group(), out = s.out_of_group();
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t c = 0; c < in; ++c) f(g * in + c, c * s.out + g * out, g * out, out);
}

// Of a depthwise convolution: calls f(index of y's first channel in a block, how many, the taps);
// taps(f) calls f(index of x's, of the filter's first channel in the block) for all places in the
// window.
template <class F>
void for_each_depthwise_block(const ConvolutionSizes& s, int64_t first, int64_t last, F f) {
  for_each_place(s.at, first, last, [&](int64_t out, const Place& place) {
    for_each_block(s.in, [&](int64_t c, auto width) {
      f(out * s.in + c, width, [&](auto each) {
        place.for_each([&](int64_t pixel, int64_t kd, int64_t kh, int64_t kw) {
          each(pixel * s.in + c, s.tap(kd, kh, kw) * s.in + c);
        });
      });
    });
  });
}

}  // namespace troupe
