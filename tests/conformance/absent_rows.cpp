// ONNX's ops without a counterpart in Troupe, each with the reason. A new function removes its row
// here.
#include "tests/conformance/mapping.hpp"

namespace troupe {

std::vector<MappedOp> absent_rows() {
  const std::string optimizer = "optimizers update parameters in shards, and are no functions";
  const std::string sequence = "no values but tensors (sequences, optional values)";
  const std::string text = "no elements of string";
  const std::string chance = "expected are NumPy's random numbers";
  const std::string fourier = "no Fourier transforms";
  std::vector<MappedOp> rows;
  const auto add = [&](const std::string& reason, const std::vector<std::string>& ops) {
    for (const std::string& op : ops) rows.push_back({op, reason});
  };
  add(optimizer, {"Adagrad", "Adam", "Momentum"});
  add(sequence, {"ConcatFromSequence", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
                 "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
                 "SequenceLength", "SequenceMap", "SplitToSequence"});
  add(text, {"StringNormalizer", "TfIdfVectorizer"});
  add(chance, {"Bernoulli", "RandomUniformLike"});
  add(fourier, {"DFT", "STFT", "MelWeightMatrix"});
  add("no detection of objects", {"NonMaxSuppression", "RoiAlign"});
  return rows;
}

}  // namespace troupe
