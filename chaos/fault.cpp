// Faults as text.
#include "chaos/fault.hpp"

#include <algorithm>
#include <sstream>

#include "graph/base/fail_point.hpp"
#include "troupe/error.hpp"

namespace troupe::sim {

std::string peer_name(int peer, const SimShape& in) {
  if (peer < 0) return "any";
  if (peer < in.ps) return detail::concat("ps", peer);
  if (peer < in.servers()) return detail::concat("worker", peer - in.ps);
  return detail::concat("client", peer - in.servers());
}

std::string to_text(const Fault& f, const SimShape& in) {
  std::string out = detail::concat(f.at, ":", kFaultNames[static_cast<size_t>(f.kind)], ":",
                                   peer_name(f.who, in));
  if (f.other != Fault::kAny) out += detail::concat(">", peer_name(f.other, in));
  if (f.lasts != 0) out += detail::concat(":", f.lasts);
  if (!f.order.empty()) out += ":" + f.order;
  return out;
}

std::string to_text(const Faults& faults, const SimShape& in) {
  std::string out;
  for (const Fault& f : faults) out += detail::concat(out.empty() ? "" : " ", to_text(f, in));
  return out;
}

Faults in_order(Faults faults) {
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return faults;
}

int peer_of(const std::string& name, const SimShape& in) {
  for (int peer = Fault::kAny; peer < in.servers() + 2; ++peer)
    if (peer_name(peer, in) == name) return peer;
  throw Error(Errc::invalid_argument, "no process is called ", name,
              "; say ps0, worker0, client0 or any");
}

Fault fault_of(const std::string& text, const SimShape& in) {
  const auto bad = [&text](const auto&... why) {
    return Error(Errc::invalid_argument, "\"", text, "\" is no fault: ", why...,
                 "; say EVENT:KIND:PROCESS[>PROCESS][:MILLISECONDS], or "
                 "EVENT:point:PROCESS:NAME=ACTION");
  };
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == ':' && (parts.size() < 4 || parts[1] != "point"))
      parts.emplace_back();
    else
      parts.back() += c;
  const auto number = [&bad](const std::string& digits) {
    if (digits.empty() || digits.size() > 12 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      throw bad("\"", digits, "\" is no number");
    return static_cast<int64_t>(std::stoll(digits));
  };
  if (parts.size() < 3 || parts.size() > 4) throw bad("it has ", parts.size(), " parts");
  Fault out{.at = number(parts[0])};
  const auto* const kind = std::find(kFaultNames.begin(), kFaultNames.end(), parts[1]);
  if (kind == kFaultNames.end()) throw bad("no kind is called ", parts[1]);
  out.kind = static_cast<FaultKind>(kind - kFaultNames.begin());
  const size_t border = parts[2].find('>');
  out.who = peer_of(parts[2].substr(0, border), in);
  if (border != std::string::npos) out.other = peer_of(parts[2].substr(border + 1), in);
  if (out.kind == FaultKind::point) {
    out.order = parts.size() == 4 ? parts[3] : "";
    const auto orders = fail_orders(out.order);
    if (orders.size() != 1 || !orders[0].process.empty()) throw bad("it wants NAME=ACTION");
  } else if (parts.size() == 4) {
    out.lasts = number(parts[3]);
  }
  const bool of_link =
      out.kind == FaultKind::reset || out.kind == FaultKind::cut || out.kind == FaultKind::cut_from;
  const bool of_any = out.is_of_message() || out.is_of_disk() || out.kind == FaultKind::power;
  if (of_link && (out.who < 0 || out.other < 0 || out.who == out.other))
    throw bad("it wants two processes");
  if (!of_any && out.who < 0) throw bad("it wants a process");
  return out;
}

Faults faults_of(const std::string& text, const SimShape& in) {
  Faults out;
  std::istringstream words(text);
  for (std::string word; words >> word;) out.push_back(fault_of(word, in));
  return in_order(std::move(out));
}

}  // namespace troupe::sim
