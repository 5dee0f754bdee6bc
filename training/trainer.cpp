// Implements include/troupe/trainer.hpp: carries out what a TrainLoop decides, on the caller's
// thread.
#include "troupe/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <mutex>
#include <thread>

#include "training/checkpoint_folder.hpp"
#include "training/digest.hpp"
#include "training/parameter_group.hpp"
#include "training/train_loop.hpp"

namespace troupe {

const char* to_string(Aggregation rule) { return rule == Aggregation::sync ? "sync" : "async"; }

Aggregation aggregation_from_string(const std::string& text) {
  if (text == "sync") return Aggregation::sync;
  if (text == "async") return Aggregation::async;
  throw Error(Errc::invalid_argument, "unknown aggregation rule \"", text,
              "\"; there are sync and async");
}

namespace {

constexpr std::chrono::milliseconds kTick{50};

using Millis = TrainLoop::Millis;
Millis now_millis() {
  return std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now().time_since_epoch());
}

// What other threads have to say to the training thread.
class Events {
 public:
  void post(std::function<TrainOrders()> event) {
    {
      std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    ready_.notify_one();
  }
  // The next one, or nothing after a tick.
  std::function<TrainOrders()> next() {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, kTick, [&] { return !events_.empty(); })) return nullptr;
    auto event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::condition_variable ready_;
  std::deque<std::function<TrainOrders()>> events_;  // a few per slot
};

// A loss has a value, and both are nodes of the graph.
void check_outputs(const Tower& tower) {
  for (const auto& [output, what] : {std::pair(tower.loss, "loss"), {tower.update, "update"}})
    if (!output.defined())
      throw Error(Errc::invalid_argument, "Tower::", what, " of slot ", tower.slot, " is empty");
  if (tower.loss.graph->node(tower.loss.node).outputs.empty())
    throw Error(Errc::invalid_argument, "the loss of slot ", tower.slot, ", ", tower.loss.name(),
                ", has no value; are Tower::loss and Tower::update exchanged?");
}

constexpr std::chrono::milliseconds kEstablishRetryMax{1000};

class Trainer {
 public:
  Trainer(Session& session, const std::vector<Tower>& towers, const TrainOptions& options)
      : session_(session), options_(options), group_(session), events_(std::make_shared<Events>()) {
    group_->check_optimizers();
    for (const Tower& tower : towers) {
      if (!slots_.insert({tower.slot, towers_.size()}).second)
        throw Error(Errc::invalid_argument, "two towers have slot ", tower.slot,
                    "; give each its own with Graph::scope({.slot = ...})");
      check_outputs(tower);
      if (!is_floating(tower.loss.dtype()) || tower.loss.shape().ndim() != 0)
        throw Error(Errc::invalid_argument, "the loss of slot ", tower.slot, ", ",
                    tower.loss.name(), ", is ", tower.loss.dtype(), tower.loss.shape(),
                    "; wants one f32 or f64, as reduce_mean() makes it");
      if (!tower.feeds.empty() && !tower.batch)
        throw Error(Errc::invalid_argument, "Tower::batch of slot ", tower.slot,
                    " is empty: give a function that makes the values of its ", tower.feeds.size(),
                    " feeds for a step");
      patiently([&] {
        towers_.push_back({&tower, session.prepare({tower.loss, tower.update}, tower.feeds)});
      });
    }
    if (towers_.empty()) throw Error(Errc::invalid_argument, "train() was given no towers");
    if (options.steps < 1)
      throw Error(Errc::invalid_argument, "TrainOptions::steps is ", options.steps,
                  "; say how many steps each tower does");
    if (options.resume && options.checkpoint_dir.empty())
      throw Error(Errc::invalid_argument, "resume wants a checkpoint_dir");
    if (group_->parameters().empty())
      throw Error(Errc::invalid_argument,
                  "the towers train no parameter; make some with parameter()");
    if (!options.checkpoint_dir.empty()) folder_.emplace(options.checkpoint_dir);
  }

  ~Trainer() { group_->listen({}); }

  TrainResult run();

 private:
  struct Lane {
    const Tower* tower;
    Callable step;
  };

  ParameterGroup::Start start_from(const std::optional<Manifest>& manifest) const;
  std::optional<Manifest> newest();
  std::optional<Manifest> begin_with();
  void lead(int64_t first);
  void listen();
  void carry_out(TrainOrders orders);
  void take_checkpoint(int64_t step);
  void restore();
  void start_step(int64_t slot, int64_t step);
  void tell(TrainEvent::Kind kind, const std::string& text);
  void progress();
  // Calls one of the program's own functions. What it throws ends training, and is thrown again
  // when all towers have stopped; until then none is called any more.
  template <class F>
  void call_program(const F& call);
  std::vector<std::pair<std::string, Tensor>> final_values(int64_t step);
  template <class F>
  void patiently(const F& what);

  Session& session_;
  const TrainOptions& options_;
  const ParameterVisit group_;
  std::optional<CheckpointFolder> folder_;  // none: no checkpoints
  const std::shared_ptr<Events> events_;
  std::vector<Lane> towers_;
  std::map<int64_t, size_t> slots_;
  std::unique_ptr<TrainLoop> loop_;
  std::shared_ptr<Cancellation> cancel_ = std::make_shared<Cancellation>();
  TrainOrder failure_{};
  bool ended_ = false;
  std::exception_ptr thrown_;  // by the program
  std::string checkpoint_;
  size_t damaged_ = 0;  // checkpoints that the last newest() could not use
  std::chrono::steady_clock::time_point begin_{};
  int64_t begin_step_ = 0;
  int64_t told_step_ = -1;  // by the last progress()
};

// Before the first step: does what a lost process fails again, until it is back or patience ends.
template <class F>
void Trainer::patiently(const F& what) {
  const auto end = std::chrono::steady_clock::now() + options_.patience;
  for (std::chrono::milliseconds wait{20};; wait = std::min(2 * wait, kEstablishRetryMax)) {
    try {
      return what();
    } catch (const Error& e) {
      if ((e.code() != Errc::peer_lost && e.code() != Errc::stale) || thrown_ ||
          std::chrono::steady_clock::now() + wait > end)
        throw;
      tell(TrainEvent::recovering, detail::concat("not begun yet, tried again: ", e.what()));
    }
    std::this_thread::sleep_for(wait);
  }
}

std::optional<Manifest> Trainer::newest() {
  if (!folder_) return std::nullopt;
  const CheckpointFolder::Found found = folder_->newest(group_->parameters(), options_.data_seed);
  for (const std::string& line : found.damaged) tell(TrainEvent::warning, line);
  damaged_ = found.damaged.size();
  return found.manifest;
}

// The checkpoint to begin with; nothing: the first values.
std::optional<Manifest> Trainer::begin_with() {
  if (!folder_) return std::nullopt;
  if (group_->shared())  // whether the parameters are ours is known when they are there
    patiently([&] {
      group_->wait([&](ParameterGroup::Done done) { group_->ensure({}, std::move(done)); });
    });
  if (!group_->owner()) return std::nullopt;  // its owner takes and restores checkpoints
  folder_->claim();
  if (!options_.resume) {
    folder_->want_unused();
    return std::nullopt;
  }
  const std::optional<Manifest> manifest = newest();
  if (!manifest && damaged_ > 0) refuse_damaged(*folder_, damaged_);  // anew is not what was asked
  if (!manifest)
    tell(TrainEvent::warning,
         "no checkpoint in " + options_.checkpoint_dir + "; training from the start");
  if (manifest && manifest->step > options_.steps)
    throw Error(Errc::invalid_argument, "the checkpoint in ", folder_->path(), " is of step ",
                manifest->step, ", TrainOptions::steps is ", options_.steps,
                "; ask for at least as many, or begin anew in another folder");
  return manifest;
}

ParameterGroup::Start Trainer::start_from(const std::optional<Manifest>& manifest) const {
  ParameterGroup::Start start;
  start.rule = options_.rule;
  for (const auto& [slot, index] : slots_) start.slots.push_back(static_cast<int32_t>(slot));
  for (int32_t slot :
       group_->slots_in_graph())  // slots of other sessions count in synchronous updates
    if (group_->shared() && !slots_.count(slot)) start.slots.push_back(slot);
  std::sort(start.slots.begin(), start.slots.end());
  if (manifest) {
    start.mode = BeginEpoch::restore;
    start.directory = folder_->path();
    start.manifest = manifest_name(manifest->generation, manifest->step);
    start.next_step = manifest->step;
  } else {
    start.mode = BeginEpoch::reset;
  }
  return start;
}

// What is lost from here on becomes an event, for lead() to handle: also what is lost before its
// loop begins.
void Trainer::listen() {
  ParameterGroup::Listener listener;
  listener.lost = [events = events_, this](const std::string& text) {
    events->post([this, text] { return loop_->shards_lost(text, now_millis()); });
  };
  listener.gone = [events = events_, this](const std::string& text) {
    events->post([this, text] {
      tell(TrainEvent::lost, text);
      return TrainOrders{};
    });
  };
  listener.closed = [events = events_, this] {
    events->post([this] {
      return loop_->abandon(Errc::cancelled, "the session was closed while it trained",
                            now_millis());
    });
  };
  group_->listen(std::move(listener));
}

TrainResult Trainer::run() {
  const std::optional<Manifest> manifest = begin_with();
  listen();
  patiently([&] {
    group_->wait([&](ParameterGroup::Done done) {
      group_->establish(start_from(manifest), std::move(done));
    });
  });
  const int64_t first = !group_->owner() ? group_->next_step() : manifest ? manifest->step : 0;
  if (manifest) {
    checkpoint_ = folder_->path_of(*manifest);
    tell(TrainEvent::resumed, detail::concat("resumed at step ", first, " from ",
                                             manifest_name(manifest->generation, manifest->step)));
  }
  if (thrown_) std::rethrow_exception(thrown_);
  begin_ = std::chrono::steady_clock::now();
  begin_step_ = first;
  lead(first);
  if (thrown_) std::rethrow_exception(thrown_);
  if (failure_.code != Errc::ok) throw Error(failure_.code, failure_.text);
  TrainResult result;
  result.steps = loop_->done_steps();
  result.resumed_at = first;
  result.loss = loop_->mean_loss();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  result.recoveries = loop_->recoveries();
  result.checkpoint = checkpoint_;
  result.weights_sha256 = weights_sha256(final_values(result.steps));
  if (thrown_) std::rethrow_exception(thrown_);
  return result;
}

// From the first order to the last: afterwards no tower runs.
void Trainer::lead(int64_t first) {
  TrainLoop::Plan plan;
  std::map<int64_t, int64_t> next_steps;
  for (const auto& [slot, index] : slots_) {
    plan.slots.push_back(slot);
    next_steps[slot] = first;
  }
  plan.steps = options_.steps;
  plan.checkpoints = folder_ && group_->owner();
  plan.checkpoint_every = options_.checkpoint_every;
  plan.follows = !group_->owner();
  plan.patience = options_.patience;
  loop_ = std::make_unique<TrainLoop>(plan, next_steps);
  carry_out(loop_->begin(now_millis()));
  while (!ended_) {
    auto event = events_->next();
    carry_out(event ? event() : loop_->tick(now_millis()));
    progress();
  }
}

std::vector<std::pair<std::string, Tensor>> Trainer::final_values(int64_t step) {
  try {
    const auto values = parameter_values(session_);
    return {values.begin(), values.end()};
  } catch (const Error& e) {
    // A shard died after the last step: its values are in the checkpoint of that step.
    const std::optional<Manifest> last =
        e.code() == Errc::peer_lost || e.code() == Errc::stale ? newest() : std::nullopt;
    if (!last || last->step != step) throw;
    tell(TrainEvent::warning,
         detail::concat("the final weights are read from the checkpoint: ", e.what()));
    return read_parameters(real_disk(), folder_->path(), *last);
  }
}

void Trainer::carry_out(TrainOrders orders) {
  for (const TrainOrder& order : orders) switch (order.kind) {
      case TrainOrder::start:
        start_step(order.slot, order.step);
        break;
      case TrainOrder::cancel:
        std::exchange(cancel_, std::make_shared<Cancellation>())->cancel();
        break;
      case TrainOrder::snapshot:
        take_checkpoint(order.step);
        break;
      case TrainOrder::restore:
        restore();
        break;
      case TrainOrder::ask_epoch:
        group_->ask_epoch([events = events_, this](bool is_new) {
          events->post([this, is_new] { return loop_->epoch_found(is_new, now_millis()); });
        });
        break;
      case TrainOrder::finish:
        ended_ = true;
        break;
      case TrainOrder::fail:
        ended_ = true;
        failure_ = order;
        if (failure_.code == Errc::ok) failure_.code = Errc::internal;
        break;
      case TrainOrder::tell:
        tell(order.code == Errc::ok          ? TrainEvent::resumed
             : order.code == Errc::peer_lost ? TrainEvent::lost
             : order.code == Errc::io        ? TrainEvent::warning
                                             : TrainEvent::recovering,
             order.text);
        break;
    }
}

void Trainer::take_checkpoint(int64_t step) {
  ParameterGroup::Snapshot what;
  what.directory = folder_->path();
  what.step = step;
  what.keep = options_.checkpoint_keep;
  what.data_seed = options_.data_seed;
  what.rule = options_.rule;
  for (const auto& [slot, index] : slots_) what.slots.push_back(static_cast<int32_t>(slot));
  group_->snapshot(
      std::move(what),
      [events = events_, this] {
        events->post([this] { return loop_->snapshot_captured(now_millis()); });
      },
      [events = events_, this](Errc code, const std::string& text) {
        events->post([this, code, text] {
          if (code == Errc::ok) checkpoint_ = text;
          return loop_->snapshot_taken(code, text, now_millis());
        });
      });
}

void Trainer::restore() {
  std::optional<Manifest> manifest;
  try {
    if (group_->owner()) manifest = newest();
  } catch (const Error& e) {
    events_->post([this, code = e.code(), text = std::string(e.what())] {
      return loop_->restore_failed(code, text, now_millis());
    });
    return;
  }
  const int64_t step = manifest ? manifest->step : 0;
  group_->establish(start_from(manifest),
                    [events = events_, this, step](Errc code, const std::string& text) {
                      events->post([this, step, code, text] {
                        if (code != Errc::ok)
                          return loop_->restore_failed(code, text, now_millis());
                        std::map<int64_t, int64_t> next;
                        for (const auto& [slot, index] : slots_)
                          next[slot] = group_->owner() ? step : group_->next_step();
                        return loop_->restored(next, now_millis());
                      });
                    });
}

template <class F>
void Trainer::call_program(const F& call) {
  if (thrown_) return;
  try {
    call();
  } catch (...) {  // any type: it is the program's, and goes back to it
    thrown_ = std::current_exception();
    events_->post([this] {
      return loop_
                 ? loop_->abandon(Errc::cancelled, "a function of the program threw", now_millis())
                 : TrainOrders{};
    });
  }
}

void Trainer::tell(TrainEvent::Kind kind, const std::string& text) {
  if (options_.on_event) call_program([&] { options_.on_event({kind, text}); });
}

void Trainer::start_step(int64_t slot, int64_t step) {
  const Lane& lane = towers_[slots_.at(slot)];
  RunOptions run;
  run.step = step;
  run.timeout = options_.patience;  // a step that waits for a lost worker ends then, naming it
  run.cancel = cancel_.get();
  const auto report = [events = events_, this, slot, step, keep = cancel_](RunResult result) {
    events->post([this, slot, step, result = std::move(result)] {
      if (result.code != Errc::ok)
        return loop_->step_failed(slot, step, result.code, result.text, now_millis());
      const Tensor& loss = result.values.at(0);
      const double value = loss.dtype() == DType::f64 ? loss.item<double>() : loss.item<float>();
      if (!std::isfinite(value))
        return loop_->step_failed(
            slot, step, Errc::bad_data,
            detail::concat("the loss is ", value,
                           "; lower the learning rate, or look for bad records"),
            now_millis());
      return loop_->step_done(slot, step, value, now_millis());
    });
  };
  std::vector<Tensor> feeds;
  if (lane.tower->batch) call_program([&] { feeds = lane.tower->batch(step); });
  if (thrown_) return report({Errc::cancelled, "a function of the program threw", {}});
  try {
    lane.step.start(std::move(feeds), run, report);
  } catch (const Error& e) {
    report({e.code(), e.what(), {}});
  }
}

void Trainer::progress() {
  if (!options_.on_progress) return;
  TrainProgress p;
  p.step = loop_->done_steps();
  if (std::exchange(told_step_, p.step) == p.step) return;
  p.steps = options_.steps;
  p.loss = loop_->mean_loss();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const double rate = seconds > 0 ? static_cast<double>(p.step - begin_step_) / seconds : 0;
  p.examples_per_second =
      rate * static_cast<double>(options_.examples_per_step) * static_cast<double>(towers_.size());
  p.remaining =
      std::chrono::duration<double>(rate > 0 ? static_cast<double>(p.steps - p.step) / rate : 0);
  call_program([&] { options_.on_progress(p); });
}

}  // namespace

TrainResult train(Session& session, const std::vector<Tower>& towers, const TrainOptions& options) {
  return Trainer(session, towers, options).run();
}

}  // namespace troupe
