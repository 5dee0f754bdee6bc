// Fail points: named places at which a process dies, stands still, meets an error or loses a
// message, if it was told so before. They are there in every build. An armed one costs a lock; one
// that is not costs a relaxed load and a branch, so none is on the path of single nodes.
//
//   TROUPE_FAILPOINTS=ps1/shard.apply.before_ack=die@3,link.frame=drop
//
// Owner: the process, which has one table of armed points. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

// By the rows of kFailPoints.
enum class FailPoint : uint8_t {
  shard_push_received,
  shard_push_parked,
  shard_apply_before,
  shard_apply_before_ack,
  shard_pull_before_answer,
  shard_created,
  shard_epoch_begun,
  shard_restore_before_adopt,
  shard_capture_held,
  client_routes_taken,
  client_before_send,
  client_resend,
  client_acknowledged,
  client_pulled,
  link_up,
  link_send,
  link_frame,
  link_bulk_last,
  link_close,
  mesh_dial,
  mesh_member_up,
  checkpoint_shard_before_write,
  checkpoint_before_manifest,
  checkpoint_before_prune,
  checkpoint_before_read,
  file_before_sync,
  file_before_rename,
  file_before_sync_dir,
  agent_step_started,
  agent_step_ended,
  master_start_sent,
  master_part_ended,
  master_cancel,
  master_installed,
  group_epoch_drawn,
  group_before_routes,
  memory_for_message,
};

struct FailPointRow {
  const char* name;
  const char* place;      // "WHEN", for people
  Errc error = Errc::ok;  // of the action `error`; ok: it has none
  bool drops = false;     // the action `drop` is possible
};
inline constexpr std::array<FailPointRow, 37> kFailPoints = {{
    {"shard.push.received", "a gradient has come to its shard; drop loses it", Errc::ok, true},
    {"shard.push.parked", "a gradient waits for the one before it"},
    {"shard.apply.before", "an update is about to be made"},
    {"shard.apply.before_ack", "an update is made, and nobody knows"},
    {"shard.pull.before_answer", "values are about to be answered", Errc::out_of_memory},
    {"shard.created", "a shard has been made"},
    {"shard.epoch.begun", "a shard has forgotten its values, and has no others yet"},
    {"shard.restore.before_adopt", "the values of a checkpoint are read, and not yet the shard's"},
    {"shard.capture.held", "a shard holds the values of a checkpoint"},
    {"client.routes.taken", "a process has learnt where parameters live"},
    {"client.before_send", "a pull or push is about to be sent; drop loses it", Errc::ok, true},
    {"client.resend", "a pull or push is about to be sent again"},
    {"client.acknowledged", "a push is acknowledged; drop loses the answer", Errc::ok, true},
    {"client.pulled", "values have come; drop loses them", Errc::ok, true},
    {"link.up", "two processes have met"},
    {"link.send", "a message is about to be queued for a link"},
    {"link.frame", "a frame has come; drop ends the link", Errc::ok, true},
    {"link.bulk.last", "the last byte of a large tensor has come"},
    {"link.close", "a link has ended"},
    {"mesh.dial", "an address is about to be dialled; drop finds nobody there", Errc::ok, true},
    {"mesh.member.up", "a member is about to be announced"},
    {"checkpoint.shard.before_write", "a shard is about to write its file", Errc::io},
    {"checkpoint.before_manifest", "all files of a checkpoint are there but the manifest",
     Errc::io},
    {"checkpoint.before_prune", "a checkpoint is there, and old ones are about to go", Errc::io},
    {"checkpoint.before_read", "a shard is about to read a checkpoint", Errc::io},
    {"file.before_sync", "a file is written, and not yet synced", Errc::io},
    {"file.before_rename", "a file is synced, and has not yet its name", Errc::io},
    {"file.before_sync_dir", "a file has its name, and its folder is not synced", Errc::io},
    {"agent.step.started", "a process is about to begin its part of a step"},
    {"agent.step.ended", "a part of a step has ended, and the master does not know"},
    {"master.start.sent", "one process has been told to begin a step, others perhaps not"},
    {"master.part.ended", "a part of a step has ended, and the master knows"},
    {"master.cancel", "one process has been told that a step is over, others perhaps not"},
    {"master.installed", "one process has installed its part of a call"},
    {"group.epoch.drawn", "a new epoch has a number, and no shard knows it"},
    {"group.before_routes", "shards serve, and no process knows where they are"},
    {"memory.for_message", "memory for the tensor of a message is asked for", Errc::out_of_memory},
}};

enum class FailAction : uint8_t { none, die, sleep, error, drop };

// `action` at the times from `first` on, counted from 1.
struct FailOrder {
  std::string process = {};  // "ps1", or "client"; empty: each
  FailPoint point{};
  FailAction action = FailAction::none;
  std::chrono::milliseconds lasts{0};  // of sleep
  int64_t first = 1, times = std::numeric_limits<int64_t>::max();
};
// The orders of a text: "[PROCESS/]NAME=ACTION[:MILLISECONDS][@FIRST][xTIMES]", with commas
// between them. Throws: Error(invalid_argument) for unknown names, with the nearest one, and for an
// action that a point does not have.
std::vector<FailOrder> fail_orders(const std::string& text);

// The armed points of a process, and how often each was reached.
class FailTable {
 public:
  void add(const FailOrder& order) { entries_.push_back({order, 0}); }
  struct Act {
    FailAction action = FailAction::none;
    std::chrono::milliseconds lasts{0};
  };
  Act reached(FailPoint point);  // counts it
  uint64_t points() const;       // a bit for each point that has an order

 private:
  struct Entry {
    FailOrder order;
    int64_t reached = 0;
  };
  std::vector<Entry> entries_;
};

// Arms the points of a new process of this task, "/job:ps/task:1": those of set_fail_points(), or
// without such those of the environment's TROUPE_FAILPOINTS. Throws: as fail_orders().
void arm_fail_points(const std::string& task);

namespace detail {

inline std::atomic<uint64_t> armed_fail_points{0};  // a bit each
bool reach_fail_point(FailPoint point);             // true: to be dropped

}  // namespace detail

inline bool is_armed(FailPoint point) {
  return (detail::armed_fail_points.load(std::memory_order_relaxed) >> static_cast<int>(point) &
          1) != 0;
}
// Throws: Error, by the action `error`.
inline void fail_point(FailPoint point) {
  if (is_armed(point)) [[unlikely]]
    detail::reach_fail_point(point);
}
// True if what has come to this place is to be dropped.
inline bool drops_at(FailPoint point) { return is_armed(point) && detail::reach_fail_point(point); }

// While it lives, it decides in place of the process's table: a simulation of many processes in
// one, in which none dies and none sleeps. Only in tests. `reached` may throw.
class FailHook {
 public:
  using Reached = std::function<FailTable::Act(FailPoint)>;
  explicit FailHook(Reached reached);
  ~FailHook();
  FailHook(const FailHook&) = delete;

 private:
  Reached before_;
  uint64_t armed_before_;
};

}  // namespace troupe
