// CodecList: the codecs of a training by the name of the parameter, as the program writes them:
// "bf16" for all, or "fc1/w=int8,conv*=bf16,none". An entry is CODEC for all other parameters, or
// NAME=CODEC, where a star in the name stands for any text. A whole name comes before a pattern, a
// longer pattern before a shorter one.
// Owner: a value. Thread: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "training/codecs/residuals.hpp"

namespace troupe {

// TrainOptions::compression of a training.
struct Compression {
  std::string gradients, values;  // lists
  uint64_t seed = 0;              // of codecs that draw
  FlushPlan plan = {};            // for codecs with a residual

  bool used() const { return !gradients.empty() || !values.empty(); }
};

// A parameter as a list may name it.
struct CodedParameter {
  std::string name;
  DType dtype = DType::f32;
  bool trained = true;
};

class CodecList {
 public:
  CodecList() = default;  // none for all
  // Throws: Error(invalid_argument) naming the entry.
  explicit CodecList(const std::string& text);

  // The codec of a parameter; none for one that the codec cannot be for: it is not trained, or of
  // another dtype than f32 and f64, or than f32 for a codec with a residual.
  Codec of(const CodedParameter& parameter) const;
  // Throws: Error(invalid_argument) for a name that no parameter has, with the nearest one, and for
  // a name whose parameter cannot travel so. `what`: the option, for the text.
  void check(const std::vector<CodedParameter>& parameters, const char* what) const;
  // Throws: Error(invalid_argument) for a codec that is for gradients alone.
  void want_values(const char* what) const;
  bool has_residuals() const;

 private:
  static constexpr const char* kAll = "*";
  struct Entry {
    std::string pattern = kAll;  // of names (graph/base/name_pattern.hpp)
    Codec codec = {};
  };
  std::vector<Entry> entries_;
};

// Throws: Error(invalid_argument) for lists that are wrong or do not fit the parameters.
void check(const Compression& compression, const std::vector<CodedParameter>& parameters);
inline bool has_residuals(const Compression& c) { return CodecList(c.gradients).has_residuals(); }

}  // namespace troupe
