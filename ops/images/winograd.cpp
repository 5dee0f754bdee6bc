// Winograd's minimal filtering: the supported sizes, the blocks, and the matrix products.
#include "ops/images/winograd.hpp"

#include <new>

#include "devices/kernel_call.hpp"
#include "devices/threads/isa.hpp"
#include "devices/threads/thread_index.hpp"
#include "ops/reductions/sum_parts.hpp"
#include "ops/images/winograd_loops.hpp"

namespace troupe {
namespace {

using namespace winograd;

constexpr int64_t kPatchesLeast = 48;      // in a job and in a block: with fewer, products are slow
constexpr int64_t kBlockFloats = 1 << 19;  // in a block with more than kPatchesLeast patches
constexpr int64_t kFilterJob = 1 << 13;    // elements of a filter's pixel in a job: 20 us
constexpr int64_t kTilesLeast = 32;  // with fewer tiles, transforming the filter does not pay off
// Limits of the elements of a filter's pixel: they allow 36 MiB of transformed filter for a node,
// or 9 MiB for each thread when computing the filter's gradient.
constexpr int64_t kMatrixMax = 1 << 18, kSumMax = 1 << 16;
constexpr int64_t kChannelsMax = 1 << 10;  // with more, the least block needs too much memory
constexpr int64_t kSizeMax = 1 << 20;      // products of these do not overflow

// Loop<4> or Loop<2>; Loop<3> or Loop<5>.
template <template <int> class Loop, class... Args>
void by_tile(const Grid& g, Args... args) {
  g.tile == 4 ? in_isa<Loop<4>>(&g, args...) : in_isa<Loop<2>>(&g, args...);
}
template <template <int> class Loop, class... Args>
void by_window(const Grid& g, Args... args) {
  g.window == 3 ? in_isa<Loop<3>>(args...) : in_isa<Loop<5>>(args...);
}

constexpr int64_t up_to_line(int64_t floats) {
  return (floats + kChannels - 1) / kChannels * kChannels;
}

}  // namespace

// ---- memory of a job ----

std::shared_ptr<WinogradMemory> WinogradMemory::shared() {
  static std::mutex mutex;
  static std::weak_ptr<WinogradMemory> now;
  std::lock_guard lock(mutex);
  std::shared_ptr<WinogradMemory> memory = now.lock();
  if (!memory) now = memory = std::make_shared<WinogradMemory>();
  return memory;
}

void WinogradMemory::will_lend(int64_t floats) {
  std::lock_guard lock(mutex_);
  floats_ = std::max(floats_, floats);
}

void WinogradMemory::Free::operator()(float* p) const {
  ::operator delete (p, std::align_val_t{64});
}

WinogradMemory::Loan::Loan(WinogradMemory& from, int64_t floats) : from_(from) {
  const int slot = thread_index();
  {
    std::lock_guard lock(from.mutex_);
    floats = std::max(floats, from.floats_);
    auto best = from.free_.end();
    for (auto at = from.free_.begin(); at != from.free_.end(); ++at)
      if (best == from.free_.end() || best->slot != slot) best = at;
    if (best != from.free_.end()) {
      piece_ = std::move(*best);
      *best = std::move(from.free_.back());
      from.free_.pop_back();
    } else {
      from.free_.reserve(++from.pieces_);
    }
  }
  piece_.slot = slot;
  if (piece_.floats >= floats) return;
  piece_.begin.reset();
  piece_.floats = 0;
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  piece_.begin.reset(
      static_cast<float*>(::operator new (bytes, std::align_val_t{64}, std::nothrow)));
  if (!piece_.begin) {
    {
      std::lock_guard lock(from.mutex_);
      --from.pieces_;
    }
    throw Error(Errc::out_of_memory, "a convolution wants ", bytes, " bytes for a block of ",
                "tiles, for each thread and beside the memory of the device, and the system ",
                "gives this process no more; use fewer threads, give devices smaller budgets ",
                "(ProcessOptions::memory_budget_bytes), or raise the limits (ulimit -v, the ",
                "memory of a container)");
  }
  piece_.floats = floats;
}

WinogradMemory::Loan::~Loan() {
  std::lock_guard lock(from_.mutex_);
  from_.free_.push_back(std::move(piece_));
}

bool suits_winograd(const ConvolutionSizes& s, ConvolutionSizes::Pass pass) {
  const auto slides = [](const Sliding& d) {
    return d.stride == 1 && d.dilation == 1 && d.before < d.window && d.after < d.window &&
           d.input <= kSizeMax;
  };
  const Sliding &h = s.at[1], &w = s.at[2];
  if (s.dims != 2 || s.groups != 1 || !slides(h) || !slides(w) || h.window != w.window ||
      (h.window != 3 && h.window != 5) || s.in % kChannels != 0 || s.out % kChannels != 0 ||
      s.batch > kSizeMax || std::max(s.in, s.out) > kChannelsMax || s.in * s.out > kMatrixMax)
    return false;
  const int64_t matrix = s.in * s.out;
  if (pass == ConvolutionSizes::Pass::to_filter &&
      (matrix > kSumMax || matrix <= kChannels * kChannels))
    return false;
  const Grid grid(s, pass == ConvolutionSizes::Pass::to_input);
  const int64_t tiles = s.batch * grid.tiles(), pixels = s.batch * outputs_of(s.at);
  return tiles >= kTilesLeast && pixels * s.taps() >= 2 * kPoints * tiles;
}

std::shared_ptr<const WinogradPass> winograd_pass(const ConvolutionState& state,
                                                  const ConvolutionSizes& sizes,
                                                  ConvolutionSizes::Pass kind) {
  return state.winograd_passes.get(sizes.key(),
                                   [&] { return std::make_unique<WinogradPass>(sizes, kind); });
}

WinogradGrid::WinogradGrid(const ConvolutionSizes& s, bool to_input)
    : window(static_cast<int>(s.at[1].window)) {
  const Sliding &h = s.at[1], &w = s.at[2];
  const Images x{h.input, w.input, s.in}, y{h.output, w.output, s.out};
  patched = to_input ? y : x;
  tiled = to_input ? x : y;
  top = to_input ? window - 1 - h.before : h.before;
  left = to_input ? window - 1 - w.before : w.before;
  tile = kSide + 1 - window;
  rows = (tiled.height + tile - 1) / tile;
  columns = (tiled.width + tile - 1) / tile;
}

WinogradPass::WinogradPass(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass)
    : grid_(sizes, pass == ConvolutionSizes::Pass::to_input),
      to_input_(pass == ConvolutionSizes::Pass::to_input),
      batch_(sizes.batch) {
  using dnnl::memory;
  const bool to_filter = pass == ConvolutionSizes::Pass::to_filter;
  const int64_t in = grid_.patched.channels, out = grid_.tiled.channels;
  images_ = std::min(
      batch_, std::max(sizes.images(pass), (kPatchesLeast + grid_.tiles() - 1) / grid_.tiles()));
  // Blocks of about the same size, and odd: planes at distances of a power of two would collide in
  // the cache.
  const int64_t tiles = images_ * grid_.tiles();
  const int64_t most = std::max<int64_t>(kBlockFloats / (kPoints * (in + out)), kPatchesLeast);
  const int64_t count = (tiles + most - 1) / most;
  block_ = (tiles + count - 1) / count | 1;
  const auto type = [](int64_t rows, int64_t columns, bool transposed) {
    return memory::desc({kPoints, rows, columns}, memory::data_type::f32,
                        transposed ? memory::format_tag::acb : memory::format_tag::abc);
  };
  const auto a = to_filter ? type(in, block_, true) : type(block_, in, false);
  const auto b = to_filter ? type(block_, out, false) : type(in, out, false);
  const auto c = to_filter ? type(in, out, false) : type(block_, out, false);
  const auto compile = [&](bool more) {
    dnnl::primitive_attr attr = onednn_attr();
    if (more) {
      dnnl::post_ops sum;
      sum.append_sum();
      attr.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc desc({a, b, c}, attr, onednn_engine());
    scratch_floats_ =
        std::max(scratch_floats_,
                 up_to_line(static_cast<int64_t>((desc.scratchpad_desc().get_size() + 3) / 4)));
    return std::make_unique<OneDnnPrimitive>(
        dnnl::matmul(desc), desc.scratchpad_desc(),
        std::vector<OneDnnPrimitive::Argument>{
            {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  };
  products_ = compile(false);
  if (to_filter && count > 1) more_products_ = compile(true);
  job_floats_ = kPoints * (block_ * (in + out) + (to_filter ? in * out : 0)) + scratch_floats_;
  memory_->will_lend(job_floats_);
}

void WinogradPass::run_with_filter(KernelContext& ctx) const {
  const auto* const x = ctx.input(0).data<float>();
  const auto* const filter = ctx.input(1).data<float>();
  auto* const y = ctx.output().mutable_data<float>();
  const int64_t in = grid_.patched.channels, out = grid_.tiled.channels;
  Tensor points = ctx.scratch(DType::f32, Shape{kPoints * in * out});
  auto* const factors = points.mutable_data<float>();
  const int64_t filter_in = to_input_ ? out : in, filter_out = to_input_ ? in : out;
  const int64_t width = up_to_line(std::max<int64_t>(kFilterJob / filter_in, 1));
  ctx.parallel((filter_out + width - 1) / width, [&](int64_t job) {
    const int64_t end = std::min(filter_out, (job + 1) * width);
    for (int64_t o = job * width; o < end; o += kChannels)
      if (to_input_)
        by_window<TurnedFilterLoop>(grid_, filter, factors, filter_in, filter_out, o);
      else
        by_window<FilterLoop>(grid_, filter, factors, filter_in, filter_out, o);
  });
  ctx.parallel(jobs(), [&](int64_t job) {
    const int64_t image = job * images_, count = std::min(images_, batch_ - image);
    const int64_t end = (image + count) * grid_.tiles();
    const WinogradMemory::Loan loan(*memory_, job_floats_);
    float* const patches = loan.begin();
    float* const products = patches + kPoints * block_ * in;
    float* const scratch = products + kPoints * block_ * out;
    for (int64_t t = image * grid_.tiles(); t < end; t += block_) {
      const int64_t last = std::min(end, t + block_);
      in_isa<PatchLoop>(&grid_, x, patches, block_ * in, t, last);
      products_->execute(ctx, {patches, factors, products}, scratch);
      by_tile<TileLoop>(grid_, static_cast<const float*>(products), y, block_ * out, t, last);
    }
    KernelCall::of(ctx).finish(image * grid_.tiled.size(), count * grid_.tiled.size());
  });
}

void WinogradPass::run_to_filter(KernelContext& ctx) const {
  const auto* const dy = ctx.input(0).data<float>();
  const auto* const x = ctx.input(1).data<float>();
  auto* const dfilter = ctx.output().mutable_data<float>();
  const int64_t in = grid_.patched.channels, out = grid_.tiled.channels, size = ctx.output().size();
  Tensor parts;
  if (jobs() > 1) parts = ctx.scratch(DType::f32, Shape{jobs() * size});
  float* const sums = jobs() > 1 ? parts.mutable_data<float>() : dfilter;
  ctx.parallel(jobs(), [&](int64_t job) {
    const int64_t image = job * images_, count = std::min(images_, batch_ - image);
    const int64_t end = (image + count) * grid_.tiles();
    const WinogradMemory::Loan loan(*memory_, job_floats_);
    float* const patches = loan.begin();
    float* const slopes = patches + kPoints * block_ * in;
    float* const products = slopes + kPoints * block_ * out;
    float* const scratch = products + kPoints * in * out;
    bool more = false;
    for (int64_t t = image * grid_.tiles(); t < end; t += block_) {
      const int64_t last = std::min(end, t + block_);
      in_isa<PatchLoop>(&grid_, x, patches, block_ * in, t, last);
      by_tile<SlopeLoop>(grid_, dy, slopes, block_ * out, t, last);
      for (int p = 0; p < kPoints; ++p) {  // padding patches
        std::fill(patches + (p * block_ + last - t) * in, patches + (p + 1) * block_ * in, 0.0f);
        std::fill(slopes + (p * block_ + last - t) * out, slopes + (p + 1) * block_ * out, 0.0f);
      }
      (more ? more_products_ : products_)->execute(ctx, {patches, slopes, products}, scratch);
      more = true;
    }
    by_window<FilterSlopeLoop>(grid_, static_cast<const float*>(products), sums + job * size,
                               in * out);
  });
  if (jobs() == 1) return;
  sum_parts(ctx, sums, jobs(), size);
  std::copy_n(sums, size, dfilter);
}

}  // namespace troupe
