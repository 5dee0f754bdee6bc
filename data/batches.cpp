// Batches of troupe/data.hpp: shuffles keyed by (seed, epoch), and the rows of each step and
// replica.
#include <cstring>
#include <map>
#include <mutex>

#include "data/random.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

using Order = std::vector<int64_t>;

// Shuffles by Fisher and Yates.
Order shuffled(int64_t n, uint64_t seed, int64_t epoch, bool shuffle) {
  Order order(static_cast<size_t>(n));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  if (!shuffle) return order;
  SplitMix key{seed};
  SplitMix random{key.next() ^ SplitMix{static_cast<uint64_t>(epoch)}.next()};
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

Tensor gather_rows(const Tensor& from, const std::vector<int64_t>& rows) {
  Shape shape = from.shape();
  const int64_t row_bytes = from.dim(0) == 0 ? 0 : from.byte_size() / from.dim(0);
  shape.set(0, static_cast<int64_t>(rows.size()));
  Tensor out = Tensor::empty(from.dtype(), shape);
  auto* to = static_cast<char*>(out.mutable_raw());
  const auto* base = static_cast<const char*>(from.raw());
  for (int64_t row : rows) {
    std::memcpy(to, base + row * row_bytes, static_cast<size_t>(row_bytes));
    to += row_bytes;
  }
  return out;
}

}  // namespace

struct Batches::State {
  Dataset dataset;
  Settings settings;

  int64_t global_batch() const { return settings.batch_size * settings.replicas; }
  std::shared_ptr<const Order> order(int64_t epoch) const {
    {
      std::lock_guard lock(mutex);
      if (auto it = orders.find(epoch); it != orders.end()) return it->second;
    }
    auto made = std::make_shared<const Order>(
        shuffled(dataset.size(), settings.seed, epoch, settings.shuffle));
    std::lock_guard lock(mutex);
    // A step needs at most two epochs, and prefetching is a little ahead: the farthest epoch is the
    // least likely to be needed again.
    if (orders.size() >= kOrdersMax)
      orders.erase(epoch - orders.begin()->first > orders.rbegin()->first - epoch
                       ? orders.begin()
                       : std::prev(orders.end()));
    orders[epoch] = made;
    return made;
  }
  void check_replica(int64_t replica) const {
    if (replica < 0 || replica >= settings.replicas)
      throw Error(Errc::invalid_argument, "there is no replica ", replica,
                  "; the batches are for replicas 0 to ", settings.replicas - 1);
  }
  Batch gather(std::vector<int64_t> rows) const {
    Batch out{gather_rows(dataset.features, rows), gather_rows(dataset.labels, rows), {}};
    out.records = std::move(rows);
    return out;
  }

  static constexpr size_t kOrdersMax = 4;
  mutable std::mutex mutex;  // guards orders
  mutable std::map<int64_t, std::shared_ptr<const Order>> orders;
};

Batches::Batches(Dataset dataset, Settings settings) {
  if (!dataset.features.defined() || dataset.features.ndim() < 1 || dataset.size() == 0)
    throw Error(Errc::invalid_argument,
                "batches want a dataset with at least one record, got none; was its file read?");
  if (!dataset.labels.defined() || dataset.labels.ndim() < 1 ||
      dataset.labels.dim(0) != dataset.size())
    throw Error(
        Errc::invalid_argument, "the dataset has ", dataset.size(), " records, its labels are ",
        dataset.labels.defined() ? to_string(dataset.labels.shape()) : std::string("not there"),
        "; give each record one label");
  constexpr int64_t most = int64_t{1} << 30;
  if (settings.batch_size < 1 || settings.replicas < 1 ||
      settings.batch_size > most / settings.replicas)
    throw Error(Errc::invalid_argument,
                "batches want at least one record and one replica, and at most ", most,
                " records a step, got ", settings.batch_size, " records for ", settings.replicas,
                " replicas; choose a batch_size and replicas within that");
  auto state = std::make_shared<State>();
  state->dataset = std::move(dataset);
  state->settings = settings;
  state_ = std::move(state);
}

std::vector<int64_t> Batches::records_at(int64_t step, int64_t replica) const {
  const State& s = *state_;
  s.check_replica(replica);
  const int64_t b = s.settings.batch_size, n = s.dataset.size();
  if (step < 0 || step > INT64_MAX / s.global_batch() - 1)
    throw Error(Errc::invalid_argument, "there is no step ", step, "; steps count from 0");
  std::vector<int64_t> rows;
  int64_t at = step * s.global_batch() + replica * b;  // in the concatenated epochs
  while (static_cast<int64_t>(rows.size()) < b) {
    const std::shared_ptr<const Order> order = s.order(at / n);
    const int64_t begin = at % n,
                  count = std::min(n - begin, b - static_cast<int64_t>(rows.size()));
    rows.insert(rows.end(), order->begin() + begin, order->begin() + begin + count);
    at += count;
  }
  return rows;
}

std::vector<int64_t> Batches::records(int64_t epoch, int64_t step, int64_t replica) const {
  const State& s = *state_;
  s.check_replica(replica);
  if (epoch < 0 || step < 0 || step >= steps_per_epoch())
    throw Error(Errc::invalid_argument, "there is no step ", step, " in epoch ", epoch,
                "; an epoch has ", steps_per_epoch(), " steps");
  const int64_t begin = step * s.global_batch(),
                count = std::min(s.global_batch(), s.dataset.size() - begin);
  const int64_t from = begin + count * replica / s.settings.replicas,
                to = begin + count * (replica + 1) / s.settings.replicas;
  const std::shared_ptr<const Order> order = s.order(epoch);
  return {order->begin() + from, order->begin() + to};
}

Batch Batches::at(int64_t step, int64_t replica) const {
  return state_->gather(records_at(step, replica));
}
Batch Batches::batch(int64_t epoch, int64_t step, int64_t replica) const {
  return state_->gather(records(epoch, step, replica));
}

int64_t Batches::steps_per_epoch() const {
  return (state_->dataset.size() + state_->global_batch() - 1) / state_->global_batch();
}
const Dataset& Batches::dataset() const { return state_->dataset; }
const Batches::Settings& Batches::settings() const { return state_->settings; }

}  // namespace troupe
