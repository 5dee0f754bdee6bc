// Reads lists of codecs, and finds the codec of a parameter.
#include "training/codecs/codec_list.hpp"

#include <algorithm>

#include "graph/base/words.hpp"

namespace troupe {
namespace {

bool can_be_coded(const CodedParameter& p, Codec::Kind kind) {
  return p.trained && (has_residual(kind) ? p.dtype == DType::f32 : is_wide_float(p.dtype));
}

bool names(const std::string& name, bool begins, const std::string& parameter) {
  return begins ? parameter.starts_with(name) : parameter == name;
}

}  // namespace

CodecList::CodecList(const std::string& text) {
  if (text.empty()) return;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = entry.rfind('=');
    Entry out;
    try {
      out.codec = codec_from_string(equals == std::string::npos ? entry : entry.substr(equals + 1));
    } catch (const Error& e) {
      throw Error(e.code(), "in \"", text, "\": ", e.what());
    }
    if (equals != std::string::npos) {
      out.name = entry.substr(0, equals);
      out.begins = out.name.ends_with('*');
      if (out.begins) out.name.pop_back();
      if (out.name.empty())
        throw Error(Errc::invalid_argument, "in \"", text, "\": the entry \"", entry,
                    "\" names no parameter; write CODEC alone for all others");
    }
    for (const Entry& other : entries_)
      if (other.name == out.name && other.begins == out.begins)
        throw Error(Errc::invalid_argument, "in \"", text,
                    "\": ", out.name.empty() ? "all other parameters have" : out.name + " has",
                    " two codecs");
    entries_.push_back(std::move(out));
  }
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    const auto rank = [](const Entry& e) { return e.name.empty() ? 2 : e.begins ? 1 : 0; };
    return rank(a) != rank(b) ? rank(a) < rank(b) : a.name.size() > b.name.size();
  });
}

Codec CodecList::of(const CodedParameter& parameter) const {
  for (const Entry& entry : entries_)
    if (entry.name.empty() || names(entry.name, entry.begins, parameter.name))
      return can_be_coded(parameter, entry.codec.kind) ? entry.codec : Codec{};
  return {};
}

void CodecList::check(const std::vector<CodedParameter>& parameters, const char* what) const {
  for (const Entry& entry : entries_) {
    if (entry.name.empty()) continue;
    bool found = false;
    for (const CodedParameter& p : parameters) {
      if (!names(entry.name, entry.begins, p.name)) continue;
      found = true;
      if (entry.begins || !entry.codec.used() || can_be_coded(p, entry.codec.kind)) continue;
      throw Error(Errc::invalid_argument, what, " wants ", to_string(entry.codec), " for ", p.name,
                  ", which is ", p.trained ? detail::concat(p.dtype) : "not trained",
                  has_residual(entry.codec.kind)
                      ? "; only parameters in f32 that are trained have a codec with a residual"
                      : "; only parameters in f32 and f64 that are trained have a codec");
    }
    if (found) continue;
    std::vector<std::string_view> all;
    for (const CodedParameter& p : parameters) all.push_back(p.name);
    throw Error(Errc::invalid_argument, what, " names ", entry.name, entry.begins ? "*" : "",
                ", and the graph has no such parameter", did_you_mean(entry.name, all));
  }
}

void CodecList::want_values(const char* what) const {
  for (const Entry& entry : entries_)
    if (entry.codec.used() && !codes_values(entry.codec.kind))
      throw Error(Errc::invalid_argument, what, " wants ", to_string(entry.codec),
                  " for values, which travel as bf16 or f16; ", to_string(entry.codec),
                  " is for gradients");
}

bool CodecList::has_residuals() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& e) { return has_residual(e.codec.kind); });
}

void check(const Compression& compression, const std::vector<CodedParameter>& parameters) {
  constexpr const char* kGradients = "TrainOptions::compression.gradients";
  constexpr const char* kValues = "TrainOptions::compression.values";
  CodecList(compression.gradients).check(parameters, kGradients);
  const CodecList values(compression.values);
  values.want_values(kValues);
  values.check(parameters, kValues);
}

}  // namespace troupe
