// Occupants: the actors that live in a process, and the work that fires nodes on its lanes outside
// of actors. A process ends when all of them have.
// Owner: Process. Thread: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include <caf/all.hpp>

namespace troupe {

class Occupants {
 public:
  void add(const caf::actor& actor);
  size_t actors() const;  // without most of those that have ended
  // Asks all actors to end, and returns them.
  std::vector<caf::actor> end_actors();

  // Work that fires nodes while it lives.
  class Firing {
   public:
    explicit Firing(Occupants& all);
    ~Firing();
    Firing(const Firing&) = delete;

   private:
    Occupants& all_;
  };
  // Returns how much work still fires after `patience`.
  int64_t await_firing(std::chrono::seconds patience);

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::vector<caf::actor> actors_;
  int64_t firing_ = 0;
  std::condition_variable none_fires_;
};

}  // namespace troupe
