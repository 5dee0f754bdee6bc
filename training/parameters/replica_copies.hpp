// ReplicaCopies: the copies of a process's replicas, and the requests that they answer in place of
// shards (docs/learning_protocols.md, local:H). A copy begins with the pull of a round's first
// step. Within the round, pulls read it and gradients change it; the push of the last step carries
// the change of the round to the shards. Nothing here is in a checkpoint: a process that dies loses
// its copies, and its replicas do the round again. Owner: ParameterClient. Thread: any.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "training/parameters/parameter_request.hpp"
#include "training/parameters/replica_copy.hpp"

namespace troupe {

class ReplicaCopies {
 public:
  // A parameter that is read by rows is copied whole in each round, and so is its change; a larger
  // one is refused.
  static constexpr int64_t kRowsBytesMax = int64_t{256} << 20;

  enum class By : uint8_t {
    shards,  // the shards answer; the push of a round's last step has its change as the gradient
    copy,    // `out` is the answer, and the values are in the request
  };
  // Carries the request out if a copy is in its step's round. Requires: request.check() passed.
  By take(ParameterRequest& request, const ParameterRoute& route, Gradient& gradient, Outcome& out);
  // The request's values, of the whole parameter, begin a round, unless the copy is in it already.
  Outcome begin(const ParameterRequest& request, const ParameterRoute& route);
  void clear();
  bool used() const { return used_; }  // false: all requests are the shards'

 private:
  struct Entry {
    std::mutex mutex;  // guards the rest
    ReplicaCopy copy;
    bool ahead = false;  // a step was asked for whose gradients before it are not here
    explicit Entry(ReplicaCopy begun) : copy(std::move(begun)) {}
  };
  using Key = std::pair<int64_t, std::string>;  // replica, parameter
  static Outcome read(ParameterRequest& request, const ParameterRoute& route, Entry& entry);
  static Outcome change(const ParameterRequest& request, const ParameterRoute& route,
                        Gradient gradient, ReplicaCopy& copy);

  std::atomic<bool> used_{false};  // false: there is no copy, and nothing to look for
  std::mutex mutex_;               // guards the map
  std::map<Key, std::shared_ptr<Entry>> copies_;
};

}  // namespace troupe
