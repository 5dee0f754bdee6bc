// Source: the input of a program as a description, which every process that needs the input builds
// for itself: readers of files, and stages that change their records. Implemented in data/source/.
// docs/input.md lists all readers and functions.
//
//   const Source train = Source::of("images", {{"path", std::string("train.tar.gz")}})
//                            .shuffle(50'000)
//                            .map("to_float")
//                            .batch(128)
//                            .prefetch(2);
//   const SourceBatch batch = read_source(graph, train);  // in a scope: on that worker
//   const Output loss =
//       reduce_mean(softmax_cross_entropy(model(batch["image"]), batch["label"]));
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
#include <utility>
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

// The results of `expand` for one record: all of them, or their number and a function that makes
// result i when it is needed, on any thread and with the same result each time. So a long record
// with many results takes no more memory than the function holds.
struct Expansion {
  Expansion(std::vector<Record> all) : records(std::move(all)) {}  // NOLINT: a list is one
  Expansion(int64_t n, std::function<Record(int64_t i)> make) : count(n), at(std::move(make)) {}
  std::vector<Record> records = {};
  int64_t count = 0;  // of `at`
  std::function<Record(int64_t i)> at = {};
};

// A function bound to the fields of its input and to its arguments; exactly one of `map`, `keep`
// and `expand` is set. Called from several threads at once. An exception ends the training; one
// that is no Error is reported as Error(bad_data) with the record's place, std::bad_alloc as
// Error(out_of_memory). A step that ends with Errc::peer_lost, timeout, cancelled or stale is tried
// again, one with Errc::io if a step was done before. A call that does not return may outlive the
// session: whatever it refers to must live as long as the program.
struct SourceStep {
  Fields fields = {};  // of its results; not for `keep`
  std::function<Record(const SourceCall&)> map = {};
  std::function<bool(const SourceCall&)> keep = {};
  std::function<Expansion(const SourceCall&)> expand = {};
  // `keep` and `expand` give a record the same number of results in every epoch, whatever they
  // draw. Otherwise a reader that begins late makes the records of all earlier epochs to find its
  // step.
  bool same_count = true;
};

// A function that sources may name. Every process that builds the source must know it: give it to
// ops_with() (troupe/custom_op.hpp), in a plugin if actor-node is to run it.
struct SourceFunction {
  std::string name;  // none of the library's: a source that names it is refused
  // Called once for each stage. Throws: Error(invalid_argument) for fields or arguments that do not
  // fit, Error(io) and Error(bad_data) for a file that the arguments name.
  std::function<SourceStep(const Fields& inputs, const SourceArgs& args)> bind;
};

// The tensors of a step as outputs of a graph, by the names of their fields. A call may feed them,
// as it may feed any output: to evaluate a model that was built to train, say.
class SourceBatch {
 public:
  SourceBatch(Fields fields, std::vector<Output> outputs)
      : fields_(std::move(fields)), outputs_(std::move(outputs)) {}
  // Throws: Error(invalid_argument) naming the fields that there are.
  Output operator[](std::string_view field) const;
  const Fields& fields() const { return fields_; }
  const std::vector<Output>& outputs() const { return outputs_; }

 private:
  Fields fields_;
  std::vector<Output> outputs_;
};

struct BatchOptions {
  bool drop_last = false;  // leaves out a last batch that is not full
  // Fills records of different sizes up with `padding` to the largest of the batch; otherwise they
  // are refused.
  bool pad = false;
  double padding = 0;
};

struct ReadOptions {
  // The number of replicas that read the source, in all programs: each takes its part of a step.
  // The replica is that of the open scope.
  int64_t replicas = 1;
  // The number of the step, i64[]; undefined: the number of the training step. In a session and
  // process all nodes of one source and replica have one reader: a step that is far from the one
  // read before costs the reading of its epoch up to it. To evaluate while a training reads, let
  // another source, one without shuffle(), say, tell the steps.
  Output number = {};
};

struct SourceSpec;  // of the library: one stage with those before it

// A description of input. Cheap to copy and never changes: each function returns another source.
// Arguments, names and files are checked where the source is built: by read_source(), and by
// records().
class Source {
 public:
  // A reader by name, with its arguments.
  static Source of(std::string_view reader, SourceArgs args);
  static Source idx(const std::string& images, const std::string& labels);

  // Each record changed by a function; functions of the library stand in docs/input.md. `seed` keys
  // SourceCall::key(). Runs on the threads of prefetch().
  Source map(std::string_view function, SourceArgs args = {}, uint64_t seed = 0) const;
  // The records for which the function is true.
  Source filter(std::string_view function, SourceArgs args = {}, uint64_t seed = 0) const;
  // No, one or several records for each. This, filter() and bucket() make each record that they see
  // on one thread; each replica makes those of all, whatever prefetch() says.
  Source expand(std::string_view function, SourceArgs args = {}, uint64_t seed = 0) const;
  // Draws each record from the next `window` ones, by (seed, epoch). A window of all records gives
  // every order with the same probability. Records that wait hold what their file's reader keeps:
  // bytes of an entry or line, nothing of rows in memory. Shuffle before map() and batch().
  Source shuffle(int64_t window, uint64_t seed = 0) const;
  // `size` records each; a field of shape s becomes [size, s...]. The last batch of an epoch has
  // the records that remain.
  Source batch(int64_t size, BatchOptions options = {}) const;
  // Padded batches of records of similar length, the first size of `field`: a record goes into the
  // first bucket whose bound is at least its length, and batch i has sizes[i] records. A longer
  // record is refused. Requires: rising bounds, as many sizes.
  Source bucket(std::string_view field, std::vector<int64_t> bounds, std::vector<int64_t> sizes,
                double padding = 0) const;
  // Keeps the records that were made, in memory, for later epochs. Shuffle and draw after it.
  Source cache() const;
  Source take(int64_t count) const;  // the first records
  Source skip(int64_t count) const;  // all but the first ones
  // Records n, 2 n, 3 n, ..., counted from 1, and all others: two parts of data that may be sorted
  // by class, the same in every epoch. Call them before shuffle().
  Source every(int64_t n) const;
  Source but_every(int64_t n) const;
  // The source `times` times, one epoch after the other. As the last stage it says after how many
  // epochs the data end; without it a training reads epoch after epoch.
  Source repeat(int64_t times) const;
  // Makes the next `depth` steps ahead, on `threads` threads. Without it: 1 thread, 2 steps.
  Source prefetch(int64_t threads, int64_t depth = 2) const;
  // `block` records of each source in turn, until all have ended.
  static Source interleave(const std::vector<Source>& sources, int64_t block = 1);
  // Records with the fields of all sources. Sources of different numbers of records are refused.
  static Source zip(const std::vector<Source>& sources);

  // For a program that reads a source itself.
  class Records {
   public:
    const Fields& fields() const;
    // The next record, or batch; nothing at the end of the epoch. Throws: as read_source(); every
    // call after an error throws it again.
    std::optional<Record> next();
    explicit Records(std::unique_ptr<struct SourceRecords> state);  // of the library
    Records(Records&&) noexcept;
    ~Records();

   private:
    std::unique_ptr<struct SourceRecords> state_;
  };
  Records records(int64_t epoch = 0, const Registry& functions = *builtin_ops()) const;
  // How many steps `replicas` that read this source of batches take in each epoch, for schedules.
  // Reads the records of an epoch, unless the files tell their number. Throws: as
  // read_source(); Error(invalid_argument) for epochs that differ.
  int64_t steps_per_epoch(int64_t replicas = 1, const Registry& functions = *builtin_ops()) const;

  // The description as JSON, and back. Throws: Error(bad_data).
  std::string to_text() const;
  static Source from_text(const std::string& text);

  explicit Source(std::shared_ptr<const SourceSpec> spec);  // of the library
  const std::shared_ptr<const SourceSpec>& spec() const { return spec_; }

 private:
  std::shared_ptr<const SourceSpec> spec_;
};

// Adds the node that reads a source to a graph, on the device and for the replica of the open
// scope; a step runs it where it stands. Builds the source in the program, once for each graph, so
// both it and the process of the device must find the files; that process compares the names of
// fields and files (without folders) and the files' sizes, and refuses others. A step takes the
// next batches, one for each replica. In the last step of an epoch the largest batches are cut in
// two until each replica has one; a rest of fewer records than replicas is shared over the last two
// steps; and with BatchOptions::drop_last a step that is not full is left out. So all replicas take
// the same number of steps. A synchronous update is the mean over replicas, so records of a smaller
// batch weigh more; drop_last keeps batches equal. Past the end of the data the step fails with
// Errc::end_of_data, which ends train() and fit() as if all steps were done. Throws:
// Error(invalid_argument) for stages, arguments and fields that do not fit, and for several
// replicas of a source that does not end with batches; Error(io), Error(bad_data) for files.
// Implemented in training/input/read_source.cpp.
SourceBatch read_source(Graph& graph, const Source& source, const ReadOptions& options = {},
                        Origin at = Origin::here());

}  // namespace troupe
