// SmallDisk: a file system of its own on a folder, for this process and those that it starts, which
// can be filled. It is made of memory, and its files are gone when they have ended.
//
// Owner: chaos(). Thread: its own.
#pragma once

#include <string>

class SmallDisk {
 public:
  // Mounts it. Returns the reason in words if this machine does not allow that, else nothing.
  std::string mount(const std::string& folder, int mib);
  // Leaves no room. Returns false if that fails.
  bool fill();
  void free();
  void clear();  // removes all files

 private:
  std::string folder_;
};
