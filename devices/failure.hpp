// The border between kernels and threads: an exception of a kernel becomes a value, for a receiver
// on another thread.
// Owner: the caller, by value. Thread: any.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "troupe/graph.hpp"

namespace troupe {

struct Failure {
  Errc code = Errc::ok;  // ok: no exception
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

// The failure in `node`: its name and the line that made it, then the text, unless that has them
// already. Errors of memory and of the system do not know the node.
inline std::string failed_in(const Node& node, const std::string& text) {
  const std::string who = describe(node);
  return text.find(who) == text.npos ? who + ": " + text : text;
}

}  // namespace troupe
