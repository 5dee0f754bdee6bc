// Implements actors/master/master_state.hpp.
#include "actors/master/master_state.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

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
    it->second = InstallPhase::waiting;
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
  call.executable = next_executable_++;
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
    // Nobody was asked: the task is gone, and we know; or this answer is a second one.
    if (it->second != InstallPhase::installing && it->second != InstallPhase::connecting)
      return out;
    std::string what = detail::concat(task, " did not install the call: ", text);
    std::replace(what.begin(), what.end(), '\n', ' ');  // to_text() keeps lines
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

// The text form: one fact a line, words separated by spaces; names hold no spaces, except the last
// word of a line. The last line counts those before it: a text with lines missing is refused.

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

namespace {

// The words of one line. Reading past the end, or a word that is not a number of that type, sets
// fail().
class Words {
 public:
  explicit Words(const std::string& line) : in_(line) {}
  Words& operator>>(std::string& out) {
    in_ >> out;
    return *this;
  }
  template <class T>
  Words& operator>>(T& out) {
    std::string word;
    in_ >> word;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, out);
    if (error != std::errc() || stop != end) in_.setstate(std::ios::failbit);
    return *this;
  }
  std::string rest() {
    std::string out;
    std::getline(in_ >> std::ws, out);
    if (in_.eof()) in_.clear(std::ios::eofbit);  // nothing is a rest, too
    return out;
  }
  bool fail() const { return in_.fail(); }
  bool at_end() { return rest().empty(); }

 private:
  std::istringstream in_;
};

}  // namespace

MasterState MasterState::from_text(const std::string& text) {
  MasterState state;
  std::istringstream in(text);
  std::string line;
  int number = 0;
  bool ended = false;
  ExecutableState* call = nullptr;
  const auto fail = [&](const char* what) {
    return Error(Errc::bad_data, "master state, line ", number, ": ", what, ": \"", line, "\"");
  };
  while (std::getline(in, line)) {
    ++number;
    Words words(line);
    std::string key;
    words >> key;
    const bool of_call = !line.empty() && line[0] == ' ';
    if (ended) throw fail("text after the end");
    if (of_call && !call) throw fail("this belongs to a call, and there is none yet");
    if (number == 1) {
      int version = 0;
      words >> version;
      if (key != "master" || words.fail()) throw fail("expected \"master 1\"");
      if (version != 1) throw fail("written by another version; expected version 1");
    } else if (key == "session") {
      words >> state.session_;
    } else if (key == "client") {
      state.client_task_ = words.rest();
    } else if (key == "next") {
      words >> state.next_executable_;
    } else if (key == "member") {
      MemberState m;
      std::string up;
      words >> m.task >> m.incarnation >> up;
      if (up != "up" && up != "down") throw fail("expected up or down");
      m.up = up == "up";
      state.members_[m.task] = m;
    } else if (key == "call") {
      ExecutableState c;
      words >> c.call >> c.executable;
      if (c.executable >= state.next_executable_) throw fail("this number has not been given yet");
      call = &(state.calls_[c.call] = c);
    } else if (of_call && (key == "fetch" || key == "feed")) {
      std::string name;
      words >> name;
      (key == "fetch" ? call->fetches : call->feeds).push_back(name);
    } else if (of_call && key == "place") {
      int32_t node = 0;
      std::string device;
      words >> node >> device;
      call->placement[node] = device;
    } else if (of_call && key == "edge") {
      ExecutableEdge e;
      words >> e.edge >> e.source_task >> e.destination_task;
      call->edges.push_back(e);
    } else if (of_call && key == "task") {
      std::string task;
      int phase = -1;
      words >> task >> phase;
      if (phase < 0 || phase > static_cast<int>(InstallPhase::ready)) throw fail("unknown phase");
      call->tasks[task] = static_cast<InstallPhase>(phase);
    } else if (of_call && key == "receiver") {
      int32_t edge = 0;
      uint64_t actor = 0;
      words >> edge >> actor;
      call->receivers[edge] = actor;
    } else if (of_call && key == "error") {
      call->error = words.rest();
    } else if (key == "end") {
      int lines = -1;
      words >> lines;
      if (lines != number - 1) throw fail("the lines before it are not as many as it says");
      ended = true;
    } else {
      throw fail("unknown word");
    }
    if (words.fail()) throw fail("a number or a name is missing");
    if (!words.at_end()) throw fail("more words than expected");
  }
  if (!ended) throw fail("the text is cut: expected \"end\"");
  return state;
}

}  // namespace troupe
