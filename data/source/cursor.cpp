// Steps of a source: groups of records, and the epochs that they are in.
#include "data/source/cursor.hpp"

#include <algorithm>

namespace troupe {
namespace {

// All rows of the batches of a group.
std::vector<Lazy> rows_of(const std::vector<Lazy>& group) {
  std::vector<Lazy> out;
  for (const Lazy& batch : group)
    if (const std::vector<Lazy>* rows = batch->rows())
      out.insert(out.end(), rows->begin(), rows->end());
  return out;
}

}  // namespace

// The next records, at most one for each replica.
std::vector<Lazy> StepGroups::group() {
  std::vector<Lazy> out;
  while (out.size() < replicas_) {
    Lazy record = from_->next();
    if (!record) break;
    out.push_back(std::move(record));
  }
  return out;
}

// The rows of a group, cut into one batch for each replica. Their order stays.
std::vector<Lazy> StepGroups::shared(const std::vector<Lazy>& group) const {
  const std::vector<Lazy> rows = rows_of(group);
  if (rows.size() < replicas_)
    throw Error(Errc::bad_data, group[0]->place(), ": ",
                group[0]->rows() ? rows.size() : group.size(),
                " records are the last ones of an epoch and ", replicas_,
                " replicas cannot share them; end the source with batch(), with drop_last for data "
                "of fewer records");
  std::vector<Lazy> out;
  for (size_t r = 0; r < replicas_; ++r) {
    const auto begin = rows.begin() + static_cast<ptrdiff_t>(rows.size() * r / replicas_),
               end = rows.begin() + static_cast<ptrdiff_t>(rows.size() * (r + 1) / replicas_);
    out.push_back(group[0]->with_rows({begin, end}));
  }
  return out;
}

std::vector<Lazy> StepGroups::next() {
  if (!begun_) held_ = group();
  begun_ = true;
  if (held_.empty()) return {};
  std::vector<Lazy> now = std::exchange(held_, {});
  if (now.size() < replicas_) return shared(now);  // the whole epoch
  std::vector<Lazy> after = group();
  const bool few = !after.empty() && after.size() < replicas_ && rows_of(after).size() < replicas_;
  if (!few) {
    held_ = std::move(after);
    return now;
  }
  now.insert(now.end(), after.begin(), after.end());
  return shared(now);
}

SourceCursor::SourceCursor(Stage stage, int64_t epochs, int64_t replica, int64_t replicas)
    : stage_(std::move(stage)),
      epochs_(epochs),
      replica_(replica),
      replicas_(replicas),
      count_(known_count()) {}

// Where the sizes of the stages tell it.
std::optional<int64_t> SourceCursor::known_count() const {
  const SourceStage& stage = *stage_;
  const int64_t batches = stage.size();
  if (!stage.same_count() || batches < 0) return std::nullopt;
  const int64_t whole = batches / replicas_, more = batches % replicas_;
  if (more == 0) return whole;
  return std::nullopt;  // the last group's rows decide
}

// Passes over the records of an epoch.
int64_t SourceCursor::counted(int64_t epoch) const {
  StepGroups groups(*stage_, epoch, replicas_);
  int64_t out = 0;
  while (!groups.next().empty()) ++out;
  if (out == 0)
    throw Error(Errc::bad_data, "the source has no records in epoch ", epoch,
                "; look at its files and filters");
  return out;
}

int64_t SourceCursor::steps_per_epoch() {
  if (!stage_->same_count())
    throw Error(Errc::invalid_argument,
                "the number of steps in an epoch of this source differs between epochs, as a "
                "function of expand() says; give the number of steps that count as an epoch");
  if (!count_ || *count_ == 0) count_ = counted(0);
  return *count_;
}

int64_t SourceCursor::start_of(int64_t epoch) {
  if (stage_->same_count()) return steps_per_epoch() * epoch;
  while (static_cast<int64_t>(starts_.size()) <= epoch)
    starts_.push_back(starts_.back() + counted(static_cast<int64_t>(starts_.size()) - 1));
  return starts_[static_cast<size_t>(epoch)];
}

bool SourceCursor::next_epoch() {
  ++epoch_;
  groups_.reset();
  return epochs_ < 0 || epoch_ < epochs_;
}

// Opens the epoch of a step and passes over the steps before it.
void SourceCursor::go_to(int64_t step) {
  if (groups_ && step >= next_ && stage_->same_count() && count_ && step < start_of(epoch_ + 1)) {
    // in this epoch, further on
  } else {
    epoch_ = 0;
    if (stage_->same_count())
      epoch_ = step / steps_per_epoch();
    else
      while ((epochs_ < 0 || epoch_ < epochs_) && start_of(epoch_ + 1) <= step) ++epoch_;
    groups_.reset();
    if (epochs_ >= 0 && epoch_ >= epochs_) return;
    next_ = start_of(epoch_);
    groups_.emplace(*stage_, epoch_, replicas_);
  }
  for (; next_ < step; ++next_)
    if (groups_->next().empty()) break;
}

Lazy SourceCursor::at(int64_t step) {
  if (!groups_ && step == 0 && epoch_ == 0 && next_ == 0)
    groups_.emplace(*stage_, 0, replicas_);  // the beginning needs no count
  else if (!groups_ || step != next_)
    go_to(step);
  while (groups_) {
    std::vector<Lazy> group = groups_->next();
    if (!group.empty()) {
      ++next_;
      return std::move(group[static_cast<size_t>(replica_)]);
    }
    const int64_t end = next_;
    const int64_t start = epoch_ == 0 ? 0 : start_of(epoch_);
    if (end == start)
      throw Error(Errc::bad_data, "the source has no records in epoch ", epoch_,
                  "; look at its files and filters");
    if (stage_->same_count()) {
      if (count_ && *count_ != end - start)
        throw Error(Errc::bad_data, "epoch ", epoch_, " of the source has ", end - start,
                    " steps, and others have ", *count_,
                    "; have its files changed, or does a function give other numbers of records?");
      count_ = end - start;
    } else if (static_cast<int64_t>(starts_.size()) == epoch_ + 1) {
      starts_.push_back(end);
    }
    if (next_epoch()) groups_.emplace(*stage_, epoch_, replicas_);
  }
  return nullptr;
}

}  // namespace troupe
