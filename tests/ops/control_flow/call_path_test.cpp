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
  return table_of(
      "CallPath",
      {Case("outside of loops", {}, number(-5397992340566858583), call),
       Case("in a loop", {first}, number(195931414451649344), call),
       Case("in a loop in a loop", {first, sixth}, number(-5977810306237012030), call),
       Case("the loops the other way round", {sixth, first}, number(4903505920320817687), call)},
      {Refused({i64(vector({1, 2}))},
               "wants i64 scalars behind its other inputs, the iterations that "
               "it is in, got i64",
               call),
       Refused({scalar(1)}, "got f64[]", call)});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("a call has a number of its own for each place, iteration and call that it is in") {
  check(cases());
}

}  // namespace troupe
