// RowStore: the rows of one slice of a table that were touched by an update, each with its values,
// the optimizer's accumulators and the version of its last touch, in blocks that are added as rows
// come. It makes rows, updates them, forgets them by the table's options, and answers reads of any
// row. The same updates leave the same rows and bits, whatever is read between them.
// Owner: SliceValues. Thread: that of the shard; images are read by any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "training/rules/first_rows.hpp"
#include "training/rules/gradient.hpp"
#include "training/rules/pool_block.hpp"
#include "training/rules/row_group.hpp"
#include "training/rules/row_image.hpp"
#include "training/rules/row_index.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

struct TableUse {
  int64_t rows = 0, bytes = 0;      // now
  int64_t made = 0, forgotten = 0;  // since the store was made
};

class RowStore {
 public:
  // `name`: of the table. Rows come from `memory` as long as it has room.
  RowStore(std::string name, const TableOptions& options, RowLayout layout,
           const ShardMemory& memory);
  RowStore(const RowStore&) = delete;
  RowStore& operator=(const RowStore&) = delete;

  // Finds room for an update of these rows, and of those of earlier calls since the last update.
  // Throws: Error(out_of_memory) naming table, rows and bytes; then nothing has changed.
  void reserve(std::span<const int64_t> rows);
  // Update number `version`, of accumulators that were zeros `age` updates ago: makes the rows that
  // are not there, changes them, and forgets those that are due. `before`: keeps what it changes
  // for reads of the version before. Without room it takes the heap's. Requires: a gradient by
  // rows of the layout; each row once except for sgd; an optimizer that works by rows.
  void update(const Optimizer& optimizer, const Gradient& gradient, int64_t version, int64_t age,
              bool before);
  // The same without a gradient.
  void pass(int64_t version, bool before);
  // The values of rows, [n, width]: of the newest version, or of the one before the last update.
  Tensor take(std::span<const int64_t> rows, bool before);

  // The rows as they are now; later updates copy the blocks that they change.
  RowImage image();
  // Puts back rows of an image of the same dtype and width. Accumulators that it does not have
  // begin at zero. Requires: an empty store. Throws: Error(out_of_memory).
  void restore(const RowImage& image);

  // A store of the same rows, on the heap.
  std::shared_ptr<RowStore> copy();
  const RowLayout& layout() const { return layout_; }
  TableUse use() const { return use_; }

 private:
  // Rows of a group from the most recently touched to the least, as slots.
  struct Link {
    uint32_t newer, older;
  };
  struct Block {
    Tensor memory;        // u8
    char* data;           // of it
    Tensor links_memory;  // u8; undefined: no row is ever forgotten
    Link* links;          // of its slots
    uint64_t written;     // the number of images when the memory was known to be ours alone
  };
  struct Recency {
    uint32_t newest = RowIndex::kNone, oldest = RowIndex::kNone;
    int64_t oldest_touch = INT64_MAX;
  };
  struct Touch {
    int64_t row;
    uint32_t slot;
  };

  bool forgets() const { return options_.forget_after > 0 || options_.rows_max > 0; }
  int64_t rows_max(size_t group) const;
  int64_t slots() const { return static_cast<int64_t>(blocks_.size()) << shift_; }
  char* at(uint32_t slot) const {
    return blocks_[slot >> shift_].data + (slot & mask_) * record_bytes_;
  }
  RowRecord& record(uint32_t slot) const { return *reinterpret_cast<RowRecord*>(at(slot)); }
  RowRecord& writable(uint32_t slot);
  Link& link(uint32_t slot) const;
  Tensor memory_for(int64_t bytes, bool must) const;
  void add_block(bool must);
  void grow(RowIndex& index, int64_t more, bool must);

  void begin_update(bool before);
  // Finds or makes the rows, and notes the touch.
  void touch(std::span<const int64_t> rows, int64_t version, RowRecord** out);
  uint32_t make(int64_t row, RowIndex& index);
  template <class T>
  void apply(const Optimizer& optimizer, const Gradient& gradient, int64_t version, int64_t age,
             bool before);
  void note_recency();
  void unlink(uint32_t slot, Recency& list);
  void link_newest(uint32_t slot, Recency& list);
  void see_oldest(Recency& list) const;
  void forget_due(int64_t version, bool before);
  void remember(const RowRecord& record);
  template <class T>
  void take(std::span<const int64_t> rows, bool before, T* out);

  const std::string name_;
  const TableOptions options_;
  const FirstRowValues first_;
  const RowLayout layout_;
  const ShardMemory memory_;
  const int64_t record_bytes_;
  const int shift_;
  const uint32_t mask_;
  std::vector<Block> blocks_;
  int64_t used_ = 0;            // slots that were ever in use; later ones are free
  std::vector<uint32_t> free_;  // earlier ones that are free again
  uint64_t images_ = 1;
  struct Group {
    RowIndex index;
    Recency recency;
    int64_t reserved = 0;  // rows that the next update may make
  };
  std::array<Group, kRowGroups> groups_;
  TableUse use_;
  // The rows that the last update has changed, with their values before it. The first one counts of
  // a row that stands twice.
  struct Before {
    std::vector<int64_t> rows;
    std::vector<char> values;
    std::unordered_map<int64_t, size_t> at;  // made by the first read
    std::vector<Touch> touches;              // of the update that is being made
  };
  Before before_;
};

}  // namespace troupe
