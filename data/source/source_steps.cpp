// Waits for the steps that the threads of a StepReader make.
#include "data/source/source_steps.hpp"

#include <future>
#include <utility>

namespace troupe {
namespace {

constexpr std::chrono::milliseconds kMeanwhile{100};

}  // namespace

SourceSteps::SourceSteps(std::shared_ptr<SharedStages> stages)
    : stage_(stages->get()), reader_(std::move(stages), 0, 1, /*in_line=*/false) {}

std::optional<Record> SourceSteps::next(const Meanwhile& meanwhile) {
  struct Answer {
    Errc code;
    std::string text;
    Record record;
  };
  const auto answer = std::make_shared<std::promise<Answer>>();
  reader_.read(step_, [answer](Errc code, const std::string& text, Record record) {
    answer->set_value({code, text, std::move(record)});
  });
  std::future<Answer> future = answer->get_future();
  while (future.wait_for(kMeanwhile) != std::future_status::ready)
    if (meanwhile) meanwhile(reader_.doing());
  Answer got = future.get();
  if (got.code == Errc::end_of_data) return std::nullopt;
  if (got.code != Errc::ok) throw Error(got.code, got.text);
  ++step_;  // one that has failed is tried again, not passed over
  return std::move(got.record);
}

}  // namespace troupe
