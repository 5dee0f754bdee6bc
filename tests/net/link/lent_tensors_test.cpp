// Tensors that a peer on the same machine reads in place, over an in-memory transport that passes
// real descriptors.
#include <fcntl.h>
#include <sys/mman.h>

#include <fstream>

#include "tests/support/link_pair.hpp"
#include "tests/support/raw_frames.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr auto kBulk = static_cast<size_t>(Channel::bulk);

// Two processes on one machine, each with a pool.
struct OneMachine : LinkPair {
  PoolMemory pools[2] = {{"a", 256 * kMiB}, {"b", 256 * kMiB}};
  SegmentPool segments[2] = {SegmentPool(pools[0]), SegmentPool(pools[1])};
  OneMachine() {
    net.faults.one_machine = true;
    a.habits.segments = &segments[0];
    b.habits.segments = &segments[1];
  }
  ~OneMachine() {
    for (LinkEnd* end : {&a, &b})
      if (end->link) end->link->close_now("the test is over");
  }
  // A tensor of `n` in a segment of a.
  Tensor ramp_of_a(int64_t n) {
    Tensor t = segments[0].make(DType::f32, Shape{n});
    std::memcpy(t.mutable_raw(), ramp(n).raw(), static_cast<size_t>(n) * sizeof(float));
    return t;
  }
  // Sends the tensor to b, and returns the one that arrives.
  Tensor arrives(const Tensor& tensor) {
    const size_t before = b.messages.size();
    CHECK(a.send(1, 2, Deliver{{}, false, Errc::ok, "", tensor}) == Errc::ok);
    REQUIRE(net.run_until([&] { return b.messages.size() > before; }, 1s));
    Tensor out = b.messages.back().message.get_as<Deliver>(0).value;
    b.messages.clear();
    return out;
  }
};

int64_t mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  int64_t n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find("memfd:troupe") != line.npos;
  return n;
}

}  // namespace

TEST_CASE("a large tensor is read where it lies, and held until the reader gives it back") {
  OneMachine p;
  p.connect_both();
  Tensor mine = p.ramp_of_a(1'000'000);
  Tensor theirs = p.arrives(mine);
  CHECK(same_bits(theirs, ramp(1'000'000)));
  CHECK(p.a.link->stats().bytes_out[kBulk] == 0);
  CHECK(p.a.link->stats().lent_out == 1);
  CHECK(p.b.allocations == 0);
  mine.mutable_data<float>()[7] = -1;  // the test alone may: it is lent
  CHECK(theirs.at<float>({7}) == -1);
  CHECK(theirs.unique());
  CHECK(!may_be_written(theirs));
  CHECK_THROWS_WITH(theirs.mutable_data<float>(),
                    "the elements of a tensor f32[1000000] cannot be written: they are in "
                    "memory of another process; write to a clone()");
  CHECK(!mine.unique());
  p.net.run_for(1s);
  CHECK(!mine.unique());
  theirs.reset();
  p.net.run_for(2 * kTick);  // a quiet link tells it with the next tick
  CHECK(mine.unique());
}

TEST_CASE("a loan ends with the next message of the reader") {
  OneMachine p;
  p.connect_both();
  const Tensor mine = p.ramp_of_a(100'000);
  p.arrives(mine).reset();
  const TimePoint before = p.net.now();
  CHECK(p.b.send(1, 2, StartStep{}) == Errc::ok);
  REQUIRE(p.net.run_until([&] { return !p.a.messages.empty(); }, 1s));
  CHECK(p.net.now() - before < kTick / 2);
  CHECK(mine.unique());
}

TEST_CASE("a tensor elsewhere is copied into a segment once") {
  OneMachine p;
  p.connect_both();
  const Tensor mine = ramp(100'000);
  const Tensor theirs = p.arrives(mine);
  CHECK(same_bits(theirs, mine));
  CHECK(mine.unique());
  CHECK(p.a.link->stats().lent_out == 1);
  CHECK(p.a.link->stats().bytes_out[kBulk] == 0);
  const Tensor rows = p.ramp_of_a(100'000).reshaped({1000, 100}).rows(3, 900);
  CHECK(same_bits(p.arrives(rows), ramp(100'000).reshaped({1000, 100}).rows(3, 900)));
}

TEST_CASE("integers, small tensors and tensors without room go as bytes") {
  OneMachine p;
  p.connect_both();
  const std::vector<int64_t> numbers(100'000, 5);
  const Tensor integers = Tensor::of<int64_t>(numbers, {100'000});
  CHECK(same_bits(p.arrives(integers), integers));
  CHECK(same_bits(p.arrives(ramp(100)), ramp(100)));
  p.a.habits.segments = nullptr;
  PoolMemory tiny("tiny", 1 * kMiB);
  SegmentPool none(tiny);
  OneMachine q;
  q.a.habits.segments = &none;
  q.connect_both();
  CHECK(same_bits(q.arrives(ramp(1'000'000)), ramp(1'000'000)));
  CHECK(q.a.link->stats().lent_out == 0);
  CHECK(p.a.link->stats().lent_out == 0);
}

TEST_CASE("past a quarter of the budget tensors go as bytes") {
  OneMachine p;
  p.connect_both();
  std::vector<Tensor> kept;
  for (int i = 0; i < 3; ++i) kept.push_back(p.arrives(p.ramp_of_a(30 * kMiB / 4)));
  CHECK(p.a.link->stats().lent_out == 2);
  CHECK(same_bits(kept[2], kept[0]));
  kept[0].reset();
  p.net.run_for(2 * kTick);
  kept.push_back(p.arrives(p.ramp_of_a(30 * kMiB / 4)));
  CHECK(p.a.link->stats().lent_out == 3);
}

TEST_CASE("over a network nothing is lent") {
  OneMachine p;
  p.net.faults.one_machine = false;
  p.connect_both();
  CHECK(!p.segments[0].has_readers());
  CHECK(same_bits(p.arrives(p.ramp_of_a(100'000)), ramp(100'000)));
  CHECK(p.a.link->stats().lent_out == 0);
}

TEST_CASE("a reader that is cut off may read on: its block is not used again") {
  OneMachine p;
  p.connect_both();
  Tensor mine = p.ramp_of_a(100'000);
  const std::weak_ptr<const Segment> segment = SegmentPool::place_of(mine).segment;
  const Tensor theirs = p.arrives(mine);
  p.a.link->close_now("cut off");
  CHECK(!may_be_written(mine));
  mine.reset();
  CHECK(!p.segments[0].has_readers());
  p.segments[0].add_reader();
  for (int i = 0; i < 20; ++i) {
    Tensor next = p.segments[0].make(DType::f32, Shape{100'000});
    CHECK(SegmentPool::place_of(next).segment != segment.lock());
    std::memset(next.mutable_raw(), 0, 400'000);
  }
  p.segments[0].remove_reader();
  CHECK(same_bits(theirs, ramp(100'000)));
}

TEST_CASE("the reader unmaps segments that the lender has no more") {
  OneMachine p;
  const int64_t before = mapped_segments();
  p.connect_both();
  p.arrives(p.ramp_of_a(3 * kMiB)).reset();
  CHECK(mapped_segments() == before + 2);  // the lender's and the reader's
  p.net.run_for(2 * kTick);
  p.pools[0].claim(250 * kMiB).reset();  // takes all free segments
  p.net.run_for(2 * kTick);
  CHECK(mapped_segments() == before);
}

TEST_CASE("frames of loans that do not fit end the link, and nothing else") {
  const auto closed_by = [](auto&& attack) {
    OneMachine p;
    const auto [x, y] = p.net.connect(p.left, p.right);
    p.b.open(Link::Role::acceptor, y, hello_of("ps", 0));
    Stranger s(x);
    s.greet(hello_of("worker", 1));
    p.net.run_for(10ms);
    s.say(frame(Channel::control, static_cast<uint16_t>(Control::confirm), {}));
    p.net.run_for(10ms);
    REQUIRE(p.b.up);
    attack(s);
    p.net.run_for(50ms);
    CHECK(p.b.closed_);
    CHECK(p.b.link->rejected());
    CHECK(p.b.messages.empty());
    return p.b.reason;
  };
  const auto loan = [](LoanPlace place, const Tensor& tensor) {
    const Encoded message = encode(Deliver{{}, false, Errc::ok, "", tensor});
    const auto begin = as_bytes_of(place);
    return frame(Channel::small, message.kind, Bytes(begin.begin(), begin.end()) + message.header,
                 kFlagged);
  };
  const auto numbers = [](Control type, uint64_t number) {
    const auto bytes = as_bytes_of(number);
    return frame(Channel::control, static_cast<uint16_t>(type), Bytes(bytes.begin(), bytes.end()));
  };
  const auto with_descriptor = [](Stranger& s, const Bytes& bytes, int descriptor) {
    const std::span<const std::byte> part(bytes);
    s.connection->write(std::span(&part, 1), std::span(&descriptor, 1));
  };
  std::string why;
  const auto segment = Segment::make(kMiB, why);
  REQUIRE(segment);
  const int good = segment->descriptor.number();
  const Descriptor unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.number(), kMiB) == 0);
  const Tensor t = ramp(10'000);

  CHECK(closed_by([&](Stranger& s) {
          s.say(loan({1, 1, 0, 0}, t));
        }) == "a tensor in segment 1: it is not known");
  CHECK(closed_by([&](Stranger& s) {
          s.say(loan({1, 1, 0, kMiB}, t));
        }) == "a tensor in segment 1: its descriptor has not come");
  CHECK(closed_by([&](Stranger& s) {
          with_descriptor(s, loan({1, 1, 0, kMiB}, t), unsealed.number());
        }) == "a tensor in segment 1: it is not sealed");
  CHECK(closed_by([&](Stranger& s) {
          with_descriptor(s, loan({1, 1, 0, 2 * kMiB}, t), good);
        }) == "a tensor in segment 1: it has 1048576 bytes, and not 2097152");
  for (const int64_t offset : {kMiB - 39'996, kMiB, kMiB + 4, int64_t{-4}, int64_t{2}, INT64_MAX})
    CHECK(closed_by([&](Stranger& s) {
            with_descriptor(s, loan({1, 1, offset, kMiB}, t), good);
          }) == "a tensor in segment 1: it lies outside");
  CHECK(closed_by([&](Stranger& s) {
          with_descriptor(
              s, loan({1, 1, 0, kMiB}, Tensor::of<int64_t>(std::vector<int64_t>(9999), {9999})),
              good);
        }) == "a tensor in segment 1: such a message has none");
  CHECK(closed_by([&](Stranger& s) { s.say(frame(Channel::small, 0, Bytes(5), kFlagged)); }) ==
        "a loan is shorter than it says");
  CHECK(closed_by([&](Stranger& s) { s.say(numbers(Control::returned, 3)); }) ==
        "it returns a tensor that was not lent");
  CHECK(closed_by([&](Stranger& s) { s.say(numbers(Control::forgotten, 3)); }) ==
        "it forgets a segment that it has not told");
  CHECK(closed_by([&](Stranger& s) {
          for (int i = 0; i < 100; ++i) with_descriptor(s, frame(Channel::control, 1, {}), good);
        }) == "it passes descriptors that no message belongs to");
}

}  // namespace troupe
