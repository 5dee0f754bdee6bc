// Reads the program's lines, and writes as much as there is room for.
#include "apps/troupe/chaos/output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/error.hpp"

using troupe::Errc;
using troupe::Error;

namespace {

constexpr size_t kWaitingMax = size_t{256} << 10;  // then the program waits
constexpr size_t kLineMax = size_t{16} << 10;      // a longer line is passed on in parts
constexpr int kPatience = 2000;   // ms, with a reader that reads nothing at the end
constexpr size_t kAtOnce = 4096;  // a pipe that poll() calls writable has room for these

}  // namespace

RunOutput::RunOutput(const std::string& result) {
  try {
    pattern_ = std::regex(result);
  } catch (const std::regex_error& e) {
    throw Error(Errc::invalid_argument, "--result is no regular expression: ", e.what());
  }
}

RunOutput::~RunOutput() {
  if (program_ >= 0) close(program_);
}

void RunOutput::say(const std::string& line) { waiting_ += line + "\n"; }

int RunOutput::open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(Errc::io, "no pipe: ", std::strerror(errno));
  while (program_ >= 0 && read_some()) {  // the rest of one that was killed
  }
  if (program_ >= 0) close(program_);
  program_ = ends[0];
  fcntl(program_, F_SETFL, O_NONBLOCK);
  return ends[1];
}

void RunOutput::ask(std::vector<pollfd>& files) const {
  if (program_ >= 0 && waiting_.size() < kWaitingMax) files.push_back({program_, POLLIN, 0});
  if (!waiting_.empty() && !closed_) files.push_back({1, POLLOUT, 0});
}

// False if there is nothing to read now.
bool RunOutput::read_some() {
  char bytes[8192];
  const ssize_t count = read(program_, bytes, sizeof bytes);
  if (count == 0) {
    close(program_);
    program_ = -1;
  }
  if (count <= 0) return false;
  partial_.append(bytes, static_cast<size_t>(count));
  take_lines();
  return true;
}

void RunOutput::take_lines() {
  for (size_t end; (end = partial_.find('\n')) != partial_.npos || partial_.size() > kLineMax;) {
    end = std::min(end, partial_.size() - 1) + 1;
    match(std::string_view(partial_).substr(0, end));
    waiting_.append(partial_, 0, end);
    partial_.erase(0, end);
  }
}

void RunOutput::match(std::string_view line) {
  if (line.size() > kLineMax) return;  // std::regex goes down a level of calls for a character
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  std::match_results<std::string_view::const_iterator> found;
  if (std::regex_search(line.begin(), line.end(), found, pattern_))
    result_ = found[found.size() > 1 ? 1 : 0].str();
}

bool RunOutput::write_some() {
  if (closed_) waiting_.clear();
  if (waiting_.empty()) return false;
  const ssize_t count = write(1, waiting_.data(), std::min(waiting_.size(), kAtOnce));
  if (count < 0 && errno != EINTR && errno != EAGAIN) closed_ = true;
  if (count > 0) waiting_.erase(0, static_cast<size_t>(count));
  return true;
}

void RunOutput::serve() {
  while (program_ >= 0 && waiting_.size() < kWaitingMax && read_some()) {
  }
  for (pollfd out{1, POLLOUT, 0}; !waiting_.empty() && poll(&out, 1, 0) > 0;)
    if (!write_some()) break;
}

void RunOutput::finish() {
  while (program_ >= 0 && read_some()) {
  }
  if (!partial_.empty()) {
    match(partial_);
    waiting_ += partial_ + "\n";
    partial_.clear();
  }
  for (pollfd out{1, POLLOUT, 0}; poll(&out, 1, kPatience) > 0 && write_some();) {
  }
}
