// The text of fail points, the table of those that are armed, and their actions.
#include "graph/base/fail_point.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "graph/base/words.hpp"
#include "troupe/cluster.hpp"

namespace troupe {
namespace {

constexpr std::array<const char*, 5> kActions = {"none", "die", "sleep", "error", "drop"};
constexpr const char* kClients = "client";  // of any number: programs draw theirs
constexpr int64_t kSleepMaxMs = 3'600'000;

struct Armed {
  std::mutex mutex;                 // guards the rest
  std::optional<std::string> text;  // of set_fail_points()
  std::vector<std::string> tasks;   // that have begun
  FailTable table;
  FailHook::Reached hook;
};

Armed& armed() {
  static Armed& armed = *new Armed;  // never destroyed: other threads end later
  return armed;
}

std::vector<std::string> actions_of(const FailPointRow& row) {
  std::vector<std::string> out = {"die", "sleep:MILLISECONDS"};
  if (row.error != Errc::ok) out.emplace_back("error");
  if (row.drops) out.emplace_back("drop");
  return out;
}

// "/job:ps/task:1" as "ps1".
std::string short_name(const std::string& task) {
  const size_t job = task.find("/job:"), number = task.find("/task:");
  if (job == task.npos || number == task.npos) return task;
  return task.substr(job + 5, number - job - 5) + task.substr(number + 6);
}

bool is_client(const std::string& task) { return task.rfind("/job:client/", 0) == 0; }

// `before`: the tasks that have begun in the same operating system process.
bool is_for(const FailOrder& order, const std::string& task,
            const std::vector<std::string>& before) {
  if (order.process.empty()) return before.empty();
  if (order.process != kClients) return order.process == short_name(task);
  return is_client(task) && std::none_of(before.begin(), before.end(), is_client);
}

// The number behind this character, of which `text` keeps what stands before.
std::optional<int64_t> take_number(std::string& text, char before, const Error& bad) {
  const size_t at = text.rfind(before);
  if (at == text.npos) return std::nullopt;
  int64_t out = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + at + 1, end, out);
  if (error != std::errc{} || stop != end || out < 1) throw bad;
  text.resize(at);
  return out;
}

FailOrder order_of(const std::string& text) {
  const Error bad(Errc::invalid_argument, "\"", text, "\" is no fail point; say [PROCESS/]NAME=",
                  "ACTION[:MILLISECONDS][@FIRST][xTIMES], as ps1/shard.apply.before_ack=die@3");
  const size_t equals = text.find('=');
  if (equals == text.npos) throw bad;
  FailOrder out;
  std::string name = text.substr(0, equals), action = text.substr(equals + 1);
  if (const size_t border = name.find('/'); border != name.npos) {
    out.process = name.substr(0, border);
    name.erase(0, border + 1);
    if (out.process != kClients && out.process.find_first_of("0123456789") == out.process.npos)
      throw Error(Errc::invalid_argument, "\"", text,
                  "\": a process is a job and a number, such as ps1 or worker0, or client");
  }
  std::vector<std::string_view> names;
  for (const FailPointRow& row : kFailPoints) names.emplace_back(row.name);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    const std::string nearest = did_you_mean(name, names);
    throw Error(Errc::invalid_argument, "no fail point is called \"", name, "\"",
                nearest.empty() ? "; --failpoints list shows them" : nearest);
  }
  out.point = static_cast<FailPoint>(found - names.begin());
  // "drop" has no x in it, and no other action has.
  if (const auto times = take_number(action, 'x', bad)) out.times = *times;
  if (const auto first = take_number(action, '@', bad)) out.first = *first;
  if (const auto lasts = take_number(action, ':', bad))
    out.lasts = std::chrono::milliseconds(*lasts);
  const auto* const kind = std::find(kActions.begin() + 1, kActions.end(), action);
  if (kind == kActions.end()) throw bad;
  out.action = static_cast<FailAction>(kind - kActions.begin());
  const FailPointRow& row = kFailPoints[static_cast<size_t>(out.point)];
  if ((out.action == FailAction::error && row.error == Errc::ok) ||
      (out.action == FailAction::drop && !row.drops))
    throw Error(Errc::invalid_argument, "the fail point ", name, " has no action ", action,
                ", but ", listed(actions_of(row)));
  const bool sleeps = out.action == FailAction::sleep;
  if (sleeps != (out.lasts.count() > 0) || out.lasts.count() > kSleepMaxMs)
    throw Error(Errc::invalid_argument, "\"", text, "\": sleep alone wants 1 to ", kSleepMaxMs,
                " ms, as sleep:200");
  return out;
}

}  // namespace

std::vector<FailOrder> fail_orders(const std::string& text) {
  std::vector<FailOrder> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(order_of(text.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

FailTable::Act FailTable::reached(FailPoint point) {
  Act out;
  for (Entry& e : entries_) {
    if (e.order.point != point) continue;
    const int64_t since = ++e.reached - e.order.first;
    if (since < 0 || since >= e.order.times || out.action != FailAction::none) continue;
    out = {e.order.action, e.order.lasts};
  }
  return out;
}

uint64_t FailTable::points() const {
  uint64_t out = 0;
  for (const Entry& e : entries_) out |= uint64_t{1} << static_cast<int>(e.order.point);
  return out;
}

void set_fail_points(const std::string& text) {
  fail_orders(text);
  std::lock_guard lock(armed().mutex);
  armed().text = text;
}

std::string describe_fail_points() {
  std::string out;
  for (const FailPointRow& row : kFailPoints) {
    std::string name = row.name;
    name.resize(std::max<size_t>(name.size() + 1, 32), ' ');
    out += detail::concat(name, row.place, " (", listed(actions_of(row)), ")\n");
  }
  return out;
}

void arm_fail_points(const std::string& task) {
  Armed& a = armed();
  std::lock_guard lock(a.mutex);
  const char* const environment = std::getenv("TROUPE_FAILPOINTS");
  if (!a.text && !environment) return;
  const auto orders = fail_orders(a.text ? *a.text : environment);
  // A task may be that of several sessions of a program, one after the other.
  if (std::find(a.tasks.begin(), a.tasks.end(), task) != a.tasks.end()) return;
  for (const FailOrder& order : orders)
    if (is_for(order, task, a.tasks)) a.table.add(order);
  a.tasks.push_back(task);
  detail::armed_fail_points |= a.table.points();
}

bool detail::reach_fail_point(FailPoint point) {
  FailTable::Act act;
  FailHook::Reached hook;
  {
    std::lock_guard lock(armed().mutex);
    hook = armed().hook;
    if (!hook) act = armed().table.reached(point);
  }
  if (hook) act = hook(point);
  switch (act.action) {
    case FailAction::none:
      return false;
    case FailAction::die:
      ::kill(::getpid(), SIGKILL);
      return false;
    case FailAction::sleep:
      std::this_thread::sleep_for(act.lasts);
      return false;
    case FailAction::error: {
      const FailPointRow& row = kFailPoints[static_cast<size_t>(point)];
      throw Error(row.error, "the fail point ", row.name, " was told to fail");
    }
    case FailAction::drop:
      return true;
  }
  return false;
}

FailHook::FailHook(Reached reached) : armed_before_(~uint64_t{0}) {
  std::lock_guard lock(armed().mutex);
  before_ = std::exchange(armed().hook, std::move(reached));
  armed_before_ = detail::armed_fail_points.exchange(armed_before_);
}

FailHook::~FailHook() {
  std::lock_guard lock(armed().mutex);
  armed().hook = std::move(before_);
  detail::armed_fail_points = armed_before_;
}

}  // namespace troupe
