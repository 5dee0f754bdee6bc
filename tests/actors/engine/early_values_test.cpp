// Values that come to an executor before their step: kept within bounds, never lost silently.
#include <doctest/doctest.h>

#include "actors/engine/early_values.hpp"

namespace troupe {
namespace {

Deliver value(int64_t run, int32_t edge, int64_t bytes = 8) {
  Deliver out;
  out.key.run = run;
  out.key.edge = edge;
  out.value = Tensor::zeros(DType::u8, Shape{bytes});
  return out;
}

}  // namespace

TEST_CASE("early values are handed over in their order, once") {
  EarlyValues early;
  CHECK(early.add(value(7, 2), "r") == -1);
  CHECK(early.add(value(7, 1), "r") == -1);
  CHECK(early.add(value(8, 1), "r") == -1);
  CHECK(early.add(value(7, 2), "r") == -1);  // twice
  CHECK(early.values() == 3);
  CHECK(early.bytes() == 24);
  const EarlyValues::Entry got = early.take(7);
  REQUIRE(got.values.size() == 2);
  CHECK(got.values[0].key.edge == 2);
  CHECK(got.values[1].key.edge == 1);
  CHECK(got.ended.code == Errc::ok);
  CHECK(early.take(7).values.empty());
  CHECK(early.bytes() == 8);
}

TEST_CASE("an early value past the limits ends its own run with the node's name, and no other") {
  EarlyValues::Limits limits;
  std::string part;
  SUBCASE("count") {
    limits.values = 2;
    part = "at most 2";
  }
  SUBCASE("bytes") {
    limits.bytes = 20;
    part = "of 20";
  }
  EarlyValues early(limits);
  early.add(value(1, 0), "r");
  early.add(value(2, 0), "r");
  early.add(value(3, 0), "Receive fc1/w");
  early.add(value(3, 1), "Receive fc1/b");  // the first reason stays
  CHECK(early.values() == 2);
  const EarlyValues::Entry failed = early.take(3);
  CHECK(failed.values.empty());
  CHECK(failed.ended.code == Errc::out_of_memory);
  CHECK(failed.ended.text.find("Receive fc1/w") != std::string::npos);
  CHECK(failed.ended.text.find(part) != std::string::npos);
  CHECK(early.take(1).values.size() == 1);
  early.add(value(4, 0), "r");  // there is room again
  CHECK(early.take(4).values.size() == 1);
}

TEST_CASE("a run that is cancelled early wants no values") {
  EarlyValues early;
  early.add(value(1, 0), "r");
  early.end(1, {Errc::cancelled, "enough"});
  CHECK(early.bytes() == 0);
  early.add(value(1, 1), "r");
  early.end(1, {Errc::timeout, "too late"});
  const EarlyValues::Entry got = early.take(1);
  CHECK(got.values.empty());
  CHECK(got.ended.text == "enough");
}

TEST_CASE("when there are too many early runs the oldest is forgotten, and named") {
  EarlyValues early({.runs = 2});
  CHECK(early.add(value(5, 0), "r") == -1);
  CHECK(early.end(6, {Errc::cancelled, "enough"}) == -1);
  CHECK(early.add(value(6, 0), "r") == -1);
  CHECK(early.add(value(9, 0), "r") == 5);
  CHECK(early.end(10, {Errc::cancelled, "enough"}) == 6);
  CHECK(early.bytes() == 8);
  early.forget_before(10);
  CHECK(early.bytes() == 0);
  CHECK(early.take(10).ended.code == Errc::cancelled);
}

}  // namespace troupe
