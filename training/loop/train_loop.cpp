// Implements training/loop/train_loop.hpp.
#include "training/loop/train_loop.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

bool TrainLoop::passes(Errc code) {
  return code == Errc::peer_lost || code == Errc::timeout || code == Errc::cancelled ||
         code == Errc::stale;
}

TrainLoop::TrainLoop(Plan plan, const std::map<int64_t, int64_t>& next_steps)
    : plan_(std::move(plan)), end_(plan_.steps) {
  for (int64_t replica : plan_.replicas) {
    auto it = next_steps.find(replica);
    replicas_[replica].next = it == next_steps.end() ? 0 : it->second;
  }
  farthest_ = done_steps();
  last_snapshot_ = kept_ = farthest_ > 0 ? farthest_ : -1;
  last_pause_ = farthest_;
}

int64_t TrainLoop::done_steps() const {
  int64_t out = end_;
  for (const auto& [replica, s] : replicas_) out = std::min(out, s.next);
  return out;
}

double TrainLoop::mean_loss() const {
  double sum = 0;
  int n = 0;
  for (const auto& [replica, s] : replicas_)
    if (s.has_loss) sum += s.loss, ++n;
  return n ? sum / n : 0;
}

bool TrainLoop::idle() const {
  return !snapshot_open_ && !pause_open_ &&
         std::none_of(replicas_.begin(), replicas_.end(),
                      [](const auto& s) { return s.second.running; });
}

TrainLoop::Millis TrainLoop::backoff(int failures) {
  return std::min(kRetryMax, kRetryFirst * (1 << std::min(failures - 1, 6)));
}

int64_t TrainLoop::barrier() const {
  int64_t out = end_;
  const auto next = [&](int64_t last, int64_t every) {
    if (every > 0) out = std::min(out, (std::max<int64_t>(last, 0) / every + 1) * every);
  };
  if (plan_.checkpoints) next(last_snapshot_, plan_.checkpoint_every);
  next(last_pause_, plan_.pause_every);
  return out;
}

bool TrainLoop::wants_pause(int64_t step) const {
  return plan_.pause_every > 0 && step > last_pause_ && step % plan_.pause_every == 0;
}

bool TrainLoop::wants_snapshot(int64_t step) const {
  const bool due =
      step >= end_ || (plan_.checkpoint_every > 0 && step % plan_.checkpoint_every == 0);
  return plan_.checkpoints && due && last_snapshot_ < step;
}

TrainOrders TrainLoop::begin(Millis now) {
  TrainOrders out;
  last_progress_ = now;
  go_on(now, out);
  return out;
}

void TrainLoop::go_on(Millis now, TrainOrders& out) {
  if (phase_ == Phase::stopping && idle()) {
    if (failing_) {
      phase_ = Phase::failed;
      out.push_back({TrainOrder::fail, 0, 0, fail_code_, fail_text_});
    } else if (now >= retry_at_) {
      phase_ = Phase::restoring;
      out.push_back({TrainOrder::restore});
    }
    return;
  }
  if (phase_ != Phase::running) return;
  const int64_t stop = barrier();
  for (auto& [replica, s] : replicas_) {
    if (s.running || s.next >= stop || now < s.retry_at) continue;
    s.running = true;
    out.push_back({TrainOrder::start, replica, s.next});
  }
  if (!idle() || done_steps() < stop) return;  // also: the files of the one before are written
  if (wants_pause(stop)) {
    if (now < retry_at_) return;
    pause_open_ = true;
    out.push_back({TrainOrder::pause, 0, stop});
  } else if (wants_snapshot(stop)) {
    if (now < retry_at_) return;
    phase_ = Phase::snapshotting;
    snapshot_open_ = true;
    snapshot_step_ = stop;
    snapshot_before_ = last_snapshot_;
    out.push_back({TrainOrder::snapshot, 0, stop});
  } else if (stop >= end_) {
    phase_ = Phase::finished;
    out.push_back({TrainOrder::finish});
  }
}

TrainOrders TrainLoop::step_done(int64_t replica, int64_t step, double loss, Millis now) {
  TrainOrders out;
  Replica& s = replicas_.at(replica);
  s.running = false;
  // It counts, too, while others are being ended: the shards may turn out to be as they were.
  s.next = step + 1;
  s.failures = 0;
  s.loss = loss;
  s.has_loss = true;
  if (phase_ == Phase::running) {
    last_progress_ = now;
    if (const int64_t done = done_steps(); done > farthest_) {
      farthest_ = done;
      losses_ = 0;
    }
  }
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::step_failed(int64_t replica, int64_t step, Errc code,
                                   const std::string& text, Millis now) {
  TrainOrders out;
  Replica& s = replicas_.at(replica);
  s.running = false;
  if (phase_ == Phase::running) {
    if (!passes(code)) {
      give_up(code, detail::concat("step ", step, " of replica ", replica, ": ", text), out);
    } else if (now - last_progress_ >= plan_.patience) {
      give_up(code,
              detail::concat("no progress for ", plan_.patience.count(), " ms; step ", step,
                             " of replica ", replica, ": ", text),
              out);
    } else {
      if (s.failures++ == 0)
        out.push_back(
            {TrainOrder::tell, replica, step, code,
             detail::concat("step ", step, " of replica ", replica,
                            " failed and will be done again with the same data: ", text)});
      s.retry_at = now + backoff(s.failures);
      if (code == Errc::stale && plan_.follows && !asked_at_) {
        asked_at_ = recoveries_;
        out.push_back({TrainOrder::ask_epoch});
      }
    }
  }
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::epoch_found(bool is_new, Millis now) {
  const auto asked = std::exchange(asked_at_, std::nullopt);
  if (!is_new || asked != recoveries_) return {};  // in vain, or the shards were restored meanwhile
  return shards_lost("the session that owns the parameters has begun a new epoch", now);
}

void TrainLoop::give_up(Errc code, const std::string& text, TrainOrders& out) {
  phase_ = Phase::stopping;
  failing_ = true;
  fail_code_ = code;
  fail_text_ = text;
  if (!idle()) out.push_back({TrainOrder::cancel});
}

TrainOrders TrainLoop::shards_lost(const std::string& text, Millis now) {
  TrainOrders out;
  if (ended() || failing_) return out;
  ++recoveries_;
  ++lost_;
  last_progress_ = now;
  told_at_ = now;
  out.push_back({TrainOrder::tell, 0, 0, Errc::peer_lost, text});
  if (phase_ == Phase::stopping || lost_again_) return out;  // a restore is on the way already
  if (++losses_ > kLossesMax) {
    const TrainOrders end = abandon(
        Errc::peer_lost,
        detail::concat("no progress: shards were lost ", losses_, " times since step ", farthest_,
                       "; if always by the same step, its gradients are what to look at. The last "
                       "time: ",
                       text),
        now);
    out.insert(out.end(), end.begin(), end.end());
    return out;
  }
  failures_ = 0;
  told_unread_ = false;
  retry_at_ = losses_ > 1 ? now + backoff(losses_ - 1) : now;
  if (phase_ == Phase::restoring) {
    lost_again_ = true;  // what is being restored may be gone again: once more after the answer
    return out;
  }
  phase_ = Phase::stopping;
  if (!idle()) out.push_back({TrainOrder::cancel});
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::restored(const std::map<int64_t, int64_t>& next_steps, Millis now) {
  if (phase_ != Phase::restoring) return {};
  int64_t back = back_.value_or(0);
  for (auto& [replica, s] : replicas_) {
    auto it = next_steps.find(replica);
    const int64_t next = it == next_steps.end() ? 0 : it->second;
    back = std::max(back, s.next - next);
    s.next = next;
  }
  back_ = back;
  last_snapshot_ = kept_ = done_steps() > 0 ? done_steps() : -1;
  last_pause_ = std::min(last_pause_, done_steps());
  return are_back(now);
}

TrainOrders TrainLoop::shards_kept(Millis now) {
  if (phase_ != Phase::restoring) return {};
  last_snapshot_ = std::max(last_snapshot_, kept_);
  // One that was captured, and then failed, is gone: shards may be past its step, but for the last.
  if (last_snapshot_ >= end_) last_snapshot_ = kept_;
  return are_back(now);
}

// Unless they were lost again meanwhile.
TrainOrders TrainLoop::are_back(Millis now) {
  TrainOrders out;
  if (std::exchange(lost_again_, false) || failing_) {
    phase_ = Phase::stopping;
    go_on(now, out);
    return out;
  }
  failures_ = 0;
  if (!back_) recoveries_ -= lost_;
  lost_ = 0;
  retry_at_ = now;
  for (auto& [replica, s] : replicas_)
    s = Replica{.next = s.next, .loss = s.loss, .has_loss = s.has_loss};
  last_progress_ = now;
  phase_ = Phase::running;
  const auto back = std::exchange(back_, std::nullopt);
  out.push_back({TrainOrder::tell, 0, done_steps(), Errc::ok,
                 back ? detail::concat("shards restored at step ", done_steps(), "; the ", *back,
                                       " steps since are done again")
                      : detail::concat("every shard is as it was, at step ", done_steps(),
                                       "; only the steps that were under way are done again",
                                       kept_ < last_snapshot_
                                           ? detail::concat(", and there is no checkpoint of step ",
                                                            last_snapshot_)
                                           : std::string())});
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::restore_failed(Errc code, const std::string& text, Millis now) {
  TrainOrders out;
  if (phase_ != Phase::restoring) return out;
  lost_again_ = false;
  const bool unread = code == Errc::io || code == Errc::bad_data;  // the checkpoint
  const bool again = passes(code) || unread;
  if (failing_) {
    phase_ = Phase::stopping;
  } else if (again && now - last_progress_ < plan_.patience) {
    phase_ = Phase::stopping;  // once more, by and by
    retry_at_ = now + backoff(++failures_);
    if (now - told_at_ >= kWaitingWord || (unread && !told_unread_)) {
      told_at_ = now;
      told_unread_ |= unread;
      out.push_back({TrainOrder::tell, 0, 0, unread ? Errc::io : code,
                     detail::concat("the shards are not restored since ",
                                    (now - last_progress_).count() / 1000,
                                    " s, and all towers wait; "
                                    "what is lost has ",
                                    plan_.patience.count() / 1000, " s to come back: ", text)});
    }
  } else if (again) {
    give_up(code,
            detail::concat("the shards could not be restored for ", plan_.patience.count() / 1000,
                           " s: ", text,
                           unread ? "; no checkpoint was removed: make them readable for the "
                                    "program and all processes with shards, and resume"
                                  : "; start what is missing and resume from the checkpoint"),
            out);
  } else {
    give_up(code, "the shards could not be restored: " + text, out);
  }
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::snapshot_captured(Millis now) {
  TrainOrders out;
  if (phase_ != Phase::snapshotting) return out;
  phase_ = Phase::running;
  last_snapshot_ = snapshot_step_;
  last_progress_ = now;
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::snapshot_taken(Errc code, const std::string& text, Millis now) {
  TrainOrders out;
  if (!std::exchange(snapshot_open_, false)) return out;
  if (code == Errc::ok) kept_ = snapshot_step_;
  if (phase_ == Phase::snapshotting || phase_ == Phase::running) {
    const bool last = snapshot_step_ >= end_;
    const bool moved_on = phase_ == Phase::running && !last;
    phase_ = Phase::running;
    if (code != Errc::ok && passes(code) && !moved_on) {
      // Shards are on their way out and shards_lost() follows, or a later attempt succeeds.
      // Patience counts from the first failure: the snapshot itself may have taken long.
      last_snapshot_ = snapshot_before_;
      if (failures_++ == 0) {
        last_progress_ = now;
        out.push_back({TrainOrder::tell, 0, snapshot_step_, code,
                       "the checkpoint failed and will be tried again: " + text});
      }
      retry_at_ = now + backoff(failures_);
    } else if (code != Errc::ok && last) {
      give_up(code,
              detail::concat("all steps are done, but the checkpoint of the last one, ",
                             snapshot_step_, ", could not be written: ", text),
              out);
    } else {
      // A full disk must not end hours of training: go on, and say so.
      if (code != Errc::ok)
        out.push_back(
            {TrainOrder::tell, 0, snapshot_step_, Errc::io,
             detail::concat("no checkpoint of step ", snapshot_step_,
                            kept_ < 0 ? std::string(" and none before it")
                                      : detail::concat("; that of step ", kept_, " is kept"),
                            ", and training goes on: ", text)});
      last_snapshot_ = snapshot_step_;
      if (!moved_on) last_progress_ = now;
      failures_ = 0;
      retry_at_ = now;
    }
  }
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::pause_ended(bool more, Millis now) {
  TrainOrders out;
  if (!std::exchange(pause_open_, false)) return out;
  if (phase_ == Phase::running) {
    last_pause_ = barrier();
    end_ = more ? plan_.steps : last_pause_;
    last_progress_ = now;
    failures_ = 0;
    retry_at_ = now;
  }
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::pause_failed(Errc code, const std::string& text, Millis now) {
  TrainOrders out;
  if (!std::exchange(pause_open_, false)) return out;
  if (phase_ == Phase::running) {
    if (failures_++ == 0) {  // patience counts from here: a pause may have taken long
      last_progress_ = now;
      out.push_back({TrainOrder::tell, 0, barrier(), code,
                     detail::concat("what the program does at step ", barrier(),
                                    " failed and will be done again: ", text)});
    }
    retry_at_ = now + backoff(failures_);
    if (!passes(code) || now - last_progress_ >= plan_.patience)
      give_up(code, detail::concat("the pause of step ", barrier(), ": ", text), out);
  }
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::abandon(Errc code, const std::string& text, Millis now) {
  TrainOrders out;
  if (ended() || failing_) return out;
  if (phase_ == Phase::restoring) {  // its answer comes first
    failing_ = true;
    fail_code_ = code;
    fail_text_ = text;
    return out;
  }
  give_up(code, text, out);
  go_on(now, out);
  return out;
}

TrainOrders TrainLoop::tick(Millis now) {
  TrainOrders out;
  if (!ended() && phase_ == Phase::running && idle() && now - last_progress_ >= plan_.patience) {
    give_up(Errc::peer_lost, detail::concat("no progress for ", plan_.patience.count(), " ms"),
            out);
  }
  go_on(now, out);
  return out;
}

}  // namespace troupe
