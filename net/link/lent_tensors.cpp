// Lends tensors, and takes them back.
#include "net/link/lent_tensors.hpp"

#include <cstring>
#include <utility>

#include "graph/base/buffer.hpp"
#include "net/link/frame.hpp"
#include "graph/base/mutant.hpp"

namespace troupe {

void LentTensors::begin(SegmentPool& pool) {
  pool.add_reader();
  pool_.store(&pool, std::memory_order_release);
}

std::map<uint64_t, Tensor> LentTensors::end() {
  SegmentPool* const pool = pool_.exchange(nullptr);
  if (!pool) return {};
  pool->remove_reader();
  segments_.clear();
  pool->end_loan(std::exchange(bytes_, 0));
  return std::exchange(lent_, {});
}

void LentTensors::retire(std::map<uint64_t, Tensor> lent) {
  for (auto& [loan, tensor] : lent) SegmentPool::retire(std::move(tensor));
}

static_assert(SegmentPool::kLeast >= kInlineMax, "a tensor that is lent does not fit in a frame");

bool LentTensors::may_lend(const Tensor& tensor) {
  return tensor.defined() && is_floating(tensor.dtype()) &&
         tensor.byte_size() > SegmentPool::kLeast;
}

Tensor LentTensors::in_segment(const Tensor& tensor, SegmentPool& pool) {
  if (SegmentPool::place_of(tensor).segment) return tensor;
  Buffer* const buffer = pool.try_allocate(tensor.byte_size());
  if (!buffer) return {};
  Tensor copy = adopt(buffer, tensor.dtype(), tensor.shape());
  std::memcpy(copy.mutable_raw(), tensor.raw(), static_cast<size_t>(tensor.byte_size()));
  return copy;
}

std::optional<LentTensors::Loan> LentTensors::lend(Tensor tensor) {
  const int64_t bytes = tensor.byte_size();
  const SegmentPool::Place place = SegmentPool::place_of(tensor);
  auto known = segments_.find(place.segment);
  const bool is_new = known == segments_.end();
  if (bytes_ + bytes > kLentMax || (is_new && segments_.size() >= kSegmentsMax) ||
      !pool()->begin_loan(bytes))
    return std::nullopt;
  Loan out{{next_loan_, 0, place.offset, 0}, nullptr};
  if (is_new) {
    known = segments_.emplace(place.segment, next_segment_++).first;
    out.place.segment_bytes = place.segment->mapping->bytes();
    out.announced = place.segment;
  }
  out.place.segment = known->second;
  if (mutant(Mutant::lent_not_held)) tensor = Tensor::empty(tensor.dtype(), tensor.shape());
  lent_.emplace(next_loan_++, std::move(tensor));
  bytes_ += bytes;
  return out;
}

bool LentTensors::take_back(std::span<const uint64_t> loans, std::vector<Tensor>& out) {
  if (!pool()) return true;  // the link has ended
  for (const uint64_t loan : loans) {
    auto found = lent_.extract(loan);
    if (found.empty()) return false;
    const int64_t bytes = found.mapped().byte_size();
    bytes_ -= bytes;
    pool()->end_loan(bytes);
    out.push_back(std::move(found.mapped()));
  }
  return true;
}

std::vector<uint64_t> LentTensors::gone() {
  std::vector<uint64_t> out;
  std::erase_if(segments_, [&](const auto& segment) {
    if (!segment.first.expired()) return false;
    out.push_back(segment.second);
    return true;
  });
  return out;
}

}  // namespace troupe
