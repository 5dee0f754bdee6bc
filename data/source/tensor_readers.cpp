// Readers of sources on the files of troupe/files.hpp. A file is read once, when its source is
// made.
#include "data/source/tensor_readers.hpp"

#include "data/source/rows.hpp"
#include "data/source/seen.hpp"
#include "graph/base/words.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

// The rows of these arrays as records, whose fields they name.
Stage rows_of(const std::vector<std::pair<std::string, Tensor>>& arrays, const std::string& path,
              const Files& files) {
  if (arrays.empty()) throw Error(Errc::bad_data, path, " has no arrays, and so no records");
  Fields fields;
  std::vector<Tensor> columns;
  for (const auto& [name, array] : arrays) {
    if (array.ndim() == 0)
      throw Error(Errc::bad_data, path, ": ", name,
                  " is one number; its first dimension counts the records: leave it out with "
                  "`fields`");
    if (const Tensor& first = arrays[0].second; array.dim(0) != first.dim(0))
      throw Error(Errc::bad_data, path, ": ", name, " has ", array.dim(0), " records, ",
                  arrays[0].first, " has ", first.dim(0),
                  "; leave arrays out with `fields` if they are of another kind");
    const Shape all = array.shape();
    fields.push_back({name, {array.dtype(), Shape(all.dims().subspan(1))}});
    columns.push_back(array);
  }
  return rows_stage(std::move(fields), std::move(columns), path, source_files(files, {path}));
}

Stage make_named(const char* reader, const SourceArgs& args, const Files& files,
                 NamedTensors (*read_file)(const std::string& path)) {
  ArgReader read(reader, args);
  const auto path = read.want<std::string>("path");
  const auto wanted = read.get<std::vector<std::string>>("fields", {});
  read.done();
  files.kind(path);  // or whoever keeps `files` does not let it be read
  const NamedTensors all = read_file(path);
  if (wanted.empty()) return rows_of({all.begin(), all.end()}, path, files);
  std::vector<std::pair<std::string, Tensor>> arrays;
  std::vector<std::string_view> names;
  for (const auto& [name, array] : all) names.push_back(name);
  for (const std::string& name : wanted) {
    const auto found = all.find(name);
    if (found == all.end())
      throw Error(Errc::invalid_argument, path, " has no array ", name, did_you_mean(name, names));
    arrays.emplace_back(*found);
  }
  return rows_of(arrays, path, files);
}

}  // namespace

Stage make_npy(const SourceArgs& args, const Files& files) {
  ArgReader read("npy", args);
  const auto path = read.want<std::string>("path");
  const auto field = read.get<std::string>("field", "value");
  read.done();
  files.kind(path);  // as above
  return rows_of({{field, read_npy(path)}}, path, files);
}

Stage make_npz(const SourceArgs& args, const Files& files) {
  return make_named("npz", args, files, [](const std::string& path) { return read_npz(path); });
}

Stage make_safetensors(const SourceArgs& args, const Files& files) {
  return make_named("safetensors", args, files, read_safetensors);
}

}  // namespace troupe
