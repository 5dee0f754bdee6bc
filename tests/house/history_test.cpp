// The rules about commits find what breaks them; and the commits of this tree keep them.
#include "tests/house/history.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/house/command.hpp"
#include "tests/house/debts.hpp"
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

// Messages of commits after this one keep the rules.
const char* const kFirst = "32a722e";
const char* const kDebts = "tests/house/debts.txt";

TEST_CASE("commits: what git says is read") {
  const auto commits = read_log(
      "\1a1\2net: links heal\2Because.\n\nMore.\n\2\n\n 3 files changed, 20 insertions(+), 5 "
      "deletions(-)\n"
      "\1b2\2rename\2\2\n\n 1 file changed, 1 deletion(-)\n"
      "\1c3\2nothing\2\2\n");
  REQUIRE(commits.size() == 3);
  CHECK(commits[0].id == "a1");
  CHECK(commits[0].subject == "net: links heal");
  CHECK(commits[0].body == "Because.\n\nMore.\n");
  CHECK(commits[0].lines == 25);
  CHECK(commits[1].body.empty());
  CHECK(commits[1].lines == 1);
  CHECK(commits[2].lines == 0);
  CHECK(read_log("").empty());
}

TEST_CASE("commits: a subject is short and begins with its subject; a large change has a body") {
  const auto count = [](const std::string& subject, int lines = 1, const std::string& body = "") {
    return check_commit({"a1", subject, body, lines}).size();
  };
  CHECK(count("net: links heal") == 0);
  CHECK(count("net: " + std::string(60, 'x')) == 0);
  CHECK(count("net: " + std::string(61, 'x')) == 1);
  CHECK(count("What links do") == 1);
  CHECK(count("net, actors: whoever waits is told") == 1);
  CHECK(count("net: of two links one stays") == 1);
  CHECK(count("net: offers of links") == 0);
  CHECK(count("net: links heal", 50) == 0);
  CHECK(count("net: links heal", 51, "\n") == 1);
  CHECK(count("net: links heal", 51, "A link that is cut is dialled again.\n") == 0);
}

std::string git(const std::string& arguments) {
  return output_of("git -C '" + source_dir() + "' " + arguments + " 2>/dev/null");
}

bool has_history() {
  try {
    git(std::string("merge-base --is-ancestor ") + kFirst + " HEAD");
    return true;
  } catch (const std::exception&) {
    std::cout << "skipped: there is no history of git from " << kFirst << " on\n";
    return false;
  }
}

std::string text_of(const std::vector<Violation>& found) {
  std::string all;
  for (const Violation& v : found) all += to_string(v) + "\n";
  return all;
}

std::string read(const std::string& path) {
  std::ifstream in(source_dir() + "/" + path);
  REQUIRE_MESSAGE(in.good(), path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("tidy: messages of commits") {
  if (!has_history()) return;
  std::vector<Violation> found;
  for (const Commit& commit : read_log(git(std::string("log --no-merges --shortstat --format=") +
                                           kLogFormat + " " + kFirst + "..HEAD")))
    for (Violation& v : check_commit(commit)) found.push_back(std::move(v));
  // A commit cannot be changed once others have it: it becomes an exception.
  found = excuse("commits", found, read_exceptions(read("tests/house/exceptions.txt")));
  CHECK_MESSAGE(found.empty(), text_of(found));
}

TEST_CASE("tidy: debts only shrink") {
  if (!has_history()) return;
  const std::string now = read(kDebts);
  const std::string versions =
      git(std::string("log -20 --format=%h ") + kFirst + "..HEAD -- " + kDebts);
  for (const std::string& id : lines_of(versions)) {
    const std::string before = git("show " + id + ":" + kDebts);
    if (before.substr(0, before.find('\n')) != now.substr(0, now.find('\n'))) continue;
    CAPTURE(id);
    CHECK(text_of(check_shrinks(read_debts(before), read_debts(now))).empty());
  }
}

}  // namespace
}  // namespace troupe
