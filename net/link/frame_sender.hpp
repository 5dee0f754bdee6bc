// FrameSender: the sending half of a link. A sending thread writes to the socket itself if no other
// thread is writing, up to one chunk; the net thread writes the rest.
//
// Owner: the link. Thread: any, unless a function says otherwise.
#pragma once

#include <functional>
#include <mutex>

#include "net/link/given_back.hpp"
#include "net/link/lent_tensors.hpp"
#include "net/link/send_queue.hpp"

namespace troupe {

struct LinkStats {
  int64_t bytes_in[kChannels] = {}, bytes_out[kChannels] = {};  // including frame headers
  int64_t messages_in = 0, messages_out = 0;                    // data plane only
  int64_t lent_out = 0;  // messages of messages_out whose tensor was lent
  int64_t queued_bytes = 0;
  bool local = false;  // Connection::is_local()
};

class FrameSender {
 public:
  // `hand_over` makes the net thread call resume() soon. `given_back`: the peer's loans that end
  // here.
  FrameSender(ConnectionPtr connection, std::function<void()> hand_over,
              std::shared_ptr<GivenBack> given_back)
      : connection_(std::move(connection)),
        hand_over_(std::move(hand_over)),
        given_back_(std::move(given_back)) {}
  // From now on lends tensors of this pool. Net thread.
  void lend_from(SegmentPool& pool);

  // These return peer_lost after seal(), and out_of_memory if the queue is full (then nothing was
  // queued). `more`: flush() follows soon, and a small message may wait for it.
  Errc send(uint64_t target, uint64_t sender, const Encoded& message, bool more);
  Errc send_control(Control type, std::span<const std::byte> payload);
  Errc send_caf(std::span<const std::byte> bytes);
  void flush();
  // Net thread: greetings, confirm.
  void send_first(Piece packet);
  // Net thread: sends a heartbeat, unless frames wait anyway.
  void send_heartbeat();
  // Net thread, now and then: tells the peer which loans and segments have ended.
  void send_ended();
  // Net thread: writes what is left, after hand_over, or after a short write.
  void resume();
  void drained();

  // Flow control. These return false if the peer exceeds its credit, or grants too much.
  bool grant(int64_t bulk, int64_t caf);
  // The peer returns loans. Returns false if one of them is none.
  bool take_back(std::span<const uint64_t> loans);
  bool caf_arrived(size_t bytes);
  void caf_read(size_t bytes);   // the peer may send more
  void bulk_read(size_t bytes);  // net thread; bulk bytes are read as they arrive

  void seal();   // nothing is sent from now on
  void close();  // seal(), and drops what waits. Net thread
  int64_t bytes_out() const;
  void add_to(LinkStats& stats) const;

 private:
  void pump(std::unique_lock<std::mutex>& lock, bool on_net_thread);
  bool queue_credit(int64_t bulk, int64_t caf);
  bool queue_returned();
  bool queue_loan(uint64_t target, uint64_t sender, const Encoded& message, Tensor tensor);

  const ConnectionPtr connection_;
  const std::function<void()> hand_over_;
  const std::shared_ptr<GivenBack> given_back_;
  LentTensors lent_;          // but for pool(), guarded by mutex_
  mutable std::mutex mutex_;  // guards the rest
  SendQueue queue_;
  WriteQueue writing_;  // only the pumping thread touches it while pumping_
  bool pumping_ = false, blocked_ = false, drained_ = false, handed_over_ = false;
  bool sealed_ = false, closed_ = false;
  struct {
    ReceiveWindow caf{kCafWindow}, bulk{kBulkWindow};
  } in_;
  int64_t messages_out_ = 0;
};

}  // namespace troupe
