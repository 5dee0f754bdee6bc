// SourceSteps: one epoch of a source, read by the process that asks, ahead of its use.
// Owner: its user. Thread: one at a time.
#pragma once

#include <memory>
#include <optional>

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
  // Throws: as build_stages().
  SourceSteps(SourcePlan plan, std::shared_ptr<const Registry> ops);
  const Fields& fields() const { return fields_; }
  // The records of the next step; nothing at the end of the epoch. Throws: Error(bad_data),
  // Error(io).
  std::optional<Record> next();

 private:
  explicit SourceSteps(const std::shared_ptr<SharedStages>& stages);

  const Fields fields_;
  StepReader reader_;
  int64_t step_ = 0;
};

}  // namespace troupe
