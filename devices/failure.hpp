// The border between kernels and threads: what a kernel throws becomes a value, for whoever waits
// elsewhere.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "troupe/graph.hpp"

namespace troupe {

struct Failure {
  Errc code = Errc::ok;  // ok: nothing was thrown
  std::string text;
};

template <class F>
Failure failure_of(F&& work) {
  try {
    work();
    return {};
  } catch (const Error& e) {
    return {e.code(), e.what()};
  } catch (const std::bad_alloc&) {
    return {Errc::out_of_memory, "the system refused memory"};
  } catch (const std::exception& e) {
    return {Errc::kernel_failed, e.what()};
  } catch (...) {
    return {Errc::kernel_failed, "something that is not a std::exception was thrown"};
  }
}

// What failed in `node`, behind its name and the line that made it, unless the text says them:
// memory and the system do not know for whom they refuse.
inline std::string failed_in(const Node& node, const std::string& text) {
  const std::string who = describe(node);
  return text.find(who) == text.npos ? who + ": " + text : text;
}

}  // namespace troupe
