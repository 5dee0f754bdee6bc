// Waits for the steps that the threads of a StepReader make.
#include "data/source/source_steps.hpp"

#include <future>
#include <utility>

namespace troupe {
namespace {

SourcePlan one_epoch(SourcePlan plan) {
  if (plan.epochs < 0) plan.epochs = 1;
  return plan;
}

}  // namespace

SourceSteps::SourceSteps(SourcePlan plan, std::shared_ptr<const Registry> ops)
    : SourceSteps(std::make_shared<SharedStages>(one_epoch(std::move(plan)), functions_of(ops))) {}

SourceSteps::SourceSteps(const std::shared_ptr<SharedStages>& stages)
    : fields_(stages->get()->fields()), reader_(stages, 0, 1, /*in_line=*/false) {}

std::optional<Record> SourceSteps::next() {
  struct Answer {
    Errc code;
    std::string text;
    Record record;
  };
  const auto answer = std::make_shared<std::promise<Answer>>();
  reader_.read(step_, [answer](Errc code, const std::string& text, Record record) {
    answer->set_value({code, text, std::move(record)});
  });
  Answer got = answer->get_future().get();
  if (got.code == Errc::end_of_data) return std::nullopt;
  if (got.code != Errc::ok) throw Error(got.code, got.text);
  ++step_;  // one that has failed is tried again, not passed over
  return std::move(got.record);
}

}  // namespace troupe
