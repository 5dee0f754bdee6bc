// Finds the files of checkpoints in a folder, and removes them.
#include "training/checkpoints/checkpoint_files.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

namespace troupe {
namespace {

bool read_number(std::string_view& text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out < 0) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}
bool skip(std::string_view& text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text.remove_prefix(word.size());
  return true;
}

std::string stem(int64_t generation, int64_t step) {
  char text[64];
  std::snprintf(text, sizeof text, "%06lld-step%lld", static_cast<long long>(generation),
                static_cast<long long>(step));
  return text;
}

bool can_be_used(Disk& disk, const std::string& dir, const CheckpointName& parsed,
                 const std::string& name, const std::vector<std::string>& names) {
  try {
    read_whole_checkpoint(disk, dir, parsed, name, names, /*read_files=*/false);
    return true;
  } catch (const Error&) {  // find_newest() reports it to the program that resumes
    return false;
  }
}

// Removes files one by one. One that stays does not keep the others from going.
class Removal {
 public:
  Removal(Disk& disk, const std::string& dir) : disk_(disk), dir_(dir) {}
  bool remove(const std::string& name) {
    try {
      disk_.remove(dir_ + "/" + name);
      return true;
    } catch (const Error& e) {
      stayed.emplace_back(e.what());
      return false;
    }
  }
  std::vector<std::string> stayed;  // a line for each file, why

 private:
  Disk& disk_;
  const std::string dir_;
};

}  // namespace

std::optional<CheckpointName> parse_checkpoint_name(std::string_view name) {
  CheckpointName out;
  const std::string_view temp = AtomicFile::kTempSuffix;
  if (name.size() > temp.size() && name.substr(name.size() - temp.size()) == temp) {
    out.temp = true;
    name.remove_suffix(temp.size());
    const size_t dot = name.rfind('.');
    if (dot != name.npos && name.find_first_not_of("0123456789abcdef-", dot + 1) == name.npos)
      name.remove_suffix(name.size() - dot);  // the writer's Disk::unique()
  }
  int64_t shard = 0, count = 0;
  if (!read_number(name, out.generation) || !skip(name, "-step") || !read_number(name, out.step))
    return std::nullopt;
  out.manifest = name == ".manifest.json";
  if (out.manifest) return out;
  const bool good = skip(name, ".shard-") && read_number(name, shard) && skip(name, "-of-") &&
                    read_number(name, count) && name == ".safetensors";
  return good ? std::optional(out) : std::nullopt;
}

std::vector<std::pair<CheckpointName, std::string>> manifests_among(
    const std::vector<std::string>& names) {
  std::vector<std::pair<CheckpointName, std::string>> out;
  for (const std::string& name : names)
    if (const auto parsed = parse_checkpoint_name(name);
        parsed && parsed->manifest && !parsed->temp)
      out.emplace_back(*parsed, name);
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.first.generation > b.first.generation; });
  return out;
}

std::string manifest_name(int64_t generation, int64_t step) {
  return stem(generation, step) + ".manifest.json";
}

std::string shard_file_name(int64_t generation, int64_t step, int32_t shard, int32_t shard_count) {
  return detail::concat(stem(generation, step), ".shard-", shard, "-of-", shard_count,
                        ".safetensors");
}

int64_t next_generation(Disk& disk, const std::string& dir) {
  disk.make_dirs(dir);
  int64_t newest = 0;
  for (const std::string& name : disk.list(dir))
    if (const auto parsed = parse_checkpoint_name(name))
      newest = std::max(newest, parsed->generation);
  if (newest == INT64_MAX)
    throw Error(Errc::bad_data, dir, " has a file of generation ", newest,
                ", after which there is none; no checkpoint of ours is called so: remove it");
  return newest + 1;
}

std::vector<std::string> prune_checkpoints(Disk& disk, const std::string& dir, int keep) {
  const std::vector<std::string> names = disk.list(dir);
  const auto all = manifests_among(names);
  if (all.empty()) return {};
  const auto [newest, reached] = std::pair(all.front().first.generation, all.front().first.step);
  std::set<int64_t> kept;
  int whole = 0;
  for (const auto& [parsed, name] : all) {
    if (whole >= std::max(keep, 1)) break;
    kept.insert(parsed.generation);
    whole += can_be_used(disk, dir, parsed, name, names);
  }
  for (const auto& [parsed, name] : all)
    if (parsed.step > reached) kept.insert(parsed.generation);
  Removal removal(disk, dir);
  bool removed = false;
  for (const auto& [parsed, name] : all) {  // a manifest never outlives its files
    if (kept.count(parsed.generation)) continue;
    if (removal.remove(name))
      removed = true;
    else
      kept.insert(parsed.generation);
  }
  if (removed) disk.sync_dir(dir);
  for (const std::string& name : names) {
    const auto parsed = parse_checkpoint_name(name);
    if (!parsed || parsed->generation > newest) continue;  // not ours, or being written
    if (!kept.count(parsed->generation) || parsed->temp) removal.remove(name);
  }
  return removal.stayed;
}

std::vector<std::string> remove_leftovers(Disk& disk, const std::string& dir) {
  const std::vector<std::string> names = disk.list(dir);
  std::set<int64_t> committed;
  for (const auto& [parsed, name] : manifests_among(names)) committed.insert(parsed.generation);
  Removal removal(disk, dir);
  for (const std::string& name : names)
    if (const auto parsed = parse_checkpoint_name(name);
        parsed && (parsed->temp || !committed.count(parsed->generation)))
      removal.remove(name);
  return removal.stayed;
}

std::vector<std::string> discard_checkpoint(Disk& disk, const std::string& dir,
                                            int64_t generation) {
  const std::vector<std::string> names = disk.list(dir);
  const auto each = [&](bool manifest, const auto& what) {
    for (const std::string& name : names)
      if (const auto parsed = parse_checkpoint_name(name);
          parsed && parsed->generation == generation &&
          manifest == (parsed->manifest && !parsed->temp))
        what(name);
  };
  Removal removal(disk, dir);
  bool removed = false;
  each(true, [&](const std::string& name) { removed |= removal.remove(name); });
  if (removed) disk.sync_dir(dir);
  if (!removal.stayed.empty()) return removal.stayed;  // a manifest never outlives its files
  each(false, [&](const std::string& name) { removal.remove(name); });
  return removal.stayed;
}

std::optional<std::string> newest_manifest_name(Disk& disk, const std::string& dir) {
  const auto all = manifests_among(disk.list(dir));
  return all.empty() ? std::nullopt : std::optional(all.front().second);
}

std::optional<Manifest> find_newest(Disk& disk, const std::string& dir,
                                    std::vector<std::string>& warnings, bool read_files) {
  const std::vector<std::string> names = disk.list(dir);
  for (const auto& [parsed, name] : manifests_among(names)) {
    try {
      return read_whole_checkpoint(disk, dir, parsed, name, names, read_files);
    } catch (const Error& e) {  // the one place where a damaged checkpoint becomes a warning
      if (e.code() == Errc::bad_configuration || e.code() == Errc::io) throw;
      warnings.push_back(detail::concat("the checkpoint of step ", parsed.step,
                                        " cannot be used, trying the one before: ", e.what()));
    }
  }
  return std::nullopt;
}

}  // namespace troupe
