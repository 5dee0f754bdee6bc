// The stages that change which records come, and in which order: shuffle, take and skip, every,
// repeat, interleave, zip, cache.
#include <mutex>
#include <optional>

#include "data/source/stages.hpp"

namespace troupe {
namespace {

// The draws of a shuffle.
class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch) : seed_(seed), epoch_(epoch) {}
  uint64_t below(uint64_t n) {
    return uniform_below(n, [this] { return mixed_key(seed_, epoch_, number_++); });
  }

 private:
  const uint64_t seed_;
  const int64_t epoch_;
  int64_t number_ = 0;
};

// A stage with one or several before it, whose streams are made by a function of the epoch.
class OrderStage final : public SourceStage {
 public:
  using Open = std::function<std::unique_ptr<RecordStream>(const std::vector<Stage>&, int64_t)>;
  // `joins`: a record is made of one of each stage.
  OrderStage(std::vector<Stage> before, Fields fields, int64_t size, Open open, bool joins = false)
      : before_(std::move(before)),
        fields_(std::move(fields)),
        size_(size),
        open_(std::move(open)),
        joins_(joins) {}
  const Fields& fields() const override { return fields_; }
  std::unique_ptr<RecordStream> open(int64_t epoch) const override { return open_(before_, epoch); }
  bool same_count() const override {
    for (const Stage& stage : before_)
      if (!stage->same_count()) return false;
    return true;
  }
  int64_t size() const override { return size_; }
  // The same for all stages before it, else none.
  Batching batching() const override {
    for (const Stage& stage : before_)
      if (joins_ || stage->batching() != before_[0]->batching()) return Batching::none;
    return before_[0]->batching();
  }

 private:
  const std::vector<Stage> before_;
  const Fields fields_;
  const int64_t size_;  // -1: not known
  const Open open_;
  const bool joins_;
};

template <class F>
class StreamOf final : public RecordStream {
 public:
  explicit StreamOf(F next) : next_(std::move(next)) {}
  Lazy next() override { return next_(); }

 private:
  F next_;
};
// A stream whose next() is a function with its state.
template <class F>
std::unique_ptr<RecordStream> stream_of(F next) {
  return std::make_unique<StreamOf<F>>(std::move(next));
}

// Records of a stream, of which the next one is drawn.
struct Window {
  std::unique_ptr<RecordStream> from;
  Draws draws;
  size_t most;
  std::vector<Lazy> waiting = {};
  bool ended = false;

  Lazy next() {
    while (!ended && waiting.size() < most) {
      Lazy record = from->next();
      if (record)
        waiting.push_back(std::move(record));
      else
        ended = true;
    }
    if (waiting.empty()) return nullptr;
    std::swap(waiting[draws.below(waiting.size())], waiting.back());
    Lazy out = std::move(waiting.back());
    waiting.pop_back();
    return out;
  }
};

}  // namespace

Stage shuffle_stage(Stage before, int64_t window, uint64_t seed) {
  const Fields fields = before->fields();
  const int64_t size = before->size();
  return std::make_shared<OrderStage>(
      std::vector{std::move(before)}, fields, size,
      [window, seed](const std::vector<Stage>& stages, int64_t epoch) {
        return stream_of(
            [state = Window{stages[0]->open(epoch), Draws(seed, epoch),
                            static_cast<size_t>(window)}]() mutable { return state.next(); });
      });
}

Stage take_stage(Stage before, int64_t skip, int64_t count) {
  const Fields fields = before->fields();
  int64_t size = before->size();
  if (size >= 0) size = std::max<int64_t>(0, size - skip);
  if (size >= 0 && count >= 0) size = std::min(size, count);
  return std::make_shared<OrderStage>(
      std::vector{std::move(before)}, fields, size,
      [skip, count](const std::vector<Stage>& stages, int64_t epoch) {
        return stream_of([from = stages[0]->open(epoch), skip, count]() mutable -> Lazy {
          for (; skip > 0; --skip)
            if (!from->next()) return nullptr;
          if (count == 0) return nullptr;
          if (count > 0) --count;
          return from->next();
        });
      });
}

Stage every_stage(Stage before, int64_t n, bool others) {
  const Fields fields = before->fields();
  const int64_t all = before->size(), nth = all / n;
  const int64_t size = all < 0 ? -1 : others ? all - nth : nth;
  return std::make_shared<OrderStage>(
      std::vector{std::move(before)}, fields, size,
      [n, others](const std::vector<Stage>& stages, int64_t epoch) {
        return stream_of([from = stages[0]->open(epoch), n, others, at = int64_t{0}]() mutable {
          Lazy record = from->next();
          for (; record && (++at % n == 0) == others;) record = from->next();
          return record;
        });
      });
}

Stage repeat_stage(Stage before, int64_t times) {
  const Fields fields = before->fields();
  int64_t size = -1;
  if (before->size() >= 0 && __builtin_mul_overflow(before->size(), times, &size))
    throw Error(Errc::invalid_argument, "repeat(", times, ") of ", before->size(),
                " records is more than 2^63");
  return std::make_shared<OrderStage>(
      std::vector{std::move(before)}, fields, size,
      [times](const std::vector<Stage>& stages, int64_t epoch) {
        return stream_of([stage = stages[0], from = std::unique_ptr<RecordStream>(), epoch, times,
                          done = int64_t{0}]() mutable -> Lazy {
          for (; done < times; ++done) {
            if (!from) from = stage->open(epoch * times + done);
            if (Lazy record = from->next()) return record;
            from.reset();
          }
          return nullptr;
        });
      });
}

Stage interleave_stage(std::vector<Stage> before, int64_t block) {
  const Fields fields = before[0]->fields();
  int64_t size = 0;
  for (const Stage& stage : before) {
    if (stage->fields() != fields)
      throw Error(Errc::invalid_argument,
                  "interleave wants sources with the same fields; give them the same names and "
                  "types with map()");
    size = size < 0 || stage->size() < 0 ? -1 : size + stage->size();
  }
  return std::make_shared<OrderStage>(
      std::move(before), fields, size, [block](const std::vector<Stage>& stages, int64_t epoch) {
        std::vector<std::unique_ptr<RecordStream>> from;
        for (const Stage& stage : stages) from.push_back(stage->open(epoch));
        return stream_of(
            [from = std::move(from), block, at = size_t{0}, given = int64_t{0}]() mutable -> Lazy {
              while (!from.empty()) {
                if (given < block) {
                  if (Lazy record = from[at]->next()) return ++given, record;
                  from.erase(from.begin() + static_cast<ptrdiff_t>(at));
                } else {
                  ++at;
                }
                given = 0;
                if (at >= from.size()) at = 0;
              }
              return nullptr;
            });
      });
}

namespace {

class Zipped final : public LazyRecord {
 public:
  explicit Zipped(std::vector<Lazy> parts) : parts_(std::move(parts)) {}
  Record make() const override {
    Record out;
    for (const Lazy& part : parts_)
      for (Tensor& value : part->make()) out.push_back(std::move(value));
    return out;
  }
  std::string place() const override {
    std::string out;
    for (const Lazy& part : parts_) out += (out.empty() ? "" : " with ") + part->place();
    return out;
  }

 private:
  const std::vector<Lazy> parts_;
};

}  // namespace

Stage zip_stage(std::vector<Stage> before) {
  Fields fields;
  int64_t size = before[0]->size();
  for (const Stage& stage : before) {
    for (const Field& field : stage->fields()) {
      for (const Field& other : fields)
        if (other.name == field.name)
          throw Error(Errc::invalid_argument, "zip has two fields called ", field.name,
                      "; rename one of them with the function rename");
      fields.push_back(field);
    }
    if (stage->size() >= 0 && size >= 0 && stage->size() != size)
      throw Error(Errc::bad_data, "zip has a source of ", size, " records and one of ",
                  stage->size(), "; are they of the same data?");
    size = std::max(size, stage->size());
  }
  return std::make_shared<OrderStage>(
      std::move(before), fields, size,
      [](const std::vector<Stage>& stages, int64_t epoch) {
        std::vector<std::unique_ptr<RecordStream>> from;
        for (const Stage& stage : stages) from.push_back(stage->open(epoch));
        return stream_of([from = std::move(from), number = int64_t{0}]() mutable -> Lazy {
          std::vector<Lazy> parts;
          std::optional<size_t> ended;
          for (size_t i = 0; i < from.size(); ++i) {
            parts.push_back(from[i]->next());
            if (!parts.back()) ended = i;
          }
          if (!ended) return ++number, std::make_shared<Zipped>(std::move(parts));
          for (const Lazy& part : parts)
            if (part)
              throw Error(Errc::bad_data, part->place(), ": zip has a record more here; source ",
                          *ended, " ended after ", number, " records");
          return nullptr;
        });
      },
      /*joins=*/true);
}

namespace {

// A record that keeps its tensors once they are made.
class Kept final : public LazyRecord {
 public:
  explicit Kept(Lazy from) : from_(std::move(from)) {}
  Record make() const override {
    std::lock_guard lock(mutex_);
    if (record_.empty()) record_ = from_->make();
    return record_;
  }
  std::string place() const override { return from_->place(); }
  const std::vector<Lazy>* rows() const override { return from_->rows(); }
  Lazy with_rows(std::vector<Lazy> rows) const override {
    return from_->with_rows(std::move(rows));
  }
  std::vector<const void*> makers() const override { return from_->makers(); }

 private:
  const Lazy from_;
  mutable std::mutex mutex_;  // guards record_
  mutable Record record_;
};

// The records of the first epoch, as far as a stream has asked for them.
class Cache {
 public:
  explicit Cache(Stage before) : before_(std::move(before)) {}
  Lazy at(size_t number) {
    std::lock_guard lock(mutex_);
    while (records_.size() <= number && !ended_) try {
        if (!from_) open();
        if (Lazy record = from_->next()) {
          records_.push_back(std::make_shared<Kept>(std::move(record)));
        } else {
          ended_ = true;
          from_.reset();
        }
      } catch (...) {  // opened anew at the next call
        from_.reset();
        throw;
      }
    return number < records_.size() ? records_[number] : nullptr;
  }

 private:
  // Opens the stream behind the records that are here.
  void open() {
    from_ = before_->open(0);
    for (size_t i = 0; i < records_.size(); ++i) from_->next();
  }

  const Stage before_;
  std::mutex mutex_;  // guards the rest
  std::unique_ptr<RecordStream> from_;
  std::vector<Lazy> records_;
  bool ended_ = false;
};

class CacheStage final : public SourceStage {
 public:
  explicit CacheStage(Stage before)
      : before_(before), cache_(std::make_shared<Cache>(std::move(before))) {}
  const Fields& fields() const override { return before_->fields(); }
  std::unique_ptr<RecordStream> open(int64_t) const override {
    return stream_of([cache = cache_, next = size_t{0}]() mutable { return cache->at(next++); });
  }
  int64_t size() const override { return before_->size(); }
  Batching batching() const override { return before_->batching(); }

 private:
  const Stage before_;
  const std::shared_ptr<Cache> cache_;
};

}  // namespace

Stage cache_stage(Stage before) { return std::make_shared<CacheStage>(std::move(before)); }

}  // namespace troupe
