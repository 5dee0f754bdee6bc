// The border between exceptions and actors: an exception in a handler becomes an error value for
// the actor that asked.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <exception>
#include <new>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"

namespace troupe {

inline caf::error error_of(const std::exception& e) {
  if (const auto* ours = dynamic_cast<const Error*>(&e)) return to_caf(ours->code(), ours->what());
  if (dynamic_cast<const std::bad_alloc*>(&e))
    return to_caf(Errc::out_of_memory, "the system refused memory");
  return to_caf(Errc::internal, e.what());
}

// For set_exception_handler: the reason with which an actor dies.
inline caf::error to_error(caf::scheduled_actor*, std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return error_of(e);
  } catch (...) {
    return to_caf(Errc::internal, "something that is not a std::exception was thrown");
  }
}

// Runs a handler; an exception goes to the asking actor and does not end this one.
template <class F>
auto answer(F&& handler) -> caf::result<decltype(handler())> {
  try {
    return handler();
  } catch (const std::exception& e) {
    return error_of(e);
  }
}

}  // namespace troupe
