// The house is tidy: the tree keeps every rule of tests/house, but for its debts and exceptions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/house/command.hpp"
#include "tests/house/debts.hpp"
#include "tests/house/rooms.hpp"
#include "tests/house/rules.hpp"
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(source_dir() + "/" + path);
  REQUIRE_MESSAGE(in.good(), path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::vector<Source>& tree() {
  static const std::vector<Source> files = read_tree(source_dir());
  return files;
}

std::vector<Violation> excused(const std::string& rule, const std::vector<Violation>& found) {
  static const Exceptions exceptions = read_exceptions(read("tests/house/exceptions.txt"));
  return excuse(rule, found, exceptions);
}

// Nothing is left of the findings of a rule when its debts and exceptions are taken off.
void expect_kept(const std::string& rule, std::vector<Violation> found) {
  const char* const path = "tests/house/debts.txt";
  found = excused(rule, found);
  if (std::getenv("TROUPE_LOWER_DEBTS")) {
    const std::string text = lowered(read(path), rule, found);
    std::ofstream(source_dir() + "/" + path) << text;
  }
  found = settle(rule, found, read_debts(read(path)));
  std::string all;
  for (const Violation& v : found) all += to_string(v) + "\n";
  CHECK_MESSAGE(found.empty(), "[", rule, "] ", found.size(), " violations:\n", all);
}

// The findings of `rule`, a function of one file, in all files.
template <class Rule>
std::vector<Violation> in_each_file(Rule rule) {
  std::vector<Violation> found;
  for (const Source& file : tree())
    for (Violation& v : rule(file)) found.push_back(std::move(v));
  return found;
}

TEST_CASE("the tree is read") {
  for (const char* known :
       {"include/troupe/graph.hpp", "graph/graph.cpp", "dev", "tests/house/lines.cpp"}) {
    CAPTURE(known);
    CHECK(std::any_of(tree().begin(), tree().end(),
                      [&](const Source& file) { return file.path == known; }));
  }
}

TEST_CASE("tidy: every line") { expect_kept("lines", in_each_file(check_lines)); }

TEST_CASE("tidy: includes go to rooms that cmake/rooms.cmake allows") {
  const std::vector<Room> rooms = read_rooms(read("cmake/rooms.cmake"));
  REQUIRE(rooms.size() > 20);
  expect_kept("rooms", check_rooms(rooms));
  expect_kept("includes",
              in_each_file([&](const Source& file) { return check_includes(rooms, file); }));
}

TEST_CASE("tidy: rooms link rooms that they see") {
  const std::vector<Room> rooms = read_rooms(read("cmake/rooms.cmake"));
  std::string command = "nm -A -g -P";
  for (const Room& room : rooms) {
    const std::string archive = binary_dir() + "/" + room.archive();
    if (!std::filesystem::exists(archive)) {
      std::cout << "skipped: " << archive << " is not built; test_house depends on it\n";
      return;
    }
    command += " '" + archive + "'";
  }
  const auto archives = read_symbols(output_of(command + " 2>/dev/null"));
  REQUIRE(archives.size() == rooms.size());
  expect_kept("links", check_links(rooms, archives));
  expect_kept("needed", check_needed(rooms, tree(), archives));
}

TEST_CASE("tidy: folders are small and say what they are for") {
  const std::vector<Room> rooms = read_rooms(read("cmake/rooms.cmake"));
  expect_kept("folders", check_folder_sizes(tree()));
  expect_kept("readmes", check_readmes(rooms, tree()));
  expect_kept("homes", check_homes(rooms, tree()));
}

TEST_CASE("tidy: the public interface is small") {
  expect_kept("public", check_public_headers(tree()));
}

TEST_CASE("tidy: classes are small, whole and without friends") {
  const ClassFindings found = check_classes(tree());
  expect_kept("members", found.members);
  expect_kept("functions", found.functions);
  expect_kept("sliced", found.sliced);
  expect_kept("friends", found.friends);
}

TEST_CASE("tidy: state has an owner") { expect_kept("statics", in_each_file(check_statics)); }

TEST_CASE("tidy: names of ops stand where ops are made") {
  const OpNames names = read_op_names(tree());
  REQUIRE(names.ops.size() > 200);
  REQUIRE(names.attributes.count("replica"));
  std::vector<Violation> found =
      in_each_file([&](const Source& file) { return check_names(names, file); });
  found = excused("strings", found);  // by file and name
  for (Violation& v : found) v.place = v.file;
  expect_kept("names", found);  // by file
}

TEST_CASE("tidy: sentences begin with their subject") {
  expect_kept("sentences", in_each_file(check_sentences));
  expect_kept("heads", in_each_file(check_heads));
  expect_kept("owners", in_each_file(check_owners));
}

}  // namespace
}  // namespace troupe
