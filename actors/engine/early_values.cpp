// EarlyValues: by run, the oldest run first to go.
#include "actors/engine/early_values.hpp"

#include <algorithm>

namespace troupe {
namespace {

int64_t bytes_of(const Deliver& value) {
  return value.value.defined() ? value.value.byte_size() : 0;
}

}  // namespace

int64_t EarlyValues::add(Deliver value, const std::string& receiver) {
  const int64_t run = value.key.run;
  const int64_t forgotten = make_room(run);
  Entry& entry = entries_[run];
  if (entry.ended.code != Errc::ok) return forgotten;
  for (const Deliver& other : entry.values)
    if (other.key.edge == value.key.edge && other.key.iteration == value.key.iteration)
      return forgotten;  // the sender repeated itself
  const int64_t bytes = bytes_of(value);
  if (values_ >= limits_.values || bytes > limits_.bytes - bytes_) {
    drop_values(entry);
    entry.ended = {
        Errc::out_of_memory,
        detail::concat("a value for node ", receiver, " came before its step began, and ", values_,
                       " values of ", bytes_, " bytes were waiting already; at most ",
                       limits_.values, " of ", limits_.bytes, " may: run fewer steps at a time")};
    return forgotten;
  }
  ++values_;
  bytes_ += bytes;
  entry.values.push_back(std::move(value));
  return forgotten;
}

int64_t EarlyValues::end(int64_t run, StepResult reason) {
  const int64_t forgotten = make_room(run);
  Entry& entry = entries_[run];
  drop_values(entry);
  if (entry.ended.code == Errc::ok) entry.ended = std::move(reason);
  return forgotten;
}

EarlyValues::Entry EarlyValues::take(int64_t run) {
  auto it = entries_.find(run);
  if (it == entries_.end()) return {};
  Entry out = std::move(it->second);
  for (const Deliver& value : out.values) bytes_ -= bytes_of(value);
  values_ -= out.values.size();
  entries_.erase(it);
  return out;
}

void EarlyValues::forget_before(int64_t run) {
  while (!entries_.empty() && entries_.begin()->first < run) erase(entries_.begin());
}

int64_t EarlyValues::make_room(int64_t run) {
  if (entries_.size() < limits_.runs || entries_.count(run)) return -1;
  const int64_t oldest = entries_.begin()->first;
  erase(entries_.begin());
  return oldest;
}

void EarlyValues::drop_values(Entry& entry) {
  for (const Deliver& value : entry.values) bytes_ -= bytes_of(value);
  values_ -= entry.values.size();
  entry.values.clear();
}

EarlyValues::Entries::iterator EarlyValues::erase(Entries::iterator it) {
  drop_values(it->second);
  return entries_.erase(it);
}

}  // namespace troupe
