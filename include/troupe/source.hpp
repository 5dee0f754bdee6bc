// Source: the input of a program as a description, which every process that needs the input builds
// for itself: readers of files, and stages that change their records. Implemented in data/source/.
//
//   Source train = Source::images("cifar/train.tar.gz").shuffle(50'000).batch(128).prefetch(2);
//   const SourceBatch batch = train.read(graph);  // in a scope: on that worker, for that replica
//   Output logits = model(batch["image"]), loss = nn::cross_entropy(logits, batch["label"]);
//
// A source is a pure function: its records depend on its description, the epoch, the step and the
// replica alone. So a step that is done again gets the same records, in whatever process. In an
// epoch every record comes exactly once, over all replicas.
//
// A record is one tensor for each field. Text is a field of dtype u8, a byte an element.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// The name and type of one tensor of a record; -1 in the shape: the size differs between records.
struct Field {
  std::string name;
  TensorType type;
  friend bool operator==(const Field&, const Field&) = default;
};
using Fields = std::vector<Field>;
using Record = std::vector<Tensor>;  // one tensor for each field, in their order

using SourceArg = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;
using SourceArgs = std::map<std::string, SourceArg, std::less<>>;

// One call of a function on one record.
class SourceCall {
 public:
  SourceCall(const Fields& fields, const Record& record, uint64_t key, const std::string& place)
      : fields_(fields), record_(record), key_(key), place_(place) {}
  const Record& record() const { return record_; }
  // Throws: Error(invalid_argument) for a field that the records do not have, naming those they
  // have.
  const Tensor& operator[](std::string_view field) const;
  // A number for random draws: a function of the source's seed, the epoch and the record.
  uint64_t key() const { return key_; }
  // Where the record comes from: file, and line, entry or offset.
  const std::string& place() const { return place_; }
  template <class... Parts>
  Error bad(const Parts&... parts) const {  // an Error(bad_data) that names the place
    return Error(Errc::bad_data, place_, ": ", detail::concat(parts...));
  }

 private:
  const Fields& fields_;
  const Record& record_;
  const uint64_t key_;
  const std::string& place_;
};

// A function bound to the fields of its input and to its arguments; exactly one of `map`, `keep`
// and `expand` is set. Called from several threads at once. An exception ends the training; one
// that is no Error is reported as Error(bad_data) with the record's place.
struct SourceStep {
  Fields fields = {};  // of its results; not for `keep`
  std::function<Record(const SourceCall&)> map = {};
  std::function<bool(const SourceCall&)> keep = {};
  std::function<std::vector<Record>(const SourceCall&)> expand = {};
  // `expand` gives a record the same number of results in every epoch.
  bool same_count = true;
};

// A function that sources may name. Every process that builds the source must know it: give it to
// ops_with() (troupe/custom_op.hpp), in a plugin if actor-node is to run it.
struct SourceFunction {
  std::string name;
  // Called once for each stage. Throws: Error(invalid_argument) for fields or arguments that do not
  // fit, Error(io) and Error(bad_data) for a file that the arguments name.
  std::function<SourceStep(const Fields& inputs, const SourceArgs& args)> bind;
};
}  // namespace troupe
