// Lists of codecs: which entry is for a parameter, and the refusals.
#include <doctest/doctest.h>

#include "tests/support/refusal.hpp"
#include "training/codecs/codec_list.hpp"

namespace troupe {
namespace {

Codec::Kind kind_of(const std::string& list, const std::string& name, DType dtype = DType::f32,
                    bool trained = true) {
  return CodecList(list).of({name, dtype, trained}).kind;
}

const std::vector<CodedParameter> parameters = {
    {"conv1/w"}, {"fc1/w"}, {"mean", DType::f32, false}, {"count", DType::i64, false}};

TEST_CASE("a whole name comes before a begin, a longer begin before a shorter one, all last") {
  const std::string list = "bf16,conv*=f16,conv1/w=int8,conv2/*=none";
  CHECK(kind_of(list, "conv1/w") == Codec::int8);
  CHECK(kind_of(list, "conv1/b") == Codec::f16);
  CHECK(kind_of(list, "conv2/w") == Codec::none);
  CHECK(kind_of(list, "fc1/w") == Codec::bf16);
  CHECK(kind_of("conv*=f16", "fc1/w") == Codec::none);
  CHECK(kind_of("bf16,*/b=f16", "fc1/b") == Codec::f16);
  CHECK(kind_of("*=bf16", "fc1/b") == Codec::bf16);
  CHECK(kind_of("", "fc1/w") == Codec::none);
}

TEST_CASE("a codec for all others is not for integers and untrained parameters") {
  CHECK(kind_of("bf16", "n", DType::i64) == Codec::none);
  CHECK(kind_of("bf16", "mean", DType::f32, false) == Codec::none);
  CHECK(kind_of("bf16", "w", DType::f64) == Codec::bf16);
}

TEST_CASE("lists that cannot be read are refused by the entry") {
  has(refusal_of([] { CodecList("w=int4"); }).text, "in \"w=int4\": \"int4\" is no codec");
  has(refusal_of([] { CodecList("=bf16"); }).text, "names no parameter");
  has(refusal_of([] { CodecList("bf16,"); }).text, "\"\" is no codec");
  has(refusal_of([] { CodecList("w=bf16,w=int8"); }).text, "w has two codecs");
  has(refusal_of([] { CodecList("bf16,int8"); }).text, "all other parameters have two codecs");
}

TEST_CASE("names and codecs that do not fit the parameters are refused") {
  check({"fc1/w=int8,conv*=bf16,none", "bf16"}, parameters);
  check({"mean=none", "count=none"}, parameters);
  const auto text = [](const Compression& c) {
    const Refusal refusal = refusal_of([&] { check(c, parameters); });
    CHECK(refusal.code == Errc::invalid_argument);
    return refusal.text;
  };
  has(text({"fc2/w=bf16", ""}), "TrainOptions::compression.gradients names fc2/w");
  has(text({"fc2/w=bf16", ""}), "did you mean fc1/w?");
  has(text({"lstm*=bf16", ""}), "names lstm*");
  has(text({"mean=bf16", ""}), "mean, which is not trained");
  has(text({"", "count=bf16"}), "count, which is not trained");
  has(text({"", "int8"}), "TrainOptions::compression.values wants int8 for values");
}

}  // namespace
}  // namespace troupe
