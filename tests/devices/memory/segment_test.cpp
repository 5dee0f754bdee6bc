// Segments, and the pool whose blocks lie in them.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>

#include "devices/memory/segment_pool.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::unique_ptr<const Segment> segment_of(int64_t bytes) {
  std::string why;
  auto out = Segment::make(bytes, why);
  REQUIRE_MESSAGE(out, why);
  return out;
}

// A copy of the descriptor, as a peer has one.
Descriptor passed(const Descriptor& of) { return Descriptor(::dup(of.number())); }

struct Mapped {
  std::string why;
  bool is_bad = false;
  std::shared_ptr<const Mapping> mapping;
  Mapped(const Descriptor& descriptor, int64_t bytes)
      : mapping(map_segment(descriptor, bytes, why, is_bad)) {}
};

const BufferOwner* owner_of(const Tensor& tensor) { return buffer_of(tensor)->owner; }

}  // namespace

TEST_CASE("a segment is read where its maker writes, and nobody else can write or resize it") {
  const auto segment = segment_of(kMiB);
  const Descriptor theirs = passed(segment->descriptor);
  const Mapped read(theirs, kMiB);
  REQUIRE(read.mapping);
  CHECK(read.mapping->address() != segment->mapping->address());
  std::strcpy(segment->mapping->address() + 5, "written later");
  CHECK(std::string(read.mapping->address() + 5) == "written later");

  CHECK(::mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, theirs.number(), 0) ==
        MAP_FAILED);
  CHECK(::mprotect(read.mapping->address(), kMiB, PROT_READ | PROT_WRITE) != 0);
  CHECK(::pwrite(theirs.number(), "x", 1, 0) == -1);
  CHECK(::ftruncate(theirs.number(), 0) != 0);
  CHECK(::ftruncate(theirs.number(), 2 * kMiB) != 0);
  CHECK(::fallocate(theirs.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
}

TEST_CASE("a mapping outlives its segment") {
  auto segment = segment_of(kMiB);
  const Mapped read(passed(segment->descriptor), kMiB);
  REQUIRE(read.mapping);
  std::strcpy(segment->mapping->address(), "the last word");
  segment.reset();
  CHECK(std::string(read.mapping->address()) == "the last word");
}

TEST_CASE("a file that its maker could change the size of is not mapped") {
  const Descriptor open_file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(open_file.number(), kMiB) == 0);
  const Mapped unsealed(open_file, kMiB);
  CHECK(!unsealed.mapping);
  CHECK(unsealed.is_bad);
  CHECK(unsealed.why == "it is not sealed");
  const Mapped other_size(segment_of(kMiB)->descriptor, 2 * kMiB);
  CHECK(!other_size.mapping);
  CHECK(other_size.is_bad);
  CHECK(other_size.why == "it has 1048576 bytes, and not 2097152");
  const Mapped no_size(segment_of(kMiB)->descriptor, 0);
  CHECK(no_size.is_bad);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const Descriptor reads(ends[0]), writes(ends[1]);
  CHECK(Mapped(reads, kMiB).is_bad);
  CHECK(Mapped(Descriptor(), kMiB).is_bad);
}

TEST_CASE("blocks lie in segments while somebody reads them") {
  PoolMemory pool("cpu", 64 * kMiB);
  SegmentPool segments(pool);
  const Shape large{100'000}, small{100};
  CHECK(owner_of(segments.make(DType::f32, large)) == pool.owner());
  segments.add_reader();
  CHECK(owner_of(segments.make(DType::f32, small)) == pool.owner());
  const Tensor tensor = segments.make(DType::f32, large);
  CHECK(owner_of(tensor) == segments.owner());
  const SegmentPool::Place place = SegmentPool::place_of(tensor);
  REQUIRE(place.segment);
  CHECK(place.segment->mapping->address() + place.offset == tensor.raw());
  CHECK(SegmentPool::place_of(tensor.rows(10, 20)).offset == place.offset + 40);
  CHECK(!SegmentPool::place_of(pool.make(DType::f32, large)).segment);
  CHECK(!SegmentPool::place_of(Tensor::empty(DType::f32, large)).segment);
  CHECK(!SegmentPool::place_of(Tensor()).segment);
  segments.remove_reader();
  CHECK(owner_of(segments.make(DType::f32, large)) == pool.owner());
}

TEST_CASE("a free block is used again; a retired one is not, and its segment ends") {
  PoolMemory pool("cpu", 64 * kMiB);
  SegmentPool segments(pool);
  segments.add_reader();
  const auto make = [&] { return segments.make(DType::f32, Shape{100'000}); };
  const void* const first = make().raw();
  CHECK(make().raw() == first);
  const int64_t one_segment = pool.stats().used_bytes;
  CHECK(one_segment >= 4 * kMiB * 9 / 10);

  Tensor lent = make(), beside = make();
  const std::weak_ptr<const Segment> old = SegmentPool::place_of(lent).segment;
  CHECK(SegmentPool::place_of(beside).segment == old.lock());
  SegmentPool::retire(lent);
  CHECK(!may_be_written(lent));
  lent.reset();
  const Tensor next = make();
  CHECK(SegmentPool::place_of(next).segment != old.lock());
  CHECK(pool.stats().used_bytes == 2 * one_segment);
  CHECK(!old.expired());
  beside.reset();
  CHECK(old.expired());
  CHECK(pool.stats().used_bytes == one_segment);
}

TEST_CASE("segments count in the budget, and free ones go when it is short") {
  PoolMemory pool("cpu", 16 * kMiB);
  SegmentPool segments(pool);
  segments.add_reader();
  const auto made = [](Memory& memory, int64_t bytes) {
    return memory.make(DType::u8, Shape{bytes});
  };
  std::vector<Tensor> kept;
  for (int i = 0; i < 2; ++i) kept.push_back(made(segments, 6 * kMiB));
  CHECK(owner_of(kept[1]) == segments.owner());
  CHECK(code_of([&] { kept.push_back(made(segments, 6 * kMiB)); }) == Errc::out_of_memory);
  kept.clear();
  kept.push_back(made(pool, 14 * kMiB));
  CHECK(kept[0].defined());
  kept.clear();
  SegmentPool others(pool);
  others.add_reader();
  kept.push_back(made(others, 10 * kMiB));  // the pool's free memory goes, too
  CHECK(owner_of(kept[0]) == others.owner());
}

TEST_CASE("a descriptor whose pages do not exist is not mapped") {
  const Descriptor sparse(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(sparse.number(), kMiB) == 0);
  REQUIRE(::fcntl(sparse.number(), F_ADD_SEALS,
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
  const Mapped read(sparse, kMiB);
  CHECK(read.is_bad);
  CHECK(read.why == "not all of its pages exist");
}

TEST_CASE("a buffer in a segment outlives the pools") {
  Tensor last;
  {
    PoolMemory pool("cpu", 16 * kMiB);
    SegmentPool segments(pool);
    segments.add_reader();
    last = segments.make(DType::f32, Shape{100'000});
  }
  last.mutable_data<float>()[99'999] = 3;
  CHECK(last.at<float>({99'999}) == 3);
}

}  // namespace troupe
