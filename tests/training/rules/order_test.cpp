// The bytes of the order of updates.
#include <doctest/doctest.h>

#include "tests/support/refusal.hpp"
#include "training/rules/order.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

std::vector<OrderEvent> events_in(const std::string& bytes) {
  std::vector<OrderEvent> out;
  OrderReader reader(bytes);
  for (OrderEvent event; reader.next(event);) out.push_back(event);
  return out;
}

TEST_CASE("events read back, whatever their steps and replicas") {
  const std::vector<OrderEvent> events = {
      {OrderEvent::pull, 0, 0},
      {OrderEvent::pull, 0, 1},
      {OrderEvent::push, 0, 1},
      {OrderEvent::pull, 7, 1},  // steps were left out
      {OrderEvent::push, 9, 2},  // without a pull
      {OrderEvent::push, 3, 2},
      {OrderEvent::round, 4, 0, {0, 2, 300}},
      {OrderEvent::round, 5, 0, {}},
      {OrderEvent::round, 2, 0, {1}},
      {OrderEvent::pull, int64_t{1} << 40, INT32_MAX},
      {OrderEvent::push, int64_t{1} << 40, INT32_MAX},
  };
  OrderWriter writer;
  std::string bytes;
  for (const OrderEvent& event : events) {
    writer.add(event);
    bytes += writer.take();  // the events that follow continue it
  }
  CHECK(events_in(bytes) == events);
}

TEST_CASE("a pull and a push of one of 16 replicas take a byte each") {
  OrderWriter writer;
  for (int64_t step = 0; step < 100; ++step)
    for (int32_t replica = 0; replica < 16; ++replica) {
      writer.add({OrderEvent::pull, step, replica});
      writer.add({OrderEvent::push, step, replica});
    }
  CHECK(writer.bytes().size() == 100 * 16 * 2);
}

TEST_CASE("bytes that no writer makes are refused with their place") {
  const auto refusal = [](const std::string& bytes) {
    return error_text(Errc::bad_data, [&] { events_in(bytes); });
  };
  CHECK(refusal("\x80") == "byte 0 of the events: expected a number, found none");
  CHECK(refusal("\x01") == "byte 1 of the events: a push has no step");
  CHECK(refusal(std::string("\x00\x07", 2)).find("byte 2 of the events: expected the kind") == 0);
  CHECK(refusal("\x02") == "byte 1 of the events: expected a number, found none");
  CHECK(refusal("\x0a\x05").find("expected a step") != std::string::npos);
  CHECK(refusal("\x0c").find("expected a number") != std::string::npos);
  CHECK(refusal(std::string("\xfc\x3f\x00", 3)).find("more replicas than bytes") !=
        std::string::npos);
}

}  // namespace
}  // namespace troupe
