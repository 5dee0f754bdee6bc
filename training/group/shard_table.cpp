// Lays parameters out over shards and tells the routes to them.
#include "training/group/shard_table.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace troupe {

std::vector<int32_t> ShardTable::add(const std::vector<ParameterSpec>& parameters, int count) {
  TROUPE_CHECK(!tasks.empty(), "shards want tasks to live on");
  if (count <= 0) count = static_cast<int>(tasks.size());
  const int32_t base = shards.empty() ? 0 : shards.rbegin()->first + 1;
  std::set<int32_t> made;
  for (Slice slice : split_parameters(parameters, count, next_slice_)) {
    next_slice_ = std::max(next_slice_, slice.id + 1);
    slice.shard += base;
    Entry& entry = shards[slice.shard];
    entry.task = tasks[static_cast<size_t>(slice.shard) % tasks.size()];
    made.insert(slice.shard);
    entry.slices.push_back(std::move(slice));
  }
  return {made.begin(), made.end()};
}

void ShardTable::use(const std::vector<int32_t>& numbers) {
  for (int32_t shard : numbers) shards.at(shard).usable = true;
}

bool ShardTable::usable(const std::vector<int32_t>& numbers) const {
  return std::all_of(numbers.begin(), numbers.end(),
                     [&](int32_t shard) { return shards.at(shard).usable; });
}

std::vector<int32_t> ShardTable::numbers() const {
  std::vector<int32_t> out;
  for (const auto& [number, entry] : shards)
    if (entry.usable) out.push_back(number);
  return out;
}

bool ShardTable::lives_on(const std::string& task) const {
  return std::any_of(shards.begin(), shards.end(),
                     [&](const auto& s) { return s.second.usable && s.second.task == task; });
}

RouteParameters ShardTable::routes(uint64_t session) const {
  std::vector<std::pair<const Slice*, const Entry*>> slices;
  for (const auto& [number, entry] : shards)
    if (entry.usable)
      for (const Slice& slice : entry.slices) slices.emplace_back(&slice, &entry);
  std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first->parameter, a.first->offset) <
           std::tie(b.first->parameter, b.first->offset);
  });
  RouteParameters m;
  m.session = session;
  m.epoch = epoch;
  m.compression = compression;
  for (const auto& [slice, entry] : slices) {
    m.slices.push_back(to_spec(*slice));
    m.tasks.push_back(entry->task);
    m.doors.push_back(entry->door);
  }
  return m;
}

}  // namespace troupe
