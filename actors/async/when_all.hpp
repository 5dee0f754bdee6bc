// when_all(): the common end of several requests.
// Owner: none, a plain function; the requests' callbacks share the state. Thread: one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "troupe/error.hpp"

namespace troupe {

// Called once with the end of a request.
using WhenDone = std::function<void(Errc, const std::string& text)>;

// Returns the function that each of `count` requests calls at its end. The last one calls `done`,
// with the first failure or ok. Without requests, `done` is called at once.
inline WhenDone when_all(size_t count, WhenDone done) {
  struct Open {
    size_t count;
    WhenDone done;
    Errc code = Errc::ok;
    std::string text = {};
  };
  if (count == 0) {
    done(Errc::ok, {});
    return {};
  }
  return [open = std::make_shared<Open>(Open{count, std::move(done)})](Errc code,
                                                                       const std::string& text) {
    if (code != Errc::ok && open->code == Errc::ok) open->code = code, open->text = text;
    if (--open->count == 0) open->done(open->code, open->text);
  };
}

}  // namespace troupe
