// Authority: certificates for tests, in a folder that is removed at the end of its scope.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/paths.hpp"
#include "troupe/cluster.hpp"

namespace troupe {

class Authority {
 public:
  explicit Authority(const std::string& name, const std::string& cluster = "test")
      : folder_(binary_dir() + "/test-authority-" + name) {
    std::filesystem::remove_all(folder_);
    make_authority(folder_, cluster);
  }
  ~Authority() { std::filesystem::remove_all(folder_); }
  Authority(const Authority&) = delete;

  const std::string& folder() const { return folder_; }
  // The folder of a new certificate.
  std::string issue(const std::string& name, std::vector<std::string> hosts = {}) const {
    return issue_certificate({.authority = folder_, .name = name, .hosts = std::move(hosts)});
  }

 private:
  const std::string folder_;
};

}  // namespace troupe
