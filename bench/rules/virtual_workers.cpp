// The events of virtual workers, in the order of time.
#include "bench/rules/virtual_workers.hpp"

#include <algorithm>
#include <utility>

#include "troupe/error.hpp"

namespace troupe::bench {
namespace {

constexpr uint64_t kEpoch = 1;

}  // namespace

VirtualWorkers::VirtualWorkers(const WorkerSettings& settings, const std::vector<Slice>& slices,
                               const std::vector<Tensor>& initial, Compute compute)
    : settings_(settings),
      compute_(std::move(compute)),
      workers_(static_cast<size_t>(settings.workers)),
      link_(settings.transfer_seconds) {
  if (workers_.empty()) throw Error(Errc::invalid_argument, "there is no worker to simulate");
  std::map<int32_t, std::vector<Slice>> by_shard;
  for (const Slice& slice : slices) by_shard[slice.shard].push_back(slice);
  std::map<int32_t, Shard*> made;
  for (auto& [number, part] : by_shard) {
    shards_.push_back(
        std::make_unique<Shard>(Shard::Spec{.epoch = kEpoch,
                                            .rule = settings.rule,
                                            .replicas = replicas_at(settings.workers, 0),
                                            .slices = std::move(part)}));
    made[number] = shards_.back().get();
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    shard_of_.push_back(made.at(slices[i].shard));
    const Outcome o =
        shard_of_[i]->set_initial(kEpoch, static_cast<uint32_t>(i), initial[i], answers_);
    if (!o) throw Error(o.code, o.text);
  }
  for (int32_t worker = 0; worker < settings_.workers; ++worker) pull(worker);
  take_answers();
}

void VirtualWorkers::run_to_version(int64_t version) {
  while (shard_of_[0]->version(0) < version) pass_to_next();
}

void VirtualWorkers::run_until(double seconds) {
  while (next_time() <= seconds) pass_to_next();
}

std::vector<Tensor> VirtualWorkers::values() const {
  std::vector<Tensor> out;
  for (size_t i = 0; i < shard_of_.size(); ++i)
    out.push_back(shard_of_[i]->values(static_cast<uint32_t>(i)));
  return out;
}

double VirtualWorkers::mean_staleness() const {
  const Staleness& all = shard_of_[0]->find(0)->use().staleness;
  return static_cast<double>(all.sum) / static_cast<double>(std::max<int64_t>(all.updates, 1));
}

int64_t VirtualWorkers::looks() const {
  int64_t out = 0;
  for (const auto& shard : shards_) {
    out += shard->counters().pull_looks;
    for (const Slice& slice : shard->slices()) out += shard->find(slice.id)->rule()->looks();
  }
  return out;
}

double VirtualWorkers::next_time() const {
  return computing_.empty() ? link_.next() : std::min(link_.next(), computing_.top().at);
}

void VirtualWorkers::pass_to_next() {
  const double next = next_time();
  if (!(next < std::numeric_limits<double>::infinity()))
    throw InternalError("all virtual workers wait: ", shard_of_[0]->waiting_for());
  now_ = next;
  if (next < link_.next()) {
    const int32_t ready = computing_.top().worker;
    computing_.pop();
    if (workers_[static_cast<size_t>(ready)].within_round())
      step_alone(ready);
    else
      link_.add(now_, ready);
    return;
  }
  const int32_t worker = link_.end(now_);
  Worker& w = workers_[static_cast<size_t>(worker)];
  if (std::exchange(w.computed, true)) {
    push(worker);
    take_answers();
  } else {
    computing_.push({now_ + settings_.times.at(settings_.seed, worker, w.step), worker});
  }
}

void VirtualWorkers::pull(int32_t worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  w.began = now_;
  w.over = w.computed = false;
  w.open = shard_of_.size();
  w.values.assign(shard_of_.size(), {});
  w.copies.clear();
  newest_step_ = std::max(newest_step_, w.step);
  for (size_t i = 0; i < shard_of_.size(); ++i) {
    ++messages_;
    shard_of_[i]->pull({.slice = static_cast<uint32_t>(i),
                        .replica = worker,
                        .step = w.step,
                        .epoch = kEpoch,
                        .ticket = static_cast<uint64_t>(w.step),
                        .first = w.step},
                       static_cast<uint64_t>(worker), answers_);
  }
}

std::vector<Tensor> VirtualWorkers::compute(int32_t worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  std::vector<Tensor> gradients = compute_(worker, w.step, w.values);
  w.values.clear();
  for (size_t i = 0; i < w.copies.size(); ++i) w.copies[i]->update(gradients[i]);
  return gradients;
}

void VirtualWorkers::step_alone(int32_t worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  compute(worker);
  steps_.push_back(now_ - std::exchange(w.began, now_));
  ++w.step;
  for (const auto& copy : w.copies) w.values.push_back(copy->values(w.step));
  computing_.push({now_ + settings_.times.at(settings_.seed, worker, w.step), worker});
}

void VirtualWorkers::push(int32_t worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  std::vector<Tensor> gradients = compute(worker);
  for (size_t i = 0; i < w.copies.size(); ++i) gradients[i] = w.copies[i]->change();
  const ReplicaCopy::Round round = w.copies.empty() ? ReplicaCopy::Round{} : w.copies[0]->round();
  w.open = shard_of_.size();
  const int64_t sequence = w.sequence++;
  const int64_t step = w.step;
  for (size_t i = 0; i < shard_of_.size(); ++i) {
    ++messages_;
    const int64_t version = shard_of_[i]->version(static_cast<uint32_t>(i));
    shard_of_[i]->push({.slice = static_cast<uint32_t>(i),
                        .replica = worker,
                        .incarnation = 1,
                        .step = step,
                        .sequence = sequence,
                        .epoch = kEpoch,
                        .ticket = static_cast<uint64_t>(step),
                        .gradient = std::move(gradients[i]),
                        .first = step,
                        .number = round.end - round.first},
                       static_cast<uint64_t>(worker), answers_);
    if (i == 0 && shard_of_[0]->version(0) > version) updates_.push_back(now_);
  }
}

// Answers make requests, whose answers come at the end.
void VirtualWorkers::take_answers() {
  for (size_t i = 0; i < answers_.size(); ++i) {
    ShardAction answer = std::move(answers_[i]);
    ++messages_;
    std::visit([&](auto& message) { take(static_cast<int32_t>(answer.to), message); },
               answer.message);
  }
  answers_.clear();
}

void VirtualWorkers::take(int32_t worker, Pulled& answer) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  if (answer.code == Errc::stale) w.over = true;
  if (answer.code != Errc::ok && !w.over) throw InternalError("a pull failed: ", answer.text);
  if (answer.local_steps > 0) {
    w.copies.resize(shard_of_.size());
    w.copies[answer.slice] = std::make_unique<ReplicaCopy>(
        ReplicaCopy::Round{w.step, w.step + answer.local_steps, answer.version}, answer.values,
        *shard_of_[answer.slice]->find(answer.slice)->slice().optimizer);
  }
  w.values[answer.slice] = std::move(answer.values);
  if (--w.open > 0) return;
  if (w.over)
    go_on(worker);
  else
    link_.add(now_, worker);
}

void VirtualWorkers::take(int32_t worker, Acknowledged& answer) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  if (answer.code != Errc::ok) throw InternalError("a push failed: ", answer.text);
  if (--w.open > 0) return;
  steps_.push_back(now_ - w.began);
  ++w.step;
  go_on(worker);
}

void VirtualWorkers::go_on(int32_t worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  if (settings_.rule.kind == Aggregation::Kind::sync_backup)
    w.step = std::max(w.step, newest_step_);
  pull(worker);
}

}  // namespace troupe::bench
