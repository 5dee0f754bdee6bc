// The arguments of the stage `seen`: `fields`, the names; `files`, the number of files; `hashes`,
// one for each run of files, which are equally long but for the last one.
#include "data/source/seen.hpp"

#include <algorithm>

#include "data/source/fields.hpp"
#include "graph/base/fnv.hpp"

namespace troupe {
namespace {

constexpr size_t kHashesMax = 64;

size_t run_length(size_t files) {
  return std::max<size_t>(1, (files + kHashesMax - 1) / kHashesMax);
}

int64_t hash_of(const std::vector<SourceFile>& files, size_t begin, size_t end) {
  Fnv hash;
  for (size_t i = begin; i < std::min(end, files.size()); ++i)
    hash.add(files[i].name).add("\n").add(std::to_string(files[i].bytes)).add("\n");
  return static_cast<int64_t>(hash.value());
}

std::vector<int64_t> hashes_of(const std::vector<SourceFile>& files, size_t run) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < files.size(); i += run) out.push_back(hash_of(files, i, i + run));
  return out;
}

std::string described(const SourceFile& file) {
  return file.bytes < 0 ? file.name : detail::concat(file.name, " (", file.bytes, " bytes)");
}

void check_fields(const std::vector<std::string>& wanted, const Fields& fields) {
  Fields there;
  bool same = fields.size() == wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    there.push_back({wanted[i], {}});
    same = same && fields[i].name == wanted[i];
  }
  if (same) return;
  throw Error(Errc::bad_data, "the fields of the source are ", names_of(fields),
              " in this process, and were ", names_of(there),
              " where the graph was built; give both processes the same files and functions");
}

}  // namespace

std::vector<SourceFile> source_files(const Files& files, const std::vector<std::string>& paths) {
  std::vector<SourceFile> out;
  for (const std::string& path : paths)
    out.push_back({path.substr(path.rfind('/') + 1), files.open(path)->size()});  // npos + 1 is 0
  return out;
}

SourceArgs seen_args(const Fields& fields, const std::vector<SourceFile>& files) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  return {{"fields", std::move(names)},
          {"files", static_cast<int64_t>(files.size())},
          {"hashes", hashes_of(files, run_length(files.size()))}};
}

std::vector<std::string> seen_fields(const SourceArgs& seen) {
  return ArgReader("seen", seen).want<std::vector<std::string>>("fields");
}

void check_seen(const SourceArgs& seen, const Fields& fields,
                const std::vector<SourceFile>& files) {
  check_fields(seen_fields(seen), fields);
  ArgReader read("seen", seen);
  const auto wanted = static_cast<size_t>(read.want<int64_t>("files"));
  const auto hashes = read.want<std::vector<int64_t>>("hashes");
  const size_t run = run_length(wanted);
  const std::vector<int64_t> here = hashes_of(files, run);
  if (files.size() == wanted && here == hashes) return;
  const auto differs = std::mismatch(here.begin(), here.end(), hashes.begin(), hashes.end()).first;
  const size_t first = static_cast<size_t>(differs - here.begin()) * run;
  const std::string at =
      first >= files.size() ? detail::concat("the files end after ", files.size())
      : run == 1 ? detail::concat("file ", first + 1, ", ", described(files[first]), ", differs")
                 : detail::concat("of ", run, " files, from file ", first + 1, ", ",
                                  described(files[first]), ", on, one differs or is missing");
  throw Error(Errc::bad_data, "the source has ", files.size(), " files in this process, and had ",
              wanted, " where the graph was built: in their order, ", at,
              "; give both processes files of the same names and sizes");
}

}  // namespace troupe
