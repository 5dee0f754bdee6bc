// Writes the file of a part and a shard, and the chunks that both sides know.
#include "training/checkpoints/record_file.hpp"

#include <sstream>

#include "data/files/json.hpp"
#include "graph/base/crc32c.hpp"

namespace troupe {
namespace {

void put_u32(std::string& out, uint32_t n) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(n >> shift));
}

}  // namespace

std::string record_file_name(int64_t part, int32_t shard, int32_t shards) {
  std::string number = std::to_string(part);
  if (number.size() < 6) number.insert(0, 6 - number.size(), '0');
  return detail::concat("part-", number, ".shard-", shard, "-of-", shards, ".record");
}

std::string framed(const std::string& payload) {
  std::string out;
  put_u32(out, static_cast<uint32_t>(payload.size()));
  const uint32_t crc =
      crc32c(std::as_bytes(std::span(payload)), crc32c(std::as_bytes(std::span(out))));
  put_u32(out, crc);
  return out + payload;
}

std::string text_of(const RecordPart& part) {
  std::ostringstream out;
  out << "{\"format\":" << kRecordFormat << ",\"part\":" << part.part << ",\"begin\":" << part.begin
      << ",\"shard\":" << part.shard << ",\"shards\":" << part.shards
      << ",\"rule\":" << json_quote(part.rule) << ",\"slices\":[";
  for (size_t i = 0; i < part.slices.size(); ++i)
    out << (i ? "," : "") << "{\"id\":" << part.slices[i].id
        << ",\"parameter\":" << json_quote(part.slices[i].parameter)
        << ",\"offset\":" << part.slices[i].offset << ",\"size\":" << part.slices[i].size << "}";
  out << "]}";
  return out.str();
}

RecordFile::RecordFile(Disk& disk, std::string dir, RecordPart part)
    : disk_(disk),
      dir_(std::move(dir)),
      part_(std::move(part)),
      path_(dir_ + "/" + record_file_name(part_.part, part_.shard, part_.shards)) {}

void RecordFile::begin() {
  disk_.make_dirs(dir_);
  const std::string aside = path_ + AtomicFile::kTempSuffix;
  file_ = disk_.create(aside);  // so that a file of that name has a whole head
  file_->write(std::as_bytes(std::span(kRecordMagic)));
  write(text_of(part_));
  file_->sync();
  disk_.rename_new(aside, path_);
  disk_.sync_dir(dir_);
}

void RecordFile::append(const OrderChunk& chunk) {
  std::string payload;
  put_varint(payload, static_cast<uint64_t>(chunk.upto + 1));
  put_varint(payload, chunk.rules.size());
  for (const auto& [step, rule] : chunk.rules) {
    put_varint(payload, static_cast<uint64_t>(step));
    put_varint(payload, rule.size());
    payload += rule;
  }
  for (const auto& [slice, events] : chunk.events) {
    put_varint(payload, slice);
    put_varint(payload, events.size());
    payload += events;
  }
  write(payload);
  if (chunk.upto >= 0) file_->sync();
}

void RecordFile::write(const std::string& payload) {
  const std::string frame = framed(payload);
  file_->write(std::as_bytes(std::span(frame)));
}

}  // namespace troupe
