// The rules of words.cpp and names.cpp find what breaks them.
#include "tests/house/words.hpp"

#include <doctest/doctest.h>

#include "tests/house/examples.hpp"
#include "tests/house/rules.hpp"

namespace troupe {
namespace {

using Heads = std::vector<std::string>;

TEST_CASE("words: sentences end with a mark and white space, or with an empty line") {
  CHECK(sentence_heads("A link. It has 1.5 s, e.g. now.\nIts end") == Heads{"A", "It", "Its"});
  CHECK(sentence_heads("net/link.hpp has it") == Heads{"net"});
  CHECK(sentence_heads("A link\n\nThe mesh") == Heads{"A", "The"});
  CHECK(sentence_heads("(Links. `Meshes` too.)") == Heads{"Links", "Meshes"});
  CHECK(sentence_heads("What is it? A link.") == Heads{"A"});
  CHECK(sentence_heads("").empty());
}

const std::vector<Example> sentences = {
    {"a subject first", "net/a.cpp", "// Links say what they know. They are of one kind.\n", ""},
    {"a clause first", "net/a.cpp", "int a;\n// What links say.\n",
     "a.cpp:2: a sentence begins with \"What\""},
    {"a later sentence", "net/a.cpp", "// A link.\n// Whoever has one may write.\n", "\"Whoever\""},
    {"a sentence over lines", "net/a.cpp", "// A link of those\n// who know what it is.\n", ""},
    {"each word", "net/a.cpp", "// Whether it is.\n", "\"Whether\""},
    {"beside code", "net/a.cpp", "int a;  // what it says\n", "\"what\""},
    {"a complement beside code", "net/a.cpp", "int a;  // of all links\n", ""},
    {"a sentence with a complement first", "net/a.cpp", "// Of all links, one.\n", "\"Of\""},
    {"a question", "net/a.cpp", "// Who is there?\n", ""},
    {"a word that only begins so", "net/a.cpp", "// Offers. Whatever.\n", ""},
    {"what is no comment", "net/a.cpp", "f(\"What // Who\");\n", ""},
    {"a block comment", "net/a.cpp", "/* Those who wait. */\n", "\"Those\""},
    {"a script", "tests/apps/a.sh", "#!/bin/sh\n# What it does.\n", "a.sh:2: "},
    {"a script's arguments", "dev", "f() {  # WHAT ARGS\n", ""},
    {"a document", "docs/a.md", "# What dies\n\nA link. Who waits is told.\n", "a.md:3: "},
    {"a heading", "docs/a.md", "## What dies\n", ""},
    {"an item", "docs/a.md", "- **Those** who wait.\n", "\"Those\""},
    {"a second item", "docs/a.md", "- A link.\n- What it is.\n", "a.md:2: "},
    {"a table's cells", "docs/a.md", "| a | what it is | who |\n", ""},
    {"a later sentence of a cell", "docs/a.md", "| a | a link. What it is |\n", "\"What\""},
    {"a block of code", "docs/a.md", "```\nWhat it prints\n```\n", ""},
    {"a past decision", "docs/decisions.md", "## 2026-11-23 Links\nWhat links say.\n", ""},
    {"a later decision", "docs/decisions.md", "## 2026-11-24 Links\nWhat links say.\n", "\"What\""},
};

TEST_CASE("words: sentences begin with their subject") {
  check_examples(sentences, check_sentences);
  CHECK(check_sentences({"net/link/a.cpp", "// What it is.\n"})[0].place == "net/link");
}

TEST_CASE("words: a head says what the file is") {
  check_examples(
      {{"alone", "net/a.cpp", "// Implements net/a.hpp.\n#include <a>\n", "says nothing"},
       {"with more", "net/a.cpp", "// Implements net/a.hpp. One thread.\n", ""},
       {"another line", "net/a.cpp", "// Implements net/a.hpp.\n// One thread.\n", ""},
       {"further down", "net/a.cpp", "// A link.\nint a;\n// Implements b.\n", ""}},
      check_heads);
}

TEST_CASE("words: a header says who owns it and which thread calls it") {
  const std::string both = "// A link.\n// Owner: the mesh. Thread: the net thread.\n";
  check_examples(
      {{"both", "net/link/a.hpp", both, ""},
       {"no thread", "net/link/a.hpp", "// Owner: the mesh.\n", "does not say \"Thread:\""},
       {"no owner", "actors/a.hpp", "// Thread: any.\n", "does not say \"Owner:\""},
       {"neither", "devices/a.hpp", "// A device.\n", "does not say \"Owner:\""},
       {"in code", "training/a.hpp", "f(\"Owner: Thread:\");\n", "\"Owner:\""},
       {"a source", "net/link/a.cpp", "// A link.\n", ""},
       {"a folder of plain functions", "graph/a.hpp", "// A graph.\n", ""}},
      check_owners);
}

TEST_CASE("names: of ops and attributes, read from ops/") {
  const OpNames names =
      read_op_names({{"ops/a.cpp",
                      "// \"Comment\"\nOp a() { return {.name = \"MatMul\", .attrs = {{\"axis\", "
                      "AttrKind::integer}}}; }\nthrow error(\"too many\");\n"},
                     {"graph/a.cpp", "f(\"Graph\");"}});
  CHECK(names.ops == std::set<std::string>{"MatMul"});
  CHECK(names.attributes == std::set<std::string>{"axis"});

  const auto check = [&](const Source& file) { return check_names(names, file); };
  check_examples(
      {{"an op", "placement/a.cpp", "\nif (op.name == \"MatMul\")", "a.cpp:2: \"MatMul\""},
       {"an attribute", "actors/a.cpp", "attr<int>(\"axis\")", "name of an attribute"},
       {"a constant of a header", "net/a.hpp", "const char* kOp = \"MatMul\";", "an op"},
       {"a part of a text", "placement/a.cpp", "f(\"an axis\")", ""},
       {"a comment", "placement/a.cpp", "// \"MatMul\"", ""},
       {"where ops are made", "ops/b.cpp", "add(\"MatMul\")", ""},
       {"where graphs are built", "nn/b.cpp", "add(\"MatMul\")", ""},
       {"a test", "tests/actors/b.cpp", "add(\"MatMul\")", ""}},
      check);
  CHECK(check({"net/a.cpp", "\"axis\""})[0].place == "net/a.cpp axis");
}

}  // namespace
}  // namespace troupe
