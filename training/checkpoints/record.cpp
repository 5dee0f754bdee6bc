// Reads the parts of a record and joins them; and the terms of one.
#include "training/checkpoints/record.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "data/files/json.hpp"
#include "graph/base/crc32c.hpp"
#include "training/checkpoints/record_file.hpp"

namespace troupe {
namespace {

constexpr const char *kTerms = "record.json", *kEnd = "end.json";
constexpr int64_t kTermsBytesMax = int64_t{16} << 20;
constexpr int64_t kChunkBytesMax = int64_t{1} << 30;
constexpr int64_t kCountMax = INT64_MAX / 2;

// ---- terms ----

std::string text_of(const RecordTerms& t) {
  std::ostringstream out;
  out << "{\"format\":" << kRecordFormat << ",\"replicas\":[";
  for (size_t i = 0; i < t.replicas.size(); ++i) out << (i ? "," : "") << t.replicas[i];
  out << "],\"data_seed\":" << t.data_seed << ",\"checkpoint_every\":" << t.checkpoint_every
      << ",\"pause_every\":" << t.pause_every << ",\"compute\":" << json_quote(t.compute)
      << ",\"gradients\":" << json_quote(t.gradients) << ",\"values\":" << json_quote(t.values)
      << ",\"skips_bad\":" << int{t.skips_bad} << ",\"sources\":[";
  for (size_t i = 0; i < t.sources.size(); ++i) out << (i ? "," : "") << json_quote(t.sources[i]);
  out << "]}\n";
  return out.str();
}

void want_format(const JsonReader& r) {
  if (const int64_t format = r.i64("format"); format != kRecordFormat)
    throw r.error("expected format ", kRecordFormat, ", found ", format,
                  "; read it with the program that wrote it");
}

RecordTerms read_terms(Disk& disk, const std::string& dir) {
  const std::string path = dir + "/" + kTerms;
  const Json json = parse_json(read_text(disk, path, kTermsBytesMax), path);
  const JsonReader r(json, path);
  r.only({"format", "replicas", "data_seed", "checkpoint_every", "pause_every", "compute",
          "gradients", "values", "skips_bad", "sources"});
  want_format(r);
  RecordTerms out;
  for (const JsonReader& one : r.array("replicas"))
    out.replicas.push_back(static_cast<int32_t>(one.as_i64(0, INT32_MAX)));
  out.data_seed = r.u64("data_seed");
  out.checkpoint_every = r.i64("checkpoint_every", 0);
  out.pause_every = r.i64("pause_every", 0);
  out.compute = r.string("compute");
  out.gradients = r.string("gradients");
  out.values = r.string("values");
  out.skips_bad = r.i64("skips_bad", 0, 1) == 1;
  for (const JsonReader& one : r.array("sources")) out.sources.push_back(one.as_string());
  return out;
}

std::string read_end(Disk& disk, const std::string& dir, int64_t steps) {
  const std::vector<std::string> names = disk.list(dir);
  if (std::find(names.begin(), names.end(), kEnd) == names.end()) return {};
  const std::string path = dir + "/" + kEnd;
  const Json json = parse_json(read_text(disk, path, kTermsBytesMax), path);
  const JsonReader r(json, path);
  r.only({"format", "steps", "weights_sha256"});
  want_format(r);
  const std::string weights = r.string("weights_sha256");
  return r.i64("steps", 0) == steps ? weights : "";
}

// "the data seed, 7 in the record and 8 here", or empty.
std::string difference(const RecordTerms& record, const RecordTerms& here) {
  const auto differ = [](const char* what, const auto& there, const auto& mine) {
    return detail::concat(what, ", \"", there, "\" in the record and \"", mine, "\" here");
  };
  if (record.replicas != here.replicas)
    return differ("the number of replicas", record.replicas.size(), here.replicas.size());
  if (record.data_seed != here.data_seed)
    return differ("the data seed", record.data_seed, here.data_seed);
  if (record.compute != here.compute)
    return differ("the dtype of products", record.compute, here.compute);
  if (record.gradients != here.gradients)
    return differ("the codecs of gradients", record.gradients, here.gradients);
  if (record.values != here.values)
    return differ("the codecs of values", record.values, here.values);
  if (record.skips_bad != here.skips_bad) return "what follows from a gradient that is not finite";
  if (record.sources != here.sources) return "the sources of data";
  return {};
}

// ---- files ----

struct FileName {
  int64_t part = 0;
  int32_t shard = 0, shards = 0;
};

std::optional<FileName> parse_name(const std::string& name) {
  FileName out;
  const auto number = [&name](const char* after, auto& into) {
    const size_t at = name.find(after);
    if (at == name.npos) return;
    const char* const begin = name.data() + at + std::string_view(after).size();
    std::from_chars(begin, name.data() + name.size(), into);
  };
  number("part-", out.part);
  number(".shard-", out.shard);
  number("-of-", out.shards);
  if (out.part < 1 || name != record_file_name(out.part, out.shard, out.shards))
    return std::nullopt;
  return out;
}

// The chunks of a file.
class ChunkReader {
 public:
  ChunkReader(Disk& disk, std::string path) : path_(std::move(path)), file_(disk.open(path_)) {
    std::string magic = read(kRecordMagic.size());
    if (magic != kRecordMagic) throw damaged("a record of updates", "other bytes");
  }
  bool next(std::string& payload) {
    if (at_ == file_->size()) return false;
    const int64_t begin = at_;
    const std::string head = read(8);
    const auto u32 = [&head](size_t from) {
      uint32_t n = 0;
      for (size_t i = 0; i < 4; ++i) n |= uint32_t{static_cast<uint8_t>(head[from + i])} << (8 * i);
      return n;
    };
    const int64_t size = u32(0);
    if (size > kChunkBytesMax || size > file_->size() - at_)
      throw damaged(detail::concat("a chunk of ", size, " bytes"),
                    detail::concat(file_->size() - at_, " bytes"));
    payload = read(static_cast<size_t>(size));
    const uint32_t crc =
        crc32c(std::as_bytes(std::span(payload)), crc32c(std::as_bytes(std::span(head).first(4))));
    if (crc == u32(4)) return true;
    at_ = begin;
    throw damaged(detail::concat("a chunk with the crc32c ", u32(4)), crc);
  }
  template <class Expected, class Found>
  Error damaged(const Expected& expected, const Found& found) const {
    return Error(Errc::bad_data, path_, ": byte ", at_, ": expected ", expected, ", found ", found);
  }
  const std::string& path() const { return path_; }

 private:
  std::string read(size_t n) {
    if (static_cast<int64_t>(n) > file_->size() - at_)
      throw damaged(detail::concat(n, " bytes"), file_->size() - at_);
    std::string out(n, '\0');
    if (n > 0) file_->read(at_, std::as_writable_bytes(std::span(out)));
    at_ += static_cast<int64_t>(n);
    return out;
  }

  const std::string path_;
  std::unique_ptr<ReadFile> file_;
  int64_t at_ = 0;
};

RecordPart part_of(const std::string& text, const ChunkReader& from) {
  const Json json = parse_json(text, from.path());
  const JsonReader r(json, from.path(), "head");
  r.only({"format", "part", "begin", "shard", "shards", "rule", "slices"});
  want_format(r);
  RecordPart out;
  out.part = r.i64("part", 1, kCountMax);
  out.begin = r.i64("begin", 0, kCountMax);
  out.shard = static_cast<int32_t>(r.i64("shard", 0, INT32_MAX));
  out.shards = static_cast<int32_t>(r.i64("shards", 1, INT32_MAX));
  out.rule = r.string("rule");
  for (const JsonReader& s : r.array("slices")) {
    s.only({"id", "parameter", "offset", "size"});
    Slice slice;
    slice.id = static_cast<uint32_t>(s.i64("id", 0, UINT32_MAX));
    slice.parameter = s.string("parameter");
    slice.offset = s.i64("offset", 0);
    slice.size = s.i64("size", 0);
    out.slices.push_back(std::move(slice));
  }
  return out;
}

// A file as far as it can be read.
struct PartFile {
  RecordPart head;
  std::string path;
  int64_t upto = -1;                       // it is whole up to this step
  std::map<uint32_t, std::string> events;  // by slice
  std::map<int64_t, std::string> rules;    // by step
  std::optional<Error> damage;             // that ends it
};

void add_chunk(PartFile& file, std::string_view rest, const RecordWanted& wanted,
               const ChunkReader& from) {
  const auto number = [&] {
    uint64_t out = 0;
    if (!take_varint(rest, out) || out > static_cast<uint64_t>(kCountMax))
      throw from.damaged("a number in the chunk before", "none");
    return out;
  };
  const auto bytes = [&] {
    const uint64_t n = number();
    if (n > rest.size()) throw from.damaged("events in the chunk before", "fewer bytes");
    std::string out(rest.substr(0, n));
    rest.remove_prefix(n);
    return out;
  };
  const auto upto = static_cast<int64_t>(number()) - 1;
  for (uint64_t rules = number(); rules > 0; --rules) {
    const auto step = static_cast<int64_t>(number());
    file.rules[step] = bytes();
  }
  while (!rest.empty()) {
    const auto id = static_cast<uint32_t>(number());
    std::string events = bytes();
    const auto slice = std::find_if(file.head.slices.begin(), file.head.slices.end(),
                                    [id](const Slice& s) { return s.id == id; });
    if (slice == file.head.slices.end()) throw from.damaged("events of a slice of the head", id);
    if (wanted(slice->parameter)) file.events[id] += events;
  }
  file.upto = std::max(file.upto, upto);
}

PartFile read_file(Disk& disk, const std::string& path, const RecordWanted& wanted) {
  PartFile out;
  out.path = path;
  try {
    ChunkReader chunks(disk, path);
    std::string payload;
    if (!chunks.next(payload)) throw chunks.damaged("a head", "the end of the file");
    out.head = part_of(payload, chunks);
    while (chunks.next(payload)) add_chunk(out, payload, wanted, chunks);
  } catch (const Error& e) {
    if (e.code() != Errc::bad_data) throw;
    out.damage = e;
  }
  return out;
}

// ---- joining ----

using Key = std::tuple<std::string, int64_t, int64_t>;  // parameter, offset, size

Key key_of(const Slice& slice) { return {slice.parameter, slice.offset, slice.size}; }

std::set<Key> layout_of(const std::vector<PartFile>& files) {
  std::set<Key> out;
  for (const PartFile& file : files)
    for (const Slice& slice : file.head.slices) out.insert(key_of(slice));
  return out;
}

// Throws: Error(bad_data) unless the heads are readable and agree.
void want_heads(const std::vector<PartFile>& files, const std::string& dir) {
  for (const PartFile& file : files)
    if (file.head.part == 0) throw *file.damage;
  const RecordPart& first = files.front().head;
  for (const PartFile& file : files) {
    const RecordPart& h = file.head;
    if (file.path != dir + "/" + record_file_name(h.part, h.shard, h.shards))
      throw Error(Errc::bad_data, file.path, ": its head is that of ",
                  record_file_name(h.part, h.shard, h.shards));
    if (h.begin != first.begin || h.rule != first.rule || h.shards != first.shards)
      throw Error(Errc::bad_data, file.path, ": another begin, rule or number of shards than in ",
                  files.front().path);
  }
}

// True unless each shard of the part has a file.
bool lacks_files(const std::vector<PartFile>& files) {
  return std::ssize(files) < files.front().head.shards;
}

// The step up to which a part is whole in all files.
int64_t upto_of(const std::vector<PartFile>& files) {
  int64_t out = lacks_files(files) ? -1 : kCountMax;
  for (const PartFile& file : files) out = std::min(out, file.upto);
  return std::max(out, files.front().head.begin);
}

void want_whole(const std::vector<PartFile>& files, const std::string& dir, int64_t end) {
  if (lacks_files(files))
    throw Error(Errc::bad_data, dir, ": the record is not whole: part ", files.front().head.part,
                " has ", files.size(), " of ", files.front().head.shards, " files");
  for (const PartFile& file : files) {
    if (file.upto >= end) continue;
    if (file.damage) throw *file.damage;
    throw Error(Errc::bad_data, file.path, ": the record is not whole: it ends at step ",
                std::max(file.upto, file.head.begin), ", and the training went on from step ", end,
                "; the log of the process that wrote it says why");
  }
}

void add_events(const PartFile& file, int64_t end, std::map<Key, OrderWriter>& slices) {
  for (const Slice& slice : file.head.slices) {
    OrderWriter& to = slices[key_of(slice)];
    const auto found = file.events.find(slice.id);
    if (found == file.events.end()) continue;
    try {
      OrderReader reader(found->second);
      for (OrderEvent event; reader.next(event);)
        if (event.step >= file.head.begin && event.step < end) to.add(event);
    } catch (const Error& e) {
      throw Error(Errc::bad_data, file.path, ": ", describe(slice), ": ", e.what());
    }
  }
}

}  // namespace

int64_t newest_part(Disk& disk, const std::string& dir) {
  int64_t out = 0;
  for (const std::string& name : disk.list(dir))
    if (const auto file = parse_name(name)) out = std::max(out, file->part);
  return out;
}

void begin_record(Disk& disk, const std::string& dir, const RecordTerms& terms, bool resume,
                  int64_t at) {
  disk.make_dirs(dir);
  const std::vector<std::string> names = disk.list(dir);
  const auto write = [&](const RecordTerms& all) {
    AtomicFile file(disk, dir, kTerms, AtomicFile::IfThere::replace);
    file.write(text_of(all));
    file.commit();
  };
  const bool terms_there = std::find(names.begin(), names.end(), kTerms) != names.end();
  if (!terms_there || newest_part(disk, dir) == 0) {  // or the training never began
    if (at > 0)
      throw Error(Errc::invalid_argument,
                  "a record begins with its training, and this one goes on ", "at step ", at, "; ",
                  dir, " has no record of the steps before: name the folder ",
                  "that has, or train without a record");
    return write(terms);
  }
  if (!resume)
    throw Error(Errc::invalid_argument, dir, " has a record already; name another folder, or ",
                "resume the training that it is of");
  const RecordTerms before = read_terms(disk, dir);
  if (const std::string other = difference(before, terms); !other.empty())
    throw Error(Errc::bad_configuration, "the record in ", dir,
                " is of a training that differs in ", other,
                "; resume with the same arguments, or name another folder");
  RecordTerms both = terms;  // the barriers that all parts have
  both.checkpoint_every = std::lcm(before.checkpoint_every, terms.checkpoint_every);
  both.pause_every = std::lcm(before.pause_every, terms.pause_every);
  if (both.checkpoint_every != before.checkpoint_every || both.pause_every != before.pause_every)
    write(both);
}

std::shared_ptr<const std::string> OrderRecord::events_of(const Slice& slice) const {
  std::string pieces;
  for (const Events& events : slices) {
    if (events.parameter != slice.parameter) continue;
    if (events.offset == slice.offset && events.size == slice.size) return events.bytes;
    pieces += detail::concat(pieces.empty() ? "" : ", ", events.offset, " to ",
                             events.offset + events.size);
  }
  throw Error(
      Errc::bad_configuration, "the record has ",
      pieces.empty()
          ? "no parameter " + slice.parameter
          : detail::concat("the elements ", pieces, " of ", slice.parameter, " by themselves"),
      ", and this training has ", describe(slice),
      "; a replay wants each parameter in the pieces of the record: run it with as many ps");
}

OrderRecord read_record(Disk& disk, const std::string& dir, const RecordWanted& wanted) {
  OrderRecord out;
  out.terms = read_terms(disk, dir);
  std::map<int64_t, std::vector<PartFile>> parts;  // by number
  for (const std::string& name : disk.list(dir))
    if (const auto file = parse_name(name))
      parts[file->part].push_back(read_file(disk, dir + "/" + name, wanted));
  if (parts.empty()) throw Error(Errc::bad_data, dir, ": the record has no part; train with it");
  // From the newest part to the first: each has the steps before those of the part after it.
  std::vector<std::pair<const std::vector<PartFile>*, int64_t>> used;  // with the end of each
  int64_t end = -1;
  for (auto part = parts.rbegin(); part != parts.rend() && end != 0; ++part) {
    const std::vector<PartFile>& files = part->second;
    want_heads(files, dir);
    if (part == parts.rbegin()) {
      for (const PartFile& file : files)
        if (file.damage) throw *file.damage;
      end = out.end = upto_of(files);
    }
    if (files.front().head.begin >= end) continue;
    want_whole(files, dir, end);
    used.emplace_back(&files, end);
    end = files.front().head.begin;
  }
  if (end != 0)
    throw Error(Errc::bad_data, dir, ": the record has no part of the steps before step ", end,
                "; train with it");
  std::map<Key, OrderWriter> slices;
  for (auto part = used.rbegin(); part != used.rend(); ++part) {
    const auto& [files, until] = *part;
    if (layout_of(*files) != layout_of(*used.front().first))
      throw Error(Errc::bad_configuration, dir, ": part ", files->front().head.part,
                  " has parameters in other pieces than part ",
                  used.front().first->front().head.part,
                  ", as the training went on with other shards; it cannot be repeated");
    out.rules[files->front().head.begin] = aggregation_from_string(files->front().head.rule);
    for (const PartFile& file : *files) {
      add_events(file, until, slices);
      for (const auto& [step, rule] : file.rules)
        if (step < until) out.rules[step] = aggregation_from_string(rule);
    }
  }
  out.weights = read_end(disk, dir, out.end);
  for (const auto& [key, writer] : slices)
    if (wanted(std::get<0>(key)))
      out.slices.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key),
                            std::make_shared<const std::string>(writer.bytes())});
  return out;
}

void write_record_end(Disk& disk, const std::string& dir, int64_t steps,
                      const std::string& weights) {
  AtomicFile file(disk, dir, kEnd, AtomicFile::IfThere::replace);
  file.write(detail::concat("{\"format\":", kRecordFormat, ",\"steps\":", steps,
                            ",\"weights_sha256\":", json_quote(weights), "}\n"));
  file.commit();
}

void check_replay(const OrderRecord& record, const std::string& dir, const RecordTerms& terms,
                  int64_t steps) {
  std::string other = difference(record.terms, terms);
  if (other.empty() && steps != record.end)
    other =
        detail::concat("the number of steps, ", record.end, " in the record and ", steps, " here");
  const auto among = [](int64_t mine, int64_t recorded) {
    return mine == 0 || (recorded > 0 && mine % recorded == 0);
  };
  if (other.empty() && (!among(terms.checkpoint_every, record.terms.checkpoint_every) ||
                        !among(terms.pause_every, record.terms.pause_every)))
    other = "the steps between checkpoints or pauses, at which all replicas stand still";
  if (!other.empty())
    throw Error(Errc::bad_configuration, "the record in ", dir,
                " is of a training that differs in ", other,
                "; run the same program with the same arguments");
}

}  // namespace troupe
