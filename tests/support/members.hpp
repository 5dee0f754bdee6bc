// is_up(): whether a session counts a task as present, by the text of Session::describe().
#pragma once

#include <string>

#include "troupe/session.hpp"

namespace troupe {

inline bool is_up(const Session& session, const std::string& task) {
  const std::string text = session.describe();
  const size_t at = text.find("\nmember " + task + " ");
  if (at == std::string::npos) return false;
  const size_t end = text.find('\n', at + 1);
  return text.compare(end - 3, 3, " up") == 0;
}

}  // namespace troupe
