// Reads lists of codecs, and finds the codec of a parameter.
#include "training/codecs/codec_list.hpp"

#include <algorithm>

#include "graph/base/name_pattern.hpp"
#include "graph/base/words.hpp"

namespace troupe {
namespace {

bool can_be_coded(const CodedParameter& p, Codec::Kind kind) {
  return p.trained && (has_residual(kind) ? p.dtype == DType::f32 : is_wide_float(p.dtype));
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
      out.pattern = entry.substr(0, equals);
      if (out.pattern.empty())
        throw Error(Errc::invalid_argument, "in \"", text, "\": the entry \"", entry,
                    "\" names no parameter; write CODEC alone for all others");
    }
    for (const Entry& other : entries_)
      if (other.pattern == out.pattern)
        throw Error(Errc::invalid_argument, "in \"", text, "\": ",
                    out.pattern == kAll ? "all other parameters have" : out.pattern + " has",
                    " two codecs");
    entries_.push_back(std::move(out));
  }
}

Codec CodecList::of(const CodedParameter& parameter) const {
  const Entry* const mine = entry_for(entries_, parameter.name,
                                      [](const Entry& e) { return std::string_view(e.pattern); });
  return mine && can_be_coded(parameter, mine->codec.kind) ? mine->codec : Codec{};
}

void CodecList::check(const std::vector<CodedParameter>& parameters, const char* what) const {
  for (const Entry& entry : entries_) {
    if (entry.pattern == kAll) continue;
    const bool whole = entry.pattern.find('*') == entry.pattern.npos;
    bool found = false;
    for (const CodedParameter& p : parameters) {
      if (!matches_name(entry.pattern, p.name)) continue;
      found = true;
      if (!whole || !entry.codec.used() || can_be_coded(p, entry.codec.kind)) continue;
      throw Error(Errc::invalid_argument, what, " wants ", to_string(entry.codec), " for ", p.name,
                  ", which is ", p.trained ? detail::concat(p.dtype) : "not trained",
                  has_residual(entry.codec.kind)
                      ? "; only parameters in f32 that are trained have a codec with a residual"
                      : "; only parameters in f32 and f64 that are trained have a codec");
    }
    if (found) continue;
    std::vector<std::string_view> all;
    for (const CodedParameter& p : parameters) all.push_back(p.name);
    throw Error(Errc::invalid_argument, what, " names ", entry.pattern,
                ", and the graph has no such parameter", did_you_mean(entry.pattern, all));
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
