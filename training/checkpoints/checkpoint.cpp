// Files of shards, the commit of a checkpoint, and reading back. manifest.cpp has the manifest's
// text; checkpoint_files.cpp finds files in a folder and removes them.
#include "training/checkpoints/checkpoint.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "graph/optimizer.hpp"
#include "graph/table_options.hpp"
#include "training/checkpoints/checkpoint_files.hpp"
#include "training/checkpoints/digest.hpp"
#include "training/checkpoints/table_rows.hpp"
#include "data/files/json.hpp"
#include "training/rules/optimizer.hpp"
#include "training/rules/rule_local.hpp"
#include "data/files/safetensors.hpp"

namespace troupe {
namespace {

constexpr int64_t kManifestBytesMax = int64_t{16} << 20;  // about 200 bytes a parameter
constexpr int64_t kChunk = int64_t{1} << 20;              // of files that are hashed
constexpr int64_t kRoomToSpare = int64_t{1}
                                 << 20;  // for the manifest and the file system's own needs
// The largest version and step: no training counts so far, and sums of two do not overflow.
constexpr int64_t kCountMax = INT64_MAX / 2;
constexpr const char* kTableKey = "table_options";
constexpr const char* kShardFormat = "troupe-shard";
constexpr int kShardVersion = 2, kShardVersionOldest = 1;  // 1: only the kind of each optimizer

// ---- the state of slices as metadata ----

std::vector<std::string> accumulators_of(const SliceState& s) {
  if (s.rows) return s.rows->layout.accumulators;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : s.optimizer_accumulators) names.push_back(name);
  return names;
}

std::string slices_text(const ShardImage& state) {
  std::ostringstream out;
  out << "[";
  for (size_t i = 0; i < state.slices.size(); ++i) {
    const SliceState& s = state.slices[i];
    out << (i ? "," : "") << "{\"parameter\":" << json_quote(s.slice.parameter) << ",\"dtype\":\""
        << to_string(s.slice.dtype) << "\",\"shape\":[";
    for (int d = 0; d < s.slice.shape.ndim(); ++d) out << (d ? "," : "") << s.slice.shape[d];
    out << "],\"offset\":" << s.slice.offset << ",\"size\":" << s.slice.size
        << ",\"version\":" << s.version << ",\"next_step\":" << s.next_step
        << ",\"optimizer\":" << json_quote(s.slice.optimizer ? describe(*s.slice.optimizer) : "")
        << ",\"optimizer_slots\":[";
    const std::vector<std::string> accumulators = accumulators_of(s);
    for (size_t k = 0; k < accumulators.size(); ++k)
      out << (k ? "," : "") << json_quote(accumulators[k]);
    out << "]";
    if (s.rows)
      out << ",\"table_options\":" << json_quote(describe(*s.slice.table))
          << ",\"row_count\":" << s.rows->sorted().size();
    if (s.accumulators_since > 0) out << ",\"slots_since\":" << s.accumulators_since;
    out << ",\"progress\":[";
    for (size_t k = 0; k < s.progress.size(); ++k)
      out << (k ? "," : "") << "{\"slot\":" << s.progress[k].replica
          << ",\"next_step\":" << s.progress[k].next_step
          << ",\"counted\":" << s.progress[k].counted << "}";
    out << "]}";
  }
  out << "]";
  return out.str();
}

// A slice as a file has it: everything but the elements.
struct StoredSlice {
  SliceState state;
  const SafetensorsReader* file = nullptr;
  int64_t rows = 0;  // of a table
};

const SafetensorsEntry& entry_of(const SafetensorsReader& file, const std::string& name,
                                 const Slice& slice) {
  const SafetensorsEntry* e = file.find(name);
  if (!e)
    throw Error(Errc::bad_data, file.path(), ": expected a tensor ", json_quote(name),
                ", found none");
  if (e->dtype != slice.dtype || e->shape.size() != slice.size)
    throw Error(Errc::bad_data, file.path(), ": tensor ", json_quote(name), ": expected ",
                slice.size, " elements of ", slice.dtype, ", found ", e->dtype, e->shape);
  return *e;
}

SliceState slice_of(const JsonReader& r) {
  r.only({"parameter", "dtype", "shape", "offset", "size", "version", "next_step", "optimizer",
          "optimizer_slots", "slots_since", "progress", kTableKey, "row_count"});
  SliceState s;
  s.slice.parameter = r.string("parameter");
  std::vector<int64_t> dims;
  for (const JsonReader& d : r.array("shape")) dims.push_back(d.as_i64(0));
  int64_t size = 0;
  try {
    s.slice.dtype = dtype_from_string(r.string("dtype"));
    s.slice.shape = Shape(dims);
    size = s.slice.shape.size();
    if (const std::string text = r.string("optimizer"); !text.empty())
      s.slice.optimizer = optimizer_from_text(text);
    if (r.json().find(kTableKey)) {
      s.slice.table = table_options_from_text(r.string(kTableKey));
      check_table(s.slice.dtype, s.slice.shape, *s.slice.table);
      size = s.slice.extent();
    }
  } catch (const Error& e) {
    throw r.error(e.what());
  }
  s.slice.offset = r.i64("offset", 0, size);
  s.slice.size = r.i64("size", 0, size - s.slice.offset);
  s.version = r.i64("version", 0, kCountMax);
  s.next_step = r.i64("next_step", 0, kCountMax);
  for (const JsonReader& name : r.array("optimizer_slots"))
    s.optimizer_accumulators.emplace_back(name.as_string(), Tensor{});
  if (r.json().find("slots_since")) s.accumulators_since = r.i64("slots_since", 0, s.version);
  for (const JsonReader& p : r.array("progress")) {
    p.only({"slot", "next_step", "counted"});
    s.progress.push_back({static_cast<int32_t>(p.i64("slot", 0, INT32_MAX)),
                          p.i64("next_step", 0, kCountMax), p.u64("counted")});
  }
  return s;
}

void check_metadata(const SafetensorsReader& file) {
  const auto& m = file.metadata();
  const auto format = m.find("format"), version = m.find("version");
  if (format == m.end() || format->second != kShardFormat)
    throw Error(Errc::bad_data, file.path(), ": expected the format \"", kShardFormat,
                "\" in its metadata, found ",
                format == m.end() ? "none" : json_quote(format->second));
  if (version == m.end() || (version->second != std::to_string(kShardVersion) &&
                             version->second != std::to_string(kShardVersionOldest)))
    throw Error(Errc::bad_configuration, file.path(), ": expected version ", kShardVersionOldest,
                " to ", kShardVersion, ", found ",
                version == m.end() ? "none" : json_quote(version->second),
                "; read it with the program that wrote it");
}

std::vector<StoredSlice> stored_slices(const SafetensorsReader& file) {
  check_metadata(file);
  const auto slices = file.metadata().find("slices");
  if (slices == file.metadata().end())
    throw Error(Errc::bad_data, file.path(), ": expected \"slices\" in its metadata, found none");
  const Json json = parse_json(slices->second, file.path() + " (slices)");
  std::vector<StoredSlice> out;
  for (const JsonReader& r : JsonReader(json, file.path(), "slices").as_array()) {
    StoredSlice s{slice_of(r), &file};
    const Slice& slice = s.state.slice;
    if (slice.table) {
      s.rows = r.i64("row_count", 0, kTableElementsMax / slice.row_size());
      check_table_entries(file, slice, s.rows, accumulators_of(s.state));
      out.push_back(std::move(s));
      continue;
    }
    entry_of(file, tensor_name(slice), slice);
    for (const auto& [name, tensor] : s.state.optimizer_accumulators)
      entry_of(file, tensor_name(slice, name), slice);
    out.push_back(std::move(s));
  }
  return out;
}

// ---- whole files ----

void check_file(Disk& disk, const std::string& dir, const CheckpointFile& file, bool read) {
  const std::string path = dir + "/" + file.name;
  const std::unique_ptr<ReadFile> in = disk.open(path);
  if (in->size() != file.bytes)
    throw Error(Errc::bad_data, path, ": expected ", file.bytes, " bytes by the manifest, found ",
                in->size());
  if (!read) return;
  Sha256 sha;
  std::vector<std::byte> chunk(static_cast<size_t>(std::min(kChunk, file.bytes)));
  for (int64_t at = 0; at < file.bytes; at += kChunk) {
    const std::span<std::byte> part(chunk.data(),
                                    static_cast<size_t>(std::min(kChunk, file.bytes - at)));
    in->read(at, part);
    sha.add(part);
  }
  if (const std::string found = sha.hex(); found != file.sha256)
    throw Error(Errc::bad_data, path, ": expected the SHA-256 ", file.sha256,
                " by the manifest, found ", found, "; the file is damaged");
}

// ---- cutting anew ----

struct Part {  // of a wanted slice, in a stored one
  const StoredSlice* stored;
  int64_t from, to, count;  // elements: in the stored slice, in the wanted one
};

std::vector<Part> parts_of(const Slice& wanted, const std::vector<StoredSlice>& stored,
                           const std::string& where) {
  std::vector<Part> parts;
  for (const StoredSlice& s : stored) {
    const Slice& have = s.state.slice;
    if (have.parameter != wanted.parameter) continue;
    if (have.dtype != wanted.dtype || !(have.shape == wanted.shape))
      throw Error(Errc::bad_configuration, where, ": parameter ", wanted.parameter, " is ",
                  have.dtype, have.shape, ", wanted is ", wanted.dtype, wanted.shape);
    if (have.table.has_value() != wanted.table.has_value() ||
        (have.table && have.table->first != wanted.table->first))
      throw Error(Errc::bad_configuration, where, ": parameter ", wanted.parameter, " is ",
                  have.table ? "a table (" + describe(*have.table) + ")" : "no table",
                  ", wanted is ", wanted.table ? "one (" + describe(*wanted.table) + ")" : "none",
                  "; declare it as the program that wrote it");
    const int64_t begin = std::max(have.offset, wanted.offset),
                  end = std::min(have.offset + have.size, wanted.offset + wanted.size);
    if (begin < end || (have.size == 0 && wanted.size == 0))
      parts.push_back({&s, begin - have.offset, begin - wanted.offset, end - begin});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.to < b.to; });
  int64_t at = 0;
  for (const Part& p : parts) {
    if (p.to != at) break;
    at += p.count;
  }
  if (parts.empty() || at != wanted.size ||
      (wanted.size > 0 && parts.back().to + parts.back().count != wanted.size))
    throw Error(Errc::bad_data, where, ": the files have not every element of ", describe(wanted),
                " once; ", at, " of ", wanted.size, " were found in order");
  return parts;
}

// Pieces of one parameter agree at a checkpoint of the synchronous rule, and of a single program.
// Otherwise: the largest version, so that Adam's correction does not start anew, and the smallest
// step, so that none is left out; the piece that is ahead gets some gradients again.
void merge(SliceState& into, const SliceState& s, bool first) {
  into.version = std::max(into.version, s.version);
  into.accumulators_since = std::max(into.accumulators_since, s.accumulators_since);
  into.next_step = first ? s.next_step : std::min(into.next_step, s.next_step);
  if (first) into.progress = s.progress;
  for (ReplicaProgress& mine : into.progress)
    for (const ReplicaProgress& other : s.progress)
      if (mine.replica == other.replica && other.next_step < mine.next_step) mine = other;
}

SliceState read_slice(const Slice& wanted, const std::vector<Part>& parts) {
  SliceState out;
  out.slice = wanted;
  out.values = Tensor::empty(wanted.dtype, Shape{wanted.elements()});
  std::vector<std::string> replicas;
  if (wanted.optimizer) replicas = optimizer_accumulators(*wanted.optimizer);
  replicas.emplace_back(kOuterMomentum);
  const auto has = [](const SliceState& s, const std::string& replica) {
    return std::any_of(s.optimizer_accumulators.begin(), s.optimizer_accumulators.end(),
                       [&](const auto& x) { return x.first == replica; });
  };
  std::erase_if(replicas, [&](const std::string& replica) {
    return !std::all_of(parts.begin(), parts.end(),
                        [&](const Part& p) { return has(p.stored->state, replica); });
  });
  if (wanted.table) {
    out.rows = RowImage{{wanted.dtype, wanted.row_size(), replicas}, {}, 0};
    for (const Part& p : parts) {
      merge(out, p.stored->state, &p == parts.data());
      read_table(*p.stored->file, p.stored->state, p.stored->rows, wanted, *out.rows);
    }
    return out;
  }
  for (const std::string& replica : replicas)
    out.optimizer_accumulators.emplace_back(replica,
                                            Tensor::empty(wanted.dtype, Shape{wanted.size}));
  for (const Part& p : parts) {
    const Slice& have = p.stored->state.slice;
    const SafetensorsReader& file = *p.stored->file;
    merge(out, p.stored->state, &p == parts.data());
    file.read(entry_of(file, tensor_name(have), have), p.from, p.count, out.values, p.to);
    for (auto& [replica, tensor] : out.optimizer_accumulators)
      file.read(entry_of(file, tensor_name(have, replica), have), p.from, p.count, tensor, p.to);
  }
  return out;
}

}  // namespace

CheckpointFile write_shard_file(Disk& disk, const std::string& dir, const std::string& name,
                                const ShardImage& state) {
  std::vector<FileTensor> tensors;
  const auto add_tensor = [&](const Slice& slice, const std::string& part, const Tensor& tensor) {
    const auto write = [&tensor](const auto& add) {
      if (tensor.size() > 0)
        add(std::span(static_cast<const std::byte*>(tensor.raw()),
                      static_cast<size_t>(tensor.byte_size())));
    };
    tensors.push_back(
        {{tensor_name(slice, part), tensor.dtype(), slice.whole() ? slice.shape : tensor.shape()},
         write});
  };
  for (const SliceState& s : state.slices) {
    if (s.rows) {
      add_table(s, tensors);
      continue;
    }
    add_tensor(s.slice, {}, s.values);
    for (const auto& [replica, tensor] : s.optimizer_accumulators)
      add_tensor(s.slice, replica, tensor);
  }
  std::vector<SafetensorsEntry> entries;
  for (const FileTensor& tensor : tensors) entries.push_back(tensor.entry);
  const std::string header =
      safetensors_header(entries, {{"format", kShardFormat},
                                   {"version", std::to_string(kShardVersion)},
                                   {"epoch", std::to_string(state.epoch)},
                                   {"step", std::to_string(state.step)},
                                   {"slices", slices_text(state)}});
  CheckpointFile out{name, static_cast<int64_t>(header.size()), {}};
  for (const SafetensorsEntry& e : entries) out.bytes += e.shape.size() * size_of(e.dtype);
  disk.make_dirs(dir);
  if (const int64_t free = disk.free_bytes(dir); free < out.bytes + kRoomToSpare)
    throw Error(Errc::io, "no room for the checkpoint in ", dir, ": it needs ", out.bytes,
                " bytes and ", kRoomToSpare, " to spare, ", free,
                " are free; free some space or choose another directory");
  Sha256 sha;
  AtomicFile file(disk, dir, name, AtomicFile::IfThere::refuse);
  const auto add = [&](std::span<const std::byte> bytes) {
    sha.add(bytes);
    file.write(bytes);
  };
  add(std::as_bytes(std::span(header)));
  for (const FileTensor& tensor : tensors) tensor.write(add);
  file.commit();
  out.sha256 = sha.hex();
  return out;
}

void check_files(Disk& disk, const std::string& dir, const Manifest& manifest) {
  for (const CheckpointFile& file : manifest.files) check_file(disk, dir, file, /*read=*/true);
}

void commit_checkpoint(Disk& disk, const std::string& dir, const Manifest& manifest) {
  const std::string text = to_text(manifest);
  manifest_from_text(text,
                     "the manifest to be written");  // refuses a text that cannot be read back
  AtomicFile file(disk, dir, manifest_name(manifest.generation, manifest.step),
                  AtomicFile::IfThere::refuse);
  file.write(text);
  file.commit();
}

Manifest read_manifest(Disk& disk, const std::string& dir, const std::string& name) {
  return manifest_from_text(read_text(disk, dir + "/" + name, kManifestBytesMax), dir + "/" + name);
}

Manifest read_whole_checkpoint(Disk& disk, const std::string& dir, const CheckpointName& parsed,
                               const std::string& name, const std::vector<std::string>& names,
                               bool read_files) {
  Manifest m = read_manifest(disk, dir, name);
  if (m.generation != parsed.generation || m.step != parsed.step)
    throw Error(Errc::bad_data, dir, "/", name, ": expected generation ", parsed.generation,
                " and step ", parsed.step, " by its name, found ", m.generation, " and ", m.step);
  for (const CheckpointFile& file : m.files) {
    if (std::find(names.begin(), names.end(), file.name) == names.end())
      throw Error(Errc::bad_data, dir, "/", name, ": it names ", file.name,
                  ", and there is no such file");
    check_file(disk, dir, file, read_files);
  }
  return m;
}

std::vector<std::string> check_optimizers(Disk& disk, const std::string& dir,
                                          const Manifest& manifest,
                                          const std::vector<ParameterSpec>& parameters) {
  std::map<std::string, std::string> changed;  // by parameter: it may be in several files
  for (const CheckpointFile& file : manifest.files) {
    const SafetensorsReader reader(disk, dir + "/" + file.name);
    for (const StoredSlice& stored : stored_slices(reader)) {
      const Slice& have = stored.state.slice;
      const auto wanted =
          std::find_if(parameters.begin(), parameters.end(),
                       [&](const ParameterSpec& p) { return p.name == have.parameter; });
      if (wanted == parameters.end() || !wanted->optimizer || !have.optimizer) continue;
      if (wanted->optimizer->kind != have.optimizer->kind)
        throw Error(Errc::invalid_argument, "the checkpoint of step ", manifest.step, " in ", dir,
                    " has trained parameter ", have.parameter, " with ", have.optimizer->kind,
                    ", the graph trains it with ", wanted->optimizer->kind, "; use ",
                    have.optimizer->kind, " again, or begin anew in another folder");
      if (*wanted->optimizer != *have.optimizer)
        changed[have.parameter] = detail::concat(
            "parameter ", have.parameter, " goes on with ", describe(*wanted->optimizer),
            "; in the checkpoint of step ", manifest.step, " it is ", describe(*have.optimizer));
    }
  }
  std::vector<std::string> out;
  for (auto& [parameter, line] : changed) out.push_back(std::move(line));
  return out;
}

std::vector<SliceState> read_slices(Disk& disk, const std::string& dir, const Manifest& manifest,
                                    const std::vector<Slice>& wanted) {
  std::vector<std::unique_ptr<SafetensorsReader>> files;
  std::vector<StoredSlice> stored;
  for (const CheckpointFile& file : manifest.files) {
    check_file(disk, dir, file, /*read=*/false);
    auto reader = std::make_unique<SafetensorsReader>(disk, dir + "/" + file.name);
    for (StoredSlice& s : stored_slices(*reader)) stored.push_back(std::move(s));
    files.push_back(std::move(reader));
  }
  const std::string where = dir + "/" + manifest_name(manifest.generation, manifest.step);
  std::vector<std::vector<Part>> parts;
  std::set<const SafetensorsReader*> used;
  for (const Slice& slice : wanted) {
    parts.push_back(parts_of(slice, stored, where));
    for (const Part& p : parts.back()) used.insert(p.stored->file);
  }
  for (size_t i = 0; i < files.size(); ++i)
    if (used.count(files[i].get())) check_file(disk, dir, manifest.files[i], /*read=*/true);
  std::vector<SliceState> out;
  for (size_t i = 0; i < wanted.size(); ++i) out.push_back(read_slice(wanted[i], parts[i]));
  return out;
}

std::vector<std::pair<std::string, Tensor>> read_parameters(Disk& disk, const std::string& dir,
                                                            const Manifest& manifest) {
  std::vector<Slice> wanted;
  for (const ParameterSpec& p : manifest.parameters) {
    if (p.table) continue;
    wanted.push_back({.id = static_cast<uint32_t>(wanted.size()),
                      .parameter = p.name,
                      .dtype = p.dtype,
                      .shape = p.shape,
                      .offset = 0,
                      .size = p.shape.size()});
  }
  std::vector<std::pair<std::string, Tensor>> out;
  for (SliceState& s : read_slices(disk, dir, manifest, wanted))
    out.emplace_back(s.slice.parameter, s.values.reshaped(s.slice.shape));
  return out;
}

}  // namespace troupe
