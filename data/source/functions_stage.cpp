// The stages that call a function for each record: map, filter, expand.
#include <new>

#include "data/reading.hpp"
#include "data/source/stages.hpp"
#include "graph/base/fnv.hpp"

namespace troupe {
namespace {

// A function with the records that it is called for.
struct Function {
  Stage before;
  std::string name;
  SourceStep step;
  uint64_t seed;

  // Calls one of the functions of `step` on a record. Throws: its Error; Error(out_of_memory);
  // Error(bad_data) with the record's place for any other exception.
  template <class F>
  auto call(const F& function, const LazyRecord& record, uint64_t key) const {
    const std::string place = record.place();
    const Record inputs = record.make();
    return guarded(place,
                   [&] { return function(SourceCall(before->fields(), inputs, key, place)); });
  }
  // Throws: an Error as it comes, or one that names the place.
  template <class F>
  auto guarded(const std::string& place, const F& f) const {
    try {
      return f();
    } catch (const Error& e) {
      if (e.code() != Errc::end_of_data) throw;
      throw Error(Errc::bad_data, e.what());  // only the source itself ends the data
    } catch (const std::bad_alloc&) {
      throw Error(Errc::out_of_memory, place, ": there is no memory for function ", name);
    } catch (const std::exception& e) {
      throw Error(Errc::bad_data, place, ": function ", name, " failed: ", e.what());
    } catch (...) {
      throw Error(Errc::bad_data, place, ": function ", name,
                  " failed with something that is no std::exception");
    }
  }
  void check(const Record& record, const std::string& place) const;
};
using FunctionPtr = std::shared_ptr<const Function>;

// Holds the result of a function against the fields that it promised.
void Function::check(const Record& record, const std::string& place) const {
  const Fields& fields = step.fields;
  if (record.size() != fields.size())
    throw Error(Errc::bad_data, place, ": function ", name, " gave ", record.size(),
                " tensors for ", fields.size(), " fields");
  for (size_t i = 0; i < fields.size(); ++i) {
    const TensorType& wanted = fields[i].type;
    if (!record[i].defined() || record[i].dtype() != wanted.dtype ||
        !wanted.shape.accepts(record[i].shape()))
      throw Error(Errc::bad_data, place, ": function ", name, " gave ",
                  record[i].defined() ? detail::concat(record[i].dtype(), record[i].shape())
                                      : std::string("nothing"),
                  " as ", fields[i].name, ", which is ", wanted);
  }
}

class Mapped final : public LazyRecord {
 public:
  Mapped(FunctionPtr function, Lazy from, uint64_t key)
      : function_(std::move(function)), from_(std::move(from)), key_(key) {}
  Record make() const override {
    Record out = function_->call(function_->step.map, *from_, key_);
    function_->check(out, from_->place());
    return out;
  }
  std::string place() const override { return from_->place(); }
  const std::vector<Lazy>* rows() const override { return from_->rows(); }
  Lazy with_rows(std::vector<Lazy> rows) const override {
    const uint64_t key = mixed_key(key_, 0, static_cast<int64_t>(fnv1a64(rows.front()->place())));
    return std::make_shared<Mapped>(function_, from_->with_rows(std::move(rows)), key);
  }
  std::vector<const void*> makers() const override {
    std::vector<const void*> out = from_->makers();
    out.push_back(function_.get());
    return out;
  }

 private:
  const FunctionPtr function_;
  const Lazy from_;
  const uint64_t key_;
};

class FunctionStream : public RecordStream {
 public:
  FunctionStream(FunctionPtr function, int64_t epoch)
      : function_(std::move(function)), from_(function_->before->open(epoch)), epoch_(epoch) {}

 protected:
  const Function& function() const { return *function_; }
  const FunctionPtr& shared() const { return function_; }
  Lazy from() {
    Reading::moved();  // records of cache() pass no reader
    return from_->next();
  }
  uint64_t next_key() { return mixed_key(function_->seed, epoch_, number_++); }

 private:
  const FunctionPtr function_;
  const std::unique_ptr<RecordStream> from_;
  const int64_t epoch_;
  int64_t number_ = 0;
};

class MapStream final : public FunctionStream {
 public:
  using FunctionStream::FunctionStream;
  Lazy next() override {
    Lazy record = from();
    return record ? std::make_shared<Mapped>(shared(), std::move(record), next_key()) : nullptr;
  }
};

class FilterStream final : public FunctionStream {
 public:
  using FunctionStream::FunctionStream;
  Lazy next() override {
    while (const Lazy record = from()) {
      const MadeRecord made(record->make(), record->place());
      if (function().call(function().step.keep, made, next_key()))
        return std::make_shared<MadeRecord>(made);
    }
    return nullptr;
  }
};

// The results of one record.
struct Expanded {
  FunctionPtr function;
  std::string place;
  Expansion results;
};

// A result that is made when it is needed.
class LateResult final : public LazyRecord {
 public:
  LateResult(std::shared_ptr<const Expanded> of, int64_t number)
      : of_(std::move(of)), number_(number) {}
  Record make() const override {
    Record out = of_->function->guarded(of_->place, [&] { return of_->results.at(number_); });
    of_->function->check(out, of_->place);
    return out;
  }
  std::string place() const override { return of_->place; }

 private:
  const std::shared_ptr<const Expanded> of_;
  const int64_t number_;
};

class ExpandStream final : public FunctionStream {
 public:
  using FunctionStream::FunctionStream;
  Lazy next() override {
    while (next_ == count_) {
      results_.reset();
      const Lazy record = from();
      if (!record) return nullptr;
      results_ = std::make_shared<Expanded>(Expanded{
          shared(), record->place(), function().call(function().step.expand, *record, next_key())});
      const Expansion& all = results_->results;
      if (all.count < 0)
        throw Error(Errc::bad_data, results_->place, ": function ", function().name, " gave ",
                    all.count, " results");
      next_ = 0;
      count_ = all.at ? all.count : static_cast<int64_t>(all.records.size());
    }
    const int64_t number = next_++;
    if (results_->results.at) return std::make_shared<LateResult>(results_, number);
    Record& one = results_->results.records[static_cast<size_t>(number)];
    function().check(one, results_->place);
    return std::make_shared<MadeRecord>(std::move(one), results_->place);
  }

 private:
  std::shared_ptr<Expanded> results_;  // of the last record; those before next_ are given
  int64_t next_ = 0, count_ = 0;
};

template <class Stream>
class FunctionStage final : public SourceStage {
 public:
  explicit FunctionStage(FunctionPtr function) : function_(std::move(function)) {}
  const Fields& fields() const override {
    return function_->step.keep ? function_->before->fields() : function_->step.fields;
  }
  std::unique_ptr<RecordStream> open(int64_t epoch) const override {
    return std::make_unique<Stream>(function_, epoch);
  }
  bool same_count() const override {
    return function_->before->same_count() && function_->step.same_count;
  }
  int64_t size() const override { return function_->step.map ? function_->before->size() : -1; }
  Batching batching() const override {
    return function_->step.map ? function_->before->batching() : Batching::none;
  }

 private:
  const FunctionPtr function_;
};

template <class Stream>
Stage stage_of(Stage before, std::string name, SourceStep step, uint64_t seed) {
  return std::make_shared<FunctionStage<Stream>>(std::make_shared<const Function>(
      Function{std::move(before), std::move(name), std::move(step), seed}));
}

}  // namespace

Stage map_stage(Stage before, std::string name, SourceStep step, uint64_t seed) {
  return stage_of<MapStream>(std::move(before), std::move(name), std::move(step), seed);
}
Stage filter_stage(Stage before, std::string name, SourceStep step, uint64_t seed) {
  return stage_of<FilterStream>(std::move(before), std::move(name), std::move(step), seed);
}
Stage expand_stage(Stage before, std::string name, SourceStep step, uint64_t seed) {
  return stage_of<ExpandStream>(std::move(before), std::move(name), std::move(step), seed);
}

}  // namespace troupe
