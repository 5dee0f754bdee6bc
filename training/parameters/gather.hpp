// Gather: the common end of several requests: calls `done` once when all have ended, with the first
// failure or ok.
// Owner: the requests' callbacks share one. Thread: one at a time.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "troupe/error.hpp"

namespace troupe {

class Gather {
 public:
  using Done = std::function<void(Errc, const std::string& text)>;

  // Without open requests it ends at once.
  Gather(size_t open, Done done) : open_(open), done_(std::move(done)) {
    if (open_ == 0) done_(Errc::ok, {});
  }
  void one(Errc code, const std::string& text) {
    if (code != Errc::ok && code_ == Errc::ok) code_ = code, text_ = text;
    if (--open_ == 0) done_(code_, text_);
  }

 private:
  size_t open_;
  Done done_;
  Errc code_ = Errc::ok;
  std::string text_;
};

}  // namespace troupe
