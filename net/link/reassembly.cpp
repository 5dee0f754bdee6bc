// Puts the chunks of a tensor together.
#include "net/link/reassembly.hpp"

#include <cstring>

#include "graph/base/crc32c.hpp"
#include "graph/base/mutant.hpp"

namespace troupe {

void Reassembly::begin(Received message, const TensorClaim& claim) {
  active_ = true;
  ++next_transfer_;
  header_.assign(message.header.begin(), message.header.end());
  message_ = std::move(message);
  message_.header = header_;
  claim_ = claim;
  offset_ = 0;
  crc_ = 0;
  waits_ = claim.bytes > kLargeClaim;
}

void Reassembly::give(Tensor payload, Errc code, std::string text) {
  waits_ = false;
  message_.payload = std::move(payload);
  message_.code = code;
  message_.text = std::move(text);
  if (code == Errc::ok) std::memcpy(message_.payload.mutable_raw(), first_.data(), offset_);
  first_ = {};
}

bool Reassembly::begin_chunk(uint64_t transfer, size_t length) {
  const size_t left = static_cast<size_t>(claim_.bytes) - offset_;
  if (!active_ || transfer != uint32_t{next_transfer_ - 1} || length == 0 || length > left)
    return false;
  chunk_left_ = length;
  if (waits_) first_.resize(length);
  return true;
}

std::span<std::byte> Reassembly::room() {
  if (chunk_left_ == 0 || message_.code != Errc::ok) return {};
  if (waits_) return {first_.data() + offset_, chunk_left_};
  return {static_cast<std::byte*>(message_.payload.mutable_raw()) + offset_, chunk_left_};
}

bool Reassembly::take(std::span<const std::byte> bytes) {
  if (const auto to = room(); !to.empty()) {
    if (to.data() != bytes.data()) std::memcpy(to.data(), bytes.data(), bytes.size());
    if (claim_.checked) crc_ = crc32c(to.first(bytes.size()), crc_);
  }
  offset_ += bytes.size();
  chunk_left_ -= bytes.size();
  return chunk_left_ == 0 && static_cast<int64_t>(offset_) == claim_.bytes;
}

std::optional<Received> Reassembly::finish() {
  active_ = false;
  if (claim_.checked && message_.code == Errc::ok && crc_ != claim_.crc &&
      !mutant(Mutant::tensor_not_checked))
    return std::nullopt;
  return std::exchange(message_, {});
}

}  // namespace troupe
