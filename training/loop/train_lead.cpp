// Implements training/loop/train_lead.hpp.
#include "training/loop/train_lead.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {

void TrainLead::listen() {
  ParameterGroup::Listener listener;
  listener.lost = [post = post_, this](const std::string& text) {
    post([this, text] { return loop_->shards_lost(text, now()); });
  };
  listener.gone = [post = post_, this](const std::string& text) {
    post([this, text] {
      tell(Errc::peer_lost, text);
      return TrainOrders{};
    });
  };
  listener.closed = [post = post_, this] {
    post([this] {
      return loop_->abandon(Errc::cancelled, "the session was closed while it trained", now());
    });
  };
  group().listen(std::move(listener));
}

ParameterGroup::Start TrainLead::start_from(const std::optional<Manifest>& manifest) {
  ParameterGroup::Start start;
  start.rule = checkpoints_.rule;
  start.replicas = checkpoints_.replicas;
  if (group().shared())  // replicas of other sessions count in synchronous updates
    for (int32_t replica : group().replicas_in_graph())
      if (std::find(start.replicas.begin(), start.replicas.end(), replica) == start.replicas.end())
        start.replicas.push_back(replica);
  std::sort(start.replicas.begin(), start.replicas.end());
  start.mode = BeginEpoch::reset;
  start.values = values_;
  if (manifest) {
    start.mode = BeginEpoch::restore;
    start.directory = checkpoints_.directory;
    start.manifest = manifest_name(manifest->generation, manifest->step);
    start.next_step = manifest->step;
  }
  return start;
}

int64_t TrainLead::step_of(const std::optional<Manifest>& manifest) {
  if (!group().owner()) return group().next_step();
  return manifest ? manifest->step : 0;
}

std::map<int64_t, int64_t> TrainLead::all_at(int64_t step) const {
  std::map<int64_t, int64_t> out;
  for (int32_t replica : checkpoints_.replicas) out[replica] = step;
  return out;
}

TrainOrders TrainLead::begin(TrainLoop::Plan plan, int64_t first) {
  plan.replicas.assign(checkpoints_.replicas.begin(), checkpoints_.replicas.end());
  plan.checkpoints = !checkpoints_.directory.empty() && group().owner();
  plan.follows = !group().owner();
  loop_ = std::make_unique<TrainLoop>(plan, all_at(first));
  return loop_->begin(now());
}

TrainOrders TrainLead::step_ended(int64_t replica, int64_t step, const RunResult& result) {
  if (result.code != Errc::ok)
    return loop_->step_failed(replica, step, result.code, result.text, now());
  const Tensor& loss = result.values.at(0);
  const double value = loss.dtype() == DType::f64 ? loss.item<double>() : loss.item<float>();
  if (!std::isfinite(value))
    return loop_->step_failed(
        replica, step, Errc::bad_data,
        detail::concat("the loss is ", value, "; lower the learning rate, or look for bad records"),
        now());
  return loop_->step_done(replica, step, value, now());
}

void TrainLead::take_snapshot(int64_t step) {
  ParameterGroup::Snapshot what = checkpoints_;
  what.step = step;
  group().snapshot(
      std::move(what),
      [post = post_, this] { post([this] { return loop_->snapshot_captured(now()); }); },
      [post = post_, this](Errc code, const std::string& text) {
        post([this, code, text] {
          if (code == Errc::ok) checkpoint_ = text;
          return loop_->snapshot_taken(code, text, now());
        });
      });
}

// A folder that had a checkpoint and has none just now is away, as one that cannot be read is: to
// begin anew would lose what is in it.
std::optional<Manifest> TrainLead::find_checkpoint() {
  std::optional<Manifest> found = newest();
  if (!found && !checkpoint_.empty())
    throw Error(Errc::io, "no checkpoint is in ", checkpoints_.directory, ", where ", checkpoint_,
                " was; mount it again, or put a copy there");
  return found;
}

// Links may be all that was lost.
void TrainLead::restore() {
  group().look_again(loop_->done_steps(), [post = post_, this](Errc code, const std::string& text) {
    post([this, code, text] {
      if (code == Errc::ok) return loop_->shards_kept(now());
      if (code != Errc::stale) return loop_->restore_failed(code, text, now());
      begin_epoch();
      return TrainOrders{};
    });
  });
}

void TrainLead::begin_epoch() {
  std::optional<Manifest> manifest;
  try {
    if (group().owner()) manifest = find_checkpoint();
  } catch (const Error& e) {
    const Process& process = group().master().process();
    std::string why = detail::concat(process.task(), ": ", e.what());
    if (std::exchange(unread_, why) != why)
      process.log()->warn("the checkpoints cannot be read: error={}", why);
    post_([this, code = e.code(), text = std::move(why)] {
      return loop_->restore_failed(code, text, now());
    });
    return;
  }
  group().establish(start_from(manifest),
                    [post = post_, this, manifest](Errc code, const std::string& text) {
                      post([this, manifest, code, text] {
                        if (code != Errc::ok) return loop_->restore_failed(code, text, now());
                        return loop_->restored(all_at(step_of(manifest)), now());
                      });
                    });
}

void TrainLead::ask_epoch() {
  group().ask_epoch([post = post_, this](bool is_new) {
    post([this, is_new] { return loop_->epoch_found(is_new, now()); });
  });
}

}  // namespace troupe
