// The text of fail points, and when an armed one acts.
#include "graph/base/fail_point.hpp"

#include <doctest/doctest.h>

#include "troupe/cluster.hpp"

namespace troupe {
namespace {

std::string refusal_of(const std::string& text) {
  try {
    fail_orders(text);
  } catch (const Error& e) {
    CHECK(e.code() == Errc::invalid_argument);
    return e.what();
  }
  return "";
}
bool refuses(const std::string& text, const std::string& with) {
  return refusal_of(text).find(with) != std::string::npos;
}

}  // namespace

TEST_CASE("the text of fail points says process, place, action, and when") {
  const auto orders =
      fail_orders("ps1/shard.apply.before_ack=die@3,link.frame=drop,link.up=sleep:200@2x4");
  REQUIRE(orders.size() == 3);
  CHECK(orders[0].process == "ps1");
  CHECK(orders[0].point == FailPoint::shard_apply_before_ack);
  CHECK(orders[0].action == FailAction::die);
  CHECK(orders[0].first == 3);
  CHECK(orders[1].process.empty());
  CHECK(orders[1].action == FailAction::drop);
  CHECK(orders[2].action == FailAction::sleep);
  CHECK(orders[2].lasts.count() == 200);
  CHECK(orders[2].first == 2);
  CHECK(orders[2].times == 4);
  CHECK(fail_orders("").empty());
  CHECK(fail_orders("client/link.up=die").at(0).process == "client");
}

TEST_CASE("a text of fail points that says nothing possible is refused with what is") {
  CHECK(refuses("shard.aply.before_ack=die", "did you mean shard.apply.before_ack?"));
  CHECK(refuses("whatever=die", "--failpoints list"));
  CHECK(refuses("link.up=burn", "is no fail point; say"));
  CHECK(refuses("link.up", "is no fail point; say"));
  CHECK(refuses("link.up=die@x", "is no fail point; say"));
  CHECK(refuses("link.up=die@0", "is no fail point; say"));
  CHECK(refuses("link.up=drop", "has no action drop, but die, sleep:MILLISECONDS"));
  CHECK(refuses("link.frame=error", "has no action error"));
  CHECK(refuses("link.up=sleep", "sleep alone wants"));
  CHECK(refuses("link.up=sleep:99999999999", "sleep alone wants"));
  CHECK(refuses("link.up=die:5", "sleep alone wants"));
  CHECK(refuses("ps/link.up=die", "a process is a job and a number"));
  CHECK_THROWS_AS(set_fail_points("link.up=burn"), Error);
}

TEST_CASE("an armed point acts from its first time on, as often as it is told") {
  FailTable table;
  table.add(fail_orders("link.up=die@3x2").front());
  const auto act = [&table] { return table.reached(FailPoint::link_up).action; };
  CHECK(table.points() == uint64_t{1} << static_cast<int>(FailPoint::link_up));
  for (const FailAction want :
       {FailAction::none, FailAction::none, FailAction::die, FailAction::die, FailAction::none})
    CHECK(act() == want);
  CHECK(table.reached(FailPoint::link_close).action == FailAction::none);
}

TEST_CASE("a point that is reached fails with its error or drops, and costs a bit when it is off") {
  CHECK(!is_armed(FailPoint::file_before_sync));
  fail_point(FailPoint::file_before_sync);
  CHECK(!drops_at(FailPoint::link_frame));
  int reached = 0;
  {
    const FailHook hook([&reached](FailPoint point) {
      ++reached;
      return FailTable::Act{point == FailPoint::link_frame ? FailAction::drop : FailAction::error};
    });
    CHECK(drops_at(FailPoint::link_frame));
    try {
      fail_point(FailPoint::file_before_sync);
      CHECK(false);
    } catch (const Error& e) {
      CHECK(e.code() == Errc::io);
      CHECK(std::string(e.what()).find("file.before_sync") != std::string::npos);
    }
  }
  CHECK(reached == 2);
  CHECK(!is_armed(FailPoint::file_before_sync));
}

TEST_CASE("each fail point has a line for people") {
  const std::string text = describe_fail_points();
  for (const FailPointRow& row : kFailPoints) {
    CHECK(("\n" + text).find(detail::concat("\n", row.name, " ")) != std::string::npos);
    CHECK(text.find(row.place) != std::string::npos);
  }
}

}  // namespace troupe
