// Names and exit codes of errors. Logs and the wire use the names, so they never change.
#include "troupe/error.hpp"

#include <charconv>

namespace troupe {
namespace {

template <class T>
std::string shortest(T number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number, std::chars_format::general).ptr};
}

}  // namespace

std::string detail::exact(float number) { return shortest(number); }
std::string detail::exact(double number) { return shortest(number); }

const char* to_string(Errc code) {
  switch (code) {
    case Errc::ok:
      return "ok";
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::bad_data:
      return "bad_data";
    case Errc::bad_configuration:
      return "bad_configuration";
    case Errc::peer_lost:
      return "peer_lost";
    case Errc::timeout:
      return "timeout";
    case Errc::cancelled:
      return "cancelled";
    case Errc::out_of_memory:
      return "out_of_memory";
    case Errc::stale:
      return "stale";
    case Errc::io:
      return "io";
    case Errc::kernel_failed:
      return "kernel_failed";
    case Errc::internal:
      return "internal";
    case Errc::end_of_data:
      return "end_of_data";
    case Errc::device_lost:
      return "device_lost";
  }
  return "unknown";  // a code from a newer peer
}

// sysexits.h of BSD: EX_USAGE 64, EX_DATAERR 65, EX_UNAVAILABLE 69, EX_SOFTWARE 70, EX_IOERR 74,
// EX_CONFIG 78.
int exit_code(Errc code) {
  switch (code) {
    case Errc::ok:
      return 0;
    case Errc::invalid_argument:
      return 64;
    case Errc::bad_data:
    case Errc::end_of_data:
      return 65;
    case Errc::peer_lost:
    case Errc::timeout:
    case Errc::cancelled:
    case Errc::stale:
    case Errc::device_lost:
      return 69;
    case Errc::out_of_memory:
    case Errc::kernel_failed:
    case Errc::internal:
      return 70;
    case Errc::io:
      return 74;
    case Errc::bad_configuration:
      return 78;
  }
  return 70;
}

}  // namespace troupe
