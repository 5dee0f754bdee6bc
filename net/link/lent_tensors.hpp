// LentTensors: the tensors that the peer of a link reads in place, in segments of this process. The
// peer gets a loan instead of bytes, and gives it back when it has no more use for the tensor;
// until then the tensor is held, so that its elements stay as they are.
//
// Only floating-point numbers are lent: a reader checks integers before it uses them as indices,
// and a lender that does not keep to the protocol could change them in between.
// Owner: FrameSender. Thread: one at a time.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "devices/memory/segment_pool.hpp"

namespace troupe {

inline constexpr int64_t kLentMax = int64_t{1} << 30;  // bytes lent to one peer; more go as bytes
inline constexpr size_t kSegmentsMax = 4096;           // of one process, mapped by one peer

// The part of a message that stands for the elements of its tensor.
struct LoanPlace {
  uint64_t loan;          // number on this link
  uint64_t segment;       // number on this link
  int64_t offset;         // of the first element, in bytes
  int64_t segment_bytes;  // > 0: the descriptor of the segment comes with the message
};

class LentTensors {
 public:
  LentTensors() = default;
  LentTensors(const LentTensors&) = delete;
  ~LentTensors() { retire(end()); }
  // From now on tensors may be lent; copies are made in `pool`.
  void begin(SegmentPool& pool);
  // The pool from begin() to end(), otherwise null. Any thread.
  SegmentPool* pool() const { return pool_.load(std::memory_order_acquire); }
  // Nothing is lent any more. Returns the tensors that still were, which want to be retired
  // (SegmentPool), outside of the caller's lock: a peer that is cut off may read on.
  std::map<uint64_t, Tensor> end();
  static void retire(std::map<uint64_t, Tensor> lent);

  // True if the tensor may be lent, by its dtype and size.
  static bool may_lend(const Tensor& tensor);
  // The tensor in a segment: itself, or a copy if there is room for one; else undefined.
  static Tensor in_segment(const Tensor& tensor, SegmentPool& pool);

  struct Loan {
    LoanPlace place;
    std::shared_ptr<const Segment> announced;  // its descriptor goes with the message; or null
  };
  // Requires: begun, and in_segment() returned the tensor. Nothing: too much is lent.
  std::optional<Loan> lend(Tensor tensor);
  // The peer returns loans; their tensors are moved to `out`. Returns false if one is not lent.
  bool take_back(std::span<const uint64_t> loans, std::vector<Tensor>& out);
  // Segments that the peer knows and that exist no longer, each told once.
  std::vector<uint64_t> gone();
  int64_t count() const { return static_cast<int64_t>(next_loan_); }  // of all loans so far

 private:
  using Known = std::weak_ptr<const Segment>;

  std::atomic<SegmentPool*> pool_{nullptr};
  std::map<uint64_t, Tensor> lent_;                             // by loan
  std::map<Known, uint64_t, std::owner_less<Known>> segments_;  // their numbers on this link
  uint64_t next_loan_ = 0, next_segment_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace troupe
