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

#include <memory>
#include <mutex>
#include <vector>

#include "ops/images/convolutions.hpp"

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

// Memory that jobs of all passes work in: a job may not ask the device for any, and one piece for
// each job of a node would be many times what the threads need. There are as many pieces as there
// were jobs under way at once, each as large as the largest of a pass that there is or was; they go
// with the last pass. Any thread.
class WinogradMemory {
 public:
  // The one that all passes share which are alive.
  static std::shared_ptr<WinogradMemory> shared();
  // Of so many floats at least, as long as it lives. The thread gets what it had last, if it can.
  class Loan {
   public:
    Loan(WinogradMemory& from, int64_t floats);
    ~Loan();
    Loan(const Loan&) = delete;
    float* begin() const { return piece_.begin.get(); }

   private:
    friend class WinogradMemory;
    struct Free {
      void operator()(float* p) const;
    };
    struct Piece {
      std::unique_ptr<float, Free> begin = nullptr;
      int64_t floats = 0;
      int slot = -1;  // of the thread that had it last
    };
    WinogradMemory& from_;
    Piece piece_;
  };
  void will_lend(int64_t floats);

 private:
  std::mutex mutex_;  // guards the rest
  std::vector<Loan::Piece> free_;
  size_t pieces_ = 0;  // that there are; there is room in the list for all
  int64_t floats_ = 0;
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
  int64_t job_floats_ = 0;      // of what a job works in
  std::shared_ptr<WinogradMemory> memory_ = WinogradMemory::shared();
};

}  // namespace troupe
