// Fault: a fault of a simulated cluster, complete before the simulation begins: nothing of it is
// drawn when it happens, so a run without one of its faults is a run with all others. Faults have a
// text, such as "1203:cut:ps1>client0:2400", that replays them: at event 1203 of the history ps1
// and client0 lose their link for 2,400 ms.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "chaos/sim_cluster_options.hpp"

namespace troupe::sim {

enum class FaultKind : uint8_t {
  power,          // all processes end, files keep what was synced, and all is started after `lasts`
  kill,           // the process ends, and is started again after `lasts`
  gone,           // the worker ends for good, if another one is left to compute its replicas
  leave,          // the worker says that it leaves, and ends for good when nobody wants it to wait
  freeze,         // the process does nothing for `lasts`, and its links stay
  reset,          // all streams between `who` and `other` end
  cut,            // no bytes pass between `who` and `other` for `lasts`
  cut_from,       // no bytes pass from `who` to `other` for `lasts`
  drop,           // the next message from `who` to `other` that is sent again if lost is lost,
  twice,          // arrives two times,
  overtake,       // or arrives after the one behind it
  corrupt,        // the next frame from `who` to `other` has another bit at `lasts`, round its end
  corrupt_large,  // the same of a frame with elements of a large tensor
  late,           // the process is first started after `lasts`; only at event 0
  point,          // a fail point of `who` is armed, for as often as its text says
  blind,          // from the next restore on it finds the folder of checkpoints empty,
  refused,        // or may not read it, for `lasts`
  disk_full,      // the process, or any, can write no byte of a file for `lasts`
  disk_error,     // its call to the disk after its next `lasts` fails
};
inline constexpr std::array<const char*, 19> kFaultNames = {
    "power",    "kill",  "gone",    "leave",     "freeze",    "reset",         "cut",
    "cut_from", "drop",  "twice",   "overtake",  "corrupt",   "corrupt_large", "late",
    "point",    "blind", "refused", "disk_full", "disk_error"};

struct Fault {
  static constexpr int kAny = -1;  // as who or other: every process

  int64_t at = 0;  // the event of the history from which on it is due
  FaultKind kind = FaultKind::kill;
  int who = kAny, other = kAny;  // ps, workers and clients, counted on
  int64_t lasts = 0;             // ms
  std::string order = {};        // of a point: "NAME=ACTION", as fail_orders() takes it
  friend bool operator==(const Fault&, const Fault&) = default;

  bool is_of_message() const { return kind >= FaultKind::drop && kind <= FaultKind::corrupt_large; }
  bool is_of_frame() const {
    return kind == FaultKind::corrupt || kind == FaultKind::corrupt_large;
  }
  bool is_of_disk() const { return kind >= FaultKind::blind; }
};
using Faults = std::vector<Fault>;

// "ps0", "worker2", "client0" or "any".
std::string peer_name(int peer, const SimShape& in = {});
std::string to_text(const Fault& fault, const SimShape& in = {});
// The faults with spaces between them.
std::string to_text(const Faults& faults, const SimShape& in = {});

// Throws: Error(invalid_argument).
int peer_of(const std::string& name, const SimShape& in = {});
Fault fault_of(const std::string& text, const SimShape& in = {});
Faults faults_of(const std::string& text, const SimShape& in = {});

// In the order in which they are due.
Faults in_order(Faults faults);

}  // namespace troupe::sim
