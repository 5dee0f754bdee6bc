// Here: sends a message to an actor of this process and, if that has nothing else to do, runs it on
// the sender's thread, for this one message: for short work, where waking another thread and being
// woken by the answer takes longer. An actor that another thread runs at the moment is left to it,
// and comes to the message there; so an actor still does one thing at a time.
#pragma once

#include <utility>

#include <caf/all.hpp>

namespace troupe {

class Here final : public caf::scoped_execution_unit {
 public:
  explicit Here(caf::actor_system& system) : scoped_execution_unit(&system) {}

  // Requires: no lock is held that the actor takes, or whoever it answers.
  void send(const caf::actor& to, const caf::actor& from, caf::message message) {
    takes_ = true;
    to->enqueue(caf::actor_cast<caf::strong_actor_ptr>(from), caf::make_message_id(),
                std::move(message), this);
    takes_ = false;
    if (!ready_) return;
    // Who makes an actor ready hands a reference over with it.
    if (ready_->resume(this, /*max_throughput=*/1) == caf::resumable::resume_later)
      system().scheduler().enqueue(ready_);
    else
      caf::intrusive_ptr_release(ready_);
  }

  // What that actor makes ready is for lanes.
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
