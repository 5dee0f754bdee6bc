// Errors: an error code, an exception, a check, and the source line that messages name. Implemented
// in graph/base/error.cpp.
//
// A caller's mistake is thrown as `Error` while the graph is built or prepared. An external failure
// (a lost peer, a full disk) is a value inside the library and becomes an `Error` at the API. A bug
// of the library is an `InternalError`.
#pragma once

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace troupe {

// Error codes, grouped by what a person can do about the error. The wire and the logs carry them;
// zero is no error.
enum class Errc : uint8_t {
  ok = 0,
  invalid_argument,   // the call is wrong: shapes, dtypes, names, flags
  bad_data,           // a file or record is malformed
  bad_configuration,  // cluster spec, versions, devices or a checkpoint that do not fit together
  peer_lost,          // a process that was needed died or cannot be reached
  timeout,            // a deadline passed
  cancelled,          // the caller cancelled the request
  out_of_memory,      // a device budget or a byte credit is used up
  stale,              // an old epoch, incarnation, step or sequence; the sender must catch up
  io,                 // the operating system refused a file or a socket
  kernel_failed,      // a kernel threw more often than its restart intensity allows
  internal,           // a bug of the library
  end_of_data,        // the source has ended: a closed queue has no more elements
  device_lost,        // a device does no work any more; its process has to begin anew
};

// The name used in logs and messages, e.g. "peer_lost".
const char* to_string(Errc code);

// The process exit code for an error (sysexits.h): 64 usage, 65 data, 69 peer, 70 internal, 74 I/O,
// 78 configuration.
int exit_code(Errc code);

namespace detail {
// The shortest decimals that read back as this number.
std::string exact(float number);
std::string exact(double number);

template <class Part>
void put(std::ostream& out, const Part& part) {
  if constexpr (std::is_floating_point_v<Part>)
    out << exact(part);
  else
    out << part;
}

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out << std::boolalpha;
  (put(out, parts), ...);
  return out.str();
}
}  // namespace detail

// The message says what failed, where, and what would be right. The parts are concatenated.
class Error : public std::runtime_error {
 public:
  template <class... Parts>
  explicit Error(Errc code, const Parts&... parts)
      : std::runtime_error(detail::concat(parts...)), code_(code) {}
  Errc code() const { return code_; }

 private:
  Errc code_;
};

// The line of the user's program that made a node, a shape or a tensor; error messages name it. As
// a default argument, here() gives the caller's line.
struct Origin {
  const char* file = "";
  int line = 0;
  static constexpr Origin here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// A broken invariant of the library itself.
class InternalError : public Error {
 public:
  template <class... Parts>
  explicit InternalError(const Parts&... parts) : Error(Errc::internal, parts...) {}
};

}  // namespace troupe

// Checked in release builds, too. TROUPE_CHECK(n > 0, "wants a positive size, got ", n);
#define TROUPE_CHECK(condition, ...)                                                             \
  do {                                                                                           \
    if (!(condition)) [[unlikely]]                                                               \
      throw ::troupe::InternalError(__FILE__, ":", __LINE__, ": check failed: " #condition ": ", \
                                    __VA_ARGS__);                                                \
  } while (false)
