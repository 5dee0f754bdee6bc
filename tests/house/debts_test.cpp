// Debts and exceptions: what they forgive, and when they complain.
#include <doctest/doctest.h>

#include "tests/house/debts.hpp"

namespace troupe {
namespace {

std::string text_of(const std::vector<Violation>& found) {
  std::string all;
  for (const Violation& v : found) all += to_string(v) + "\n";
  return all;
}
bool says(const std::vector<Violation>& found, const std::string& part) {
  return text_of(found).find(part) != std::string::npos;
}

const Debts owed = read_debts("# Debts.\n[words]\n2 graph\n1 a -> b\n\n[classes] large ones\n");
const Violation in_graph = {"graph/a.cpp", 3, "a bad word", "graph"};
const Violation arrow = {"a", 0, "an arrow", "a -> b"};

TEST_CASE("debts: as many findings as the debt says are none") {
  CHECK(settle("words", {in_graph, in_graph, arrow}, owed).empty());
}

TEST_CASE("debts: one finding more shows all findings of the place") {
  const auto left = settle("words", {in_graph, in_graph, in_graph, arrow}, owed);
  CHECK(left.size() == 3);
  CHECK(says(left, "graph/a.cpp:3: a bad word [words: 3 in graph, the debt is 2]"));
}

TEST_CASE("debts: sizes add up") {
  Violation large = in_graph;
  large.size = 2;
  CHECK(settle("words", {large, arrow}, owed).empty());
  large.size = 3;
  CHECK(settle("words", {large, arrow}, owed).size() == 1);
}

TEST_CASE("debts: a place without debt, and another rule's debt, forgive nothing") {
  CHECK(settle("classes", {in_graph}, owed).size() == 1);
  CHECK(settle("unknown", {in_graph}, owed).size() == 1);
  CHECK(says(settle("words", {in_graph, in_graph, arrow, {"net/a.cpp", 1, "bad"}}, owed),
             "net/a.cpp:1: bad"));
}

TEST_CASE("debts: a debt that is larger than needed, or paid, has to be lowered") {
  const auto lower = settle("words", {in_graph, arrow}, owed);
  REQUIRE(lower.size() == 1);
  CHECK(says(lower,
             "tests/house/debts.txt:3: paid in part: lower the entry of [words] to \"1 graph\""));
  const auto paid = settle("words", {in_graph, in_graph}, owed);
  REQUIRE(paid.size() == 1);
  CHECK(says(paid, "tests/house/debts.txt:4: paid: remove \"a -> b\""));
}

TEST_CASE("debts: a list can be lowered to what is needed, and never grows by that") {
  const std::string text = "# Debts.\n[words] text\n2 graph\n1 a -> b\n[more]\n7 graph\n";
  CHECK(lowered(text, "words", {in_graph}) == "# Debts.\n[words] text\n1 graph\n[more]\n7 graph\n");
  CHECK(lowered(text, "words", {in_graph, in_graph, in_graph, arrow}) == text);
}

TEST_CASE("debts: what is no debt is refused") {
  CHECK_THROWS(read_debts("1 graph\n"));              // no rule
  CHECK_THROWS(read_debts("[words]\ngraph 1\n"));     // the other way round
  CHECK_THROWS(read_debts("[words]\n0 graph\n"));     // nothing
  CHECK_THROWS(read_debts("[words]\n1 a\n2 a\n"));    // twice
  CHECK_THROWS(read_exceptions("[words]\nplace\n"));  // no reason
}

TEST_CASE("debts: they shrink as a sum, so that a place may be renamed") {
  const Debts renamed = read_debts("[words]\n2 ground\n1 a -> b\n[classes]\n");
  CHECK(check_shrinks(owed, renamed).empty());
  const Debts grown = read_debts("[words]\n3 graph\n1 a -> b\n[classes]\n");
  CHECK(says(check_shrinks(owed, grown), "[words] grow from 3 to 4"));
  const Debts new_rule = read_debts("[words]\n2 graph\n[more]\n7 graph\n");
  CHECK(check_shrinks(owed, new_rule).empty());
  CHECK(says(check_shrinks(owed, read_debts("[classes]\n1 Stage\n")), "grow from 0 to 1"));
}

TEST_CASE("exceptions: a place with a reason is no finding; one that nothing needs is") {
  const Exceptions some = read_exceptions("[words]\ngraph: it quotes a sentence\n");
  CHECK(excuse("words", {in_graph}, some).empty());
  CHECK(excuse("words", {in_graph, arrow}, some).size() == 1);
  CHECK(excuse("classes", {in_graph}, some).size() == 1);
  CHECK(says(excuse("words", {}, some), "nothing needs the exception of [words] for graph"));
}

}  // namespace
}  // namespace troupe
