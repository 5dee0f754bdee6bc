// docs/protocol.md names every message that can leave a process.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(source_dir() + "/" + path);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

// The first group of every match.
std::set<std::string> names_in(const std::string& text, const std::regex& pattern) {
  std::set<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    out.insert((*it)[1]);
  return out;
}

}  // namespace

TEST_CASE("docs/protocol.md names every message that can leave a process") {
  const std::regex registered(R"re(add_message_type<\w+>\("(\w+)"\))re");
  std::set<std::string> messages;
  for (const char* path : {"actors/async/messages.cpp", "training/parameters/messages.cpp",
                           "training/control/messages.cpp"})
    messages.merge(names_in(text_of(path), registered));
  CHECK(messages.count("InstallGraph") == 1);
  CHECK(messages.count("CreateShard") == 1);

  const std::regex kind(R"(kinds\.add<(\w+)>\((\d+))");
  const std::string page = text_of("docs/protocol.md");
  for (const char* path : {"actors/async/step_messages.cpp", "training/parameters/messages.cpp"}) {
    const std::string text = text_of(path);
    for (std::sregex_iterator it(text.begin(), text.end(), kind), end; it != end; ++it) {
      messages.insert((*it)[1]);
      CHECK_MESSAGE(page.find("| " + it->str(2) + " | " + it->str(1) + " |") != page.npos, "kind ",
                    it->str(2), " ", it->str(1));
    }
  }
  CHECK(messages.count("Deliver") == 1);
  CHECK(messages.count("Pulled") == 1);

  const std::string link = text_of("net/link/frame.hpp");
  std::smatch list;
  REQUIRE(std::regex_search(link, list, std::regex(R"(enum class Control[^{]*\{([^}]*)\})")));
  for (const std::string& frame : names_in(list[1].str(), std::regex(R"(([a-z]+))")))
    messages.insert(frame);

  const std::set<std::string> words = names_in(page, std::regex(R"((\w+))"));
  for (const std::string& message : messages) {
    CAPTURE(message);
    CHECK(words.count(message) == 1);
  }
}

}  // namespace troupe
