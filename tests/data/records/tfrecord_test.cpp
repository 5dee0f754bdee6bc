// The reader tfrecord, against bytes that TensorFlow 2.21 wrote and the order of its interleave.
#include "data/records/records.hpp"
#include "graph/base/crc32c.hpp"
#include "tests/support/fake_files.hpp"
#include "tests/support/hex.hpp"
#include "tests/support/records.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {
namespace {

// tf.io.TFRecordWriter: the records "one", "" and "three".
const std::string kThree = from_hex(
    "0300000000000000b099490e6f6e6501405508000000000000000029039807d8ea82a2"
    "0500000000000000eab2043e74687265656023fb45");
// The same with options="GZIP": the record "zip".
const std::string kZipped =
    from_hex("1f8b0800000000000003636680800d333df9aa320bd6a73fcd0000053e11da13000000");

std::string masked(const std::string& bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  const uint32_t value = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string framed(const std::string& record, uint64_t length) {
  std::string head;
  for (int i = 0; i < 8; ++i) head += static_cast<char>(length >> (8 * i));
  head += masked(head);
  head += record;
  head += masked(record);
  return head;
}
std::string framed(const std::string& record) { return framed(record, record.size()); }

using Texts = std::vector<std::string>;

Texts contents(const FakeFiles& files, const Texts& paths, int64_t interleave = 1) {
  Texts out;
  for (const Lazy& record :
       records_of(tfrecord_stage({{"paths", paths}, {"interleave", interleave}}, files))) {
    const auto bytes = record->make()[0].values<uint8_t>();
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

TEST_CASE("records of TensorFlow's writer come in order, plain or gzipped") {
  const FakeFiles files(
      FileMap{{"a.tfrecord", kThree}, {"b.tfrecord", kZipped}, {"c.tfrecord", ""}});
  CHECK(contents(files, {"*.tfrecord"}) == Texts{"one", "", "three", "zip"});
  CHECK(contents(files, {"b.tfrecord", "a.tfrecord"}) == Texts{"zip", "one", "", "three"});
  const Stage stage = tfrecord_stage({{"paths", Texts{"a.tfrecord"}}}, files);
  CHECK(stage->fields() == Fields{{"record", {DType::u8, {-1}}}});
  CHECK(records_of(stage)[1]->place() == "a.tfrecord: the record at byte 19");
}

TEST_CASE("files in turn come in the order of TensorFlow's interleave") {
  FileMap map;
  const int counts[] = {3, 1, 4, 2};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < counts[i]; ++j) map[std::to_string(i)] += framed(detail::concat(i, j));
  const FakeFiles files(map);
  // tf.data.Dataset.list_files(...).interleave(TFRecordDataset, cycle_length=1, 2, 3, 4, 7)
  const std::pair<int64_t, const char*> orders[] = {{1, "00 01 02 10 20 21 22 23 30 31 "},
                                                    {2, "00 10 01 02 20 21 30 22 31 23 "},
                                                    {3, "00 10 20 01 21 02 30 22 31 23 "},
                                                    {4, "00 10 20 30 01 21 31 02 22 23 "},
                                                    {7, "00 10 20 30 01 21 31 02 22 23 "}};
  for (const auto& [interleave, wanted] : orders) {
    std::string order;
    for (const std::string& record : contents(files, {"*"}, interleave))
      order.append(record).append(" ");
    CHECK(order == wanted);
  }
  check_invalid([&] { contents(files, {"*"}, 0); }, "reads 1 or more files in turn, not 0");
}

TEST_CASE("files that are cut short or damaged are refused with file and offset") {
  const auto refused = [](const std::string& bytes) {
    const FakeFiles files(FileMap{{"a", bytes}});
    return error_text(Errc::bad_data, [&] { contents(files, {"a"}); });
  };
  for (size_t n = 20; n < 35; ++n)
    has(refused(kThree.substr(0, n)), "a: the record at byte 19: the file is cut short within it");
  for (size_t at = 19; at < kThree.size(); ++at) {
    std::string bad = kThree;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    CAPTURE(at);
    has(refused(bad), at < 31   ? "a: the record at byte 19: its length has a wrong checksum"
                      : at < 35 ? "a: the record at byte 19: its 0 bytes have another checksum"
                      : at < 47 ? "a: the record at byte 35: its length has a wrong checksum"
                                : "a: the record at byte 35: its 5 bytes have another checksum");
  }
  has(refused(framed("x", 1000)), "a: the record at byte 0: the file is cut short within it");
  has(refused(gzip(framed("x", uint64_t{2} << 30))), "records of at most 1073741824 are read");
  has(refused(framed("x", ~uint64_t{0})), "it has 18446744073709551615 bytes");
}

}  // namespace
}  // namespace troupe
