// The text that tells which op differs between two processes.
#include "net/wire/own_ops.hpp"

#include <doctest/doctest.h>

#include "net/link/greetings.hpp"
#include "troupe/custom_op.hpp"

namespace troupe {
namespace {

std::shared_ptr<Registry> with(const std::vector<Op>& own) {
  auto registry = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all()) registry->add(*op);
  for (const Op& op : own) registry->add(op);
  return registry;
}

std::string difference_of(const Registry& mine, const Registry& theirs) {
  return ops_difference(own_ops(mine), "/job:ps/task:0", own_ops(theirs), "/job:worker/task:1");
}

}  // namespace

TEST_CASE("a process with the built-in ops has no own ones") {
  CHECK(own_ops(*builtin_ops()) == "");
  CHECK(own_ops(*with({})) == "");
}

TEST_CASE("the side that has an op is named, with the op") {
  const auto cube = with({{.name = "Cube", .inputs = {"x"}}});
  CHECK(difference_of(*cube, *cube) == "");
  CHECK(difference_of(*cube, *builtin_ops()) == "only /job:ps/task:0 has Cube");
  CHECK(difference_of(*builtin_ops(), *cube) == "only /job:worker/task:1 has Cube");
  const auto other = with({{.name = "Cube", .inputs = {"z"}}});
  CHECK(difference_of(*cube, *other) == "each has another Cube");
  const auto more =
      with({{.name = "A"}, {.name = "B"}, {.name = "C"}, {.name = "D"}, {.name = "E"}});
  CHECK(difference_of(*more, *builtin_ops()) == "only /job:ps/task:0 has A, B, C and 2 more");
}

TEST_CASE("the side that has a source function is named, with the function") {
  const SourceFunction scene = {"scene",
                                [](const Fields&, const SourceArgs&) { return SourceStep{}; }};
  const auto some = ops_with({{.name = "Twice", .inputs = {"x"}}}, {scene});
  CHECK(difference_of(*some, *some) == "");
  CHECK(difference_of(*some, *builtin_ops()) == "only /job:ps/task:0 has Twice, scene()");
  const auto twice = with({{.name = "Twice", .inputs = {"x"}}});
  CHECK(difference_of(*twice, *some) == "only /job:worker/task:1 has scene()");
}

TEST_CASE("an op that takes the place of a built-in one counts") {
  auto registry = std::make_shared<Registry>();
  for (const Op* op : builtin_ops()->all()) {
    Op copy = *op;
    if (copy.name == "MatMul") copy.inputs = {"left", "right"};
    registry->add(copy);
  }
  CHECK(difference_of(*registry, *builtin_ops()) == "only /job:ps/task:0 has MatMul");
}

TEST_CASE("a text that has no room for all ops names no op that the other side may have") {
  std::vector<Op> many;
  for (char c = 'A'; c <= 'Z'; ++c) many.push_back({.name = std::string("Own") + c});
  const auto all = with(many);
  CHECK(own_ops(*all).size() <= kOwnOpsMax);
  CHECK(own_ops(*all).ends_with(" +"));
  const std::vector<Op> last(many.end() - 1, many.end());
  CHECK(difference_of(*all, *with(last)) == "only /job:ps/task:0 has OwnA, OwnB, OwnC and 10 more");
  std::vector<Op> without = many;
  without.pop_back();
  CHECK(difference_of(*all, *with(without)) == "");
}

TEST_CASE("a refusal for other ops fits into its greeting and says what to do") {
  Hello mine, theirs;
  mine.cluster = theirs.cluster = "troupe";
  mine.job = "evaluator";
  theirs.job = "worker";
  mine.fingerprint = 1;
  theirs.fingerprint = 2;
  std::vector<Op> own;
  for (char c = 'A'; c <= 'D'; ++c) own.push_back({.name = std::string(60, 'N') + c});
  theirs.ops = own_ops(*with(own));
  const auto refused = misfit(mine, theirs);
  REQUIRE(refused.has_value());
  const auto arrived = decode_greeting(encode(*refused));
  REQUIRE(arrived.has_value());
  CHECK(arrived->text.ends_with("; start both with the same --plugin files"));
  CHECK(arrived->hello.ops == "");
  theirs.ops.clear();
  CHECK(misfit(mine, theirs)->text.find("built with different ops; install the same version") !=
        std::string::npos);
}

}  // namespace troupe
