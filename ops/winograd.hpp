// Convolutions of images whose windows of 3x3 or 5x5 pixels stand on every pixel, and both their
// gradients, by minimal filtering (Winograd 1980; Lavin and Gray 2016): F(4x4, 3x3) and F(2x2,
// 5x5), with a quarter and a third of the multiplications.
//
// A patch of 6x6 pixels of x becomes 36 numbers, linear in it, and the filter 36 others; their
// products, summed over channels by 36 products of matrices, become a tile of 4x4 or 2x2 pixels of
// y. Patches go through this in blocks that a cache holds. Rounding errors are some times those of
// the sum that defines a convolution; what is not finite spreads over its tile, and numbers of x
// grow a hundredfold on the way, so those above 3e36 may overflow.
#pragma once

#include "ops/convolutions.hpp"

namespace troupe {

// Whether a convolution can be done so, and faster than by oneDNN. By the sizes alone.
bool suits_winograd(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass);

// Where patches and tiles lie. A pass to the input is a convolution of dy with the filter turned
// round: its patches are dy's and its tiles dx's.
struct WinogradGrid {
  static constexpr int kSide = 6, kPoints = kSide * kSide;  // of a patch
  struct Images {
    int64_t height, width, channels;
    int64_t size() const { return height * width * channels; }
  };
  Images patched, tiled;
  int64_t top, left;      // padding before patched images
  int64_t rows, columns;  // tiles of an image
  int tile, window;       // pixels of their sides: 4 and 3, or 2 and 5

  WinogradGrid(const ConvolutionSizes& sizes, bool to_input);
  int64_t tiles() const { return rows * columns; }
};

// One direction of one convolution, compiled. Any thread.
class WinogradPass {
 public:
  // Requires: suits_winograd(sizes, pass).
  WinogradPass(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass);

  // Forward and to the input, from images, input 0, and the filter, input 1. Finishes the output.
  void run_with_filter(KernelContext& ctx) const;
  // From dy, input 0, and x, input 1.
  void run_to_filter(KernelContext& ctx) const;

 private:
  int64_t jobs() const { return (batch_ + images_ - 1) / images_; }
  int64_t blocks(int64_t images) const { return (images * grid_.tiles() + block_ - 1) / block_; }

  WinogradGrid grid_;
  bool to_input_;
  int64_t batch_, images_;  // of all; of a job
  int64_t block_;           // patches that are worked on at a time
  // The 36 products of a block; those that add to what there is.
  std::unique_ptr<OneDnnPrimitive> products_, more_products_;
  int64_t scratch_floats_ = 0;  // what oneDNN wants for them
};

}  // namespace troupe
