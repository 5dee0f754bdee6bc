// The choice of tensors for parameters, by names, types and LoadOptions.
#include "training/group/matching.hpp"

#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

using Names = std::vector<std::string>;

const std::vector<ParameterSpec> graph = {
    {"body/b", DType::f32, {4}}, {"body/w", DType::f32, {3, 4}}, {"head/w", DType::f32, {4, 2}}};
std::map<std::string, TensorType> file() {
  return {{"body/b", {DType::f32, {4}}},
          {"body/w", {DType::f32, {3, 4}}},
          {"head/w", {DType::f32, {4, 2}}}};
}

TEST_CASE("equal names and types match, and nothing is left over") {
  const Matching m = match_parameters(graph, file(), {}, "f");
  CHECK(m.report.loaded == Names{"body/b", "body/w", "head/w"});
  CHECK(m.taken.at("head/w") == "head/w");
  CHECK((m.report.missing.empty() && m.report.unused.empty() && m.report.mismatched.empty()));
}

TEST_CASE("a file that differs is refused with both sides, or used as far as it fits") {
  auto tensors = file();
  tensors["head/w"].shape = {4, 5};
  tensors["body/B"] = tensors["body/b"];
  tensors.erase("body/b");
  check_error(
      Errc::bad_configuration, [&] { match_parameters(graph, tensors, {}, "f"); },
      "f and the graph differ: the file has no body/b; did you mean body/B?",
      "the graph has no body/B", "head/w is f32[4, 2] in the graph, f32[4, 5] in the file",
      "strict = false");
  const Matching m = match_parameters(graph, tensors, {.strict = false}, "f");
  CHECK(m.report.loaded == Names{"body/w"});
  CHECK(m.report.missing == Names{"body/b"});
  CHECK(m.report.unused == Names{"body/B"});
  CHECK(m.report.mismatched == Names{"head/w is f32[4, 2] in the graph, f32[4, 5] in the file"});
}

TEST_CASE("a file that fits nothing is refused, strict or not") {
  check_error(
      Errc::bad_configuration,
      [&] {
        match_parameters(graph, {{"x", {DType::f32, {4}}}}, {.strict = false}, "f");
      },
      "no parameter of the graph takes a tensor of f", "the file has no body/b",
      "the graph has no x", "LoadOptions::rename");
}

TEST_CASE("names are changed whole or by their begin, the longest begin first") {
  const std::map<std::string, TensorType> tensors = {{"model.net.w", {DType::f32, {3, 4}}},
                                                     {"model.net.b", {DType::f32, {4}}},
                                                     {"out", {DType::f32, {4, 2}}}};
  const LoadOptions options{.rename = {{"", "model."}, {"body/", "model.net."}, {"head/w", "out"}}};
  const Matching m = match_parameters(graph, tensors, options, "f");
  CHECK(m.taken == std::map<std::string, std::string>{
                       {"body/b", "model.net.b"}, {"body/w", "model.net.w"}, {"head/w", "out"}});
  check_error(
      Errc::bad_configuration,
      [&] {
        match_parameters(graph, file(), {.rename = {{"", "x/"}}}, "f");
      },
      "the file has no body/b (as x/body/b), body/w (as x/body/w)");
}

TEST_CASE("scopes leave other parameters and tensors alone") {
  const Matching m = match_parameters(graph, file(), {.scopes = {"head"}}, "f");
  CHECK(m.report.loaded == Names{"head/w"});
  CHECK(m.report.unused == Names{"body/b", "body/w"});
  CHECK(m.report.missing.empty());
}

TEST_CASE("options that name nothing of the graph are refused") {
  const auto refused = [](const LoadOptions& options, const char* text) {
    check_invalid([&] { match_parameters(graph, file(), options, "f"); }, text);
  };
  refused({.scopes = {"bod"}}, "scopes has bod, and no parameter of the graph is in it: body/b");
  refused({.rename = {{"body/ww", "x"}}}, "the graph has no such parameter; did you mean body/w?");
  refused({.rename = {{"tail/", "x/"}}}, "no parameter of the graph begins so: body/b, body/w");
}

TEST_CASE("floating tensors of another dtype are cast on request, integers never") {
  auto tensors = file();
  tensors["body/b"].dtype = DType::bf16;
  check_error(
      Errc::bad_configuration, [&] { match_parameters(graph, tensors, {}, "f"); },
      "body/b is f32[4] in the graph, bf16[4] in the file", "LoadOptions::cast");
  CHECK(match_parameters(graph, tensors, {.cast = true}, "f").report.loaded.size() == 3);
  tensors["body/b"].dtype = DType::i32;
  const std::string text = error_text(
      Errc::bad_configuration, [&] { match_parameters(graph, tensors, {.cast = true}, "f"); });
  CHECK(text.find("LoadOptions::cast") == text.npos);
  const Tensor wide = Tensor::of<double>({1, 1e300, 0.1}, {3});
  CHECK(same_bits(cast_floating(wide, DType::f16),
                  Tensor::of<Float16>({Float16(1), Float16(1e300), Float16(0.1)}, {3})));
  CHECK(same_bits(cast_floating(Tensor::of<BFloat16>({BFloat16(2.5)}, {1}), DType::f32),
                  Tensor::of<float>({2.5f}, {1})));
}

}  // namespace
}  // namespace troupe
