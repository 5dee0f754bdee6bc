// CallPath: the number of a call.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const Attrs call = {{"key", std::string("call")}};
  const Tensor first = i64(scalar(0)), sixth = i64(scalar(5));
  const auto number = [](int64_t n) { return std::vector<Tensor>{Tensor::scalar(n)}; };
  // Computed independently: fnv1a64("call"), then the recipe of ops/random/philox.hpp.
  return {
      .values = {{.name = "outside of loops",
                  .op = "CallPath",
                  .attrs = call,
                  .expected = number(-5397992340566858583)},
                 {.name = "in a loop",
                  .op = "CallPath",
                  .inputs = {first},
                  .attrs = call,
                  .expected = number(195931414451649344)},
                 {.name = "in a loop in a loop",
                  .op = "CallPath",
                  .inputs = {first, sixth},
                  .attrs = call,
                  .expected = number(-5977810306237012030)},
                 {.name = "the loops the other way round",
                  .op = "CallPath",
                  .inputs = {sixth, first},
                  .attrs = call,
                  .expected = number(4903505920320817687)}},
      .errors = {{.op = "CallPath",
                  .inputs = {i64(vector({1, 2}))},
                  .attrs = call,
                  .message = "wants i64 scalars behind its other inputs, the iterations that "
                             "it is in, got i64"},
                 {.op = "CallPath", .inputs = {scalar(1)}, .attrs = call, .message = "got f64[]"}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("a call has a number of its own for each place, iteration and call that it is in") {
  check(cases());
}

}  // namespace troupe
