// Queues frames by channel and gathers them for writing.
#include "net/link/send_queue.hpp"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

constexpr size_t kCafFrame = 64 << 10;  // BASP bytes in one frame
constexpr size_t kSmallBatch = 64;      // small frames before the next bulk chunk
constexpr size_t kPartsMax = 256;       // spans of one gathered write

int64_t bytes_of(const Piece& frame) { return static_cast<int64_t>(frame.owned.size()); }

}  // namespace

void WriteQueue::push(Piece piece, Channel channel) {
  if (!piece.owned.empty()) piece.view = piece.owned;
  bytes_out_[static_cast<size_t>(channel)] += static_cast<int64_t>(piece.view.size());
  pieces_.push_back(std::move(piece));
}

bool WriteQueue::is_half_full() const { return pieces_.size() >= kPartsMax / 2; }

size_t WriteQueue::write(Connection& connection, bool& all) {
  std::array<std::span<const std::byte>, kPartsMax> parts;
  std::array<int, Connection::kDescriptorsMax> descriptors;
  size_t count = 0, offered = 0, passed = 0;
  for (const Piece& piece : pieces_) {
    if (count == parts.size() || (piece.segment && passed == descriptors.size())) break;
    if (piece.segment) descriptors[passed++] = piece.segment->descriptor.number();
    parts[count] = count == 0 ? piece.view.subspan(offset_) : piece.view;
    offered += parts[count++].size();
  }
  const size_t done =
      connection.write(std::span(parts).first(count), std::span(descriptors).first(passed));
  all = done == offered;
  if (done > 0 && passed > 0)  // all of them have gone with the first byte
    for (size_t i = 0; i < count; ++i) pieces_[i].segment = nullptr;
  return done;
}

void WriteQueue::written(size_t bytes) {
  while (bytes > 0) {
    const size_t rest = pieces_.front().view.size() - offset_;
    if (bytes < rest) {
      offset_ += bytes;
      return;
    }
    bytes -= rest;
    offset_ = 0;
    pieces_.pop_front();
  }
}

bool SendQueue::add_bounded(std::deque<Piece>& to, Piece frame) {
  if (small_bytes_ + bytes_of(frame) > kSmallQueueMax) return false;
  small_bytes_ += bytes_of(frame);
  to.push_back(std::move(frame));
  return true;
}

bool SendQueue::add_control(Piece frame) { return add_bounded(control_, std::move(frame)); }
bool SendQueue::add_small(Piece frame) { return add_bounded(small_, std::move(frame)); }

void SendQueue::add_urgent(Piece frame) {
  small_bytes_ += bytes_of(frame);
  control_.push_back(std::move(frame));
}

bool SendQueue::add_bulk(Piece begin, Tensor elements) {
  if (bulk_bytes_ > 0 && bulk_bytes_ + elements.byte_size() > kBulkQueueMax) return false;
  bulk_bytes_ += elements.byte_size();
  bulk_.push_back({std::move(begin), std::move(elements), 0, next_transfer_++});
  return true;
}

bool SendQueue::add_caf(std::span<const std::byte> bytes) {
  if (caf_bytes_ + static_cast<int64_t>(bytes.size()) > kCafQueueMax) return false;
  caf_bytes_ += static_cast<int64_t>(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += kCafFrame)
    caf_.push_back(make_frame(Channel::caf, 0, 0, 0,
                              bytes.subspan(at, std::min(kCafFrame, bytes.size() - at))));
  return true;
}

bool SendQueue::next(WriteQueue& out) {
  const auto take = [&](std::deque<Piece>& from, Channel channel) {
    for (size_t i = 0; i < kSmallBatch && !from.empty(); ++i) {
      small_bytes_ -= bytes_of(from.front());
      out.push(std::move(from.front()), channel);
      from.pop_front();
    }
  };
  take(control_, Channel::control);
  take(small_, Channel::small);
  while (!caf_.empty() && !out.is_half_full()) {
    const int64_t bytes = bytes_of(caf_.front()) - static_cast<int64_t>(kFrameHeader);
    if (!caf_window_.take(bytes)) break;
    caf_bytes_ -= bytes;
    out.push(std::move(caf_.front()), Channel::caf);
    caf_.pop_front();
  }
  if (bulk_.empty()) return false;
  Transfer& transfer = bulk_.front();
  const std::span<const std::byte> all = elements_of(transfer.tensor);
  const size_t size = std::min(kChunk, all.size() - transfer.offset);
  if (!bulk_window_.take(static_cast<int64_t>(size))) return false;
  if (transfer.offset == 0) out.push(std::move(transfer.begin), Channel::bulk);
  HeaderBytes header{};
  header.channel = static_cast<uint8_t>(Channel::bulk);
  header.flags = 1;
  header.length = static_cast<uint32_t>(size);
  header.target = transfer.id;
  header.header_crc = crc_of_header(header);
  const auto bytes = as_bytes_of(header);
  out.push({{bytes.begin(), bytes.end()}, {}, {}}, Channel::bulk);
  out.push({{}, transfer.tensor, all.subspan(transfer.offset, size)}, Channel::bulk);
  transfer.offset += size;
  bulk_bytes_ -= static_cast<int64_t>(size);
  if (transfer.offset == all.size()) bulk_.pop_front();
  return true;
}

bool SendQueue::grant(int64_t bulk, int64_t caf) {
  if (!bulk_window_.may_free(bulk) || !caf_window_.may_free(caf)) return false;
  bulk_window_.free(bulk);
  caf_window_.free(caf);
  return true;
}

}  // namespace troupe
