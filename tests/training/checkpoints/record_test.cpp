// Records of the order of updates on a disk: parts, damage, and records of other trainings.
#include <doctest/doctest.h>

#include "chaos/sim_disk.hpp"
#include "tests/support/refusal.hpp"
#include "training/checkpoints/record.hpp"
#include "training/checkpoints/record_file.hpp"

namespace troupe {
namespace {

constexpr const char* kDir = "/record";

Slice slice_of(uint32_t id, const std::string& parameter, int64_t offset = 0) {
  Slice out;
  out.id = id;
  out.parameter = parameter;
  out.offset = offset;
  out.size = 4;
  return out;
}

RecordTerms terms_of() {
  return {.replicas = {0, 1}, .data_seed = 7, .checkpoint_every = 2, .compute = "f32"};
}

// The file of a part, chunk by chunk.
struct Writing {
  Writing(Disk& disk, RecordPart part) : file(disk, kDir, std::move(part)) { file.begin(); }
  Writing& pull(uint32_t slice, int32_t replica, int64_t step) {
    buffer.add(slice, {OrderEvent::pull, step, replica});
    return *this;
  }
  Writing& push(uint32_t slice, int32_t replica, int64_t step) {
    buffer.add(slice, {OrderEvent::push, step, replica});
    return *this;
  }
  Writing& chunk(int64_t upto = -1) {
    OrderChunk chunk = buffer.take();
    chunk.upto = upto;
    file.append(chunk);
    return *this;
  }
  RecordFile file;
  OrderBuffer buffer;
};

RecordPart part(int64_t number, int64_t begin, int32_t shard = 0, int32_t shards = 1) {
  return {.part = number,
          .begin = begin,
          .shard = shard,
          .shards = shards,
          .rule = "async",
          .slices = {slice_of(static_cast<uint32_t>(shard), shard == 0 ? "w" : "v")}};
}

OrderRecord read(Disk& disk) {
  return read_record(disk, kDir, [](const std::string&) { return true; });
}
std::string refusal(Disk& disk, Errc code = Errc::bad_data) {
  return error_text(code, [&] { read(disk); });
}
std::vector<OrderEvent> events_of(const OrderRecord& record, const Slice& slice) {
  std::vector<OrderEvent> out;
  const auto bytes = record.events_of(slice);
  OrderReader reader(*bytes);
  for (OrderEvent event; reader.next(event);) out.push_back(event);
  return out;
}

TEST_CASE("parts join at the steps at which they begin") {
  SimDisk disk;
  begin_record(disk, kDir, terms_of(), /*resume=*/false, 0);
  Writing first(disk, part(1, 0));
  first.pull(0, 0, 0).push(0, 0, 0).pull(0, 0, 1).push(0, 0, 1).chunk(2);
  first.pull(0, 0, 2).push(0, 0, 2).chunk();  // and the shard dies
  Writing second(disk, part(2, 2));
  second.buffer.add_rule(3, "ssp:1");
  second.pull(0, 0, 2).push(0, 1, 2).chunk(4);
  const OrderRecord record = read(disk);
  CHECK(record.end == 4);
  CHECK(record.rules == std::map<int64_t, Aggregation>{{0, Aggregation::async},
                                                       {2, Aggregation::async},
                                                       {3, {Aggregation::Kind::ssp, 1}}});
  CHECK(events_of(record, slice_of(9, "w")) == std::vector<OrderEvent>{{OrderEvent::pull, 0, 0},
                                                                       {OrderEvent::push, 0, 0},
                                                                       {OrderEvent::pull, 1, 0},
                                                                       {OrderEvent::push, 1, 0},
                                                                       {OrderEvent::pull, 2, 0},
                                                                       {OrderEvent::push, 2, 1}});
  CHECK(newest_part(disk, kDir) == 2);
}

TEST_CASE("a part that began and took no checkpoint leaves the record as it was") {
  SimDisk disk;
  begin_record(disk, kDir, terms_of(), false, 0);
  Writing(disk, part(1, 0)).pull(0, 0, 0).push(0, 0, 0).chunk(2);
  Writing(disk, part(2, 2, 0, 2)).pull(0, 0, 2).chunk();  // the other shard has no file
  CHECK(read(disk).end == 2);
  CHECK(events_of(read(disk), slice_of(0, "w")).size() == 2);
}

TEST_CASE("a part that lacks a shard or ends too early is not whole") {
  SimDisk disk;
  begin_record(disk, kDir, terms_of(), false, 0);
  Writing(disk, part(1, 0, 0, 2)).chunk(2);
  CHECK(read(disk).end == 0);  // nothing is whole
  Writing(disk, part(2, 2)).chunk(4);
  CHECK(refusal(disk) == "/record: the record is not whole: part 1 has 1 of 2 files");
  Writing(disk, part(1, 0, 1, 2)).chunk(1);
  CHECK(refusal(disk).find("part-000001.shard-1-of-2.record: the record is not whole: it ends at "
                           "step 1, and the training went on from step 2") != std::string::npos);
}

TEST_CASE("another bit anywhere in a record is refused with file and place, or changes nothing") {
  SimDisk disk;
  begin_record(disk, kDir, terms_of(), false, 0);
  Writing(disk, part(1, 0, 0, 2)).pull(0, 0, 0).push(0, 1, 0).chunk(2).pull(0, 0, 2).chunk();
  Writing(disk, part(1, 0, 1, 2)).pull(1, 1, 0).push(1, 1, 0).chunk(2);
  Writing(disk, part(2, 2)).pull(0, 1, 2).push(0, 1, 2).chunk(4);
  // The layout of the second part is another one, so that of the first part alone is read below.
  CHECK(refusal(disk, Errc::bad_configuration).find("in other pieces") != std::string::npos);
  disk.remove(std::string(kDir) + "/" + record_file_name(2, 0, 1));
  Writing(disk, part(2, 2, 0, 2)).pull(0, 1, 2).push(0, 1, 2).chunk(4);
  Writing(disk, part(2, 2, 1, 2)).chunk(4);
  const OrderRecord whole = read(disk);
  CHECK(whole.end == 4);
  int64_t refused = 0, harmless = 0;
  for (const auto& [name, bytes] : disk.files(kDir)) {
    if (name == "record.json") continue;
    std::string& file = disk.bytes(std::string(kDir) + "/" + name);
    for (size_t i = 0; i < file.size(); ++i) {
      file[i] = static_cast<char>(file[i] ^ 0x11);
      try {
        const OrderRecord other = read(disk);
        CHECK(other.end == whole.end);
        CHECK(other.rules == whole.rules);
        REQUIRE(other.slices.size() == whole.slices.size());
        for (size_t s = 0; s < whole.slices.size(); ++s)
          CHECK(*other.slices[s].bytes == *whole.slices[s].bytes);
        ++harmless;
      } catch (const Error& e) {
        CHECK(e.code() == Errc::bad_data);
        CHECK(std::string(e.what()).find(name) != std::string::npos);
        CHECK(std::string(e.what()).find("byte ") != std::string::npos);
        ++refused;
      }
      file[i] = static_cast<char>(file[i] ^ 0x11);
    }
  }
  CHECK(refused > 500);
  CHECK(harmless > 0);  // events of the first part in steps that the second one replaces
  CHECK(harmless < 20);
}

TEST_CASE("a file that ends within a chunk is refused while it is the newest") {
  SimDisk disk;
  begin_record(disk, kDir, terms_of(), false, 0);
  Writing(disk, part(1, 0)).chunk(2).pull(0, 0, 2).chunk();
  disk.bytes(std::string(kDir) + "/" + record_file_name(1, 0, 1)).pop_back();
  CHECK(refusal(disk).find("expected a chunk of ") != std::string::npos);
  Writing(disk, part(2, 2)).pull(0, 0, 2).push(0, 0, 2).chunk(4);
  CHECK(read(disk).end == 4);
}

TEST_CASE("a record of another training is refused") {
  SimDisk disk;
  const auto begin = [&](const RecordTerms& terms, bool resume, Errc code, int64_t at = 0) {
    return error_text(code, [&] { begin_record(disk, kDir, terms, resume, at); });
  };
  CHECK(begin(terms_of(), true, Errc::invalid_argument, 4).find("goes on at step 4") !=
        std::string::npos);
  begin_record(disk, kDir, terms_of(), true, 0);   // there was no checkpoint to resume from
  begin_record(disk, kDir, terms_of(), false, 0);  // and that training has not begun
  Writing(disk, part(1, 0)).chunk(2);
  CHECK(begin(terms_of(), false, Errc::invalid_argument).find("has a record already") !=
        std::string::npos);
  begin_record(disk, kDir, terms_of(), true, 2);
  RecordTerms other = terms_of();
  other.data_seed = 8;
  CHECK(begin(other, true, Errc::bad_configuration)
            .find("the data seed, \"7\" in the record and \"8\" here;") != std::string::npos);
  other = terms_of();
  other.checkpoint_every = 3;  // the barriers of both are each six steps
  begin_record(disk, kDir, other, true, 2);
  CHECK(read(disk).terms.checkpoint_every == 6);
}

TEST_CASE("a replay wants the steps, barriers, replicas and pieces of its record") {
  OrderRecord record{.terms = terms_of(), .end = 6};
  record.slices.push_back({"w", 0, 4, std::make_shared<const std::string>()});
  record.slices.push_back({"w", 4, 4, std::make_shared<const std::string>()});
  const auto refused = [&](const RecordTerms& terms, int64_t steps) {
    return error_text(Errc::bad_configuration, [&] { check_replay(record, kDir, terms, steps); });
  };
  RecordTerms mine = terms_of();
  CHECK_NOTHROW(check_replay(record, kDir, mine, 6));
  CHECK(refused(mine, 8).find("the number of steps, 6 in the record and 8 here;") !=
        std::string::npos);
  mine.checkpoint_every = 4;  // no barrier that the record does not have
  CHECK_NOTHROW(check_replay(record, kDir, mine, 6));
  mine.checkpoint_every = 3;
  CHECK(refused(mine, 6).find("at which all replicas stand still") != std::string::npos);
  mine = terms_of();
  mine.replicas = {0, 1, 2};
  CHECK(refused(mine, 6).find("the number of replicas, \"2\" in the record and \"3\" here") !=
        std::string::npos);
  CHECK(record.events_of(slice_of(0, "w", 4)) == record.slices[1].bytes);
  CHECK(error_text(Errc::bad_configuration, [&] {
          record.events_of(slice_of(0, "w", 2));
        }).find("the elements 0 to 4, 4 to 8 of w by themselves") != std::string::npos);
}

}  // namespace
}  // namespace troupe
