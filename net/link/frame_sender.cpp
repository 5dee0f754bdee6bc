// Builds frames, queues them and writes them.
#include "net/link/frame_sender.hpp"

#include <iterator>
#include <numeric>

namespace troupe {
namespace {

constexpr int64_t kGatherMax = 64 << 10;  // bytes of small messages that may wait for a flush
constexpr size_t kTurnBytes = 1 << 20;    // written at one time by the net thread

}  // namespace

Errc FrameSender::send(uint64_t target, uint64_t sender, const Encoded& message, bool more) {
  const Tensor& payload = message.payload;
  const auto size = payload.defined() ? static_cast<size_t>(payload.byte_size()) : 0;
  const bool is_small = size <= kInlineMax;
  Tensor lendable;
  if (SegmentPool* const pool = lent_.pool(); pool && LentTensors::may_lend(payload))
    lendable = LentTensors::in_segment(payload, *pool);
  Piece frame;
  if (is_small) {
    std::vector<std::byte> head;
    head.reserve(4 + message.header.size());
    Writer writer(head);
    writer.number(static_cast<uint32_t>(message.header.size()));
    writer.bytes(message.header.data(), message.header.size());
    frame = make_frame(Channel::small, message.kind, target, sender, head,
                       size ? elements_of(payload) : std::span<const std::byte>());
  } else if (!lendable.defined()) {
    frame = make_frame(Channel::bulk, message.kind, target, sender, message.header);
  }
  std::unique_lock lock(mutex_);
  if (sealed_) return Errc::peer_lost;
  if (lendable.defined()) {
    if (queue_loan(target, sender, message, std::move(lendable))) {
      ++messages_out_;
      if (!more) pump(lock, false);
      return Errc::ok;
    }
    frame = make_frame(Channel::bulk, message.kind, target, sender, message.header);
  }
  if (is_small ? !queue_.add_small(std::move(frame)) : !queue_.add_bulk(std::move(frame), payload))
    return Errc::out_of_memory;
  ++messages_out_;
  if (!more || !is_small || queue_.small_bytes() >= kGatherMax) pump(lock, false);
  return Errc::ok;
}

bool FrameSender::queue_loan(uint64_t target, uint64_t sender, const Encoded& message,
                             Tensor tensor) {
  if (!queue_.has_room_for_small(kFrameHeader + sizeof(LoanPlace) + message.header.size()))
    return false;
  const auto loan = lent_.lend(std::move(tensor));
  if (!loan) return false;
  Piece frame = make_frame(Channel::small, message.kind, target, sender, as_bytes_of(loan->place),
                           message.header, kFlagged);
  frame.segment = loan->announced;
  queue_.add_small(std::move(frame));
  return true;
}

Errc FrameSender::send_control(Control type, std::span<const std::byte> payload) {
  TROUPE_CHECK(payload.size() <= kFrameMax, "a control frame of ", payload.size(),
               " bytes is past the limit of ", kFrameMax);
  Piece frame = control_frame(type, payload);
  std::unique_lock lock(mutex_);
  if (sealed_) return Errc::peer_lost;
  if (!queue_.add_control(std::move(frame))) return Errc::out_of_memory;
  pump(lock, false);
  return Errc::ok;
}

Errc FrameSender::send_caf(std::span<const std::byte> bytes) {
  std::unique_lock lock(mutex_);
  if (sealed_) return Errc::peer_lost;
  if (!queue_.add_caf(bytes)) return Errc::out_of_memory;
  pump(lock, false);
  return Errc::ok;
}

void FrameSender::flush() {
  std::unique_lock lock(mutex_);
  pump(lock, false);
}

void FrameSender::send_first(Piece packet) {
  std::unique_lock lock(mutex_);
  queue_.add_urgent(std::move(packet));
  pump(lock, true);
}

void FrameSender::send_heartbeat() {
  std::unique_lock lock(mutex_);
  if (queue_.has_control() || blocked_) return;
  queue_.add_urgent(control_frame(Control::heartbeat));
  pump(lock, true);
}

void FrameSender::lend_from(SegmentPool& pool) {
  std::lock_guard lock(mutex_);
  if (sealed_) return;
  lent_.begin(pool);
}

void FrameSender::send_ended() {
  std::unique_lock lock(mutex_);
  if (sealed_) return;
  const std::vector<uint64_t> gone = lent_.gone();
  for (std::span<const uint64_t> rest = gone; !rest.empty();) {
    const auto now = rest.first(std::min(rest.size(), GivenBack::kLoansMax));
    queue_.add_urgent(control_frame(Control::forgotten, std::as_bytes(now)));
    rest = rest.subspan(now.size());
  }
  if (queue_returned() || !gone.empty()) pump(lock, true);
}

bool FrameSender::queue_returned() {
  const std::vector<uint64_t> loans = given_back_->take();
  if (loans.empty()) return false;
  queue_.add_urgent(control_frame(Control::returned, std::as_bytes(std::span(loans))));
  return true;
}

bool FrameSender::take_back(std::span<const uint64_t> loans) {
  std::vector<Tensor> ended;  // behind the lock
  std::lock_guard lock(mutex_);
  return lent_.take_back(loans, ended);
}

void FrameSender::pump(std::unique_lock<std::mutex>& lock, bool on_net_thread) {
  if (pumping_ || blocked_) return;
  if (!sealed_) queue_returned();
  pumping_ = true;
  bool hand_over = false;
  for (size_t turn = 0;;) {
    const bool chunk = writing_.empty() && queue_.next(writing_);
    if (writing_.empty()) break;
    drained_ = false;
    bool all = false;
    lock.unlock();
    const size_t done = writing_.write(*connection_, all);
    lock.lock();
    turn += done;
    writing_.written(done);
    if (!all && !drained_) {
      blocked_ = true;
      break;
    }
    // The net thread writes the remaining chunks, not the sender's thread.
    if ((!on_net_thread && chunk && queue_.has_bulk()) || turn > kTurnBytes) {
      hand_over = !std::exchange(handed_over_, true);
      break;
    }
  }
  pumping_ = false;
  if (closed_) writing_.clear();
  if (!hand_over) return;
  lock.unlock();
  hand_over_();
}

void FrameSender::resume() {
  std::unique_lock lock(mutex_);
  handed_over_ = false;
  pump(lock, true);
}

void FrameSender::drained() {
  std::unique_lock lock(mutex_);
  drained_ = true;
  blocked_ = false;
  pump(lock, true);
}

bool FrameSender::grant(int64_t bulk, int64_t caf) {
  std::unique_lock lock(mutex_);
  if (!queue_.grant(bulk, caf)) return false;
  pump(lock, true);
  return true;
}

bool FrameSender::queue_credit(int64_t bulk, int64_t caf) {
  if (bulk + caf == 0) return false;
  const int64_t amounts[] = {bulk, caf};
  queue_.add_urgent(control_frame(Control::credit, as_bytes_of(amounts)));
  return true;
}

bool FrameSender::caf_arrived(size_t bytes) {
  std::lock_guard lock(mutex_);
  return in_.caf.arrive(static_cast<int64_t>(bytes));
}

void FrameSender::caf_read(size_t bytes) {
  std::unique_lock lock(mutex_);
  if (!sealed_ && queue_credit(0, in_.caf.read(static_cast<int64_t>(bytes)))) pump(lock, false);
}

void FrameSender::bulk_read(size_t bytes) {
  std::unique_lock lock(mutex_);
  in_.bulk.arrive(static_cast<int64_t>(bytes));
  if (queue_credit(in_.bulk.read(static_cast<int64_t>(bytes)), 0)) pump(lock, true);
}

void FrameSender::seal() {
  std::lock_guard lock(mutex_);
  sealed_ = true;
}

void FrameSender::close() {
  SendQueue queue;  // tensors are released outside of the lock
  WriteQueue writing;
  std::map<uint64_t, Tensor> lent;
  {
    std::lock_guard lock(mutex_);
    sealed_ = closed_ = true;
    std::swap(queue, queue_);
    lent = lent_.end();
    if (!pumping_) std::swap(writing, writing_);
  }
  LentTensors::retire(std::move(lent));
}

int64_t FrameSender::bytes_out() const {
  LinkStats all;
  add_to(all);
  return std::accumulate(std::begin(all.bytes_out), std::end(all.bytes_out), int64_t{0});
}

void FrameSender::add_to(LinkStats& stats) const {
  std::lock_guard lock(mutex_);
  for (int c = 0; c < kChannels; ++c) stats.bytes_out[c] += writing_.bytes_out(c);
  stats.messages_out += messages_out_;
  stats.lent_out += lent_.count();
  stats.queued_bytes += queue_.bytes();
}

}  // namespace troupe
