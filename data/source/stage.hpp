// The parts of a source: a SourceStage is one stage with all stages before it, a RecordStream its
// records of one data epoch, a LazyRecord a record that is not made yet. Skipping a record costs no
// more than reading past it: files are decoded and functions called only by make().
// Owner: of stages the sources and streams that use them; of a stream its one user.
// Thread: stages and records any; a stream one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/source.hpp"

namespace troupe {

class LazyRecord {
 public:
  virtual ~LazyRecord() = default;
  // Makes the tensors of all fields; any thread, any number of times, with the same result. Throws:
  // Error(io), Error(bad_data) with place().
  virtual Record make() const = 0;
  // File, and line, entry or offset, for messages: "train.tar: cat/0001.jpg".
  virtual std::string place() const = 0;
  // The records that a batch is made of, and a batch of some of them instead, for replicas that
  // share a batch; null for a record that is no batch. A record that wraps a batch passes both on.
  virtual const std::vector<std::shared_ptr<const LazyRecord>>* rows() const { return nullptr; }
  virtual std::shared_ptr<const LazyRecord> with_rows(
      std::vector<std::shared_ptr<const LazyRecord>>) const {
    return nullptr;
  }
  // The addresses of what made a batch of its rows: batches of equal makers may exchange rows.
  virtual std::vector<const void*> makers() const { return {}; }
};
using Lazy = std::shared_ptr<const LazyRecord>;

class RecordStream {
 public:
  virtual ~RecordStream() = default;
  // The next record, or null at the end. Throws: Error(io), Error(bad_data); a stream that has
  // thrown is not read any more.
  virtual Lazy next() = 0;
};

// A file that a reader reads, as processes compare it: its name without folders, and its size, -1
// where only the name counts.
struct SourceFile {
  std::string name;
  int64_t bytes = -1;
  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};

// The kind of a stage's records: batches have rows, and full ones are of one size each.
enum class Batching : uint8_t { none, batches, full_batches };

class SourceStage {
 public:
  virtual ~SourceStage() = default;
  virtual const Fields& fields() const = 0;
  // All records of a data epoch. The records and their order depend on the epoch's number alone.
  virtual std::unique_ptr<RecordStream> open(int64_t epoch) const = 0;
  // True: every epoch has the same number of records.
  virtual bool same_count() const { return true; }
  // The number of records in an epoch, where it is known without reading; else -1.
  virtual int64_t size() const { return -1; }
  virtual Batching batching() const { return Batching::none; }
  // The files of a reader, in the order in which it reads them; none for all other stages.
  virtual std::vector<SourceFile> files() const { return {}; }
};
using Stage = std::shared_ptr<const SourceStage>;

// The functions of the library, by name (data/source/functions.cpp).
const std::vector<SourceFunction>& builtin_functions();

// The arguments of one reader or function. Reports those that nobody asked for.
class ArgReader {
 public:
  ArgReader(std::string_view of, const SourceArgs& args) : of_(of), args_(args) {}
  // Throws: Error(invalid_argument) for an argument that is missing, or has another type.
  template <class T>
  T want(std::string_view name) {
    const SourceArg* arg = find(name);
    if (!arg) refuse_missing(name);
    return as<T>(name, *arg);
  }
  template <class T>
  T get(std::string_view name, T otherwise) {
    const SourceArg* arg = find(name);
    return arg ? as<T>(name, *arg) : otherwise;
  }
  // Throws: Error(invalid_argument) for arguments that were not asked for, naming the known ones.
  void done() const;

 private:
  template <class T>
  T as(std::string_view name, const SourceArg& arg) const {
    if (const T* value = std::get_if<T>(&arg)) return *value;
    if constexpr (std::is_same_v<T, double>)  // a whole number is one, too
      if (const auto* whole = std::get_if<int64_t>(&arg)) return static_cast<double>(*whole);
    refuse_type(name, arg, SourceArg(T{}).index());
  }
  const SourceArg* find(std::string_view name);
  [[noreturn]] void refuse_missing(std::string_view name) const;
  [[noreturn]] void refuse_type(std::string_view name, const SourceArg& arg, size_t wanted) const;

  std::string_view of_;
  const SourceArgs& args_;
  std::vector<std::string> asked_;
};

}  // namespace troupe
