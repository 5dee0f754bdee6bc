// Reads the silence of a process's peers from the environment.
#include "net/link/liveness.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace troupe {

std::chrono::milliseconds read_silence(std::chrono::milliseconds given) {
  const char* const named = std::getenv(kSilenceVariable);
  const bool asks = given.count() == 0 && named;
  double seconds = static_cast<double>(given.count()) / 1000;
  if (asks) {
    const std::string_view text = named;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size()) seconds = -1;
  } else if (given.count() == 0) {
    return kSilence;
  }
  constexpr double least = std::chrono::duration<double>(kSilenceLeast).count(),
                   most = std::chrono::duration<double>(kSilenceMost).count();
  if (!(seconds >= least && seconds <= most))
    throw Error(Errc::bad_configuration, asks ? kSilenceVariable : "the silence of a peer",
                " wants ", least, " to ", most, " s, got ",
                asks ? detail::concat("\"", named, "\"") : detail::concat(seconds));
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace troupe
