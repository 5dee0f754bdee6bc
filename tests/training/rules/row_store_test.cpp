// RowStore against a plain map of rows, with random updates, reads, images and restores.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "devices/memory/pool.hpp"
#include "tests/support/optimizers.hpp"
#include "training/rules/optimizer.hpp"
#include "training/rules/row_store.hpp"

namespace troupe {
namespace {

using Values = std::vector<float>;

struct ModelRow {
  Values values;
  std::vector<Values> accumulators;
  int64_t touched = 0;
};

// A table as a map: what RowStore says, without its blocks, lists and hashes.
class ModelTable {
 public:
  ModelTable(const TableOptions& options, const RowLayout& layout)
      : options_(options), layout_(layout), first_(options.first, "table") {}

  Values read(int64_t row) const {
    const auto found = rows.find(row);
    return found == rows.end() ? fresh(row).values : found->second.values;
  }
  void update(const Optimizer& optimizer, const Gradient& g, int64_t version) {
    before = rows;
    const OptimizerUpdate<float> update(optimizer, version, version);
    const float* gradient = g.values.data<float>();
    for (const int64_t index : g.rows()) {
      ModelRow& row = rows.try_emplace(index, fresh(index)).first->second;
      row.touched = version;
      OptimizerArrays<float> arrays;
      arrays.gradient = gradient;
      arrays.values = row.values.data();
      for (size_t k = 0; k < row.accumulators.size(); ++k)
        arrays.accumulators[k] = row.accumulators[k].data();
      update(layout_.width, arrays);
      gradient += layout_.width;
    }
    forget(version);
  }
  void forget(int64_t version) {
    if (options_.forget_after > 0)
      std::erase_if(rows, [&](const auto& row) {
        return version - row.second.touched >= options_.forget_after;
      });
    if (options_.rows_max == 0) return;
    std::map<int64_t, std::set<std::pair<int64_t, int64_t>>> groups;  // by touch, then row
    for (const auto& [row, state] : rows) groups[row_group(row)].insert({state.touched, row});
    for (auto& [group, oldest_first] : groups) {
      const int64_t most =
          options_.rows_max / kRowGroups + (group < options_.rows_max % kRowGroups ? 1 : 0);
      while (static_cast<int64_t>(oldest_first.size()) > most)
        rows.erase(oldest_first.extract(oldest_first.begin()).value().second);
    }
  }

  std::map<int64_t, ModelRow> rows, before;

 private:
  ModelRow fresh(int64_t row) const {
    const auto width = static_cast<size_t>(layout_.width);
    ModelRow out{Values(width), {}, 0};
    first_.fill(row, layout_.width, out.values.data());
    out.accumulators.assign(layout_.accumulators.size(), Values(width));
    return out;
  }

  TableOptions options_;
  RowLayout layout_;
  FirstRowValues first_;
};

Values values_of(RowStore& store, int64_t row, bool before = false) {
  const Tensor read = store.take(std::span(&row, 1), before);
  return {read.data<float>(), read.data<float>() + read.size()};
}

void check_same(const ModelTable& model, RowStore& store, const RowImage& image) {
  const std::vector<const RowRecord*> records = image.sorted();
  REQUIRE(records.size() == model.rows.size());
  CHECK(store.use().rows == static_cast<int64_t>(records.size()));
  auto row = model.rows.begin();
  for (const RowRecord* r : records) {
    REQUIRE(r->row == row->first);
    REQUIRE(r->touched == row->second.touched);
    const auto same = [&](size_t k, const Values& wanted) {
      const auto* at = reinterpret_cast<const float*>(r->part(image.layout, k));
      return Values(at, at + image.layout.width) == wanted;
    };
    CHECK(same(0, row->second.values));
    for (size_t k = 0; k < row->second.accumulators.size(); ++k)
      CHECK(same(k + 1, row->second.accumulators[k]));
    ++row;
  }
}

Gradient gradient_of(int64_t width, const std::vector<int64_t>& rows, const Values& values) {
  const auto n = static_cast<int64_t>(rows.size());
  return {Tensor::of<float>(values, Shape{n, width}), Tensor::of<int64_t>(rows, Shape{n})};
}

RowLayout layout_of(const Optimizer& optimizer, int64_t width) {
  return {DType::f32, width, optimizer_accumulators(optimizer)};
}

}  // namespace

TEST_CASE("a store has the rows, touches and bits of a plain map, whatever was read or saved") {
  const std::vector<TableOptions> policies = {
      {},
      {.first = {FirstRows::Kind::uniform, -1, 1, 7}, .forget_after = 5},
      {.first = {FirstRows::Kind::normal, 0, 0.5, 3}, .rows_max = 100},
      {.first = {FirstRows::Kind::constant, 2}, .forget_after = 9, .rows_max = 200}};
  for (size_t policy = 0; policy < policies.size(); ++policy)
    for (const Optimizer& optimizer : every_optimizer(0.1)) {
      if (wants_whole_parameter(optimizer)) continue;
      for (const int64_t width : {1, 5, 70}) {
        CAPTURE(policy);
        CAPTURE(describe(optimizer));
        CAPTURE(width);
        const RowLayout layout = layout_of(optimizer, width);
        ModelTable model(policies[policy], layout);
        auto store = std::make_shared<RowStore>("table", policies[policy], layout, ShardMemory{});
        std::mt19937_64 random(policy * 100 + static_cast<uint64_t>(width));
        std::vector<std::pair<RowImage, ModelTable>> held;
        for (int64_t version = 1; version <= 40; ++version) {
          std::vector<int64_t> rows;
          std::set<int64_t> once;
          for (uint64_t i = 0; i < 3 + random() % 150; ++i) {
            const auto row = static_cast<int64_t>((random() % 400) * (uint64_t{1} << 40));
            if (optimizer.kind == "sgd" || once.insert(row).second) rows.push_back(row);
          }
          Values gradient(rows.size() * static_cast<size_t>(width));
          for (float& x : gradient) x = static_cast<float>(random() % 9) - 4;
          const Gradient g = gradient_of(width, rows, gradient);
          store->reserve(g.rows());
          store->update(optimizer, g, version, version, /*before=*/true);
          model.update(optimizer, g, version);
          if (version % 8 == 0) {
            store->pass(++version, true);
            model.before = model.rows;
            model.forget(version);
          }
          const auto any = static_cast<int64_t>((random() % 400) * (uint64_t{1} << 40));
          CHECK(values_of(*store, any) == model.read(any));
          ModelTable old(policies[policy], layout);
          old.rows = model.before;
          CHECK(values_of(*store, any, true) == old.read(any));
          if (version % 10 == 3) held.emplace_back(store->image(), model);
          if (version % 13 == 4) store = store->copy();  // as a restore does
        }
        check_same(model, *store, store->image());
        for (auto& [image, then] : held) {  // later updates have not changed them
          auto again = std::make_shared<RowStore>("table", policies[policy], layout, ShardMemory{});
          again->restore(image);
          check_same(then, *again, image);
        }
      }
    }
}

TEST_CASE("first values are a function of name, seed, row and column, in their range") {
  const auto fill = [](const FirstRows& rows, std::string_view table, int64_t row) {
    std::vector<double> out(3);
    FirstRowValues(rows, table).fill(row, 3, out.data());
    return out;
  };
  const FirstRows uniform{FirstRows::Kind::uniform, 2, 3, 1}, normal{FirstRows::Kind::normal, 1, 2};
  std::set<double> seen;
  double sum = 0, squares = 0;
  for (int64_t row = 0; row < 4000; ++row)
    for (const double x : fill(normal, "a", row << 41)) sum += x, squares += x * x;
  for (int64_t row : {int64_t{0}, int64_t{1}, int64_t{1} << 32, int64_t{1} << 55})
    for (const double x : fill(uniform, "a", row)) {
      CHECK(x >= 2);
      CHECK(x < 3);
      CHECK(seen.insert(x).second);
    }
  CHECK(std::abs(sum / 12000 - 1) < 0.1);
  CHECK(std::abs(squares / 12000 - 5) < 0.3);
  CHECK(fill(uniform, "a", 5) == fill(uniform, "a", 5));
  CHECK(fill(uniform, "a", 5) != fill(uniform, "b", 5));
  CHECK(fill(uniform, "a", 5) != fill({FirstRows::Kind::uniform, 2, 3, 2}, "a", 5));
}

TEST_CASE("without room a reservation says which table, rows and bytes, and changes nothing") {
  PoolMemory pool("cpu:0", int64_t{2} << 20);
  RowStore store("emb", {}, layout_of(adagrad(), 64), {.values = &pool});
  std::vector<int64_t> rows;
  const auto update = [&](int64_t version) {
    store.reserve(rows);
    store.update(adagrad(), gradient_of(64, rows, Values(rows.size() * 64, 1)), version, version,
                 false);
  };
  for (int64_t i = 0; i < 1000; ++i) rows.push_back(i);
  update(1);
  const Values kept = values_of(store, 7);
  rows.clear();
  for (int64_t i = 0; i < 10'000; ++i) rows.push_back(500 + i);
  std::string text;
  try {
    store.reserve(rows);
  } catch (const Error& e) {
    CHECK(e.code() == Errc::out_of_memory);
    text = e.what();
  }
  CHECK(text.find("table emb has 1000 rows in ") != text.npos);
  CHECK(text.find("9500 new rows of 528 bytes") != text.npos);
  CHECK(text.find("TableOptions::rows_max") != text.npos);
  CHECK(values_of(store, 7) == kept);
  rows.assign({3, 900, 77});  // rows that are there want no room
  update(2);
  CHECK(store.use().rows == 1000);
  CHECK(pool.stats().used_bytes >= store.use().bytes);
}

}  // namespace troupe
