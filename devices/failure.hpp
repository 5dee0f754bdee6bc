// The border between kernels and threads: what a kernel throws becomes a value, for whoever waits
// elsewhere.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "troupe/error.hpp"

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

}  // namespace troupe
