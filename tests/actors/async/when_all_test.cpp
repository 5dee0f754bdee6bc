// The common end of several requests, and calls that are answered once.
#include <doctest/doctest.h>

#include <vector>

#include "actors/async/open_calls.hpp"
#include "actors/async/when_all.hpp"

namespace troupe {
namespace {

struct Ends {
  std::vector<std::pair<Errc, std::string>> list;
  WhenDone note() {
    return [this](Errc code, const std::string& text) { list.emplace_back(code, text); };
  }
};

TEST_CASE("several requests end once, with the last of them, and tell the first failure") {
  Ends ends;
  const WhenDone one = when_all(3, ends.note());
  one(Errc::ok, "");
  one(Errc::timeout, "first");
  CHECK(ends.list.empty());
  one(Errc::io, "second");
  REQUIRE(ends.list.size() == 1);
  CHECK(ends.list[0] == std::pair(Errc::timeout, std::string("first")));
}

TEST_CASE("no request at all ends at once") {
  Ends ends;
  when_all(0, ends.note());
  REQUIRE(ends.list.size() == 1);
  CHECK(ends.list[0].first == Errc::ok);
}

TEST_CASE("a call is answered once: by its answer or by the end, whichever comes first") {
  Ends ends;
  OpenCalls calls;
  const WhenDone answered = calls.add(ends.note());
  const WhenDone open = calls.add(ends.note());
  answered(Errc::ok, "answer");
  answered(Errc::ok, "again");
  calls.end(Errc::cancelled, "closed");
  open(Errc::ok, "late");
  calls.add(ends.note());
  REQUIRE(ends.list.size() == 3);
  CHECK(ends.list[0].second == "answer");
  CHECK(ends.list[1].second == "closed");
  CHECK(ends.list[2].second == "closed");
}

}  // namespace
}  // namespace troupe
