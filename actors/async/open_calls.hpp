// OpenCalls: calls that are not answered yet. Each is answered once: by the callee, or by end().
// Owner: the callee; answers outlive it. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "actors/async/when_all.hpp"

namespace troupe {

class OpenCalls {
 public:
  // Returns the function that the callee calls in place of `done`; late answers are dropped. After
  // end() `done` is called at once, with its reason.
  WhenDone add(WhenDone done) {
    uint64_t number = 0;
    Errc code = Errc::ok;
    std::string text;
    {
      std::lock_guard lock(open_->mutex);
      number = open_->next++;
      code = open_->ended, text = open_->reason;
      if (code == Errc::ok) open_->calls[number] = std::exchange(done, nullptr);
    }
    if (done) done(code, text);
    return [open = open_, number](Errc code, const std::string& text) {
      WhenDone answer;
      {
        std::lock_guard lock(open->mutex);
        const auto call = open->calls.find(number);
        if (call == open->calls.end()) return;
        answer = std::move(call->second);
        open->calls.erase(call);
      }
      answer(code, text);
    };
  }

  // Ends all open and all later calls with that reason. Only the first end() counts.
  void end(Errc code, const std::string& text) {
    std::map<uint64_t, WhenDone> calls;
    {
      std::lock_guard lock(open_->mutex);
      if (open_->ended != Errc::ok) return;
      open_->ended = code;
      open_->reason = text;
      calls.swap(open_->calls);
    }
    for (const auto& [number, done] : calls) done(code, text);
  }

 private:
  struct Open {
    std::mutex mutex;  // guards the rest
    std::map<uint64_t, WhenDone> calls;
    uint64_t next = 0;
    Errc ended = Errc::ok;
    std::string reason;
  };
  const std::shared_ptr<Open> open_ = std::make_shared<Open>();
};

}  // namespace troupe
