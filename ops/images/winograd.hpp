// Convolutions of images with 3x3 or 5x5 windows at stride 1, and both their gradients, by minimal
// filtering (Winograd 1980; Lavin and Gray 2016): F(4x4, 3x3) and F(2x2, 5x5), with a quarter and a
// third of the multiplications.
//
// A patch of 6x6 pixels of x becomes 36 numbers by a linear transform, and the filter becomes 36
// others; their products, summed over channels by 36 matrix products, become a tile of 4x4 or 2x2
// pixels of y. Patches are processed in blocks that fit a cache. Rounding errors are several times
// those of the direct sum. A non-finite value spreads over its tile. Values of x grow up to a
// hundredfold in between, so values above 3e36 may overflow.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "ops/images/convolutions.hpp"

namespace troupe {

// True if this convolution can be computed like that, and faster than by oneDNN. Depends on the
// sizes alone.
bool suits_winograd(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass);

// The positions of patches and tiles. The gradient of the input is a convolution of dy with the
// reversed filter: its patches are dy's and its tiles dx's.
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

// Memory for the jobs of all WinogradPass objects. A job may not allocate from the device, and one
// piece for each job of a node would be many times the need of the threads. There are as many
// pieces as jobs ran at once, each as large as the largest need so far; they are freed with the
// last WinogradPass. Any thread.
class WinogradMemory {
  struct Free {
    void operator()(float* p) const;
  };
  struct Piece {
    std::unique_ptr<float, Free> begin = nullptr;
    int64_t floats = 0;
    int slot = -1;  // of the thread that had it last
  };

 public:
  // The memory that all living WinogradPass objects share.
  static std::shared_ptr<WinogradMemory> shared();
  // A piece of at least `floats` numbers while the loan lives. A thread gets its last piece again
  // if possible.
  class Loan {
   public:
    Loan(WinogradMemory& from, int64_t floats);
    ~Loan();
    Loan(const Loan&) = delete;
    float* begin() const { return piece_.begin.get(); }

   private:
    WinogradMemory& from_;
    Piece piece_;
  };
  void will_lend(int64_t floats);

 private:
  std::mutex mutex_;  // guards the rest
  std::vector<Piece> free_;
  size_t pieces_ = 0;  // in existence; free_ has room for all of them
  int64_t floats_ = 0;
};

// One direction of one convolution, compiled. Any thread.
class WinogradPass {
 public:
  // Requires: suits_winograd(sizes, pass).
  WinogradPass(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass);

  // The forward and the input direction, from images (input 0) and the filter (input 1). Finishes
  // the output.
  void run_with_filter(KernelContext& ctx) const;
  // The filter's gradient, from dy (input 0) and x (input 1).
  void run_to_filter(KernelContext& ctx) const;

 private:
  int64_t jobs() const { return (batch_ + images_ - 1) / images_; }
  int64_t blocks(int64_t images) const { return (images * grid_.tiles() + block_ - 1) / block_; }

  WinogradGrid grid_;
  bool to_input_;
  int64_t batch_, images_;  // of the whole; of a job
  int64_t block_;           // patches processed at a time
  // The 36 products of a block; more_products_ adds to the previous sums.
  std::unique_ptr<OneDnnPrimitive> products_, more_products_;
  int64_t scratch_floats_ = 0;  // oneDNN's scratch for the products
  int64_t job_floats_ = 0;      // memory of a job
  std::shared_ptr<WinogradMemory> memory_ = WinogradMemory::shared();
};

// The pass for these sizes, compiled once for a node. Requires: suits_winograd(sizes, kind).
std::shared_ptr<const WinogradPass> winograd_pass(const ConvolutionState& state,
                                                  const ConvolutionSizes& sizes,
                                                  ConvolutionSizes::Pass kind);

}  // namespace troupe
