// SeedRun: one run of the world of a seed, or two, since one seed gives one history (I23).
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "chaos/history.hpp"

namespace troupe::sim {

inline constexpr const char* kError = "error";  // stands for an exception that is no invariant's

// The invariant that a run breaks, if it does.
inline std::optional<Violation> broken_in(const std::function<void()>& run) {
  try {
    run();
  } catch (const Violation& v) {
    return v;
  } catch (const std::exception& e) {
    return Violation{kError, e.what()};
  }
  return std::nullopt;
}

class SeedRun {
 public:
  using World = std::function<void(History&)>;

  // `keep_all`: the histories keep all lines.
  explicit SeedRun(bool keep_all = false) : first(keep_all), second(keep_all) {}

  // `twice`: checks I23.
  std::optional<Violation> run(const World& world, bool twice) {
    std::optional<Violation> broken = broken_in([&] { world(first); });
    if (broken || !twice) return broken;
    broken = broken_in([&] { world(second); });
    second_is_broken_ = broken.has_value();
    if (!broken && first.hash() != second.hash())
      broken = Violation{"I23", "two runs of this seed differ"};
    return broken;
  }
  // That of the run that broke an invariant.
  const History& history() const { return second_is_broken_ ? second : first; }

  History first, second;

 private:
  bool second_is_broken_ = false;
};

}  // namespace troupe::sim
