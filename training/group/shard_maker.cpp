// The requests that make shards, set their first values, and follow another session's shards.
#include "training/group/shard_maker.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "training/parameters/give_initial.hpp"

namespace troupe {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;  // of first values; CAF messages stay small
// Waits until the owner of shared parameters has set them.
constexpr std::chrono::milliseconds kServingPoll{100};
constexpr int kServingTries = 600;

// The difference between the slices of a shard and the wanted ones; empty: none. Optimizers may
// differ: the owner's count.
std::string difference(const std::vector<Slice>& wanted, const std::vector<SliceSpec>& there) {
  if (wanted.size() != there.size())
    return detail::concat("it has ", there.size(), " slices, this program wants ", wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    const SliceSpec want = to_spec(wanted[i]);
    const SliceSpec& has = there[i];
    if (std::tie(want.slice, want.parameter, want.dtype, want.shape, want.offset, want.size) !=
        std::tie(has.slice, has.parameter, has.dtype, has.shape, has.offset, has.size))
      return detail::concat("it has ", describe(from_spec(has)), ", this program wants ",
                            describe(wanted[i]), " there");
    const auto options = [](const std::string& text) {
      return text.empty() ? "no table" : detail::concat("a table (", text, ")");
    };
    if (want.table != has.table)
      return detail::concat(want.parameter, " is ", options(has.table), ", this program wants ",
                            options(want.table));
  }
  return {};
}

// Hands first values to a shard of this process, without copies.
void give(ShardRequests& shards, const ShardTable& table, int32_t shard,
          const std::map<std::string, Tensor>& values, WhenDone done) {
  const std::vector<Slice>& slices = table.shards.at(shard).slices;
  const WhenDone ended = when_all(slices.size(), std::move(done));
  for (const Slice& slice : slices) {
    Tensor part = Tensor::empty(slice.dtype, Shape{0});
    if (!slice.table) {
      const Tensor& all = values.at(slice.parameter);
      part = all.reshaped(Shape{all.size()}).rows(slice.offset, slice.offset + slice.size);
    }
    shards.ask(shard, GiveInitial{table.container, shard, slice.id, table.epoch, std::move(part)},
               ended);
  }
}

}  // namespace

void ShardMaker::add_source(int64_t call, std::vector<std::string> parameters) {
  sources_.emplace_back(call, std::move(parameters));
}

// Shard 0 first: the session that made it owns the container's values and recovery.
void ShardMaker::make(const std::vector<int32_t>& shards, const std::vector<int32_t>& replicas,
                      Done done) {
  create(shards.at(0), replicas, kServingTries,
         [this, shards, replicas, done](Errc code, const std::string& text) {
           if (code != Errc::ok) return done(code, text);
           const auto made = [this, shards, done](Errc c, const std::string& t) {
             if (c != Errc::ok)
               done(c, t);
             else if (owner())
               set_initial(shards, nullptr, done);
             else
               wait_serving(shards, /*epoch=*/1, done);
           };
           const Done ended = when_all(shards.size() - 1, made);
           for (size_t i = 1; i < shards.size(); ++i)
             create(shards[i], replicas, kServingTries, ended);
         });
}

void ShardMaker::make_again(const std::vector<int32_t>& replicas, Done done) {
  const std::vector<int32_t> all = table_.numbers();
  const Done ended = when_all(all.size(), std::move(done));
  for (int32_t shard : all) create(shard, replicas, kServingTries, ended);
}

// A shard that is made here would wait for first values that nobody sends.
void ShardMaker::show_up(const std::string& task, const std::vector<int32_t>& replicas) {
  for (int32_t shard : table_.numbers()) {
    if (table_.shards.at(shard).task != task) continue;
    CreateShard order = order_of(shard, replicas);
    order.makes = false;
    shards_.ask<ShardDescription>(shard, std::move(order),
                                  [](Errc, const std::string&, const ShardDescription&) {});
  }
}

void ShardMaker::look_again(const std::vector<int32_t>& replicas, uint64_t epoch, int64_t step,
                            Done done) {
  const std::vector<int32_t> all = table_.numbers();
  const Done ended = when_all(all.size(), std::move(done));
  for (int32_t shard : all) {
    const auto looked = [this, shard, epoch, step, ended](Errc code, const std::string& text,
                                                          const ShardDescription& d) {
      if (code != Errc::ok) return ended(code, text);
      const ShardTable::Entry& entry = table_.shards.at(shard);
      if (shared_ && owner() && !d.created) return ended(Errc::invalid_argument, owned_by_other(d));
      const bool same = d.door == entry.door && d.serving && d.epoch == epoch &&
                        std::all_of(d.next_steps.begin(), d.next_steps.end(),
                                    [step](const auto& next) { return next.second >= step; });
      if (same) return ended(Errc::ok, {});
      ended(Errc::stale, detail::concat("shard ", shard, " on ", entry.task, " is not as it was"));
    };
    if (owner() || shard == 0)  // another session may have taken this one's replicas
      shards_.ask<ShardDescription>(shard, order_of(shard, replicas), looked);
    else
      shards_.ask<ShardDescription>(shard, DescribeShard{table_.container, shard}, looked);
  }
}

CreateShard ShardMaker::order_of(int32_t shard, const std::vector<int32_t>& replicas) const {
  CreateShard m;
  m.container = table_.container;
  m.shard = shard;
  m.epoch = table_.epoch;
  m.claim = decided_ && owner() ? 1 + table_.began : 0;
  m.makes = owner();  // another one's terms are not known here: rule, rate scale and steps
  m.session = master_.session();
  if (shard == 0) m.trains = trains_;
  m.rule = to_string(table_.rule);
  m.skips_bad = table_.skips_bad;
  m.replicas = replicas;
  for (const Slice& slice : table_.shards.at(shard).slices) m.slices.push_back(to_spec(slice));
  return m;
}

std::string ShardMaker::owned_by_other(const ShardDescription& d) const {
  return detail::concat("another session owns the parameters of container ", table_.container,
                        ", in epoch ", d.epoch,
                        "; start this program again, to join it, or name another container if "
                        "that session has ended");
}

void ShardMaker::train(std::vector<int32_t> trains, const std::vector<int32_t>& replicas) {
  if (!shared_) return;
  const bool lets_go = trains.empty() && !trains_.empty();
  trains_ = std::move(trains);
  if (!lets_go || !table_.shards.count(0)) return;
  CreateShard order = order_of(0, replicas);
  order.makes = false;
  ask_first(std::move(order), [](Errc, const std::string&, const ShardDescription&) {});
}

// A session that trains the same replicas may be about to be missed.
void ShardMaker::ask_first(
    CreateShard order,
    std::function<void(Errc, const std::string&, const ShardDescription&)> done) {
  shards_.ask<ShardDescription>(
      0, std::move(order),
      [this, done = std::move(done)](Errc code, const std::string& text,
                                     const ShardDescription& d) {
        if (code == Errc::stale)
          done(
              code,
              detail::concat(text, "; the owner of the container makes it again, if it still runs"),
              d);
        else
          done(code == Errc::bad_configuration ? Errc::stale : code, text, d);
      });
}

void ShardMaker::ask_owner(const std::vector<int32_t>& replicas, std::shared_ptr<OwnerSeen> seen,
                           Done done) {
  ask_first(order_of(0, replicas),
            [seen, done](Errc code, const std::string& text, const ShardDescription& d) {
              if (code == Errc::ok) *seen = {d.created || d.owner_away, d.owner_trains};
              done(code, text);
            });
}

void ShardMaker::take_over(const std::vector<int32_t>& replicas, Done done) {
  CreateShard order = order_of(0, replicas);
  order.takes_over = true;
  ask_first(std::move(order), [this, replicas, done](Errc code, const std::string& text,
                                                     const ShardDescription& d) {
    if (code != Errc::ok) return done(code, text);
    if (d.created) return take_over_rest(replicas, done);
    if (!d.owner_away) return done(Errc::ok, {});
    done(Errc::stale, detail::concat("the owner of container ", table_.container,
                                     " is away; if it does not come back in some seconds, "
                                     "this program takes its place"));
  });
}

void ShardMaker::take_over_rest(const std::vector<int32_t>& replicas, Done done) {
  const std::vector<int32_t> all = table_.numbers();
  auto found = std::make_shared<std::map<int32_t, ShardDescription>>();
  const auto order = [&](int32_t shard) {
    CreateShard m = order_of(shard, replicas);
    m.takes_over = true;
    return m;
  };
  const auto asked = [this, found, done](Errc code, const std::string& text) {
    if (code != Errc::ok) return done(code, text);
    if (!follow(*found, /*epoch=*/1))
      return done(Errc::invalid_argument,
                  detail::concat("the owner of container ", table_.container,
                                 " is gone, and so are values of the container; name another "
                                 "container, and resume from a checkpoint"));
    // Shard 0 has decided, also for shards to which the owner before still has a link.
    table_.began = table_.epoch + 1;
    took_over_ = table_.epoch > 1;  // no training has been in the first one
    attached_ = false;
    done(Errc::ok, {});
  };
  shards_.ask_all<ShardDescription>(
      all, order, [found](int32_t shard, const ShardDescription& d) { (*found)[shard] = d; },
      asked);
}

void ShardMaker::create(int32_t shard, const std::vector<int32_t>& replicas, int tries, Done done) {
  shards_.ask<ShardDescription>(
      shard, order_of(shard, replicas),
      [this, shard, replicas, tries, done](Errc code, const std::string& text,
                                           const ShardDescription& d) {
        if (code == Errc::stale && !owner() && tries > 0)  // the owner has not made it yet
          return shards_.later(kServingPoll, [this, shard, replicas, tries, done] {
            create(shard, replicas, tries - 1, done);
          });
        if (code != Errc::ok) return done(code, text);
        ShardTable::Entry& entry = table_.shards.at(shard);
        if (const std::string other = difference(entry.slices, d.slices); !other.empty())
          return done(Errc::bad_configuration,
                      detail::concat("shard ", shard, " of container ", table_.container, " on ",
                                     entry.task, " was laid out by another program: ", other,
                                     "; programs that share parameters prepare the same ones in "
                                     "the same order, with the same ps tasks"));
        if (!d.next_steps.empty() && d.next_steps.size() != replicas.size())
          return done(
              Errc::bad_configuration,
              detail::concat("container ", table_.container, " is trained with ",
                             d.next_steps.size(), " replicas, this program gives ", replicas.size(),
                             "; give the same ConnectOptions::replicas in all programs"));
        const bool first = shard == 0 && !std::exchange(decided_, true);
        if (first && !d.created && shared_) attached_ = true;
        // A ps has died, and this session has met the shards of another one before it knew of it.
        const bool theirs = shard == 0 ? !d.created : !entry.usable && d.epoch > table_.epoch;
        if (shared_ && owner() && theirs) return done(Errc::invalid_argument, owned_by_other(d));
        entry.door = d.door;
        if (!owner()) table_.epoch = d.epoch;
        if (!entry.usable && d.epoch < table_.epoch)
          catch_up(shard, replicas, done);
        else
          done(code, text);
      });
}

// The shard was made for an epoch that ended before the shard got values.
void ShardMaker::catch_up(int32_t shard, const std::vector<int32_t>& replicas, Done done) {
  BeginEpoch m;
  m.container = table_.container;
  m.shard = shard;
  m.epoch = table_.epoch;
  m.mode = BeginEpoch::reset;
  m.rule = to_string(table_.rule);
  m.replicas = replicas;
  m.rate_scale = table_.rate_scale;
  m.skips_bad = table_.skips_bad;
  shards_.ask(shard, std::move(m), std::move(done));
}

void ShardMaker::set_initial(const std::vector<int32_t>& shards, const FirstValues& given,
                             Done done) {
  struct Values {
    std::mutex mutex;  // guards the rest, and when_all(): calls end on any thread
    std::map<std::string, Tensor> by_name;
  };
  auto values = std::make_shared<Values>();
  if (given) values->by_name = *given;
  const auto computed = [this, post = shards_.poster(), shards, values, done](
                            Errc code, const std::string& text) {
    post([this, shards, values, done, code, text] {
      if (code != Errc::ok)
        done(code, "first values of the parameters: " + text);
      else
        send_initial(shards, std::make_shared<const std::map<std::string, Tensor>>(values->by_name),
                     done);
    });
  };
  std::set<std::string> wanted;
  for (int32_t shard : shards)
    for (const Slice& slice : table_.shards.at(shard).slices)
      if (!slice.table && !values->by_name.count(slice.parameter)) wanted.insert(slice.parameter);
  std::vector<std::pair<int64_t, std::vector<std::string>>> sources;
  for (const auto& source : sources_)
    if (std::any_of(source.second.begin(), source.second.end(),
                    [&](const std::string& name) { return wanted.count(name) > 0; }))
      sources.push_back(source);
  const Done ended = when_all(sources.size(), computed);
  for (const auto& [call, names] : sources)
    master_.runs().start(call, {}, RunOptions{.step = 0},  // the same random numbers each time
                         [values, ended, names = names](const RunResult& result) {
                           std::lock_guard lock(values->mutex);
                           if (result.code == Errc::ok)
                             for (size_t i = 0; i < names.size(); ++i)
                               values->by_name.try_emplace(names[i], result.values[i]);
                           ended(result.code, result.text);
                         });
}

void ShardMaker::send_initial(const std::vector<int32_t>& shards, const FirstValues& values,
                              Done done) {
  const Done ended = when_all(shards.size(), std::move(done));
  const std::string& here = master_.process().task();
  for (int32_t shard : shards)
    if (table_.shards.at(shard).task == here)
      give(shards_, table_, shard, *values, ended);
    else
      send_pieces(shard, 0, 0, values, ended);
}

// Sends the next piece when the one before is taken, so that no model piles up before a link that
// is slower than this process.
void ShardMaker::send_pieces(int32_t shard, size_t index, int64_t at, FirstValues values,
                             Done done) {
  const std::vector<Slice>& slices = table_.shards.at(shard).slices;
  if (index == slices.size()) return done(Errc::ok, {});
  const Slice& slice = slices[index];
  const int64_t total = slice.bytes(), n = std::min(kPieceBytes, total - at);
  SetInitial m;
  m.container = table_.container;
  m.shard = shard;
  m.slice = slice.id;
  m.epoch = table_.epoch;
  m.byte_offset = at;
  if (n > 0) {
    const char* bytes = static_cast<const char*>(values->at(slice.parameter).raw()) +
                        slice.offset * size_of(slice.dtype) + at;
    m.bytes.assign(bytes, bytes + n);
  }
  const bool last = at + n == total;
  shards_.ask(shard, std::move(m),
              [this, shard, index = last ? index + 1 : index, at = last ? 0 : at + n,
               values = std::move(values), done](Errc code, const std::string& text) {
                if (code == Errc::ok)
                  send_pieces(shard, index, at, values, done);
                else
                  done(code, text);
              });
}

void ShardMaker::wait_serving(const std::vector<int32_t>& shards, uint64_t epoch, Done done) {
  poll_serving(shards, epoch, kServingTries, std::move(done));
}

void ShardMaker::poll_serving(const std::vector<int32_t>& shards, uint64_t epoch, int tries,
                              Done done) {
  auto told = std::make_shared<std::map<int32_t, ShardDescription>>();
  const auto asked = [this, shards, epoch, tries, done, told](Errc code, const std::string& text) {
    if (code == Errc::ok && follow(*told, epoch))
      done(Errc::ok, {});
    else if (tries > 0)
      shards_.later(kServingPoll, [this, shards, epoch, tries, done] {
        poll_serving(shards, epoch, tries - 1, done);
      });
    else
      done(Errc::peer_lost,
           text.empty()
               ? "the session that owns the shared parameters has not set their values, or "
                 "does not train; look whether it still runs"
               : text);
  };
  shards_.describe(
      shards, [told](int32_t shard, const ShardDescription& d) { (*told)[shard] = d; }, asked);
}

void ShardMaker::ask_epoch(const std::vector<int32_t>& shards,
                           std::function<void(bool is_new)> done) {
  auto is_new = std::make_shared<bool>(false);
  shards_.describe(
      shards,
      [is_new, epoch = table_.epoch](int32_t, const ShardDescription& d) {
        *is_new |= d.epoch > epoch;
      },
      [is_new, done = std::move(done)](Errc, const std::string&) { done(*is_new); });
}

bool ShardMaker::follow(const std::map<int32_t, ShardDescription>& shards, uint64_t epoch) {
  const uint64_t now = shards.begin()->second.epoch;
  std::map<int32_t, int64_t> next_steps;  // of each replica, on the shard where it is least far
  for (const auto& [shard, d] : shards) {
    if (!d.serving || d.epoch != now || now < epoch) return false;
    for (const auto& [replica, step] : d.next_steps) {
      int64_t& least = next_steps.try_emplace(replica, step).first->second;
      least = std::min(least, step);
    }
  }
  try {
    table_.rule = aggregation_from_string(shards.begin()->second.rule);
  } catch (const Error&) {
    return false;
  }
  for (const auto& [shard, d] : shards) table_.shards.at(shard).door = d.door;
  table_.epoch = now;
  table_.rate_scale = shards.begin()->second.rate_scale;
  std::lock_guard lock(mutex_);
  followed_ = {std::move(next_steps), table_.rule};
  return true;
}

}  // namespace troupe
