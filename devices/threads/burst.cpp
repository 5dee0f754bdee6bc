// The list of deferred work of each thread.
#include "devices/threads/burst.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe {
namespace {

struct PutOff {
  int open = 0;  // number of nested bursts
  std::vector<std::pair<const void*, Burst::Work>> work;
};

PutOff& put_off_here() {
  static thread_local PutOff out;
  return out;
}

}  // namespace

Burst::Burst() { ++put_off_here().open; }

Burst::~Burst() {
  finish();
  --put_off_here().open;
}

void Burst::put_off(const void* key, Work work) {
  PutOff& here = put_off_here();
  if (here.open == 0) return work();
  if (std::any_of(here.work.begin(), here.work.end(),
                  [key](const auto& other) { return other.first == key; }))
    return;
  if (here.work.size() >= kPutOffMax) finish();
  here.work.emplace_back(key, std::move(work));
}

void Burst::finish() {
  PutOff& here = put_off_here();
  while (!here.work.empty())
    for (auto& [key, work] : std::exchange(here.work, {})) work();
}

}  // namespace troupe
