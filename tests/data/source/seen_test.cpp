// Processes that see other fields or files of a source than the program that built the graph.
#include <filesystem>
#include <fstream>

#include "data/source/seen.hpp"
#include "tests/data/source/numbers.hpp"
#include "tests/support/fake_files.hpp"

namespace troupe {
namespace {

using List = std::vector<SourceFile>;

const Fields kFields = {{"x", {DType::f32, {}}}, {"label", {DType::i64, {}}}};

std::string refused(const List& program, const List& process) {
  return refusal_of([&] { check_seen(seen_args(kFields, program), kFields, process); }).text;
}

List parts(int n) {
  List out;
  for (int i = 0; i < n; ++i) out.push_back({detail::concat("part-", i), 10});
  return out;
}

TEST_CASE("fields of other names, in another order, or another number of them are refused") {
  const SourceArgs seen = seen_args(kFields, {});
  CHECK(seen_fields(seen) == std::vector<std::string>{"x", "label"});
  check_seen(seen, kFields, {});
  const auto text = [&](const Fields& here) {
    return error_text(Errc::bad_data, [&] { check_seen(seen, here, {}); });
  };
  has(text({kFields[1], kFields[0]}),
      "the fields of the source are label, x in this process, and were x, label where the graph");
  has(text({kFields[0]}), "are x in this process");
  has(text({kFields[0], kFields[1], {"z", {}}}), "are x, label, z in this process");
}

TEST_CASE("the first file that differs is named") {
  CHECK(refused(parts(3), parts(3)).empty());
  CHECK(refused({}, {}).empty());
  CHECK(refused({{"a", -1}}, {{"a", -1}}).empty());
  List other = parts(3);
  other[1].bytes = 11;
  has(refused(parts(3), other), "file 2, part-1 (11 bytes), differs");
  other = parts(3);
  std::swap(other[0], other[1]);
  has(refused(parts(3), other), "file 1, part-1 (10 bytes), differs");
  has(refused(parts(3), parts(2)),
      "has 2 files in this process, and had 3 where the graph was built: in their order, the files "
      "end after 2");
  has(refused(parts(2), parts(3)), "file 3, part-2 (10 bytes), differs");
  has(refused({{"a", -1}}, {{"b", -1}}), "file 1, b, differs");
}

TEST_CASE("of many files, several share a hash, and all of them count") {
  const List all = parts(1000);
  CHECK(std::get<std::vector<int64_t>>(seen_args(kFields, all).at("hashes")).size() == 63);
  CHECK(refused(all, all).empty());
  for (const size_t at : {0, 15, 16, 999}) {
    List other = all;
    other[at].name += "x";
    const size_t run = at / 16 * 16;
    has(refused(all, other),
        detail::concat("of 16 files, from file ", run + 1, ", ", other[run].name,
                       " (10 bytes), on, one differs or is missing"));
  }
  has(refused(all, parts(1001)), "has 1001 files in this process, and had 1000");
  has(refused(all, parts(999)), "has 999 files in this process, and had 1000");
}

TEST_CASE("names count without their folders, so copies may stand anywhere") {
  const FakeFiles files(FileMap{{"a/b/x.csv", "12"}, {"y", "345"}});
  CHECK(source_files(files, {"a/b/x.csv", "y"}) == List{{"x.csv", 2}, {"y", 3}});
}

// A source of a folder, as the process of a worker builds it from the text of a node.
Stage built(const Source& source, const std::string& seen) {
  const SourcePlan plan = plan_source(with_seen(source.spec(), seen));
  CHECK(plan.epochs == 2);
  CHECK(plan.threads == 3);
  return build_stages(*plan.stages, nullptr);
}

TEST_CASE("a source is built where its readers find the files that the program saw") {
  const std::filesystem::path folder = binary_dir() + "/test-seen";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a.txt") << "a\n";
  const Source lines = Source::of("lines", {{"paths", std::vector<std::string>{folder}}});
  const Source source =
      Source::interleave({lines, lines.skip(1)}).batch(2, {.pad = true}).repeat(2).prefetch(3);
  const std::string seen = see_stages(*plan_source(source.spec()).stages, nullptr).seen;
  CHECK(built(source, seen)->fields()[0].name == "text");
  std::ofstream(folder / "b.txt") << "b\n";
  has(error_text(Errc::bad_data, [&] { built(source, seen); }),
      "file 2, b.txt (2 bytes), differs");  // the first reader's; 2 readers of 1 file each
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace troupe
