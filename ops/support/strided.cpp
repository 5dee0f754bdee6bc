// Strided copies. Dimensions that both sides walk as one are merged. Rows are copied whole if both
// sides are dense, and in cache-sized blocks if one side runs across the other's rows.
#include "ops/support/strided.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <algorithm>

namespace troupe {
namespace {

constexpr int64_t kBlock = 16;  // rows and columns of a block: whole cache lines of 4-byte elements

struct Dim {
  int64_t size, x, y;  // elements, and the strides
};

struct Walk {
  int ndim = 0;
  Dim dims[Shape::kNdimMax];
};

Walk merged(const Shape& shape, const Strides& x, const Strides& y) {
  Walk walk;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (shape[d] == 1) continue;
    const Dim dim{shape[d], x[static_cast<size_t>(d)], y[static_cast<size_t>(d)]};
    Dim* last = walk.ndim ? &walk.dims[walk.ndim - 1] : nullptr;
    if (last && last->x == dim.x * dim.size && last->y == dim.y * dim.size)
      *last = {last->size * dim.size, dim.x, dim.y};
    else
      walk.dims[walk.ndim++] = dim;
  }
  return walk;
}

template <class T>
void copy_row(const T* x, T* y, const Dim& dim) {
  if (dim.x == 1 && dim.y == 1)
    std::copy_n(x, dim.size, y);
  else
    for (int64_t i = 0; i < dim.size; ++i) y[i * dim.y] = x[i * dim.x];
}

#if defined(__SSE__)
// y[i * y_row + j] = x[i + j * x_row] for a whole block: transposes four rows and columns at a time
// in registers, which only moves bits.
void copy_block(const uint32_t* x, int64_t x_row, uint32_t* y, int64_t y_row) {
  for (int64_t j = 0; j < kBlock; j += 4)
    for (int64_t i = 0; i < kBlock; i += 4) {
      const auto row = [=](int64_t k) {
        return _mm_loadu_ps(reinterpret_cast<const float*>(x + i + (j + k) * x_row));
      };
      __m128 a = row(0), b = row(1), c = row(2), d = row(3);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      const auto put = [=](int64_t k, __m128 v) {
        _mm_storeu_ps(reinterpret_cast<float*>(y + (i + k) * y_row + j), v);
      };
      put(0, a), put(1, b), put(2, c), put(3, d);
    }
}
#endif

// x is dense along `across`, y along `along`. Copies through a tile, so that each cache line is
// read and written once even if rows map to the same cache sets.
template <class T>
void copy_blocks(const T* x, T* y, const Dim& across, const Dim& along) {
  T tile[kBlock * kBlock];
  for (int64_t i0 = 0; i0 < across.size; i0 += kBlock)
    for (int64_t j0 = 0; j0 < along.size; j0 += kBlock) {
      const int64_t rows = std::min(kBlock, across.size - i0);
      const int64_t columns = std::min(kBlock, along.size - j0);
      const T* from = x + i0 * across.x + j0 * along.x;
      T* to = y + i0 * across.y + j0 * along.y;
#if defined(__SSE__)
      if constexpr (sizeof(T) == 4)
        if (rows == kBlock && columns == kBlock && along.y == 1) {
          copy_block(from, along.x, to, across.y);
          continue;
        }
#endif
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t i = 0; i < rows; ++i) tile[i * kBlock + j] = from[i + j * along.x];
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) to[i * across.y + j * along.y] = tile[i * kBlock + j];
    }
}

// Calls leaf(x, y) for every index into the first `ndim` dimensions.
template <class T, class Leaf>
void for_each_outer(const Walk& walk, int ndim, const T* x, T* y, Leaf leaf) {
  if (ndim == 0) return leaf(x, y);
  const Dim& dim = walk.dims[ndim - 1];
  for (int64_t i = 0; i < dim.size; ++i)
    for_each_outer(walk, ndim - 1, x + i * dim.x, y + i * dim.y, leaf);
}

template <class T>
void copy_part(Walk walk, const T* x, T* y) {
  if (walk.ndim == 0) {
    *y = *x;
    return;
  }
  const Dim along = walk.dims[walk.ndim - 1];
  const auto begin = walk.dims, end = walk.dims + walk.ndim - 1;
  const auto across = std::find_if(begin, end, [](const Dim& d) { return d.x == 1; });
  if (along.x == 1 || across == end)
    return for_each_outer(walk, walk.ndim - 1, x, y,
                          [&](const T* px, T* py) { copy_row(px, py, along); });
  const Dim rows = *across;
  std::rotate(across, across + 1, end);  // out of the outer dimensions
  for_each_outer(walk, walk.ndim - 2, x, y,
                 [&](const T* px, T* py) { copy_blocks(px, py, rows, along); });
}

// Copies in parts of about 20 us, split along the largest dimension.
template <class T>
void copy_walk(const KernelContext& ctx, const Walk& walk, const void* from, void* to) {
  constexpr int64_t kElements = 1 << 16;
  const T* x = static_cast<const T*>(from);
  T* y = static_cast<T*>(to);
  int64_t size = 1;
  int cut = 0;
  for (int d = 0; d < walk.ndim; ++d) {
    size *= walk.dims[d].size;
    if (walk.dims[d].size > walk.dims[cut].size) cut = d;
  }
  if (size < 2 * kElements) return copy_part(walk, x, y);
  const Dim& dim = walk.dims[cut];
  const int64_t group = std::max<int64_t>(1, kElements / (size / dim.size));
  ctx.parallel((dim.size + group - 1) / group, [&](int64_t job) {
    const int64_t begin = job * group;
    Walk part = walk;
    part.dims[cut].size = std::min(group, dim.size - begin);
    copy_part(part, x + begin * dim.x, y + begin * dim.y);
  });
}

}  // namespace

Strides dense_strides(const Shape& shape) {
  Strides strides = {};
  if (shape.size() == 0) return strides;
  int64_t stride = 1;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= shape[d];
  }
  return strides;
}

void copy_strided(const KernelContext& ctx, int64_t element_size, const Shape& shape, const void* x,
                  const Strides& x_strides, void* y, const Strides& y_strides) {
  if (shape.size() == 0) return;
  const Walk walk = merged(shape, x_strides, y_strides);
  if (element_size == 1) return copy_walk<uint8_t>(ctx, walk, x, y);
  if (element_size == 2) return copy_walk<uint16_t>(ctx, walk, x, y);
  if (element_size == 4) return copy_walk<uint32_t>(ctx, walk, x, y);
  TROUPE_CHECK(element_size == 8, "no dtype has elements of ", element_size, " bytes");
  copy_walk<uint64_t>(ctx, walk, x, y);
}

void take_walked(const KernelContext& ctx, const Tensor& x, const StridedWalk& walk, Tensor& y) {
  if (y.size() == 0) return;
  const int64_t element = size_of(x.dtype());
  copy_strided(ctx, element, walk.shape, static_cast<const char*>(x.raw()) + walk.first * element,
               walk.strides, y.mutable_raw(), dense_strides(walk.shape));
}

void place_walked(const KernelContext& ctx, const Tensor& x, const StridedWalk& walk, Tensor& y) {
  if (y.size() == 0) return;
  const int64_t element = size_of(x.dtype());
  std::memset(y.mutable_raw(), 0, static_cast<size_t>(y.byte_size()));
  if (x.size() == 0) return;
  copy_strided(ctx, element, walk.shape, x.raw(), dense_strides(walk.shape),
               static_cast<char*>(y.mutable_raw()) + walk.first * element, walk.strides);
}

}  // namespace troupe
