// Authority: certificates for tests, in a folder that is removed at the end of its scope; and
// checks of errors in words, as net/link has another Refusal than tests/support/refusal.hpp.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

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

// The error of `call`, in words.
template <class Call>
std::string fault_of(Errc code, Call call) {
  try {
    call();
  } catch (const Error& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  FAIL_CHECK("no error");
  return "";
}
inline void has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  CHECK(text.find(part) != std::string::npos);
}

inline std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace troupe
