// Injector: begins and ends the faults of a schedule, sees when training goes on after each, and
// counts. A fault is repaired when each worker has finished kStepsAfter parts of steps after its
// end; the time between is that of the repair.
//
// Owner: ChaosRun. Thread: its own.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "apps/troupe/chaos/cluster.hpp"
#include "apps/troupe/chaos/faults.hpp"
#include "apps/troupe/chaos/proxies.hpp"
#include "apps/troupe/chaos/small_disk.hpp"

inline constexpr uint64_t kStepsAfter = 2;

struct FaultSizes {
  std::chrono::milliseconds delay{50};
  int64_t bytes_per_second = 1 << 20;
};

class Injector {
 public:
  using Time = std::chrono::steady_clock;
  using Millis = std::chrono::milliseconds;
  using Say = std::function<void(const std::string&)>;

  Injector(const std::vector<Fault>& faults, const FaultSizes& sizes, ChaosCluster& cluster,
           Proxies& proxies, SmallDisk& disk, Say say);

  // The first step has been made: faults count from here.
  void begin(Time::time_point now) { begun_at_ = now; }
  bool begun() const { return begun_at_ != Time::time_point{}; }
  // Begins and ends what is due. Returns how long until it wants to be called again.
  Millis tick(Time::time_point now);
  // True if the program was killed by a fault since the last question.
  bool has_killed_program();
  // Ends what lasts.
  void heal(Time::time_point now);
  bool calm() const;  // nothing lasts, and everything is repaired
  bool done() const;  // all faults have begun
  std::vector<Fault> happened() const;
  size_t struck() const;  // faults that had an effect
  std::vector<std::string> table() const;

 private:
  enum class State { waiting, lasting, repairing, repaired, none };
  struct Record {
    Fault fault;
    State state = State::waiting;
    pid_t pid = 0;
    bool halted = false;  // by `slow`, now
    Time::time_point since{}, ended{};
    StepsByWorker at_end = {};
    Millis repair{0};
  };

  void start(Record& record, Time::time_point now);
  bool strike(Record& record);
  void set_links(const std::string& one, const std::string& other);
  bool outlasted(const Record& record) const;
  void end(Record& record, Time::time_point now);
  void keep_slow(Record& record, Time::time_point now);
  bool goes_on(const Record& record, const StepsByWorker& steps) const;
  void tell(Time::time_point now, const std::string& text) const;
  template <class... Parts>
  void tell(Time::time_point now, const Record& record, const Parts&... parts) const;

  std::vector<Record> records_;
  const FaultSizes sizes_;
  ChaosCluster& cluster_;
  Proxies& proxies_;
  SmallDisk& disk_;
  const Say say_;
  Time::time_point begun_at_{};
  bool killed_program_ = false;
};
