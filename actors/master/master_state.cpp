// The decisions of the master: installs, reinstalls and failures; and its text form.
#include "actors/master/master_state.hpp"

#include <algorithm>
#include <sstream>

#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"

namespace troupe {

bool ExecutableState::ready() const {
  return error.empty() && std::all_of(tasks.begin(), tasks.end(), [](const auto& t) {
           return t.second == InstallPhase::ready;
         });
}

bool MasterState::is_up(const std::string& task) const {
  if (task == client_task_) return true;
  auto it = members_.find(task);
  return it != members_.end() && it->second.up;
}

const ExecutableState* MasterState::find(uint32_t executable) const {
  for (const auto& [id, call] : calls_)
    if (call.executable == executable) return &call;
  return nullptr;
}

std::vector<std::string> MasterState::missing_tasks(int64_t id) const {
  std::vector<std::string> out;
  if (auto it = calls_.find(id); it != calls_.end())
    for (const auto& [task, phase] : it->second.tasks)
      if (!is_up(task)) out.push_back(task);
  return out;
}

std::vector<std::string> MasterState::awaited_tasks(int64_t id) const {
  std::vector<std::string> out = missing_tasks(id);
  const auto it = calls_.find(id);
  if (!out.empty() || it == calls_.end()) return out;
  for (const auto& [task, phase] : it->second.tasks)
    if (phase != InstallPhase::installed && phase != InstallPhase::ready) out.push_back(task);
  return out;
}

MasterOrders MasterState::member_up(const std::string& task, uint64_t incarnation) {
  MasterOrders out;
  MemberState& member = members_[task];
  if (member.up && member.incarnation == incarnation) return out;
  member = {task, incarnation, true};
  for (auto& [id, call] : calls_)
    if (call.error.empty() && call.tasks.count(task)) reinstall(call, out);
  return out;
}

MasterOrders MasterState::member_down(const std::string& task, const std::string& reason) {
  MasterOrders out;
  auto member = members_.find(task);
  if (member == members_.end() || !member->second.up) return out;
  member->second.up = false;
  for (auto& [id, call] : calls_) {
    auto it = call.tasks.find(task);
    if (it == call.tasks.end() || !call.error.empty()) continue;
    if (!mutant(Mutant::lost_member_stays_installed)) it->second = InstallPhase::waiting;
    out.push_back({MasterOrder::broken, id, call.executable, task,
                   detail::concat(task, " is gone: ", reason)});
  }
  return out;
}

MasterOrders MasterState::add(ExecutableState call) {
  MasterOrders out;
  ExecutableState& mine = calls_[call.call] = std::move(call);
  mine.executable = next_executable_++;
  install_where_up(mine, out);
  return out;
}

MasterOrders MasterState::replace(ExecutableState call) {
  MasterOrders out;
  if (const auto mine = calls_.find(call.call); mine != calls_.end()) uninstall(mine->second, out);
  const MasterOrders fresh = add(std::move(call));
  out.insert(out.end(), fresh.begin(), fresh.end());
  return out;
}

uint64_t MasterState::newest_incarnation() const {
  uint64_t out = 0;
  for (const auto& [task, member] : members_) out = std::max(out, member.incarnation);
  return out;
}

void MasterState::install_where_up(ExecutableState& call, MasterOrders& out) {
  // All or none: edges between the tasks need all of them.
  for (auto& [task, phase] : call.tasks)
    if (!is_up(task)) return;
  for (auto& [task, phase] : call.tasks) {
    phase = InstallPhase::installing;
    out.push_back({MasterOrder::install, call.call, call.executable, task});
  }
}

void MasterState::reinstall(ExecutableState& call, MasterOrders& out) {
  uninstall(call, out);
  if (!mutant(Mutant::executable_keeps_number)) call.executable = next_executable_++;
  install_where_up(call, out);
}

void MasterState::uninstall(ExecutableState& call, MasterOrders& out) {
  for (auto& [task, phase] : call.tasks) {
    if (phase != InstallPhase::waiting && is_up(task))
      out.push_back({MasterOrder::uninstall, call.call, call.executable, task});
    phase = InstallPhase::waiting;
  }
  call.receivers.clear();
}

MasterOrders MasterState::installed(const std::string& task, uint32_t executable,
                                    const std::map<int32_t, uint64_t>& receivers) {
  MasterOrders out;
  for (auto& [id, call] : calls_) {
    if (call.executable != executable || !call.error.empty()) continue;
    auto it = call.tasks.find(task);
    if (it == call.tasks.end() || it->second != InstallPhase::installing) return out;
    it->second = InstallPhase::installed;
    fail_point(FailPoint::master_installed);
    call.receivers.insert(receivers.begin(), receivers.end());
    for (const auto& [t, phase] : call.tasks)
      if (phase != InstallPhase::installed) return out;
    for (auto& [t, phase] : call.tasks) {
      phase = InstallPhase::connecting;
      out.push_back({MasterOrder::connect, id, executable, t});
    }
  }
  return out;
}

MasterOrders MasterState::connected(const std::string& task, uint32_t executable) {
  MasterOrders out;
  for (auto& [id, call] : calls_) {
    if (call.executable != executable || !call.error.empty()) continue;
    auto it = call.tasks.find(task);
    if (it == call.tasks.end() || it->second != InstallPhase::connecting) return out;
    it->second = InstallPhase::ready;
    if (call.ready()) out.push_back({MasterOrder::ready, id, executable});
  }
  return out;
}

MasterOrders MasterState::install_failed(const std::string& task, uint32_t executable, Errc code,
                                         const std::string& text) {
  MasterOrders out;
  for (auto& [id, call] : calls_) {
    if (call.executable != executable || !call.error.empty()) continue;
    auto it = call.tasks.find(task);
    if (it == call.tasks.end()) return out;
    // No install is pending: the task is gone and known to be, or this is a second answer.
    if (it->second != InstallPhase::installing && it->second != InstallPhase::connecting)
      return out;
    std::string what = detail::concat(task, " did not install the call: ", text);
    std::replace(what.begin(), what.end(), '\n', ' ');  // to_text() writes one line per fact
    if (code == Errc::peer_lost || code == Errc::timeout || code == Errc::stale ||
        code == Errc::cancelled) {
      it->second = InstallPhase::waiting;
      out.push_back({MasterOrder::broken, id, executable, task, what});
      out.push_back({MasterOrder::uninstall, id, executable, task});
    } else {
      call.error = what;
      out.push_back({MasterOrder::failed, id, executable, task, what, code});
      uninstall(call, out);
    }
    return out;
  }
  return out;
}

MasterOrders MasterState::missing(const std::string& task, uint32_t executable) {
  MasterOrders out;
  for (auto& [id, call] : calls_)
    if (call.executable == executable && call.error.empty() && call.tasks.count(task)) {
      out.push_back({MasterOrder::broken, id, executable, task,
                     detail::concat(task, " does not have the call any more")});
      reinstall(call, out);
    }
  return out;
}

MasterOrders MasterState::retry() {
  MasterOrders out;
  for (auto& [id, call] : calls_) {
    if (!call.error.empty()) continue;
    const auto waits = [](const auto& t) { return t.second == InstallPhase::waiting; };
    const auto up = [this](const auto& t) { return is_up(t.first); };
    if (std::any_of(call.tasks.begin(), call.tasks.end(), waits) &&
        std::all_of(call.tasks.begin(), call.tasks.end(), up))
      reinstall(call, out);
  }
  return out;
}

// For people: one fact a line. The last line counts those before it.

std::string MasterState::to_text() const {
  std::ostringstream out;
  out << "master 1\nsession " << session_ << "\nclient " << client_task_ << "\nnext "
      << next_executable_ << "\n";
  for (const auto& [task, m] : members_)
    out << "member " << task << ' ' << m.incarnation << ' ' << (m.up ? "up" : "down") << "\n";
  for (const auto& [id, call] : calls_) {
    out << "call " << id << ' ' << call.executable << "\n";
    for (const auto& f : call.fetches) out << " fetch " << f << "\n";
    for (const auto& f : call.feeds) out << " feed " << f << "\n";
    for (const auto& [node, device] : call.placement)
      out << " place " << node << ' ' << device << "\n";
    for (const auto& e : call.edges)
      out << " edge " << e.edge << ' ' << e.source_task << ' ' << e.destination_task << "\n";
    for (const auto& [task, phase] : call.tasks)
      out << " task " << task << ' ' << static_cast<int>(phase) << "\n";
    for (const auto& [edge, actor] : call.receivers)
      out << " receiver " << edge << ' ' << actor << "\n";
    if (!call.error.empty()) out << " error " << call.error << "\n";
  }
  std::string text = out.str();
  const auto lines = std::count(text.begin(), text.end(), '\n');
  return text + "end " + std::to_string(lines) + "\n";
}

}  // namespace troupe
