// The texts of aggregation rules, and the numbers that they refuse.
#include <doctest/doctest.h>

#include "tests/support/refusal.hpp"
#include "training/rules/rule.hpp"

namespace troupe {
namespace {

using Kind = Aggregation::Kind;

TEST_CASE("a rule reads its own text") {
  for (const char* const text :
       {"sync", "sync-backup:1", "async", "async-damped", "ssp:0", "ssp:12", "ssp-damped:3",
        "sync+embedding*=async", "async+a/b=ssp:2+c=sync"})
    CHECK(to_string(aggregation_from_string(text)) == text);
  CHECK(aggregation_from_string("sync-backup:2") == Aggregation{Kind::sync_backup, 2});
  CHECK(aggregation_from_string("ssp-damped:3") == Aggregation{Kind::ssp, 3, true});
}

TEST_CASE("a parameter has its own rule by its name or the longest pattern that fits") {
  const Aggregation rule = aggregation_from_string("sync+emb*=async+*/bias=ssp:7+emb/big=ssp:2");
  CHECK(rule.of("conv/bias") == Aggregation{Kind::ssp, 7});
  CHECK(rule.of("emb/big") == Aggregation{Kind::ssp, 2});
  CHECK(rule.of("emb/bigger") == Aggregation::async);
  CHECK(rule.of("fc/emb") == Aggregation::sync);
  CHECK_FALSE(rule.by_steps());
  CHECK(aggregation_from_string("sync+fc=sync").by_steps());
  CHECK(aggregation_from_string("sync+fc=sync").repeats());
  CHECK(!aggregation_from_string("sync+fc=async").repeats());
}

TEST_CASE("own rules of parameters that are not trained, or do not fit, are refused") {
  const auto refusal = [](const char* text) {
    return error_text(Errc::invalid_argument, [&] {
      check_rule(aggregation_from_string(text), 2, {"fc/w", "fc/b"});
    });
  };
  CHECK(refusal("sync+emb*=async") ==
        "the rule sync+emb*=async names \"emb*\", and no trained parameter is called so; there are "
        "fc/w, fc/b");
  CHECK(refusal("sync+fc/v=async").find("did you mean fc/w?") != std::string::npos);
  CHECK(refusal("sync-backup:1+fc*=async").find("beside sync-backup") != std::string::npos);
  CHECK(refusal("sync+fc*=sync-backup:1").find("beside sync-backup") != std::string::npos);
  CHECK_NOTHROW(check_rule(aggregation_from_string("ssp:1+fc/b=async"), 2, {"fc/w", "fc/b"}));
  for (const char* const text : {"sync+fc", "sync+=async", "sync+", "sync++fc=async"})
    CHECK(error_text(Errc::invalid_argument, [&] { aggregation_from_string(text); }) != "");
  CHECK(error_text(Errc::invalid_argument, [] {
          aggregation_from_string("sync+fc=fast");
        }).find("unknown aggregation rule \"fast\"") != std::string::npos);
}

TEST_CASE("a text that is no rule is refused, with the rules there are") {
  for (const char* const text : {"", "Sync", "sync:1", "sync-backup", "ssp", "async:2", "ssp3"})
    CHECK(error_text(Errc::invalid_argument, [&] {
            aggregation_from_string(text);
          }).find("there are sync, sync-backup:B") != std::string::npos);
  CHECK(error_text(Errc::invalid_argument, [] { aggregation_from_string("ssp:-1"); }) ==
        "the aggregation rule \"ssp:-1\" wants a whole number from 0 to 9223372036854775807 after "
        "the colon, got "
        "\"-1\"");
  CHECK(error_text(Errc::invalid_argument, [] {
          aggregation_from_string("ssp:3x");
        }).find("got \"3x\"") != std::string::npos);
}

TEST_CASE("a bound that does not fit the replicas is refused with both numbers") {
  const auto refusal = [](const Aggregation& rule) {
    return error_text(Errc::invalid_argument, [&] { make_rule(rule, replicas_at(3, 0)); });
  };
  CHECK(refusal({Kind::sync_backup, 3}) ==
        "the rule sync-backup:3 leaves out 3 of 3 replicas, and an update needs one; add replicas, "
        "or leave out fewer");
  CHECK(refusal({Kind::sync_backup, 0}).find("name at least 1, or take sync") != std::string::npos);
  CHECK(refusal({Kind::ssp, -2}) == "the rule ssp:-2 wants a number of at least 0, got -2");
  CHECK(refusal({Kind::sync, 0, true}).find("damp async or ssp:S") != std::string::npos);
  CHECK(make_rule({Kind::sync_backup, 2}, replicas_at(3, 0))->kind().bound == 2);
}

}  // namespace
}  // namespace troupe
