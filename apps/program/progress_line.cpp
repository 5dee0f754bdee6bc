// Prints the line, at most every tenth of a second on a terminal and every second in a pipe.
#include "apps/program/progress_line.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

using namespace troupe;

namespace {

constexpr std::chrono::milliseconds kRedraw{100}, kNewLine{1000};

}  // namespace

ProgressLine::ProgressLine(std::string label)
    : label_(std::move(label)), terminal_(isatty(1)), begun_(std::chrono::steady_clock::now()) {}

bool ProgressLine::due(int64_t done, int64_t all) {
  const auto now = std::chrono::steady_clock::now();
  const bool last = done >= all && shown_step_ < all;
  if (!last && (shown_step_ == done || now - shown_ < (terminal_ ? kRedraw : kNewLine)))
    return false;
  shown_ = now;
  shown_step_ = done;
  return true;
}

void ProgressLine::print(const std::string& text) {
  std::printf("%s%s %s%s", terminal_ ? "\r\033[K" : "", label_.c_str(), text.c_str(),
              terminal_ ? "" : "\n");
  std::fflush(stdout);
  open_ = terminal_;
}

void ProgressLine::show(const TrainProgress& p, const std::string& more) {
  if (p.step == 0 || !due(p.step, p.steps)) return;  // there is no loss before the first step
  char loss[64], rate[96] = "";
  std::snprintf(loss, sizeof loss, "%.4f", p.loss);
  const double left = p.remaining.count();
  if (p.loss == 0 && left == 0 && p.step < p.steps) return;  // a resumed training begins
  if (p.examples_per_second > 0)
    std::snprintf(rate, sizeof rate, "%.0f examples/s", p.examples_per_second);
  else if (left > 0)  // batches by length have no fixed size
    std::snprintf(rate, sizeof rate, "%.3g steps/s", static_cast<double>(p.steps - p.step) / left);
  std::string all, eta;  // not known where the data end a training
  if (p.steps > 0) {
    all = detail::concat("/", p.steps);
    eta = detail::concat("  ETA ", std::llround(left), " s");
  }
  print(detail::concat("step ", p.step, all, "  loss ", loss, "  ", more, more.empty() ? "" : "  ",
                       rate, eta));
}

void ProgressLine::show(const char* unit, int64_t done, int64_t all, const std::string& more) {
  if (done == 0 || !due(done, all)) return;
  const double seconds = std::chrono::duration<double>(shown_ - begun_).count();
  const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
  char text[96];
  std::snprintf(text, sizeof text, "%.3g %s/s  ETA %.0f s", rate, unit,
                static_cast<double>(all - done) / rate);
  print(detail::concat(unit, " ", done, "/", all, "  ", more, more.empty() ? "" : "  ", text));
}

void ProgressLine::end() {
  if (std::exchange(open_, false)) std::printf("\n");
}
