// The events of a training, each with the actions that follow from it.
#include "training/loop/train_loop.hpp"

#include "graph/base/mutant.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe {
namespace {

constexpr Errc kAgain = Errc::timeout;  // the kind of a report: something is tried again

// A process that is gone, if one is: the steps of other replicas fail as they wait for it.
const Error& cause_of(const Error& e, const ReplicaSteps& replicas) {
  for (const int64_t replica : replicas.all())
    if (const auto& failed = replicas.record(replica).failed;
        failed && failed->code() == Errc::peer_lost)
      return *failed;
  return e;
}

}  // namespace

bool TrainLoop::passes(Errc code) {
  return code == Errc::peer_lost || code == Errc::timeout || code == Errc::cancelled ||
         code == Errc::stale;
}

TrainLoop::TrainLoop(Plan plan, const std::map<int64_t, int64_t>& next_steps)
    : plan_(std::move(plan)),
      replicas_(plan_.replicas, next_steps),
      checkpoints_(plan_.checkpoints, plan_.checkpoint_every),
      end_(plan_.steps),
      input_end_{plan_.steps},
      terms_(plan_.rule) {
  pauses_.last = done_steps();
  terms_.go_to(pauses_.last);
  checkpoints_.go_to(pauses_.last);
  recoveries_.reached(pauses_.last);
}

int64_t TrainLoop::done_steps() const { return std::min(end_, replicas_.slowest()); }

double TrainLoop::mean_loss() const {
  double sum = 0;
  int n = 0;
  for (const int64_t replica : replicas_.all())
    if (const auto& loss = replicas_.record(replica).loss) sum += *loss, ++n;
  return n ? sum / n : 0;
}

bool TrainLoop::idle(bool files) const {
  return !(files && checkpoints_.open()) && !pauses_.open && !terms_.open() && !replicas_.run();
}

int64_t TrainLoop::barrier() const {
  int64_t out = terms_.next(checkpoints_.next(end_));
  if (plan_.pause_every > 0)
    out = std::min(out, CheckpointSchedule::multiple_after(pauses_.last, plan_.pause_every));
  return std::min(end_, terms_.rules.round_up(out));
}

TrainActions TrainLoop::begin(Millis now) {
  TrainActions out;
  last_progress_ = now;
  go_on(now, out);
  return out;
}

void TrainLoop::go_on(Millis now, TrainActions& out) {
  if (phase_ == Phase::stopping && idle()) {
    if (failure_) {
      phase_ = Phase::failed;
      out.push_back({TrainAction::fail, 0, 0, failure_->code(), failure_->what()});
    } else if (retry_.due(now)) {
      phase_ = Phase::restoring;
      out.push_back(
          {TrainAction::restore, 0, 0, recoveries_.goes_back() ? Errc::bad_data : Errc::ok});
    }
    return;
  }
  if (phase_ != Phase::running) return;
  cancel_beyond(out);
  const int64_t stop = barrier();
  for (const int64_t replica : replicas_.startable(stop, now)) {
    replicas_.begin(replica);
    out.push_back({TrainAction::start, replica, replicas_.next(replica)});
  }
  if (!idle(/*files=*/false) || done_steps() < stop || !retry_.due(now)) return;
  if (terms_.due(stop, end_) && !pauses_.due(stop, plan_.pause_every)) {
    terms_.begin(stop, end_);
    out.push_back({TrainAction::change_terms, 0, stop});
  }
  if (!idle()) return;  // or files of the checkpoint before are written
  if (pauses_.due(stop, plan_.pause_every)) {
    pauses_.open = true;
    out.push_back({TrainAction::pause, 0, stop});
  } else if (checkpoints_.due(stop, end_)) {
    phase_ = Phase::capturing;
    checkpoints_.begin(stop);
    out.push_back({TrainAction::checkpoint, 0, stop});
  } else if (stop >= end_) {
    phase_ = Phase::finished;
    out.push_back({TrainAction::finish});
  }
}

TrainActions TrainLoop::step_done(int64_t replica, int64_t step, double loss, Millis now) {
  TrainActions out;
  replicas_.end(replica);
  // It counts, too, while others are being ended: the shards may turn out to be as they were.
  replicas_.go_to(replica, step + 1);
  if (terms_.rules.late_jumps() && !plan_.repeats) replicas_.go_to(replica, replicas_.farthest());
  ReplicaSteps::Record& s = replicas_.record(replica);
  s.retry.succeeded();
  s.failed.reset();
  if (std::isfinite(loss) || !s.loss) s.loss = loss;
  if (phase_ == Phase::running) {
    last_progress_ = now;
    recoveries_.reached(done_steps());
  }
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::step_failed(int64_t replica, int64_t step, Errc code,
                                    const std::string& text, Millis now) {
  TrainActions out;
  replicas_.end(replica);
  if (mutant(Mutant::failed_step_counts)) replicas_.go_to(replica, step + 1);
  // A step past the end was begun before the end of the data was known.
  if (phase_ == Phase::running && step < end_) {
    if (code == Errc::end_of_data && terms_.rules.round_begin(step) > 0)
      data_ended(replica, step, out);
    else
      try_again(replica, step, Error(code, text), now, out);
  }
  go_on(now, out);
  return out;
}

// Unless the failure is of the program, or patience has ended. A file that could be read before, by
// a source or an op, may be there again, and so may memory that was enough before.
void TrainLoop::try_again(int64_t replica, int64_t step, const Error& e, Millis now,
                          TrainActions& out) {
  ReplicaSteps::Record& s = replicas_.record(replica);
  if (terms_.rules.late_jumps() && passes(e.code()) && replicas_.farthest() > step) {
    replicas_.go_to(replica, plan_.repeats ? step + 1 : replicas_.farthest());
    return s.retry.succeeded();
  }
  const std::string which = detail::concat("step ", step, " of replica ", replica);
  if (plan_.ordered && e.code() == Errc::stale && !terms_.rules.held().by_steps()) {
    const TrainActions back =
        shards_lost(detail::concat(which, ": ", e.what(), "; the order of updates is ",
                                   plan_.repeats ? "repeated" : "recorded",
                                   ", so all towers go back to the newest checkpoint"),
                    now, /*residuals=*/true);
    out.insert(out.end(), back.begin(), back.end());
    return;
  }
  const bool away = (e.code() == Errc::io || e.code() == Errc::out_of_memory) && s.loss;
  if (e.code() == Errc::bad_data &&
      roll_back(step, detail::concat(which, ": ", e.what()), now, out))
    return;
  if (!passes(e.code()) && !away)
    return give_up(e.code(), detail::concat(which, ": ", e.what()), out);
  s.failed.emplace(e.code(), detail::concat(which, ": ", e.what()));
  if (now - last_progress_ >= plan_.patience) lose_patience(*s.failed, out);
  if (phase_ != Phase::running) return;
  if (e.code() == Errc::stale && !mutant(Mutant::round_not_begun_again))
    replicas_.go_to(replica, terms_.rules.round_begin(step));
  if (s.retry.failed(now))
    out.push_back(
        {TrainAction::tell, replica, step, away ? kAgain : e.code(),
         detail::concat(which, " failed and will be done again with the same data: ", e.what())});
  if (e.code() == Errc::stale && plan_.follows && !asked_.epoch) {
    asked_.epoch = recoveries();
    out.push_back({TrainAction::ask_epoch});
  }
}

bool TrainLoop::roll_back(int64_t step, const std::string& text, Millis now, TrainActions& out) {
  if (!recoveries_.roll_back(step, plan_.roll_backs)) return false;
  last_progress_ = told_.at = now;
  phase_ = Phase::stopping;
  retry_ = Backoff(now);
  out.push_back({TrainAction::tell, 0, step, kAgain,
                 detail::concat(text,
                                "; all towers go back to the newest checkpoint, which is "
                                "number ",
                                recoveries_.rolled_back(), " of at most ", plan_.roll_backs)});
  if (!idle()) out.push_back({TrainAction::cancel});
  if (checkpoints_.open())
    out.push_back({TrainAction::give_up_checkpoint, 0, checkpoints_.step(), Errc::cancelled, text});
  return true;
}

// Ends the training, unless a source moves.
void TrainLoop::lose_patience(const Error& e, TrainActions& out) {
  const Error& why = cause_of(e, replicas_);
  const std::string text =
      detail::concat("no progress for ", plan_.patience.count(), " ms; ", why.what());
  if (!plan_.reads) return give_up(why.code(), text, out);
  if (asked_.source) return;
  asked_.source.emplace(why.code(), text);
  out.push_back({TrainAction::ask_source});
}

TrainActions TrainLoop::source_found(Millis since, Millis now) {
  TrainActions out;
  const auto asked = std::exchange(asked_.source, std::nullopt);
  // Progress, or a loss, may have come meanwhile.
  if (!asked || phase_ != Phase::running || now - last_progress_ < plan_.patience) return out;
  if (since < Millis(0) || since >= plan_.patience) {
    give_up(asked->code(), asked->what(), out);
  } else {
    last_progress_ = now;
    out.push_back({TrainAction::tell, 0, done_steps(), kAgain,
                   detail::concat("a source is read up to a step's records for more than ",
                                  plan_.patience.count() / 1000,
                                  " s, and the towers wait for it: ", asked->what())});
  }
  go_on(now, out);
  return out;
}

// Data are a function of their step, so they end there, too, when steps are done again.
void TrainLoop::data_ended(int64_t replica, int64_t step, TrainActions& out) {
  input_end_.step = end_ = terms_.rules.round_begin(step);
  if (end_ < step)
    out.push_back({TrainAction::tell, replica, step, Errc::end_of_data,
                   detail::concat("the data end before step ", step, ", in the round of step ",
                                  end_, " of ", to_string(terms_.rules.held()),
                                  ", and training ends where that round began")});
  else if (plan_.steps != kNoEnd)
    out.push_back({TrainAction::tell, replica, step, Errc::end_of_data,
                   detail::concat("the data end before step ", step, " of ", plan_.steps,
                                  ", and training ends there")});
  if (replicas_.farthest() > step)
    out.push_back({TrainAction::tell, replica, step, Errc::end_of_data,
                   detail::concat("the data of replica ", replica, " end before step ", step,
                                  ", and other replicas have done more steps; give all of them "
                                  "sources of one length")});
}

// Ends steps that no data are left for, once no other step runs: under the synchronous rule they
// would wait for a replica that has ended.
void TrainLoop::cancel_beyond(TrainActions& out) {
  const std::optional<int64_t> slowest = replicas_.slowest_running();
  if (slowest && *slowest >= input_end_.step && !std::exchange(input_end_.cancelled, true))
    out.push_back({TrainAction::cancel});
}

TrainActions TrainLoop::epoch_found(bool is_new, Millis now) {
  const auto asked = std::exchange(asked_.epoch, std::nullopt);
  if (!is_new || asked != recoveries()) return {};  // or the shards were restored meanwhile
  return shards_lost("the session that owns the parameters has begun a new epoch", now);
}

void TrainLoop::give_up(Errc code, const std::string& text, TrainActions& out) {
  phase_ = Phase::stopping;
  failure_.emplace(code, text);
  if (!idle()) out.push_back({TrainAction::cancel});
}

TrainActions TrainLoop::shards_lost(const std::string& text, Millis now, bool residuals) {
  TrainActions out;
  if (ended() || failure_) return out;
  // An epoch that is about to begin has none.
  if (residuals && phase_ != Phase::stopping && phase_ != Phase::restoring) recoveries_.go_back();
  recoveries_.lost();
  last_progress_ = now;
  told_.at = now;
  out.push_back({TrainAction::tell, 0, 0, Errc::peer_lost, text});
  if (phase_ == Phase::stopping || lost_again_) return out;  // a restore is on the way already
  const int losses = recoveries_.begin();
  if (losses > Recoveries::kLossesMax) {
    const TrainActions end = abandon(
        Errc::peer_lost,
        detail::concat(
            "no progress: shards were lost ", losses, " times since step ", recoveries_.farthest(),
            "; if always by the same step, its gradients are what to look at",
            plan_.checkpoints ? "; if before the next checkpoint, take them more often: "
                                "TrainOptions::checkpoint_every"
            : plan_.follows   ? ""
                              : "; if their processes die, take checkpoints, as without them "
                                "every loss begins anew: TrainOptions::checkpoint_dir",
            ". The last time: ", text),
        now);
    out.insert(out.end(), end.begin(), end.end());
    return out;
  }
  retry_ = Backoff(now + Backoff::wait(losses - 1));
  told_.unread = false;
  if (phase_ == Phase::restoring) {
    lost_again_ = true;  // a shard that was just restored may be gone: again after the answer
    return out;
  }
  phase_ = Phase::stopping;
  if (!idle()) out.push_back({TrainAction::cancel});
  if (checkpoints_.open())
    out.push_back({TrainAction::give_up_checkpoint, 0, checkpoints_.step(), Errc::peer_lost, text});
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::restored(const std::map<int64_t, int64_t>& next_steps, Millis now) {
  if (phase_ != Phase::restoring) return {};
  int64_t back = 0, lost = 0;
  const RuleSchedule before = terms_.rules;
  for (const int64_t replica : replicas_.all()) {
    auto it = next_steps.find(replica);
    const int64_t next = it == next_steps.end() ? 0 : it->second;
    const int64_t further = replicas_.next(replica) - next;
    back = std::max(back, further);
    lost += std::max<int64_t>(0, further);
    if (!mutant(Mutant::restored_steps_not_taken)) replicas_.go_to(replica, next);
  }
  recoveries_.went_back(back);
  terms_.go_to(done_steps());
  checkpoints_.go_to(done_steps());
  pauses_.last = std::min(pauses_.last, done_steps());
  TrainActions out;
  if (lost > 0 && !before.repeats(done_steps())) {
    recoveries_.lose_updates(lost);
    out.push_back(
        {TrainAction::tell, 0, done_steps(), Errc::peer_lost,
         detail::concat("the updates of ", lost,
                        " acknowledged steps are lost: by an asynchronous rule, or one with "
                        "backups, repeating these steps gives other updates",
                        plan_.checkpoints ? "; take checkpoints more often to lose less" : "")});
  }
  const TrainActions on = are_back(now);
  out.insert(out.end(), on.begin(), on.end());
  return out;
}

TrainActions TrainLoop::shards_kept(Millis now) {
  if (phase_ != Phase::restoring) return {};
  checkpoints_.keep(end_);
  return are_back(now);
}

// Unless they were lost again meanwhile.
TrainActions TrainLoop::are_back(Millis now) {
  TrainActions out;
  if (std::exchange(lost_again_, false) || failure_) {
    phase_ = Phase::stopping;
    go_on(now, out);
    return out;
  }
  retry_ = Backoff(now);
  for (const int64_t replica : replicas_.all()) {
    ReplicaSteps::Record& s = replicas_.record(replica);
    s.retry = Backoff();
    s.failed.reset();
  }
  last_progress_ = now;
  phase_ = Phase::running;
  const std::optional<int64_t> back = recoveries_.end();
  out.push_back({TrainAction::tell, 0, done_steps(), Errc::ok,
                 back ? detail::concat("shards restored at step ", done_steps(), "; the ", *back,
                                       " steps since are done again")
                      : detail::concat("every shard is as it was, at step ", done_steps(),
                                       "; only the steps that were under way are done again",
                                       checkpoints_.written() < checkpoints_.newest()
                                           ? detail::concat(", and there is no checkpoint of step ",
                                                            checkpoints_.newest())
                                           : std::string())});
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::restore_failed(Errc code, const std::string& text, Millis now) {
  TrainActions out;
  if (phase_ != Phase::restoring) return out;
  lost_again_ = false;
  const bool unread = code == Errc::io || code == Errc::bad_data;  // the checkpoint
  const bool full = code == Errc::out_of_memory;                   // others may free memory there
  const bool again = passes(code) || unread || full;
  if (failure_) {
    phase_ = Phase::stopping;
  } else if (again && now - last_progress_ < plan_.patience) {
    phase_ = Phase::stopping;  // tried again later
    retry_.failed(now);
    if (now - told_.at >= kWaitingWord || (unread && !told_.unread)) {
      told_.at = now;
      told_.unread |= unread;
      out.push_back({TrainAction::tell, 0, 0, unread ? Errc::io : code,
                     detail::concat("the shards are not restored since ",
                                    (now - last_progress_).count() / 1000,
                                    " s, and all towers wait; "
                                    "what is lost has ",
                                    plan_.patience.count() / 1000, " s to come back: ", text)});
    }
  } else if (again) {
    give_up(
        code,
        detail::concat("the shards could not be restored for ", plan_.patience.count() / 1000,
                       " s: ", text,
                       unread ? "; no checkpoint was removed: make them readable for the "
                                "program and all processes with shards, and resume"
                       : full ? "; give that process more memory, and resume from the checkpoint"
                              : "; start what is missing and resume from the checkpoint"),
        out);
  } else {
    give_up(code, "the shards could not be restored: " + text, out);
  }
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::checkpoint_captured(Millis now) {
  TrainActions out;
  if (phase_ != Phase::capturing) return out;
  phase_ = Phase::running;
  checkpoints_.captured();
  if (unsaved().empty()) last_progress_ = now;
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::checkpoint_ended(Errc code, const std::string& text, Millis now) {
  TrainActions out;
  if (!checkpoints_.end(code == Errc::ok)) return out;
  // A restore has waited for it: patience counts from here, as its files may have taken long.
  if (phase_ == Phase::stopping && !failure_) last_progress_ = now;
  if (phase_ == Phase::capturing || phase_ == Phase::running) {
    const int64_t step = checkpoints_.step();
    const bool last = step >= end_;
    const bool moved_on = phase_ == Phase::running && !last;
    phase_ = Phase::running;
    if (code != Errc::ok && passes(code) && !moved_on) {
      // Shards are on their way out and shards_lost() follows, or a later attempt succeeds.
      // Patience counts from the first failure: the checkpoint itself may have taken long.
      checkpoints_.repeat();
      if (retry_.failed(now)) {
        last_progress_ = now;
        out.push_back({TrainAction::tell, 0, step, code,
                       "the checkpoint failed and will be tried again: " + text});
      }
    } else if (code != Errc::ok && last) {
      last_refused(code, text, now, out);
    } else {
      // A full disk must not end hours of training: the loop continues, and reports it.
      if (code != Errc::ok)
        out.push_back({TrainAction::tell, 0, step, Errc::io,
                       detail::concat("no checkpoint of step ", step,
                                      checkpoints_.written() < 0
                                          ? std::string(" and none before it")
                                          : detail::concat("; that of step ",
                                                           checkpoints_.written(), " is kept"),
                                      ", and training goes on: ", text)});
      checkpoints_.pass_over();
      if (!moved_on) last_progress_ = now;
      retry_ = Backoff(now);
    }
  }
  go_on(now, out);
  return out;
}

// A disk may get room again, and nobody else waits.
void TrainLoop::last_refused(Errc code, const std::string& text, Millis now, TrainActions& out) {
  const bool first = unsaved().empty();
  const std::string why = detail::concat("all steps are done, but the checkpoint of the last one, ",
                                         checkpoints_.step(), ", could not be written: ", text);
  checkpoints_.repeat_last(why);
  retry_.failed(now);
  if (first) last_progress_ = now;
  if (code != Errc::io) return end_unsaved(out);
  if (first)
    out.push_back({TrainAction::tell, 0, checkpoints_.step(), Errc::io,
                   detail::concat(why, "; it is tried again for ", plan_.patience.count() / 1000,
                                  " s: make room in the folder of checkpoints")});
}

void TrainLoop::end_unsaved(TrainActions& out) {
  out.push_back(
      {TrainAction::tell, 0, checkpoints_.step(), Errc::io,
       detail::concat(unsaved(), "; training ends without it",
                      checkpoints_.written() < 0
                          ? std::string()
                          : detail::concat(", and with that of step ", checkpoints_.written()),
                      "; the session has the values, so save them elsewhere")});
  checkpoints_.pass_over();
  retry_ = Backoff();
}

TrainActions TrainLoop::pause_ended(bool more, Millis now) {
  TrainActions out;
  if (!std::exchange(pauses_.open, false)) return out;
  if (phase_ == Phase::running) {
    pauses_.last = barrier();
    end_ = more ? steps() : pauses_.last;
    last_progress_ = now;
    retry_ = Backoff(now);
  }
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::pause_failed(Errc code, const std::string& text, Millis now) {
  TrainActions out;
  if (!std::exchange(pauses_.open, false)) return out;
  if (phase_ == Phase::running) {
    if (retry_.failed(now)) {  // patience counts from here: a pause may have taken long
      last_progress_ = now;
      out.push_back({TrainAction::tell, 0, barrier(), code,
                     detail::concat("what the program does at step ", barrier(),
                                    " failed and will be done again: ", text)});
    }
    if (!passes(code) || now - last_progress_ >= plan_.patience)
      give_up(code, detail::concat("the pause of step ", barrier(), ": ", text), out);
  }
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::ask(TermChange& change, Millis now) {
  TrainActions out;
  change.step = terms_.rules.round_up(std::max(change.step, replicas_.unbegun()));
  terms_.ask(change);
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::terms_told(Errc code, const std::string& text, Millis now) {
  TrainActions out;
  const Aggregation before = terms_.rules.held();
  const bool told = code == Errc::ok || mutant(Mutant::failed_change_counts);
  const bool rule = terms_.rules.end(told), scale = terms_.scales.end(told);
  if (!rule && !scale) return out;
  if (phase_ == Phase::running && code == Errc::ok) {
    last_progress_ = now;
    retry_ = Backoff(now);
    const auto tell = [&](const std::string& what) {
      out.push_back({TrainAction::tell, 0, done_steps(), Errc::ok, what});
    };
    if (rule)
      tell(detail::concat("the rule is ", to_string(terms_.rules.held()), " from step ",
                          done_steps(), " on; before it was ", to_string(before)));
    if (scale)
      tell(detail::concat("the rate scale is ", terms_.scales.held(), " from step ", done_steps(),
                          " on"));
  } else if (phase_ == Phase::running) {
    const Error why(code, detail::concat("the change of the ", rule ? "rule" : "rate scale",
                                         " at step ", done_steps(), ": ", text));
    if (!passes(code)) {
      give_up(code, why.what(), out);
    } else if (retry_.failed(now)) {  // patience counts from here
      last_progress_ = now;
      out.push_back({TrainAction::tell, 0, done_steps(), code,
                     detail::concat(why.what(), "; it will be made again")});
    }
    replicas_.record(replicas_.all().front()).failed = why;  // no replica can begin its step
  }
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::abandon(Errc code, const std::string& text, Millis now) {
  TrainActions out;
  if (ended() || failure_) return out;
  if (phase_ == Phase::restoring) {  // its answer comes first
    failure_.emplace(code, text);
    return out;
  }
  give_up(code, text, out);
  go_on(now, out);
  return out;
}

TrainActions TrainLoop::tick(Millis now) {
  TrainActions out;
  const bool over = now - last_progress_ >= plan_.patience;
  if (!ended() && phase_ == Phase::running && idle() && over && !unsaved().empty()) {
    end_unsaved(out);
  } else if (!ended() && phase_ == Phase::running && idle() && over) {
    Error why(Errc::peer_lost, "no step is under way");
    for (const int64_t replica : replicas_.all())
      if (const auto& failed = replicas_.record(replica).failed) why = *failed;
    lose_patience(why, out);
  }
  go_on(now, out);
  return out;
}

}  // namespace troupe
