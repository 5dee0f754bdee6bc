// SourceSteps: one epoch of a source, read by the process that asks, ahead of its use.
// Owner: its user. Thread: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/source/step_reader.hpp"
#include "troupe/op.hpp"

namespace troupe {

inline FindFunction functions_of(std::shared_ptr<const Registry> ops) {
  return [ops = std::move(ops)](std::string_view name) {
    return ops ? ops->find_function(name) : nullptr;
  };
}

class SourceSteps {
 public:
  // Called every 100 ms while a step is waited for, with the work of the threads; its exception
  // ends the wait.
  using Meanwhile = std::function<void(const std::string& doing)>;

  // `stages`: of an epoch or more, the first of which is read. Throws: as build_stages().
  explicit SourceSteps(std::shared_ptr<SharedStages> stages);
  const Fields& fields() const { return stage_->fields(); }
  Batching batching() const { return stage_->batching(); }
  // The records of the next step; nothing at the end of the epoch. A step that has failed is the
  // next one again. Throws: Error(bad_data), Error(io).
  std::optional<Record> next(const Meanwhile& meanwhile = {});

 private:
  const Stage stage_;
  StepReader reader_;
  int64_t step_ = 0;
};

}  // namespace troupe
