// Runs the steps of fused element-wise ops block by block.
#include "devices/kernel_call.hpp"
#include "graph/op.hpp"
#include "ops/elementwise/element_program.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

// The memory of a block fits the nearest cache (32 KiB or more) beside the ops' own tables.
constexpr int64_t kBlockBytes = 24 << 10;
constexpr int64_t kLengthMax = 2048, kLengthUnit = 64;
// Rows from here on are long: blocks that end with a row lose little.
constexpr int64_t kLongRow = 512;
// All buffers: cells and gathered blocks have kBlockBytes, or kLengthUnit elements each; rows have
// half of it; a part that is taken has kLengthMax elements.
constexpr int64_t kSpaceMax = 144 << 10;
constexpr int64_t kRowsSpaceMax = 64 << 10;
static_assert(kLengthMax >= KernelCall::kTakeUnitMax);

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// n elements of `size` bytes from the value at `from` on, as the walk repeats it.
template <class T>
void gather(const BroadcastWalk& walk, const T* from, T* to, int64_t begin, int64_t n) {
  const int inner = walk.ndim - 1;
  int64_t index[Shape::kNdimMax] = {}, at = 0;
  for (int d = inner; d >= 0; --d) {
    index[d] = begin % walk.sizes[d];
    begin /= walk.sizes[d];
    at += index[d] * walk.strides[0][d];
  }
  while (n > 0) {
    const int64_t length = std::min(n, walk.sizes[inner] - index[inner]);
    if (walk.strides[0][inner] == 0)
      std::fill_n(to, length, from[at]);
    else
      std::copy_n(from + at, length, to);
    to += length;
    n -= length;
    // To the next row.
    at -= index[inner] * walk.strides[0][inner];
    index[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      at += walk.strides[0][d];
      if (++index[d] < walk.sizes[d]) break;
      at -= walk.strides[0][d] * walk.sizes[d];
      index[d] = 0;
    }
  }
}

void gather(const BroadcastWalk& walk, int64_t element_size, const void* from, void* to,
            int64_t begin, int64_t n) {
  const auto as = [&]<class T>(T) {
    gather(walk, static_cast<const T*>(from), static_cast<T*>(to), begin, n);
  };
  if (element_size == 1) return as(uint8_t{});
  if (element_size == 2) return as(uint16_t{});
  if (element_size == 4) return as(uint32_t{});
  as(uint64_t{});
}

// The first `bytes` bytes of `from`, `period` bytes, again and again.
void repeat(const void* from, int64_t period, char* to, int64_t bytes) {
  int64_t done = std::min(period, bytes);
  std::memcpy(to, from, static_cast<size_t>(done));
  while (done < bytes) {
    const int64_t more = std::min(done, bytes - done);
    std::memcpy(to + done, to, static_cast<size_t>(more));
    done += more;
  }
}

}  // namespace

ElementPass::ElementPass(const Graph& program, int32_t first_step,
                         const std::vector<int32_t>& outputs, const Shape& shape,
                         const std::vector<Shape>& shapes, int32_t taken)
    : size_(shape.size()), shape_(shape) {
  if (size_ == 0) return;
  const std::vector<bool> wanted = needed(program, first_step, outputs, shapes, taken);
  for (const auto& node : program.nodes()) {
    if (!wanted[static_cast<size_t>(node->id)]) continue;
    if (node->id < first_step)
      add_leaf(*node, shapes[static_cast<size_t>(node->id)]);
    else
      add_step(*node, outputs, shapes, taken);
  }
  place_buffers(assign_cells(program.nodes().size()));
}

std::vector<bool> ElementPass::needed(const Graph& program, int32_t first_step,
                                      const std::vector<int32_t>& outputs,
                                      const std::vector<Shape>& shapes, int32_t taken) const {
  std::vector<bool> wanted(program.nodes().size());
  if (taken >= 0) wanted[static_cast<size_t>(taken)] = true;
  for (int32_t value : outputs)
    if (value >= 0 && shapes[static_cast<size_t>(value)] == shape_)
      wanted[static_cast<size_t>(value)] = true;
  for (auto id = static_cast<int32_t>(wanted.size()) - 1; id >= first_step; --id)
    if (wanted[static_cast<size_t>(id)])
      for (const Output& input : program.node(id).inputs)
        wanted[static_cast<size_t>(input.node)] = true;
  return wanted;
}

void ElementPass::add_leaf(const Node& node, const Shape& shape) {
  Leaf leaf{.value = node.id, .element_size = static_cast<int8_t>(size_of(node.outputs[0].dtype))};
  const BroadcastWalk& walk = walks_.emplace_back(walk_to(shape, shape_));
  const auto& strides = walk.strides[0];
  if (walk.ndim == 1) {
    leaf.way = strides[0] == 0 ? Leaf::Way::once : Leaf::Way::whole;
  } else if (walk.ndim == 2 && strides[0] == 0) {
    leaf.period = walk.sizes[1];
    leaf.way = leaf.period < kLongRow ? Leaf::Way::short_rows : Leaf::Way::long_rows;
  } else if (walk.ndim == 2 && strides[1] == 0 && walk.sizes[1] >= kLongRow) {
    leaf.period = walk.sizes[1];
    leaf.way = Leaf::Way::once_a_row;
  } else {
    leaf.way = Leaf::Way::gathered;
  }
  leaves_.push_back(leaf);
}

void ElementPass::add_step(const Node& node, const std::vector<int32_t>& outputs,
                           const std::vector<Shape>& shapes, int32_t taken) {
  Step step{.node = &node,
            .elements = find_kernel(node, DeviceKind::cpu)->elements,
            .value = node.id,
            .arity = static_cast<int>(node.inputs.size()),
            .element_size = size_of(node.outputs[0].dtype)};
  for (int i = 0; i < step.arity; ++i) step.inputs[i] = node.inputs[static_cast<size_t>(i)].node;
  const auto output = std::find(outputs.begin(), outputs.end(), node.id);
  if (output != outputs.end() && shapes[static_cast<size_t>(node.id)] == shape_)
    step.output = static_cast<int>(output - outputs.begin());
  if (node.id == taken) {
    step.kept = step.output < 0;
    taken_ = static_cast<int>(steps_.size());
  }
  steps_.push_back(step);
}

// A cell is free again when the last step that reads it has run; one of the same element size may
// be written by that step itself.
int32_t ElementPass::assign_cells(size_t values) {
  std::vector<const Step*> last(values);
  for (const Step& step : steps_)
    for (int i = 0; i < step.arity; ++i) last[static_cast<size_t>(step.inputs[i])] = &step;
  std::vector<Step*> made_by(values);
  std::vector<int32_t> free;
  int32_t cells = 0;
  for (Step& step : steps_) {
    std::vector<int32_t> read_last;
    for (int i = 0; i < step.arity; ++i) {
      auto& from = made_by[static_cast<size_t>(step.inputs[i])];
      if (!from || from->cell < 0 || last[static_cast<size_t>(step.inputs[i])] != &step) continue;
      if (!step.has_place() && from->element_size == step.element_size)
        step.cell = from->cell;
      else
        read_last.push_back(from->cell);
      from = nullptr;  // an input may be named twice
    }
    if (!step.has_place() && !free.empty()) {
      step.cell = free.back();
      free.pop_back();
    }
    if (!step.has_place()) step.cell = cells++;
    free.insert(free.end(), read_last.begin(), read_last.end());
    made_by[static_cast<size_t>(step.value)] = &step;
  }
  return cells;
}

void ElementPass::place_buffers(int32_t cells) {
  int64_t width = 1, bytes = 0;  // of a cell's element; of all that one element of a block touches
  for (const Step& step : steps_) {
    width = std::max(width, step.element_size);
    if (step.cell < 0) bytes += step.element_size;
  }
  for (const Leaf& leaf : leaves_) bytes += leaf.element_size;
  bytes += cells * width;
  length_ = std::clamp(kBlockBytes / bytes / kLengthUnit * kLengthUnit, kLengthUnit, kLengthMax);
  for (Step& step : steps_)
    if (step.cell >= 0) step.buffer = step.cell * rounded(length_ * width);
  int64_t space = cells * rounded(length_ * width);
  for (Step& step : steps_) {
    if (!step.kept) continue;
    step.buffer = space;
    space += kLengthMax * step.element_size;
  }
  int64_t rows = 0;
  for (Leaf& leaf : leaves_) {
    const int64_t row = rounded((leaf.period + length_) * leaf.element_size);
    if (leaf.way == Leaf::Way::short_rows && rows + row > kRowsSpaceMax)
      leaf.way = Leaf::Way::gathered;  // block by block, for want of room
    leaf.buffer = space;
    if (leaf.way == Leaf::Way::short_rows) {
      rows += row;
      space += row;
    } else if (leaf.way == Leaf::Way::gathered) {
      space += rounded(length_ * leaf.element_size);
    }
  }
  TROUPE_CHECK(space <= kSpaceMax, "a program wants ", space, " bytes of buffers");
}

// Where a block that begins at element `at` ends.
int64_t ElementPass::next_block(int64_t at, int64_t end) const {
  int64_t next = std::min(end, at + length_);
  for (const Leaf& leaf : leaves_)
    if (leaf.way == Leaf::Way::long_rows || leaf.way == Leaf::Way::once_a_row)
      next = std::min(next, at + leaf.period - at % leaf.period);
  return next;
}

void ElementPass::run_parts(const void* const* given, void* const* outputs, int64_t begin,
                            int64_t n, const Taker* taker) const {
  if (n <= 0 || steps_.empty()) return;
  alignas(64) char space[kSpaceMax];
  const char* at[kElementValuesMax];
  bool once[kElementValuesMax] = {};
  const auto value = [&](const Leaf& leaf) { return static_cast<const char*>(given[leaf.value]); };
  const auto walk_of = [&](const Leaf& leaf) -> const BroadcastWalk& {
    return walks_[static_cast<size_t>(&leaf - leaves_.data())];
  };
  for (const Leaf& leaf : leaves_) {
    at[leaf.value] = value(leaf);
    once[leaf.value] = leaf.way == Leaf::Way::once || leaf.way == Leaf::Way::once_a_row;
    if (leaf.way == Leaf::Way::short_rows)
      repeat(value(leaf), leaf.period * leaf.element_size, space + leaf.buffer,
             (leaf.period + std::min(n, length_)) * leaf.element_size);
  }
  const int64_t end = begin + n;
  int64_t part = begin, part_end = end;  // the elements that are handed over at once
  if (taker) part_end = part_of(begin, end, taker->unit);
  for (int64_t from = begin, to; from < end; from = to) {
    to = next_block(from, part_end);
    for (const Leaf& leaf : leaves_) {
      if (leaf.way == Leaf::Way::whole) at[leaf.value] = value(leaf) + from * leaf.element_size;
      if (leaf.way == Leaf::Way::once_a_row)
        at[leaf.value] =
            value(leaf) + from / leaf.period * walk_of(leaf).strides[0][0] * leaf.element_size;
      if (leaf.way == Leaf::Way::long_rows)
        at[leaf.value] = value(leaf) + from % leaf.period * leaf.element_size;
      if (leaf.way == Leaf::Way::short_rows)
        at[leaf.value] = space + leaf.buffer + from % leaf.period * leaf.element_size;
      if (leaf.way == Leaf::Way::gathered) {
        gather(walk_of(leaf), leaf.element_size, value(leaf), space + leaf.buffer, from, to - from);
        at[leaf.value] = space + leaf.buffer;
      }
    }
    for (const Step& step : steps_) {
      ElementRun run{.node = step.node, .n = to - from};
      for (int i = 0; i < step.arity; ++i) {
        run.inputs[i] = at[step.inputs[i]];
        run.once[i] = once[step.inputs[i]];
      }
      char* out = space + step.buffer;
      if (step.output >= 0)
        out = static_cast<char*>(outputs[step.output]) + from * step.element_size;
      else if (step.kept)
        out += (from - part) * step.element_size;
      run.output = out;
      at[step.value] = out;
      step.elements(run);
    }
    if (!taker || to < part_end) continue;
    const Step& taken = steps_[static_cast<size_t>(taken_)];
    taker->part(taker->context, at[taken.value] - (from - part) * taken.element_size, part,
                part_end - part);
    part = part_end;
    part_end = part_of(part, end, taker->unit);
  }
}

// Where a part that begins at element `at` ends: whole units, and no more than a block if that has
// room for one.
int64_t ElementPass::part_of(int64_t at, int64_t end, int64_t unit) const {
  return std::min(end, at + std::max(unit, length_ / unit * unit));
}

}  // namespace troupe
