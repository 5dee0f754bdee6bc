// Inbox: a list without a lock, by which other threads hand something to a step, and by which a
// step without an owner finds one. The list is empty, or has arrivals, or has the tag "free":
// nobody owns the step. A thread that replaces the tag becomes the owner.
//
// Owner: the step. Thread: any thread hands in; the owner does the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/step_state.hpp"
#include "troupe/op.hpp"

namespace troupe {

// Something that comes to a step from outside its owner thread.
struct Arrival {
  Arrival* next = nullptr;
  enum Kind : uint8_t {
    job,      // a kernel on a lane has run
    async,    // an async kernel has answered, or a copy is there
    deliver,  // a value of an edge
    wake,     // nothing: the step looks at its stop flag
    fence,    // a device's queue has done its work
  } kind = wake;
  Firing firing;  // of a job or an async kernel
  int32_t edge = -1;
  int64_t iteration = 0;
  bool dead = false;
  Errc code = Errc::ok;
  std::string text;
  std::vector<Tensor> outputs;
};

class Inbox {
 public:
  Inbox() = default;  // empty, and owned
  Inbox(const Inbox&) = delete;
  ~Inbox() { clear(); }

  // True: the step had no owner, and the caller is its owner now.
  bool hand_in(std::unique_ptr<Arrival> arrival) {
    Arrival* item = arrival.release();
    Arrival* head = head_.load(std::memory_order_relaxed);
    do item->next = head == free_tag() ? nullptr : head;
    while (!head_.compare_exchange_weak(head, item, std::memory_order_acq_rel));
    return head == free_tag();
  }
  // Takes all arrivals, the newest first.
  template <class F>
  void take_all(F&& handle) {
    for (Arrival* list = head_.exchange(nullptr, std::memory_order_acq_rel); list;) {
      const std::unique_ptr<Arrival> arrival(std::exchange(list, list->next));
      handle(*arrival);
    }
  }
  // The owner gives the step up. False: something has arrived, and the owner stays.
  bool give_up() {
    Arrival* empty = nullptr;
    return head_.compare_exchange_strong(empty, free_tag(), std::memory_order_acq_rel);
  }
  bool has_owner() const { return head_.load(std::memory_order_relaxed) != free_tag(); }
  // Drops all arrivals; the inbox is empty and owned.
  void clear() {
    if (!head_.load(std::memory_order_acquire)) return;
    for (Arrival* item = head_.exchange(nullptr); item && item != free_tag();)
      delete std::exchange(item, item->next);
  }

 private:
  inline static const Arrival kFree{};  // only its address matters
  static Arrival* free_tag() { return const_cast<Arrival*>(&kFree); }

  std::atomic<Arrival*> head_{nullptr};
};

}  // namespace troupe
