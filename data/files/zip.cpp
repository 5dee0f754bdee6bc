// Reads and writes the directory of a zip archive; zlib packs and unpacks.
#include "data/files/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <set>

#include "data/files/deflate.hpp"

namespace troupe {
namespace {

// Signatures and sizes of the records, without what follows them.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr int64_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                  kLocator64Size = 20;
constexpr uint16_t kZip64Field = 1, kEncrypted = 1, kUtf8 = 1 << 11, kStored = 0, kDeflated = 8;
constexpr int64_t k16 = 0xffff, k32 = 0xffffffff;  // larger numbers stand in zip64's records
constexpr int64_t kCommentMax = 0xffff;
constexpr int64_t kDirectoryMax = int64_t{64} << 20;  // about 100 bytes an entry
constexpr size_t kChunk = 64 << 10;
constexpr uint16_t kDay = 1 << 5 | 1;  // the first day of zip, 1980-01-01

// Little-endian numbers from bytes that are there.
class NumberReader {
 public:
  explicit NumberReader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t take(int wide) {
    uint64_t out = 0;
    for (int i = wide; i-- > 0;)
      out = out << 8 | static_cast<unsigned char>(bytes_[static_cast<size_t>(i)]);
    bytes_.remove_prefix(static_cast<size_t>(wide));
    return out;
  }
  int64_t size(int wide) { return static_cast<int64_t>(take(wide)); }  // negative past 2^63
  std::string_view text(size_t n) {
    const std::string_view out = bytes_.substr(0, n);
    bytes_.remove_prefix(out.size());
    return out;
  }
  size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
};

std::string read_at(ReadFile& file, int64_t offset, int64_t n) {
  std::string out(static_cast<size_t>(n), '\0');
  file.read(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

// Puts little-endian numbers together.
struct NumberWriter {
  std::string bytes;
  NumberWriter& put(uint64_t value, int wide) {
    for (int i = 0; i < wide; ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
    return *this;
  }
  NumberWriter& size(int64_t value, int wide, int64_t most) {
    return put(static_cast<uint64_t>(std::min(value, most)), wide);
  }
};

uint32_t add_crc(uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The bytes of one entry.
class EntryReader final : public ByteReader {
 public:
  EntryReader(ReadFile& file, const std::string& path, const ZipEntry& entry)
      : file_(file), path_(path), entry_(entry) {
    if (!entry_.deflated) return;
    if (inflateInit2(&z_, -MAX_WBITS) != Z_OK)
      throw Error(Errc::out_of_memory, "cannot unpack ", path_, ": zlib has no memory; free some");
    packed_.resize(kChunk);
  }
  ~EntryReader() override {
    if (entry_.deflated) inflateEnd(&z_);
  }
  EntryReader(const EntryReader&) = delete;

  int64_t left() const override { return entry_.size - done_; }
  int64_t offset() const override { return done_; }
  std::string place() const override { return path_ + ": entry " + entry_.name; }

  void read(std::span<std::byte> into) override {
    TROUPE_CHECK(static_cast<int64_t>(into.size()) <= left(), "a read beyond ", place());
    if (entry_.deflated)
      unpack(into);
    else
      file_.read(entry_.begin + done_, into);
    crc_ = add_crc(crc_, into);
    done_ += static_cast<int64_t>(into.size());
  }

  void finish() override {
    if (left() > 0) throw wrong(done_, "expected the end, found ", left(), " more bytes");
    if (entry_.deflated) {
      std::byte more;
      z_.next_out = reinterpret_cast<Bytef*>(&more);
      z_.avail_out = 1;
      while (!ended_ && z_.avail_out > 0) step();
      if (z_.avail_out == 0 || taken_ < entry_.packed || z_.avail_in > 0)
        throw wrong(done_, "expected ", entry_.size, " unpacked bytes of ", entry_.packed,
                    " packed ones, found more; the archive is damaged");
    }
    if (crc_ != entry_.crc)
      throw wrong(0, "expected the CRC-32 ", entry_.crc, ", found ", crc_,
                  "; the archive is damaged");
  }

 private:
  void unpack(std::span<std::byte> into) {
    auto* to = reinterpret_cast<Bytef*>(into.data());
    for (size_t done = 0; done < into.size();) {
      const auto want = static_cast<uInt>(std::min<size_t>(into.size() - done, 1 << 30));
      z_.next_out = to + done;
      z_.avail_out = want;
      while (!ended_ && z_.avail_out > 0) step();
      if (z_.avail_out > 0)
        throw wrong(done_ + static_cast<int64_t>(done) + (want - z_.avail_out), "expected ",
                    entry_.size,
                    " unpacked bytes, found no more; the archive is "
                    "damaged");
      done += want;
    }
  }

  // One call of zlib, with more packed bytes if it has none.
  void step() {
    if (z_.avail_in == 0) {
      const int64_t n = std::min<int64_t>(kChunk, entry_.packed - taken_);
      file_.read(entry_.begin + taken_, {packed_.data(), static_cast<size_t>(n)});
      taken_ += n;
      z_.next_in = reinterpret_cast<Bytef*>(packed_.data());
      z_.avail_in = static_cast<uInt>(n);
    }
    const int code = inflate(&z_, Z_NO_FLUSH);
    ended_ = code == Z_STREAM_END;
    if (code == Z_MEM_ERROR)
      throw Error(Errc::out_of_memory, "cannot unpack ", place(), ": zlib has no memory");
    if (code != Z_OK && !ended_)
      throw wrong(done_, "the packed bytes are damaged near byte ", entry_.begin + taken_,
                  " of the file (", z_.msg ? z_.msg : "they are cut short", ")");
  }

  ReadFile& file_;
  const std::string& path_;
  const ZipEntry& entry_;
  z_stream z_{};
  std::vector<std::byte> packed_;
  bool ended_ = false;
  uint32_t crc_ = 0;
  int64_t done_ = 0, taken_ = 0;  // unpacked bytes that were read; packed ones
};

}  // namespace

ZipReader::ZipReader(std::unique_ptr<ReadFile> file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {
  const auto wrong = [&](const auto&... parts) {
    return Error(Errc::bad_data, path_, ": ", detail::concat(parts...));
  };
  const int64_t size = file_->size();
  const int64_t tail_size = std::min(size, kEndSize + kCommentMax);
  const std::string tail = read_at(*file_, size - tail_size, tail_size);
  // The record is the last one whose comment ends with the file.
  int64_t end = -1;
  for (int64_t at = tail_size - kEndSize; at >= 0 && end < 0; --at) {
    NumberReader f(std::string_view(tail).substr(static_cast<size_t>(at), kEndSize));
    if (f.take(4) != kEnd) continue;
    f.text(16);
    if (at + kEndSize + f.size(2) == tail_size) end = size - tail_size + at;
  }
  if (end < 0)
    throw wrong("expected the end record of a zip archive in the last ", tail_size,
                " bytes, found none; the file is cut short, or no archive");
  const std::string record = read_at(*file_, end, kEndSize);
  NumberReader f(record);
  f.take(4);
  const uint64_t disk = f.take(2), first_disk = f.take(2), here = f.take(2);
  int64_t count = f.size(2), bytes = f.size(4), begin = f.size(4), limit = end;
  if (disk != first_disk || (disk != 0 && disk != k16) || here != static_cast<uint64_t>(count))
    throw wrong("the archive is in several parts; join them");
  if (count == k16 || bytes == k32 || begin == k32) {
    const bool there = end >= kLocator64Size + kEnd64Size;
    const std::string locator =
        there ? read_at(*file_, end - kLocator64Size, kLocator64Size) : std::string();
    NumberReader at(locator);
    if (there && at.take(4) == kLocator64) {
      at.take(4);
      limit = at.size(8);
      if (limit < 0 || limit > end - kLocator64Size - kEnd64Size)
        throw wrong("at byte ", end - kLocator64Size, ": the zip64 record is said to begin at ",
                    limit, ", beyond its place");
      const std::string large = read_at(*file_, limit, kEnd64Size);
      NumberReader g(large);
      if (g.take(4) != kEnd64) throw wrong("at byte ", limit, ": expected the zip64 record");
      g.text(28);  // its size, versions, disks, entries of this disk
      count = g.size(8);
      bytes = g.size(8);
      begin = g.size(8);
    }
  }
  if (begin < 0 || bytes < 0 || begin > limit || bytes != limit - begin)
    throw wrong("at byte ", end, ": the directory is said to be ", bytes, " bytes from byte ",
                begin, " on, and ends at byte ", limit);
  if (bytes > kDirectoryMax)
    throw wrong("the directory has ", bytes, " bytes; expected at most ", kDirectoryMax);
  if (count < 0 || count > bytes / kCentralSize)
    throw wrong("at byte ", end, ": ", count, " entries do not fit the directory's ", bytes,
                " bytes");
  read_directory(begin, bytes, count);
  find_begins(begin);
}

void ZipReader::read_directory(int64_t begin, int64_t size, int64_t count) {
  const std::string directory = read_at(*file_, begin, size);
  NumberReader f(directory);
  std::set<std::string_view> names;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = begin + size - static_cast<int64_t>(f.left());
    const auto wrong = [&](const auto&... parts) {
      return Error(Errc::bad_data, path_, ": at byte ", at, ": ", detail::concat(parts...));
    };
    if (f.left() < kCentralSize || f.take(4) != kCentral)
      throw wrong("expected entry ", i, " of the directory");
    f.text(4);  // versions
    const uint64_t flags = f.take(2), method = f.take(2);
    f.text(4);  // time
    ZipEntry e;
    e.crc = static_cast<uint32_t>(f.take(4));
    e.packed = f.size(4);
    e.size = f.size(4);
    const size_t name = f.take(2), extra = f.take(2), comment = f.take(2);
    f.text(8);  // disk, attributes
    e.header = f.size(4);
    if (f.left() < name + extra + comment) throw wrong("entry ", i, " is cut short");
    e.name = f.text(name);
    NumberReader x(f.text(extra));
    f.text(comment);
    while (x.left() >= 4) {
      const uint64_t kind = x.take(2), length = x.take(2);
      NumberReader field(x.text(length));
      if (kind != kZip64Field) continue;
      for (int64_t* value : {&e.size, &e.packed, &e.header})
        if (*value == k32 && field.left() >= 8) *value = field.size(8);
    }
    if (flags & kEncrypted) throw wrong("entry ", e.name, " is encrypted");
    if (method != kStored && method != kDeflated)
      throw wrong("entry ", e.name, " is packed with method ", method,
                  "; expected 0 (stored) or 8 (deflated): write it again with one of them");
    e.deflated = method == kDeflated;
    if (e.header < 0 || e.packed < 0 || e.size < 0 || e.header > begin - kLocalSize ||
        e.packed > begin - kLocalSize - e.header)
      throw wrong("entry ", e.name, " is said to have ", e.packed, " bytes from byte ", e.header,
                  " on, beyond byte ", begin);
    if (e.deflated ? e.size / kDeflateRatio > e.packed : e.size != e.packed)
      throw wrong("entry ", e.name, " is said to have ", e.size, " unpacked bytes, which ",
                  e.packed, e.deflated ? " packed ones cannot hold" : " stored ones are not");
    entries_.push_back(std::move(e));
  }
  if (f.left() > 0)
    throw Error(Errc::bad_data, path_, ": the directory has ", f.left(), " bytes after its ", count,
                " entries");
  std::sort(entries_.begin(), entries_.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.header < b.header; });
  for (const ZipEntry& e : entries_)
    if (!names.insert(e.name).second)
      throw Error(Errc::bad_data, path_, ": the entry ", e.name, " stands twice");
}

// Local headers say where the bytes begin. Entries that overlap would unpack the same bytes again
// and again.
void ZipReader::find_begins(int64_t directory) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    ZipEntry& e = entries_[i];
    const std::string header = read_at(*file_, e.header, kLocalSize);
    NumberReader f(header);
    const bool local = f.take(4) == kLocal;
    f.text(22);
    const int64_t name = f.size(2), extra = f.size(2);
    const int64_t end = i + 1 < entries_.size() ? entries_[i + 1].header : directory;
    e.begin = e.header + kLocalSize + name + extra;
    if (!local || e.begin > end || name != static_cast<int64_t>(e.name.size()) ||
        read_at(*file_, e.header + kLocalSize, name) != e.name)
      throw Error(Errc::bad_data, path_, ": at byte ", e.header, ": expected the header of entry ",
                  e.name);
    if (e.packed > end - e.begin)
      throw Error(Errc::bad_data, path_, ": entry ", e.name, " is said to end at byte ",
                  e.begin + e.packed, ", in what begins at byte ", end);
  }
}

std::unique_ptr<ByteReader> ZipReader::open(const ZipEntry& entry) const {
  return std::make_unique<EntryReader>(*file_, path_, entry);
}

namespace {

std::vector<std::byte> deflate_all(const std::vector<std::span<const std::byte>>& parts) {
  z_stream z{};
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(Errc::out_of_memory, "cannot pack an entry: zlib has no memory; free some");
  std::vector<std::byte> out;
  std::array<std::byte, kChunk> chunk;
  const auto run = [&](int flush) {
    do {
      z.next_out = reinterpret_cast<Bytef*>(chunk.data());
      z.avail_out = kChunk;
      deflate(&z, flush);
      out.insert(out.end(), chunk.begin(), chunk.end() - z.avail_out);
    } while (z.avail_out == 0);
  };
  for (std::span<const std::byte> part : parts)
    while (!part.empty()) {
      const size_t n = std::min<size_t>(part.size(), 1 << 30);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));
      z.avail_in = static_cast<uInt>(n);
      run(Z_NO_FLUSH);
      part = part.subspan(n);
    }
  run(Z_FINISH);
  deflateEnd(&z);
  return out;
}

// The fields that the header of an entry and the directory share: from the version that reads it to
// the length of the name.
void put_shared(NumberWriter& out, const ZipEntry& e, bool large) {
  const bool ascii = std::all_of(e.name.begin(), e.name.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  out.put(large ? 45 : 20, 2).put(ascii ? 0 : kUtf8, 2).put(e.deflated ? kDeflated : kStored, 2);
  out.put(0, 2).put(kDay, 2).put(e.crc, 4);
  out.size(large ? k32 : e.packed, 4, k32).size(large ? k32 : e.size, 4, k32);
  out.put(e.name.size(), 2);
}

bool is_large(const ZipEntry& e) { return e.packed >= k32 || e.size >= k32 || e.header >= k32; }

}  // namespace

void ZipWriter::write(const std::string& bytes) {
  file_.write(bytes);
  at_ += static_cast<int64_t>(bytes.size());
}

void ZipWriter::add(const std::string& name, const std::vector<std::span<const std::byte>>& parts,
                    bool deflated) {
  if (name.size() > static_cast<size_t>(k16))
    throw Error(Errc::invalid_argument, "a name of ", name.size(),
                " bytes is too long for a zip archive, which has at most ", k16);
  ZipEntry e;
  e.name = name;
  e.deflated = deflated;
  e.header = at_;
  for (const auto& part : parts) {
    e.size += static_cast<int64_t>(part.size());
    e.crc = add_crc(e.crc, part);
  }
  const std::vector<std::byte> packed = deflated ? deflate_all(parts) : std::vector<std::byte>();
  e.packed = deflated ? static_cast<int64_t>(packed.size()) : e.size;
  const bool large = is_large(e);
  NumberWriter header;
  header.put(kLocal, 4);
  put_shared(header, e, large);
  header.put(large ? 20 : 0, 2);
  header.bytes += e.name;
  if (large)
    header.put(kZip64Field, 2).put(16, 2).size(e.size, 8, INT64_MAX).size(e.packed, 8, INT64_MAX);
  write(header.bytes);
  if (deflated)
    file_.write(packed);
  else
    for (const auto& part : parts)
      if (!part.empty()) file_.write(part);
  at_ += e.packed;
  entries_.push_back(std::move(e));
}

void ZipWriter::finish() {
  const int64_t begin = at_;
  for (const ZipEntry& e : entries_) {
    const bool large = is_large(e);
    NumberWriter row;
    row.put(kCentral, 4).put(large ? 45 : 20, 2);
    put_shared(row, e, large);
    row.put(large ? 28 : 0, 2).put(0, 2).put(0, 2).put(0, 2).put(0, 4);
    row.size(large ? k32 : e.header, 4, k32);
    row.bytes += e.name;
    if (large)
      row.put(kZip64Field, 2)
          .put(24, 2)
          .size(e.size, 8, INT64_MAX)
          .size(e.packed, 8, INT64_MAX)
          .size(e.header, 8, INT64_MAX);
    write(row.bytes);
  }
  const int64_t size = at_ - begin, end = at_;
  const auto count = static_cast<int64_t>(entries_.size());
  NumberWriter last;
  if (count >= k16 || size >= k32 || begin >= k32) {
    last.put(kEnd64, 4).put(kEnd64Size - 12, 8).put(45, 2).put(45, 2).put(0, 4).put(0, 4);
    for (const int64_t n : {count, count, size, begin}) last.size(n, 8, INT64_MAX);
    last.put(kLocator64, 4).put(0, 4).size(end, 8, INT64_MAX).put(1, 4);
  }
  last.put(kEnd, 4).put(0, 4).size(count, 2, k16).size(count, 2, k16);
  last.size(size, 4, k32).size(begin, 4, k32).put(0, 2);
  write(last.bytes);
}

}  // namespace troupe
