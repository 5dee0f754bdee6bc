// Makes, updates and forgets the rows of a table.
#include "training/rules/row_store.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "devices/threads/isa.hpp"
#include "graph/base/mutant.hpp"
#include "training/rules/optimizer.hpp"

namespace troupe {
namespace {

constexpr size_t kAhead = 64;  // rows whose memory is asked for at a time
constexpr int64_t kLine = 64, kLinesAsked = 8;

void ask_for(const char* at, int64_t bytes) {
  const int64_t end = std::min(bytes, kLine * kLinesAsked);
  for (int64_t i = 0; i < end; i += kLine) __builtin_prefetch(at + i, 1);
}

// row = row - rate * gradient
struct DescendRow {
  template <class T>
  static void run(T rate, int64_t width, const T* gradient, T* row) {
    TROUPE_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) row[j] = row[j] - rate * gradient[j];
  }
};

// Other optimizers, of rows that are shorter than a block of kBlock elements: gathers them, as
// vectorised loops want them.
template <class T>
class GatheredUpdate {
 public:
  static constexpr int64_t kBlock = 1024;

  GatheredUpdate(const OptimizerUpdate<T>& update, const RowLayout& layout)
      : update_(update), layout_(layout), parts_(1 + layout.accumulators.size()) {}
  void run(std::span<RowRecord* const> records, const T* gradient) {
    OptimizerArrays<T> arrays;
    arrays.gradient = gradient;
    for (size_t k = 0; k < parts_; ++k) {
      T* to = parts_of_rows_[k].data();
      (k == 0 ? arrays.values : arrays.accumulators[k - 1]) = to;
      for (RowRecord* r : records) to = std::copy_n(part(*r, k), layout_.width, to);
    }
    update_(static_cast<int64_t>(records.size()) * layout_.width, arrays);
    for (size_t k = 0; k < parts_; ++k) {
      const T* from = parts_of_rows_[k].data();
      for (RowRecord* r : records) {
        std::copy_n(from, layout_.width, part(*r, k));
        from += layout_.width;
      }
    }
  }
  void run_one(RowRecord& record, const T* gradient) const {
    OptimizerArrays<T> arrays;
    arrays.gradient = gradient;
    arrays.values = part(record, 0);
    for (size_t k = 1; k < parts_; ++k) arrays.accumulators[k - 1] = part(record, k);
    update_(layout_.width, arrays);
  }

 private:
  T* part(RowRecord& record, size_t k) const {
    return reinterpret_cast<T*>(record.part(layout_, k));
  }

  const OptimizerUpdate<T>& update_;
  const RowLayout& layout_;
  const size_t parts_;
  alignas(64) std::array<std::array<T, kBlock>, kOptimizerAccumulatorsMax + 1> parts_of_rows_;
};

}  // namespace

RowStore::RowStore(std::string name, const TableOptions& options, RowLayout layout,
                   const ShardMemory& memory)
    : name_(std::move(name)),
      options_(options),
      first_(options.first, name_),
      layout_(std::move(layout)),
      memory_(memory),
      record_bytes_(layout_.record_bytes()),
      shift_(layout_.block_shift()),
      mask_((uint32_t{1} << shift_) - 1) {
  TROUPE_CHECK(layout_.accumulators.size() <= kOptimizerAccumulatorsMax, "too many accumulators");
}

int64_t RowStore::rows_max(size_t group) const {
  const auto g = static_cast<int64_t>(group);
  return options_.rows_max / kRowGroups + (g < options_.rows_max % kRowGroups ? 1 : 0);
}

RowRecord& RowStore::writable(uint32_t slot) {
  Block& block = blocks_[slot >> shift_];
  if (block.written != images_) {  // an image may share it
    if (!may_be_written(block.memory)) {
      Tensor copy = memory_for(block.memory.size(), /*must=*/true);
      std::memcpy(copy.mutable_raw(), block.memory.raw(), static_cast<size_t>(block.memory.size()));
      block.memory = std::move(copy);
      block.data = static_cast<char*>(block.memory.mutable_raw());
    }
    block.written = images_;
  }
  return record(slot);
}

RowStore::Link& RowStore::link(uint32_t slot) const {
  return blocks_[slot >> shift_].links[slot & mask_];
}

// `must`: from the heap if there is no room, as an update that has begun ends.
Tensor RowStore::memory_for(int64_t bytes, bool must) const {
  try {
    return memory_.make(DType::u8, Shape{bytes});
  } catch (const Error& e) {
    if (!must || e.code() != Errc::out_of_memory) throw;
  }
  return Tensor::empty(DType::u8, Shape{bytes});
}

void RowStore::add_block(bool must) {
  const int64_t count = int64_t{1} << shift_;
  TROUPE_CHECK(slots() + count < RowIndex::kNone, "a slice of ", name_, " has too many rows");
  Block block{memory_for(count * record_bytes_, must), nullptr, {}, nullptr, images_};
  block.data = static_cast<char*>(block.memory.mutable_raw());
  if (forgets()) {
    block.links_memory = memory_for(count * static_cast<int64_t>(sizeof(Link)), must);
    block.links = static_cast<Link*>(block.links_memory.mutable_raw());
    use_.bytes += block.links_memory.size();
  }
  use_.bytes += block.memory.size();
  blocks_.push_back(std::move(block));
}

void RowStore::grow(RowIndex& index, int64_t more, bool must) {
  if (index.has_room(more)) return;
  Tensor memory = memory_for(index.bytes_for(more), must);
  use_.bytes += memory.size() - index.bytes();
  index.move_to(std::move(memory));
}

void RowStore::reserve(std::span<const int64_t> rows) {
  std::array<int64_t, kRowGroups> more = {};
  int64_t reserved = 0;
  for (const Group& group : groups_) reserved += group.reserved;
  const auto has_room = [&] {
    int64_t all = reserved;
    bool fits = true;
    for (size_t g = 0; g < groups_.size(); ++g) {
      all += more[g];
      fits = fits && (more[g] == 0 || groups_[g].index.has_room(groups_[g].reserved + more[g]));
    }
    return fits && all <= slots() - used_ + static_cast<int64_t>(free_.size());
  };
  for (const int64_t row : rows) ++more[static_cast<size_t>(row_group(row))];
  if (!has_room()) {  // as if all were new; now those that are
    more = {};
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i % kAhead == 0)
        for (size_t k = i; k < std::min(rows.size(), i + kAhead); ++k)
          groups_[static_cast<size_t>(row_group(rows[k]))].index.prefetch(rows[k]);
      const auto g = static_cast<size_t>(row_group(rows[i]));
      if (groups_[g].index.find(rows[i]) == RowIndex::kNone) ++more[g];
    }
  }
  int64_t all = 0;
  for (const int64_t count : more) all += count;
  try {
    for (size_t g = 0; g < groups_.size(); ++g)
      if (more[g] > 0) grow(groups_[g].index, groups_[g].reserved + more[g], /*must=*/false);
    while (reserved + all > slots() - used_ + static_cast<int64_t>(free_.size()))
      add_block(/*must=*/false);
  } catch (const Error& e) {
    if (e.code() != Errc::out_of_memory) throw;
    throw Error(Errc::out_of_memory, "table ", name_, " has ", use_.rows, " rows in ", use_.bytes,
                " bytes here, and an update with ", all, " new rows of ", record_bytes_,
                " bytes finds no room: ", e.what(),
                "; give the process a larger budget, spread the table over more ps tasks, or let "
                "it forget rows by TableOptions::rows_max or forget_after");
  }
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].reserved += more[g];
}

uint32_t RowStore::make(int64_t row, RowIndex& index) {
  grow(index, 1, /*must=*/true);
  uint32_t slot = 0;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    if (used_ == slots()) add_block(/*must=*/true);
    slot = static_cast<uint32_t>(used_++);
  }
  index.add(row, slot);
  RowRecord& r = writable(slot);
  std::memset(&r, 0, static_cast<size_t>(record_bytes_));
  r.row = row;
  if (layout_.dtype == DType::f64)
    first_.fill(row, layout_.width, reinterpret_cast<double*>(r.part(layout_, 0)));
  else
    first_.fill(row, layout_.width, reinterpret_cast<float*>(r.part(layout_, 0)));
  if (forgets()) link(slot) = {slot, slot};  // in no list yet
  ++use_.rows;
  ++use_.made;
  return slot;
}

void RowStore::touch(std::span<const int64_t> rows, int64_t version, RowRecord** out) {
  for (const int64_t row : rows) groups_[static_cast<size_t>(row_group(row))].index.prefetch(row);
  std::array<uint32_t, kAhead> found;
  for (size_t i = 0; i < rows.size(); ++i) {
    found[i] = groups_[static_cast<size_t>(row_group(rows[i]))].index.find(rows[i]);
    if (found[i] != RowIndex::kNone) ask_for(at(found[i]), record_bytes_);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    RowIndex& index = groups_[static_cast<size_t>(row_group(rows[i]))].index;
    uint32_t slot = found[i];
    if (slot == RowIndex::kNone) slot = index.find(rows[i]);  // made just now, if it stands twice
    if (slot == RowIndex::kNone) slot = make(rows[i], index);
    out[i] = &writable(slot);
    out[i]->touched = version;
    if (forgets()) before_.touches.push_back({rows[i], slot});
  }
}

void RowStore::remember(const RowRecord& record) {
  before_.rows.push_back(record.row);
  const char* const values = record.part(layout_, 0);
  before_.values.insert(before_.values.end(), values, values + layout_.row_bytes());
}

void RowStore::begin_update(bool before) {
  before_.rows.clear();
  before_.values.clear();
  before_.at.clear();
  before_.touches.clear();
  if (!before) before_.values.shrink_to_fit();
  for (Group& group : groups_) group.reserved = 0;
}

template <class T>
void RowStore::apply(const Optimizer& optimizer, const Gradient& gradient, int64_t version,
                     int64_t age, bool before) {
  const bool descends = optimizer.kind == "sgd";
  const T rate = descends ? static_cast<T>(learning_rate_at(optimizer, version)) : T{};
  const OptimizerUpdate<T> update(optimizer, version, age);
  GatheredUpdate<T> gathered(update, layout_);
  const int64_t width = layout_.width, times = gradient.indices_per_row();
  const bool narrow = width * 16 <= GatheredUpdate<T>::kBlock;
  const auto most = static_cast<size_t>(
      narrow ? std::min<int64_t>(kAhead, GatheredUpdate<T>::kBlock / width) : int64_t{kAhead});
  const T* values = gradient.values.data<T>();
  std::array<RowRecord*, kAhead> records;
  const auto rows = gradient.rows();
  for (size_t first = 0; first < rows.size(); first += most) {
    const auto now = rows.subspan(first, std::min(most, rows.size() - first));
    touch(now, version, records.data());
    const std::span<RowRecord* const> touched(records.data(), now.size());
    if (before)
      for (const RowRecord* r : touched) remember(*r);
    const auto of = [&](size_t i) {
      return values + static_cast<int64_t>(first + i) / times * width;
    };
    if (descends) {
      for (size_t i = 0; i < now.size(); ++i)
        in_isa<DescendRow>(rate, width, of(i), reinterpret_cast<T*>(records[i]->part(layout_, 0)));
    } else if (narrow) {
      gathered.run(touched, of(0));
    } else {
      for (size_t i = 0; i < now.size(); ++i) gathered.run_one(*records[i], of(i));
    }
  }
}

void RowStore::update(const Optimizer& optimizer, const Gradient& gradient, int64_t version,
                      int64_t age, bool before) {
  begin_update(before);
  if (layout_.dtype == DType::f64)
    apply<double>(optimizer, gradient, version, age, before);
  else
    apply<float>(optimizer, gradient, version, age, before);
  note_recency();
  forget_due(version, before);
}

void RowStore::pass(int64_t version, bool before) {
  begin_update(before);
  forget_due(version, before);
}

void RowStore::unlink(uint32_t slot, Recency& list) {
  const Link here = link(slot);
  if (here.newer == slot && here.older == slot && list.newest != slot) return;  // in no list
  if (list.newest == slot)
    list.newest = here.older;
  else
    link(here.newer).older = here.older;
  if (list.oldest == slot)
    list.oldest = here.newer;
  else
    link(here.older).newer = here.newer;
}

void RowStore::link_newest(uint32_t slot, Recency& list) {
  link(slot) = {RowIndex::kNone, list.newest};
  if (list.newest != RowIndex::kNone) link(list.newest).newer = slot;
  list.newest = slot;
  if (list.oldest == RowIndex::kNone) list.oldest = slot;
}

void RowStore::see_oldest(Recency& list) const {
  list.oldest_touch = list.oldest == RowIndex::kNone ? INT64_MAX : record(list.oldest).touched;
}

// Rows of one update are touched in the order of their numbers, whatever that of the gradient: a
// checkpoint has their versions alone.
void RowStore::note_recency() {
  std::vector<Touch>& touches = before_.touches;
  const auto before = [](const Touch& a, const Touch& b) { return a.row < b.row; };
  if (!std::is_sorted(touches.begin(), touches.end(), before))
    std::sort(touches.begin(), touches.end(), before);
  for (const Touch& t : touches) {
    Recency& list = groups_[static_cast<size_t>(row_group(t.row))].recency;
    if (list.newest == t.slot) continue;
    unlink(t.slot, list);
    link_newest(t.slot, list);
  }
  for (const Touch& t : touches) see_oldest(groups_[static_cast<size_t>(row_group(t.row))].recency);
}

void RowStore::forget_due(int64_t version, bool before) {
  if (!forgets()) return;
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    const auto due = [&] {
      if (group.recency.oldest == RowIndex::kNone) return false;
      if (options_.rows_max > 0 && group.index.rows() > rows_max(g)) return true;
      return options_.forget_after > 0 &&
             version - group.recency.oldest_touch >= options_.forget_after;
    };
    while (due()) {
      const uint32_t slot = group.recency.oldest;
      RowRecord& r = writable(slot);
      if (before) remember(r);
      unlink(slot, group.recency);
      see_oldest(group.recency);
      group.index.remove(r.row);
      r.row = RowRecord::kFree;
      free_.push_back(slot);
      --use_.rows;
      ++use_.forgotten;
    }
  }
}

template <class T>
void RowStore::take(std::span<const int64_t> rows, bool before, T* out) {
  std::array<const T*, kAhead> from;
  for (size_t first = 0; first < rows.size(); first += kAhead) {
    const auto now = rows.subspan(first, std::min(kAhead, rows.size() - first));
    for (const int64_t row : now) groups_[static_cast<size_t>(row_group(row))].index.prefetch(row);
    for (size_t i = 0; i < now.size(); ++i) {
      const uint32_t slot = groups_[static_cast<size_t>(row_group(now[i]))].index.find(now[i]);
      from[i] = slot == RowIndex::kNone ? nullptr
                                        : reinterpret_cast<const T*>(record(slot).part(layout_, 0));
      if (from[i]) ask_for(reinterpret_cast<const char*>(from[i]), layout_.row_bytes());
    }
    for (size_t i = 0; i < now.size(); ++i, out += layout_.width) {
      const T* values = from[i];
      if (before)
        if (const auto kept = before_.at.find(now[i]); kept != before_.at.end())
          values = reinterpret_cast<const T*>(
              before_.values.data() + static_cast<int64_t>(kept->second) * layout_.row_bytes());
      if (values)
        std::copy_n(values, layout_.width, out);
      else
        first_.fill(now[i], layout_.width, out);
    }
  }
}

Tensor RowStore::take(std::span<const int64_t> rows, bool before) {
  if (before && before_.at.empty())
    for (size_t i = 0; i < before_.rows.size(); ++i) before_.at.emplace(before_.rows[i], i);
  Tensor out =
      Tensor::empty(layout_.dtype, Shape{static_cast<int64_t>(rows.size()), layout_.width});
  if (layout_.dtype == DType::f64)
    take(rows, before, out.mutable_data<double>());
  else
    take(rows, before, out.mutable_data<float>());
  return out;
}

RowImage RowStore::image() {
  ++images_;
  RowImage out{.layout = layout_, .blocks = {}, .slots = used_};
  for (const Block& block : blocks_) out.blocks.push_back(block.memory);
  return out;
}

void RowStore::restore(const RowImage& image) {
  TROUPE_CHECK(
      use_.rows == 0 && image.layout.dtype == layout_.dtype && image.layout.width == layout_.width,
      "rows of another layout are restored, or into a store that has some");
  std::vector<const RowRecord*> records = image.sorted();
  std::stable_sort(records.begin(), records.end(),
                   [](const RowRecord* a, const RowRecord* b) { return a->touched < b->touched; });
  std::vector<int64_t> rows;
  for (const RowRecord* r : records) rows.push_back(r->row);
  reserve(rows);
  begin_update(/*before=*/false);
  const auto& given = image.layout.accumulators;
  for (const RowRecord* from : records) {
    Group& group = groups_[static_cast<size_t>(row_group(from->row))];
    const uint32_t slot = make(from->row, group.index);
    RowRecord& to = writable(slot);
    to.touched = mutant(Mutant::touch_not_restored) ? 0 : from->touched;
    const auto bytes = static_cast<size_t>(layout_.row_bytes());
    std::memcpy(to.part(layout_, 0), from->part(image.layout, 0), bytes);
    for (size_t k = 0; k < layout_.accumulators.size(); ++k) {
      const auto found = std::find(given.begin(), given.end(), layout_.accumulators[k]);
      if (found != given.end())
        std::memcpy(to.part(layout_, k + 1),
                    from->part(image.layout, static_cast<size_t>(found - given.begin()) + 1),
                    bytes);
    }
    if (!forgets()) continue;
    link_newest(slot, group.recency);
    see_oldest(group.recency);
  }
  use_.made = 0;
}

std::shared_ptr<RowStore> RowStore::copy() {
  auto out = std::make_shared<RowStore>(name_, options_, layout_, ShardMemory{});
  out->restore(image());
  return out;
}

}  // namespace troupe
