// Reads what git says of commits, and holds their messages against the rules.
#include "tests/house/history.hpp"

#include <regex>
#include <set>

namespace troupe {
namespace {

constexpr size_t kSubjectMax = 65;
constexpr int kLinesWithoutBodyMax = 50;

// The number before ` insertion` or ` deletion` in a short statistic.
int number_before(const std::string& text, const std::string& word) {
  const size_t at = text.find(word);
  if (at == text.npos) return 0;
  const size_t begin = text.find_last_not_of("0123456789", at - 1) + 1;
  return std::stoi(text.substr(begin, at - begin));
}

bool begins_with_clause(const std::string& text) {
  static const std::regex clause("(what|who|whoever|whose|of|those)\\b.*", std::regex::icase);
  return std::regex_match(text, clause);
}

}  // namespace

const char* const kLogFormat = "%x01%h%x02%s%x02%b%x02";

std::vector<Commit> read_log(const std::string& log) {
  std::vector<Commit> commits;
  for (size_t at = log.find('\1'); at != log.npos;) {
    const size_t next = log.find('\1', at + 1);
    const std::string one = log.substr(at + 1, next - at - 1);
    const size_t subject = one.find('\2') + 1, body = one.find('\2', subject) + 1,
                 end = one.find('\2', body);
    const std::string numbers = one.substr(end + 1);
    commits.push_back({one.substr(0, subject - 1), one.substr(subject, body - 1 - subject),
                       one.substr(body, end - body),
                       number_before(numbers, " insertion") + number_before(numbers, " deletion")});
    at = next;
  }
  return commits;
}

std::vector<Violation> check_commit(const Commit& commit) {
  std::vector<Violation> found;
  const auto add = [&](const std::string& what) {
    found.push_back({"commit " + commit.id, 0, what + ": " + commit.subject, commit.id});
  };
  if (commit.subject.size() > kSubjectMax)
    add("the subject has " + std::to_string(commit.subject.size()) + " characters, at most 65");
  const size_t colon = commit.subject.find(": ");
  const std::string text =
      colon == std::string::npos ? commit.subject : commit.subject.substr(colon + 2);
  if (begins_with_clause(commit.subject) || begins_with_clause(text))
    add("the subject begins with a clause");
  if (commit.lines > kLinesWithoutBodyMax &&
      commit.body.find_first_not_of(" \n") == std::string::npos)
    add(std::to_string(commit.lines) + " lines change, and no body says why");
  return found;
}

}  // namespace troupe
