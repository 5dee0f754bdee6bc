// Maps segments of the peer, and makes tensors in them.
#include "net/link/borrowed_tensors.hpp"

#include <algorithm>

#include "graph/base/buffer.hpp"

namespace troupe {
namespace {

constexpr size_t kWaitingMax = 64;

// The buffer of a borrowed tensor, which is its own owner.
struct Borrowed final : BufferOwner {
  Borrowed(void* elements, std::shared_ptr<const Mapping> lies_in, std::shared_ptr<GivenBack> to,
           uint64_t number)
      : buffer{{{1}, Buffer::kForeign | Buffer::kReadOnly, this}, elements},
        mapping(std::move(lies_in)),
        given_back(std::move(to)),
        loan(number) {}
  void release(Buffer*) noexcept override {
    given_back->add(loan);
    delete this;
  }

  struct {
    Buffer header;
    void* elements;  // at the address that Buffer::data() reads
  } buffer;
  const std::shared_ptr<const Mapping> mapping;
  const std::shared_ptr<GivenBack> given_back;
  const uint64_t loan;
};

}  // namespace

bool BorrowedTensors::arrived(Descriptor descriptor) {
  waiting_.push_back(std::move(descriptor));
  return waiting_.size() <= kWaitingMax;
}

BorrowedTensors::Outcome BorrowedTensors::borrow(const LoanPlace& place, const TensorClaim& claim) {
  const auto bad = [&](const std::string& why) {
    return Outcome{
        {}, Errc::bad_data, detail::concat("a tensor in segment ", place.segment, ": ", why)};
  };
  if (!claim.defined || !is_floating(claim.dtype)) return bad("such a message has none");
  if (place.segment_bytes != 0) {
    if (waiting_.empty()) return bad("its descriptor has not come");
    if (known_.size() >= 2 * kSegmentsMax) return bad("too many segments");
    Known segment{place.segment_bytes, std::move(waiting_.front()), nullptr};
    waiting_.pop_front();
    if (!known_.emplace(place.segment, std::move(segment)).second)
      return bad("it is known already");
  }
  const auto found = known_.find(place.segment);
  if (found == known_.end()) return bad("it is not known");
  Known& segment = found->second;
  if (place.offset < 0 || place.offset % size_of(claim.dtype) != 0 ||
      place.offset > segment.bytes || claim.bytes > segment.bytes - place.offset)
    return bad("it lies outside");
  if (!segment.mapping) {
    std::string why;
    bool is_bad = false;
    segment.mapping = map_segment(segment.descriptor, segment.bytes, why, is_bad);
    if (is_bad) return bad(why);
    if (!segment.mapping) {
      given_back_->add(place.loan);
      return {{},
              Errc::out_of_memory,
              detail::concat("a segment of ", segment.bytes, " bytes cannot be read: ", why)};
    }
    segment.descriptor = {};
  }
  auto* const out = new Borrowed(segment.mapping->address() + place.offset, segment.mapping,
                                 given_back_, place.loan);
  return {adopt(&out->buffer.header, claim.dtype, claim.shape)};
}

bool BorrowedTensors::forget(std::span<const uint64_t> segments) {
  return std::all_of(segments.begin(), segments.end(),
                     [this](uint64_t number) { return known_.erase(number) == 1; });
}

}  // namespace troupe
