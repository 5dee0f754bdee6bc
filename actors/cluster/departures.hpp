// Departures: the members that are about to end, as the process of a program knows them, and which
// of them still do work that somebody is going to take from them. A member asks until nobody is, or
// for as long as it wants.
//
// Owner: the process. Thread: any.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace troupe {

class Departures {
 public:
  // The one that takes work from members that leave is told of each new one; null: nobody is.
  void set_taker(std::function<void()> told);
  // The task is about to end. Returns true if it is to wait, and to ask again.
  bool leaves(const std::string& task);
  void let_go(const std::string& task);  // nothing there is wanted any more
  void forget(const std::string& task);  // it has come anew, or is gone
  std::set<std::string> leaving() const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::function<void()> taker_;
  std::map<std::string, bool> leaving_;  // by task: it is to wait
};

}  // namespace troupe
