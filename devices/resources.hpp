// The state that stateful ops of a session keep in one process between steps, by name: queues,
// barriers.
// Owner: of Resources the session's installations and the ResourceTable, which the process owns.
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "troupe/error.hpp"

namespace troupe {

class Resource {
 public:
  virtual ~Resource() = default;
  virtual void end() = 0;  // the session is over: ends all waits on this resource
};

// The resources of one session, which outlive neither its installations nor the table.
class Resources {
 public:
  Resources() = default;
  Resources(const Resources&) = delete;

  // The resource of that name; the first call makes it with make(). Throws: Error(invalid_argument)
  // if it is of another type; Error(cancelled) after end().
  template <class T, class Make>
  std::shared_ptr<T> get(const std::string& name, const Make& make) {
    std::lock_guard lock(mutex_);
    if (ended_) throw Error(Errc::cancelled, "the session of ", name, " has ended");
    std::shared_ptr<Resource>& resource = by_name_[name];
    if (!resource) resource = make();
    auto typed = std::dynamic_pointer_cast<T>(resource);
    if (!typed) throw Error(Errc::invalid_argument, name, " is already something else here");
    return typed;
  }

  void end() {
    std::map<std::string, std::shared_ptr<Resource>> ending;  // ended without the lock
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      ending.swap(by_name_);
    }
    for (const auto& [name, resource] : ending) resource->end();
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::map<std::string, std::shared_ptr<Resource>> by_name_;
  bool ended_ = false;
};

// The resources of all sessions in a process.
class ResourceTable {
 public:
  std::shared_ptr<Resources> of(uint64_t session) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Resources>& resources = by_session_[session];
    if (!resources) resources = std::make_shared<Resources>();
    return resources;
  }

  void forget(uint64_t session) {  // the session is over
    std::shared_ptr<Resources> ending;
    {
      std::lock_guard lock(mutex_);
      const auto it = by_session_.find(session);
      if (it == by_session_.end()) return;
      ending = std::move(it->second);
      by_session_.erase(it);
    }
    ending->end();
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::map<uint64_t, std::shared_ptr<Resources>> by_session_;
};

}  // namespace troupe
