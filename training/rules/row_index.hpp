// RowIndex: the slots of rows by their numbers: a hash table with open addressing, whose memory
// comes from its owner. Several small ones grow one after the other, so none stops a shard for
// long. Owner: RowStore. Thread: one.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "troupe/tensor.hpp"

namespace troupe {

class RowIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t find(int64_t row) const {
    if (capacity_ == 0) return kNone;
    for (uint64_t at = home(row);; at = next(at)) {
      const Entry& e = entries_[at];
      if (e.slot == kNone || e.row == row) return e.slot;
    }
  }
  void prefetch(int64_t row) const {
    if (capacity_ > 0) __builtin_prefetch(entries_ + home(row));
  }
  // Requires: the row is not there, and has_room(1).
  void add(int64_t row, uint32_t slot) {
    uint64_t at = home(row);
    while (entries_[at].slot != kNone) at = next(at);
    entries_[at] = {row, slot, 0};
    ++rows_;
  }
  // Requires: the row is there. Moves later entries of its chain up, so that no mark stays.
  void remove(int64_t row) {
    uint64_t hole = home(row);
    while (entries_[hole].row != row || entries_[hole].slot == kNone) hole = next(hole);
    for (uint64_t at = next(hole); entries_[at].slot != kNone; at = next(at)) {
      const uint64_t from_home = (at - home(entries_[at].row)) & (capacity_ - 1);
      if (from_home < ((at - hole) & (capacity_ - 1))) continue;  // it would stand before its home
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole].slot = kNone;
    --rows_;
  }
  bool has_room(int64_t more) const { return fits(rows_ + more, capacity_); }
  // The bytes of a table with room for `more` rows.
  int64_t bytes_for(int64_t more) const {
    uint64_t capacity = kCapacityLeast;
    while (!fits(rows_ + more, capacity)) capacity *= 2;
    return static_cast<int64_t>(capacity * sizeof(Entry));
  }
  // Moves all entries there. Requires: u8[bytes_for(...)].
  void move_to(Tensor memory) {
    const RowIndex before = *this;
    memory_ = std::move(memory);
    entries_ = static_cast<Entry*>(memory_.mutable_raw());
    capacity_ = static_cast<uint64_t>(memory_.size()) / sizeof(Entry);
    rows_ = 0;
    for (uint64_t i = 0; i < capacity_; ++i) entries_[i] = {0, kNone, 0};
    for (uint64_t i = 0; i < before.capacity_; ++i)
      if (before.entries_[i].slot != kNone) add(before.entries_[i].row, before.entries_[i].slot);
  }
  int64_t rows() const { return rows_; }
  int64_t bytes() const { return static_cast<int64_t>(capacity_ * sizeof(Entry)); }

 private:
  struct Entry {
    int64_t row;
    uint32_t slot, unused;
  };
  static constexpr uint64_t kCapacityLeast = 16;

  static bool fits(int64_t rows, uint64_t capacity) {
    return static_cast<uint64_t>(rows) * 4 <= capacity * 3;
  }
  // Rows of one group have like high bits in row_group()'s product, so this one mixes otherwise
  // (the finalizer of MurmurHash3).
  uint64_t home(int64_t row) const {
    auto x = static_cast<uint64_t>(row);
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return (x ^ (x >> 33)) & (capacity_ - 1);
  }
  uint64_t next(uint64_t at) const { return (at + 1) & (capacity_ - 1); }

  Tensor memory_;  // u8
  Entry* entries_ = nullptr;
  uint64_t capacity_ = 0;  // a power of two, or 0
  int64_t rows_ = 0;
};

}  // namespace troupe
