// Shared by convolutions, their two gradients and transposes: shape rules, sizes, oneDNN's layouts,
// and our own loops.
//   x: [batch, ..., in]   filter: [..., in / groups, out]   y: [batch, ..., out]
// Images have one to three dimensions between the first and the last.
#pragma once

#include <algorithm>
#include <array>
#include <optional>

#include "devices/kernel_call.hpp"
#include "devices/threads/isa.hpp"
#include "ops/support/node.hpp"
#include "ops/support/onednn.hpp"
#include "ops/images/window.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {

std::vector<AttrSpec> convolution_attrs();
Attrs convolution_attrs(const ConvolutionOptions& options);
ConvolutionOptions convolution_options(const Node& node);  // of a checked node
WindowSpec window_spec(const ConvolutionOptions& options);
inline ConvolutionOptions to_convolution(Conv2dOptions options) {
  return {.strides = {options.stride},
          .padding = options.same_padding ? Padding::same : Padding::valid};
}

// ---- for infer_shapes; each throws Error from ctx if something does not fit ----

// The options of a node; checks the images x and the filter, too.
ConvolutionOptions checked_convolution(const InferContext& ctx, const Shape& x,
                                       const Shape& filter);
// The shape of y for x and the filter.
Shape convolution_output(const InferContext& ctx, const Shape& x, const Shape& filter);
// Throws unless dy can be the gradient of convolution_output()'s shape.
void require_convolution_gradient(const InferContext& ctx, const Shape& dy, const Shape& x,
                                  const Shape& filter);

// ---- one convolution with all sizes known ----

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
  bool is_empty() const;  // there are no products to sum
  // True if oneDNN accepts the sizes, which it counts in 32 bits, and has fast code for them. Our
  // own loops are 3 to 6 times as fast as oneDNN for depthwise volumes, for the filter gradient of
  // depthwise lines, and for the gradients of dilated depthwise convolutions.
  enum class Pass : uint8_t { forward, to_input, to_filter };
  bool suits_onednn(Pass pass) const;
  int64_t images(Pass pass) const;  // number of images in a job
  // Identifies the convolution, together with the node's attributes.
  std::array<int64_t, 9> key() const {
    return {batch,       in,           out,          at[0].input, at[1].input,
            at[2].input, at[0].window, at[1].window, at[2].window};
  }
};

// ---- oneDNN ----

// The sizes in oneDNN's terms. Channels of images are the last dimension, as in our layout. oneDNN
// may choose the layout of filters, which makes it 3 to 6 times faster, so filters are reordered
// before or after.
struct ConvolutionTypes {
  dnnl::memory::desc x, filter, any_filter, y;
  dnnl::memory::dims strides, gaps, before, after;
  // A window of one pixel with stride 1: a matrix product, x [pixels, in] times filter [in, out],
  // for which oneDNN is 1.2 to 2 times as fast as for the convolution.
  bool is_product = false;
  int64_t pixels = 0, in = 0, out = 0;
  ConvolutionTypes(const ConvolutionSizes& sizes, dnnl::memory::data_type type);
};

// One direction for all images, in jobs of a few images each. The number of images in a job affects
// the result, because a filter's gradient is a sum over jobs; it depends on the direction and the
// sizes alone.
struct ConvolutionPass {
  ConvolutionPass(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass,
                  dnnl::memory::data_type type);

  int64_t batch = 0, images = 0;  // of the whole; of a job
  // For `images` images. Null if the type is bf16 and oneDNN has no code for the sizes. Arguments:
  // images, filter, images; or for the filter's gradient: images x, images dy, the gradient in f32.
  std::unique_ptr<OneDnnPrimitive> job;
  std::unique_ptr<OneDnnPrimitive> rest;  // for the remaining images, if there are any
  // The filter from our layout to oneDNN's, or its gradient back; null if they agree.
  std::unique_ptr<OneDnnPrimitive> reorder;
  int64_t filter_bytes = 0;   // in oneDNN's layout
  int64_t scratch_bytes = 0;  // of a job; a multiple of 64

  int64_t jobs() const { return (batch + images - 1) / images; }
  // Runs all jobs. addresses(job, its first image) returns the arguments; done(first image, images)
  // is called after each job, on its thread.
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
                                              ConvolutionSizes::Pass kind) const {
    return passes.get(sizes.key(), [&] {
      return std::make_unique<ConvolutionPass>(sizes, kind, dnnl::memory::data_type::f32);
    });
  }
};

// Computes images from images, input 0, and the filter, input 1.
void run_with_filter(KernelContext& ctx, const ConvolutionPass& pass);
// Computes the filter's gradient from images dy, input 0, and x, input 1: the sum of one for each
// job, in f32, rounded once.
void run_to_filter(KernelContext& ctx, const ConvolutionPass& pass);

// Computes images in f32 by Winograd's algorithm or by oneDNN. False if neither suits the sizes;
// then nothing is done.
bool run_with_filter(KernelContext& ctx, const ConvolutionSizes& sizes,
                     ConvolutionSizes::Pass kind);

// ---- kernels ----

// The first step of the kernels, after the actual shapes were checked: returns the sizes. If there
// are no products to sum, sets the output to 0 and returns nothing.
template <class T>
std::optional<ConvolutionSizes> convolution_sizes(KernelContext& ctx, const Shape& x,
                                                  const Shape& filter) {
  const ConvolutionSizes sizes(x, filter, ctx.state<ConvolutionState>().options);
  if (!sizes.is_empty()) return sizes;
  Tensor& output = ctx.output();
  std::fill_n(output.mutable_data<T>(), output.size(), T{0});
  KernelCall::of(ctx).finish(0, output.size());
  return {};
}

// Computes the output, which is like x, from dy (input 0) and the filter (input 1).
template <class T>
void convolve_back(KernelContext& ctx, const Shape& x);

// finishes: see Kernel::finishes.
template <class T>
constexpr Kernel convolution_kernel(void (*run)(KernelContext&), bool finishes) {
  return {
      .dtype = dtype_of<T>, .run = run, .prepare = ConvolutionState::make, .finishes = finishes};
}

// Op::flops of a convolution and of its gradients: one multiplication and one addition for each
// element of y and each element of its window; borders count as if the window were inside the
// image.
int64_t convolution_flops(const Shape& y, const Shape& filter);

// ---- our own loops ----

// Calls f(index of x's channels, of the filter's [in / groups, out] matrix, of y's channels) for
// every pair of pixels of images [first, last), in a fixed order: by output pixel, then by position
// in the window. Indices count elements.
template <class F>
void for_each_tap(const ConvolutionSizes& s, int64_t first, int64_t last, F f) {
  const int64_t matrix = s.in_of_group() * s.out;
  for_each_place(s.at, first, last, [&](int64_t out, const Place& place) {
    place.for_each([&](int64_t pixel, int64_t kd, int64_t kh, int64_t kw) {
      f(pixel * s.in, s.tap(kd, kh, kw) * matrix, out * s.out);
    });
  });
}

// Calls f(index of x's channel, of the filter's element, of y's channel, number of consecutive
// channels of y) for all products of a pair of pixels.
template <class F>
void for_each_product(const ConvolutionSizes& s, F f) {
  const int64_t in = s.in_of_group(), out = s.out_of_group();
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t c = 0; c < in; ++c) f(g * in + c, c * s.out + g * out, g * out, out);
}

// Computes images of `image` elements each: f32 like run_with_filter() where that is possible, else
// by our own loops.
template <class T, class Loop, class DepthwiseLoop>
void compute_images(KernelContext& ctx, const ConvolutionSizes& sizes, ConvolutionSizes::Pass kind,
                    int64_t image) {
  if (sizeof(T) == sizeof(float) && run_with_filter(ctx, sizes, kind)) return;
  const T *from = ctx.input(0).data<T>(), *filter = ctx.input(1).data<T>();
  T* to = ctx.output().template mutable_data<T>();
  in_images(ctx, sizes.batch, sizes.images(kind), [&](int64_t first, int64_t last) {
    if (sizes.is_depthwise())
      in_isa<DepthwiseLoop>(&sizes, from, filter, to, first, last);
    else
      in_isa<Loop>(&sizes, from, filter, to, first, last);
    KernelCall::of(ctx).finish(first * image, (last - first) * image);
  });
}

// For a depthwise convolution: calls f(index of y's first channel in a block, number of channels,
// taps); taps(f) calls f(index of x's, of the filter's first channel in the block) for all
// positions in the window.
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
