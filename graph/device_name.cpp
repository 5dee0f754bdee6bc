// Device names: reading, writing and comparing them. Plain functions of text.

#include <algorithm>
#include <charconv>

#include "graph/base/words.hpp"
#include "graph/device_name.hpp"

namespace troupe {
namespace {

template <class... Parts>
Error bad_name(std::string_view text, const Parts&... parts) {
  return Error(Errc::invalid_argument, "device name \"", text, "\": ", detail::concat(parts...),
               "; write it like /job:worker/task:0/device:cpu:0, in full or in part");
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

int64_t parse_number(std::string_view text, std::string_view part, std::string_view digits) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    throw bad_name(text, part, " wants a number from 0, got \"", digits, "\"");
  return number;
}

DeviceKind parse_kind(std::string_view text, std::string_view word) {
  const std::string kind = lower(word);
  if (kind == "gpu") return DeviceKind::cuda;
  for (DeviceKind k : {DeviceKind::cpu, DeviceKind::shadow, DeviceKind::cuda})
    if (kind == to_string(k)) return k;
  throw bad_name(text, "no device kind is called \"", word, "\"; there are cpu, shadow and cuda");
}

bool is_job_name(std::string_view job) {
  return !job.empty() && std::all_of(job.begin(), job.end(),
                                     [](char c) { return is_word_character(c) || c == '-'; });
}

template <class T>
void set_once(std::string_view text, std::string_view part, std::optional<T>& field, T value) {
  if (field) throw bad_name(text, part, " is given twice");
  field = std::move(value);
}

// One "key:value" between two slashes.
void parse_part(std::string_view text, std::string_view part, DeviceName& name) {
  const size_t colon = part.find(':');
  const std::string_view key = part.substr(0, colon);
  const std::string_view value = colon == part.npos ? std::string_view() : part.substr(colon + 1);
  if (key == "job") {
    if (!is_job_name(value))
      throw bad_name(text, "a job is letters, digits, _ and -, got \"", value, "\"");
    set_once(text, key, name.job, std::string(value));
  } else if (key == "task") {
    set_once(text, key, name.task, parse_number(text, key, value));
  } else if (key == "device") {
    const size_t second = value.find(':');
    set_once(text, key, name.kind, parse_kind(text, value.substr(0, second)));
    if (second != value.npos) name.index = parse_number(text, key, value.substr(second + 1));
  } else {
    throw bad_name(text, "does not know \"", part, "\"");
  }
}

}  // namespace

bool DeviceName::matches(const DeviceName& full) const {
  return (!job || job == full.job) && (!task || task == full.task) &&
         (!kind || kind == full.kind) && (!index || index == full.index);
}

DeviceName parse_device_name(std::string_view text) {
  DeviceName name;
  if (text.empty()) return name;
  if (text.front() != '/') throw bad_name(text, "begins without a slash");
  std::string_view rest = text.substr(1);
  for (;;) {
    const size_t slash = rest.find('/');
    parse_part(text, rest.substr(0, slash), name);
    if (slash == rest.npos) return name;
    rest = rest.substr(slash + 1);
  }
}

std::string to_string(const DeviceName& name) {
  std::string text;
  if (name.job) text += "/job:" + *name.job;
  if (name.task) text += detail::concat("/task:", *name.task);
  if (name.kind) text += std::string("/device:") + to_string(*name.kind);
  if (name.kind && name.index) text += detail::concat(":", *name.index);
  return text;
}

DeviceName merge(const DeviceName& name, const DeviceName& fallback) {
  DeviceName merged = name;
  if (!merged.job) merged.job = fallback.job;
  if (!merged.task && (!fallback.job || merged.job == fallback.job)) merged.task = fallback.task;
  if (!merged.kind) merged.kind = fallback.kind;
  if (!merged.index && merged.kind == fallback.kind) merged.index = fallback.index;
  return merged;
}

}  // namespace troupe
