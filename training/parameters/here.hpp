// Here: sends a message to an actor of this process and, if the actor is idle, runs it on the
// sender's thread for this one message. For short work, where waking another thread and being woken
// by the answer takes longer. An actor that another thread is running stays with that thread, which
// handles the message later; so an actor still does one thing at a time.
// Owner: the caller, on its stack. Thread: the caller's.
#pragma once

#include <utility>

#include <caf/all.hpp>

namespace troupe {

class Here final : public caf::scoped_execution_unit {
 public:
  explicit Here(caf::actor_system& system) : scoped_execution_unit(&system) {}

  // Requires: the caller holds no lock that the actor or a receiver of its answers takes.
  void send(const caf::actor& to, const caf::actor& from, caf::message message) {
    takes_ = true;
    to->enqueue(caf::actor_cast<caf::strong_actor_ptr>(from), caf::make_message_id(),
                std::move(message), this);
    takes_ = false;
    if (!ready_) return;
    // CAF hands over a reference together with an actor that became ready.
    if (ready_->resume(this, /*max_throughput=*/1) == caf::resumable::resume_later)
      system().scheduler().enqueue(ready_);
    else
      caf::intrusive_ptr_release(ready_);
  }

  // Actors that this actor makes ready go to the scheduler.
  void exec_later(caf::resumable* ptr) override {
    if (std::exchange(takes_, false))
      ready_ = ptr;
    else
      scoped_execution_unit::exec_later(ptr);
  }

 private:
  bool takes_ = false;
  caf::resumable* ready_ = nullptr;
};

}  // namespace troupe
