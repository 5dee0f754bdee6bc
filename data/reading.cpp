// The Reading of each thread.
#include "data/reading.hpp"

#include <utility>

#include "troupe/error.hpp"

namespace troupe {
namespace {

thread_local Reading* current = nullptr;

}  // namespace

Reading::Scope::Scope(Reading& reading) : before_(std::exchange(current, &reading)) {}
Reading::Scope::~Scope() { current = before_; }

void Reading::touch() { last_ = Clock::now().time_since_epoch().count(); }

void Reading::moved() {
  if (!current) return;
  if (current->stopped()) throw Error(Errc::cancelled, "the source is not read any more");
  current->touch();
}

}  // namespace troupe
