// A shard that gets codes, and answers with them.
#include <cmath>

#include "tests/support/simulation/shard_script.hpp"
#include "training/codecs/codec.hpp"

namespace troupe {
namespace {

const MakeTensor make = [](DType dtype, const Shape& shape) { return Tensor::empty(dtype, shape); };

Push coded(const ShardScript& s, Codec::Kind kind, int32_t replica, int64_t step,
           const Tensor& gradient) {
  Push push = s.make_push(replica, step, encode({kind}, gradient, {1, "w", replica, step}, make));
  push.codec = kind;
  return push;
}

ShardActions& pull(ShardScript& s, int32_t replica, int64_t step, uint8_t codec,
                   int64_t have = -1) {
  s.last.clear();
  s.shard.pull({.slice = 0,
                .replica = replica,
                .step = step,
                .have_version = have,
                .epoch = s.shard.epoch(),
                .codec = codec},
               1, s.last);
  return s.last;
}

TEST_CASE("codes are summed as the elements that they stand for") {
  for (const Codec::Kind kind : {Codec::bf16, Codec::f16, Codec::int8}) {
    ShardScript s = ShardScript::serving(Aggregation::sync, 2);
    s.push(coded(s, kind, 0, 0, vector_of({127, 0, -127, 64})));
    s.push(coded(s, kind, 1, 0, vector_of({-127, 0, 0, 127})));
    const Tensor values = s.shard.values(0);
    CHECK(values.values<float>()[0] == 0);
    CHECK(values.values<float>()[1] == 0);
    CHECK(values.values<float>()[2] == 63.5f);
    CHECK(values.values<float>()[3] == -95.5f);
    CHECK(s.applied.at(0).gradients.at(0).values.dtype() == DType::f32);
  }
}

TEST_CASE("codes that come again count once, and so does the whole gradient of that step") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  const Push push = coded(s, Codec::int8, 0, 0, vector_of({127, 0, 0, 0}));
  CHECK(only<Acknowledged>(s.push(push)).code == Errc::ok);
  CHECK(only<Acknowledged>(s.push(push)).code == Errc::ok);
  CHECK(s.shard.version(0) == 1);
  CHECK(s.shard.counters().duplicate == 1);
}

TEST_CASE("an infinity among codes is named") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1);
  const Acknowledged& no =
      only<Acknowledged>(s.push(coded(s, Codec::bf16, 0, 0, vector_of({1, 2, INFINITY, 3}))));
  CHECK(no.code == Errc::bad_data);
  CHECK(no.text.find("element 2 is inf of w") != std::string::npos);
}

TEST_CASE("what are no codes of the slice is refused, and changes nothing") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1);
  const auto refused = [&](Push push) {
    const Acknowledged& no = only<Acknowledged>(s.push(std::move(push)));
    CHECK(no.code == Errc::invalid_argument);
    CHECK(s.shard.version(0) == 0);
  };
  Push push = coded(s, Codec::bf16, 0, 0, vector_of({1, 2, 3, 4}));
  push.codec = Codec::f16;  // another codec than the codes are of
  refused(push);
  push.codec = Codec::none;  // no codec
  refused(push);
  push.codec = 200;  // a codec that is not known
  refused(push);
  refused(coded(s, Codec::int8, 0, 0, vector_of({1, 2, 3})));  // another size
  Push written = coded(s, Codec::bf16, 0, 0, vector_of({1, 2, 3, 4}));
  written.write = 1;
  refused(written);
}

TEST_CASE("values travel in the codec of the pull, of the newest step and of the one before") {
  const float x = 1.2345678f;
  ShardScript s = ShardScript::serving(Aggregation::sync, 2, vector_of({x, x, x, x}));
  const auto first = [](const ShardActions& actions) {
    const Tensor& values = only<Pulled>(actions).values;
    CHECK(values.dtype() == DType::bf16);
    return static_cast<float>(values.data<BFloat16>()[0]);
  };
  const Tensor once = only<Pulled>(pull(s, 0, 0, Codec::bf16)).values;
  CHECK(static_cast<float>(once.data<BFloat16>()[0]) == static_cast<float>(BFloat16(x)));
  // Both replicas get the same codes, which are made once.
  CHECK(only<Pulled>(pull(s, 1, 0, Codec::bf16)).values.raw() == once.raw());
  CHECK_FALSE(only<Pulled>(pull(s, 1, 0, Codec::bf16, /*have=*/0)).values.defined());
  CHECK(only<Pulled>(pull(s, 1, 0, Codec::f16)).values.dtype() == DType::f16);
  CHECK(only<Pulled>(pull(s, 1, 0, Codec::none)).values.dtype() == DType::f32);
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  s.push(1, 0, vector_of({1, 1, 1, 1}));
  CHECK(first(pull(s, 0, 1, Codec::bf16)) == static_cast<float>(BFloat16(x - 1)));
  CHECK(first(pull(s, 1, 0, Codec::bf16)) == static_cast<float>(BFloat16(x)));
  CHECK(s.shard.values(0).values<float>()[0] == x - 1);
}

TEST_CASE("a shard that went back answers with the values that it went back to") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1, vector_of({1, 1, 1, 1}));
  pull(s, 0, 0, Codec::bf16);
  REQUIRE(s.shard.clear(2, s.shard.rule(), {{.replica = 0}}, s.last));
  REQUIRE(s.shard.set_initial(2, 0, vector_of({5, 5, 5, 5}), s.last));
  const Tensor values = only<Pulled>(pull(s, 0, 0, Codec::bf16)).values;
  CHECK(static_cast<float>(values.data<BFloat16>()[0]) == 5);
}

TEST_CASE("a pull in a codec that values do not have is refused") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 1);
  for (const int codec : {int{Codec::int8}, 200}) {
    const Pulled& no = only<Pulled>(pull(s, 0, 0, static_cast<uint8_t>(codec)));
    CHECK(no.code == Errc::invalid_argument);
    CHECK(no.text.find("do not travel in codec") != std::string::npos);
  }
}

}  // namespace
}  // namespace troupe
