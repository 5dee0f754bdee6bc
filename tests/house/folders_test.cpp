// The rules of folders.cpp find what breaks them.
#include <doctest/doctest.h>

#include "tests/house/rules.hpp"

namespace troupe {
namespace {

std::vector<Source> files(const std::string& folder, int n, const std::string& text = "") {
  std::vector<Source> out;
  for (int i = 0; i < n; ++i) out.push_back({folder + "/a" + std::to_string(i) + ".hpp", text});
  return out;
}

TEST_CASE("folders: 40 files lie flat in one, 41 do not") {
  CHECK(check_folder_sizes(files("ops", 40)).empty());
  const auto found = check_folder_sizes(files("tests/ops", 41));
  REQUIRE(found.size() == 1);
  CHECK(found[0].place == "tests/ops");
  CHECK(found[0].size == 41);
  std::vector<Source> parted = files("ops", 40);
  for (Source& file : files("ops/nn", 40)) parted.push_back(file);
  CHECK(check_folder_sizes(parted).empty());
}

TEST_CASE("folders: each room and each part of one has a README.md of about five lines") {
  const std::vector<Room> rooms = {{"graph"}, {"ops", {}, {"nn"}}};
  const std::string text = "# Nodes\n\nThey know nothing.\n";
  const Source graph = {"graph/README.md", text}, ops = {"ops/README.md", text};
  CHECK(check_readmes(rooms, {graph, ops, {"ops/nn/README.md", text}}).empty());
  const auto missing = check_readmes(rooms, {graph, ops, {"ops/nn/README.txt", text}});
  REQUIRE(missing.size() == 1);
  CHECK(to_string(missing[0]) == "ops/nn: no README.md says what lives here and what it may touch");
  CHECK(check_readmes(rooms, {graph, ops, {"ops/nn/README.md", "# Nn\n"}}).size() == 1);
  CHECK(check_readmes(rooms, {graph, ops, {"ops/nn/README.md", std::string(9, '\n')}}).size() == 1);
}

TEST_CASE("folders: a source stands in a room or in a part of one") {
  const std::vector<Room> rooms = {{"net/wire"}, {"ops", {}, {"nn"}}};
  CHECK(check_homes(rooms, {{"net/wire/a.cpp", ""}, {"ops/nn/a.cpp", ""}, {"apps/a.cpp", ""}})
            .empty());
  CHECK(check_homes(rooms, {{"net/a.cpp", ""}}).size() == 1);
  CHECK(check_homes(rooms, {{"ops/nn/more/a.hpp", ""}}).size() == 1);
}

TEST_CASE("folders: public headers are counted in all folders below include/") {
  std::vector<Source> some = files("include/troupe", 13);
  for (Source& file : files("include/troupe/ops", 13)) some.push_back(file);
  CHECK(check_public_headers(some).empty());
  some.push_back({"include/troupe/training/deep/b.hpp", ""});
  const auto many = check_public_headers(some);
  REQUIRE(many.size() == 1);
  CHECK(to_string(many[0]) == "include: 27 files in public headers; at most 26");
  CHECK(check_public_headers(files("include/troupe", 2, std::string(2656, '\n'))).empty());
  CHECK(check_public_headers(files("include/troupe", 2, std::string(2657, '\n'))).size() == 1);
}

}  // namespace
}  // namespace troupe
