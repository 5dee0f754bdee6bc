// Sources of small numbers, functions for them, and readers of their steps, for the tests of
// data/source/.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "data/source/cursor.hpp"
#include "data/source/source_steps.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/op.hpp"

namespace troupe {

// An IDX file with the bytes 0 .. n - 1 as images of one byte.
inline std::string numbers(int n) {
  std::string out = {0, 0, 8, 1, 0, 0, 0, static_cast<char>(n)};
  for (int i = 0; i < n; ++i) out += static_cast<char>(i);
  return out;
}

struct Numbers {
  explicit Numbers(int n)
      : file("numbers-" + std::to_string(n), numbers(n)),
        source(Source::of("idx", {{"images", file.path()}})) {}
  TempFile file;
  Source source;
};

inline SourceFunction function(std::string name, SourceStep step) {
  return {std::move(name), [step](const Fields&, const SourceArgs&) { return step; }};
}

// Functions of the tests: doubled (map), even (filter), upto (expand: x times x), words (expand: a
// count of its own in each epoch), pause (map).
inline std::shared_ptr<const Registry> functions() {
  const Fields number = {{"image", {DType::u8, {}}}};
  const auto value = [](const SourceCall& call) { return call["image"].item<uint8_t>(); };
  const auto record = [](int x) {
    return Record{Tensor::scalar<uint8_t>(static_cast<uint8_t>(x))};
  };
  return ops_with(
      {}, {function("doubled", {.fields = number,
                                .map = [=](const SourceCall& c) { return record(2 * value(c)); }}),
           function("even", {.keep = [=](const SourceCall& c) { return value(c) % 2 == 0; }}),
           function("upto", {.fields = number,
                             .expand =
                                 [=](const SourceCall& c) {
                                   return std::vector<Record>(value(c), record(value(c)));
                                 }}),
           function("drawn", {.fields = {{"key", {DType::i64, {}}}},
                              .map =
                                  [](const SourceCall& c) {
                                    return Record{Tensor::scalar(static_cast<int64_t>(c.key()))};
                                  }}),
           function("thrown", {.fields = number,
                               .map = [=](const SourceCall& c) -> Record {
                                 if (value(c) == 3) throw std::runtime_error("three");
                                 return c.record();
                               }}),
           function("two", {.fields = number,
                            .map =
                                [=](const SourceCall& c) {
                                  return Record{c.record()[0], c.record()[0]};
                                }}),
           function("varied", {.fields = number,
                               .expand =
                                   [=](const SourceCall& c) {
                                     return std::vector<Record>(c.key() % 3, record(value(c)));
                                   },
                               .same_count = false})});
}

inline Stage stages(const Source& source) {
  static const std::shared_ptr<const Registry> known = functions();
  return build_stages(*plan_source(source.spec()).stages,
                      [](std::string_view name) { return known->find_function(name); });
}

inline std::vector<int> values_of(const Record& record) {
  return {record[0].data<uint8_t>(), record[0].data<uint8_t>() + record[0].size()};
}

// The bytes of all records of an epoch.
inline std::vector<int> epoch(const Source& source, int64_t number = 0) {
  std::vector<int> out;
  const auto stream = stages(source)->open(number);
  while (const Lazy record = stream->next())
    for (const int value : values_of(record->make())) out.push_back(value);
  return out;
}

inline std::vector<int> range(int begin, int end) {
  std::vector<int> out(static_cast<size_t>(end - begin));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

inline std::vector<int> sorted(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  return values;
}

inline SourceCursor cursor(const Source& source, int64_t replica = 0, int64_t replicas = 1) {
  return {stages(source), plan_source(source.spec()).epochs, replica, replicas};
}

inline SourceStep ragged() {  // x -> x numbers x
  return {.fields = {{"row", {DType::i64, {-1, 2}}}}, .map = [](const SourceCall& c) {
            const int64_t x = c["image"].item<uint8_t>();
            Tensor out = Tensor::empty(DType::i64, Shape{x, 2});
            std::fill_n(out.mutable_data<int64_t>(), 2 * x, x);
            return Record{out};
          }};
}

// All bytes that each replica reads, step by step, up to the end of the data.
inline std::vector<std::vector<std::vector<int>>> all_steps(const Source& source,
                                                            int64_t replicas) {
  std::vector<std::vector<std::vector<int>>> out;
  for (int64_t r = 0; r < replicas; ++r) {
    SourceCursor at = cursor(source, r, replicas);
    out.emplace_back();
    for (int64_t step = 0; const Lazy record = at.at(step); ++step)
      out.back().push_back(values_of(record->make()));
  }
  return out;
}

inline std::shared_ptr<SharedStages> shared(const Source& source) {
  static const std::shared_ptr<const Registry> known = functions();
  return std::make_shared<SharedStages>(plan_source(source.spec()), functions_of(known));
}

// Waits for the replies of a reader.
struct Replies {
  std::mutex mutex;
  std::condition_variable come;
  std::vector<std::pair<Errc, std::vector<int>>> all;

  StepReader::Reply one() {
    return [this](Errc code, const std::string&, Record record) {
      std::lock_guard lock(mutex);
      all.emplace_back(code, record.empty() ? std::vector<int>() : values_of(record));
      come.notify_all();
    };
  }
  std::pair<Errc, std::vector<int>> read(StepReader& reader, int64_t step) {
    std::unique_lock lock(mutex);
    const size_t before = all.size();
    lock.unlock();
    reader.read(step, one());
    lock.lock();
    come.wait(lock, [&] { return all.size() > before; });
    return all.back();
  }
};

}  // namespace troupe
