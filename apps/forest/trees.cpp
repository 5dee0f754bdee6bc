// The kernels: histograms for nodes with many records, sorting for those with few.
#include "apps/forest/trees.hpp"

#include <algorithm>
#include <array>
#include <numeric>

using namespace troupe;

namespace {

constexpr int64_t kBins = 256, kSorted = 96;  // so many records are sorted rather than counted

// splitmix64 (Steele et al. 2014): the same numbers with every compiler.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  int64_t below(int64_t n) {  // uniform in [0, n); n is at most 2^32
    return static_cast<int64_t>((next() >> 32) * static_cast<uint64_t>(n) >> 32);
  }

 private:
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t state_;
};

struct Record {
  int32_t row;
  uint16_t weight;  // how often it is in the sample
  uint8_t label;
};

struct Split {
  double score = -1;  // sum of n_c^2 / n over both sides; greater is purer
  int64_t feature = -1, limit = 0;
};

// Counts of the classes on both sides of a split that moves from the first bin to the last.
struct Sides {
  std::vector<double> left, right;
  double left_sum = 0, right_sum = 0, left_squares = 0, right_squares = 0;

  void begin(const std::vector<double>& counts) {
    std::fill(left.begin(), left.end(), 0.0);
    right = counts;
    left_sum = left_squares = right_sum = right_squares = 0;
    for (const double c : counts) right_sum += c, right_squares += c * c;
  }
  void move(size_t label, double weight) {
    left_squares += weight * (2 * left[label] + weight);
    right_squares += weight * (weight - 2 * right[label]);
    left[label] += weight, right[label] -= weight;
    left_sum += weight, right_sum -= weight;
  }
  void try_at(int64_t feature, int64_t bin, int64_t next_bin, int64_t leaf_min, Split& best) const {
    if (left_sum < static_cast<double>(leaf_min) || right_sum < static_cast<double>(leaf_min))
      return;
    const double score = left_squares / left_sum + right_squares / right_sum;
    if (score > best.score) best = {score, feature, (bin + next_bin) / 2};
  }
};

class Grower {
 public:
  Grower(const uint8_t* bins, const int64_t* labels, int64_t n, int64_t features, int64_t seed,
         const TreeOptions& options)
      : bins_(bins),
        n_(n),
        options_(options),
        random_(static_cast<uint64_t>(seed)),
        gain(static_cast<size_t>(features)) {
    std::vector<uint16_t> weights(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) ++weights[static_cast<size_t>(random_.below(n))];
    for (int64_t i = 0; i < n; ++i)
      if (const uint16_t w = weights[static_cast<size_t>(i)])
        records_.push_back({static_cast<int32_t>(i), w, static_cast<uint8_t>(labels[i])});
    const auto classes = static_cast<size_t>(options.classes);
    counts_.resize(classes), sides_.left.resize(classes);
    histogram_.resize(static_cast<size_t>(kBins) * classes);
    order_.resize(static_cast<size_t>(features));
    std::iota(order_.begin(), order_.end(), 0);
  }

  void grow() {
    add_node();
    std::vector<Work> stack = {{0, static_cast<int64_t>(records_.size()), 0}};
    while (!stack.empty()) {
      const Work work = stack.back();
      stack.pop_back();
      const Split split = best_split(work);
      if (split.feature < 0) continue;
      const uint8_t* const column = bins_ + split.feature * n_;
      const auto middle =
          std::stable_partition(records_.begin() + work.begin, records_.begin() + work.end,
                                [&](const Record& r) { return column[r.row] <= split.limit; });
      const int64_t at = middle - records_.begin(), child = static_cast<int64_t>(feature.size());
      const auto node = static_cast<size_t>(work.node);
      feature[node] = static_cast<int32_t>(split.feature);
      limit[node] = static_cast<int32_t>(split.limit);
      left[node] = static_cast<int32_t>(child);
      add_node(), add_node();
      stack.push_back({at, work.end, child + 1});
      stack.push_back({work.begin, at, child});
    }
  }

  // The tree.
  std::vector<int32_t> feature, limit, left;
  std::vector<float> share;

 private:
  struct Work {  // records [begin, end) belong to the node
    int64_t begin, end, node;
  };

  void add_node() {
    feature.push_back(-1), limit.push_back(0), left.push_back(0);
    share.resize(share.size() + static_cast<size_t>(options_.classes));
  }

  // Sets the node's shares.
  Split best_split(const Work& work) {
    std::fill(counts_.begin(), counts_.end(), 0.0);
    for (int64_t i = work.begin; i < work.end; ++i) {
      const Record& r = records_[static_cast<size_t>(i)];
      counts_[r.label] += r.weight;
    }
    double sum = 0, squares = 0;
    for (const double c : counts_) sum += c, squares += c * c;
    for (size_t c = 0; c < counts_.size(); ++c)
      share[static_cast<size_t>(work.node) * counts_.size() + c] =
          static_cast<float>(counts_[c] / sum);
    Split best;
    if (squares == sum * sum || sum < 2 * static_cast<double>(options_.leaf_min)) return best;
    // Features in random order; more than `tries` of them only while all were constant here.
    const auto features = static_cast<int64_t>(order_.size());
    for (int64_t tried = 0; tried < features && (tried < options_.tries || best.feature < 0);
         ++tried) {
      std::swap(order_[static_cast<size_t>(tried)],
                order_[static_cast<size_t>(tried + random_.below(features - tried))]);
      const int64_t f = order_[static_cast<size_t>(tried)];
      if (work.end - work.begin <= kSorted)
        try_sorted(work, f, best);
      else
        try_histogram(work, f, best);
    }
    if (best.feature >= 0) gain[static_cast<size_t>(best.feature)] += best.score - squares / sum;
    return best;
  }

  void try_sorted(const Work& work, int64_t f, Split& best) {
    const uint8_t* const column = bins_ + f * n_;
    std::array<uint32_t, kSorted> keys;  // bin, then the place in the node
    const auto m = static_cast<size_t>(work.end - work.begin);
    for (size_t i = 0; i < m; ++i)
      keys[i] = uint32_t{column[records_[static_cast<size_t>(work.begin) + i].row]} << 8 |
                static_cast<uint32_t>(i);
    std::sort(keys.begin(), keys.begin() + m);
    if (keys[0] >> 8 == keys[m - 1] >> 8) return;
    sides_.begin(counts_);
    for (size_t i = 0; i + 1 < m; ++i) {
      const Record& r = records_[static_cast<size_t>(work.begin) + (keys[i] & 0xff)];
      sides_.move(r.label, r.weight);
      if (keys[i] >> 8 != keys[i + 1] >> 8)
        sides_.try_at(f, keys[i] >> 8, keys[i + 1] >> 8, options_.leaf_min, best);
    }
  }

  void try_histogram(const Work& work, int64_t f, Split& best) {
    const uint8_t* const column = bins_ + f * n_;
    const size_t classes = counts_.size();
    std::array<uint32_t, kBins> used = {};
    for (int64_t i = work.begin; i < work.end; ++i) {
      const Record& r = records_[static_cast<size_t>(i)];
      const size_t bin = column[r.row];
      if (used[bin]++ == 0)
        std::fill_n(histogram_.begin() + static_cast<int64_t>(bin * classes), classes, 0u);
      histogram_[bin * classes + r.label] += r.weight;
    }
    sides_.begin(counts_);
    int64_t before = -1;
    for (int64_t bin = 0; bin < kBins; ++bin) {
      if (used[static_cast<size_t>(bin)] == 0) continue;
      if (before >= 0) sides_.try_at(f, before, bin, options_.leaf_min, best);
      const uint32_t* const counts = histogram_.data() + static_cast<size_t>(bin) * classes;
      for (size_t c = 0; c < classes; ++c)
        if (counts[c]) sides_.move(c, counts[c]);
      before = bin;
    }
  }

  const uint8_t* const bins_;
  const int64_t n_;
  const TreeOptions options_;
  Random random_;
  std::vector<Record> records_;
  std::vector<double> counts_;
  Sides sides_;
  std::vector<uint32_t> histogram_;  // [bins, classes]; rows that are not used hold anything
  std::vector<int32_t> order_;       // features

 public:
  std::vector<double> gain;
};

template <class T>
void give(KernelContext& ctx, int output, const Shape& shape, const std::vector<T>& values) {
  std::copy(values.begin(), values.end(), ctx.output(output, shape).template mutable_data<T>());
}

void grow(KernelContext& ctx) {
  const Tensor bins = ctx.input(0), labels = ctx.input(1);
  const TreeOptions options{ctx.attr<int64_t>("classes"), ctx.attr<int64_t>("tries"),
                            ctx.attr<int64_t>("leaf_min")};
  const int64_t n = bins.dim(1);
  if (n < 1 || n != labels.dim(0) || n > int64_t{1} << 31)
    throw ctx.error("wants 1 to 2^31 records with a label each, got ", bins.shape(), " and ",
                    labels.shape());
  for (const int64_t label : labels.values<int64_t>())
    if (label < 0 || label >= options.classes)
      throw ctx.error("label ", label, " is not in [0, ", options.classes, ")");
  Grower tree(bins.data<uint8_t>(), labels.data<int64_t>(), n, bins.dim(0),
              ctx.input(2).item<int64_t>(), options);
  tree.grow();
  const auto nodes = static_cast<int64_t>(tree.feature.size());
  give(ctx, 0, {nodes}, tree.feature);
  give(ctx, 1, {nodes}, tree.limit);
  give(ctx, 2, {nodes}, tree.left);
  give(ctx, 3, {nodes, options.classes}, tree.share);
  give(ctx, 4, {bins.dim(0)}, tree.gain);
}

void apply(KernelContext& ctx) {
  const Tensor bins = ctx.input(0), share = ctx.input(4);
  const auto *feature = ctx.input(1).data<int32_t>(), *limit = ctx.input(2).data<int32_t>(),
             *left = ctx.input(3).data<int32_t>();
  const int64_t n = bins.dim(0), features = bins.dim(1), classes = share.dim(1),
                nodes = share.dim(0);
  for (int64_t i = 0; i < nodes; ++i)  // then every walk ends, inside of the tree
    if (feature[i] >= features || (feature[i] >= 0 && (left[i] <= i || left[i] + 1 >= nodes)))
      throw ctx.error("node ", i, " of the tree asks for feature ", feature[i], " of ", features,
                      " and node ", left[i], " of ", nodes);
  float* y = ctx.output(0, {n, classes}).mutable_data<float>();
  for (int64_t i = 0; i < n; ++i) {
    const uint8_t* const x = bins.data<uint8_t>() + i * features;
    int64_t node = 0;
    while (feature[node] >= 0) node = left[node] + (x[feature[node]] > limit[node]);
    y = std::copy_n(share.data<float>() + node * classes, classes, y);
  }
}

Op grow_op() {
  return {
      .name = "GrowTree",
      .inputs = {"bins", "labels", "seed"},
      .outputs = {"feature", "limit", "left", "share", "gain"},
      .attrs = {{"classes", AttrKind::integer},
                {"tries", AttrKind::integer},
                {"leaf_min", AttrKind::integer}},
      .infer_dtypes =
          [](const InferContext& ctx) {
            if (ctx.dtype(0) != DType::u8 || ctx.dtype(1) != DType::i64 ||
                ctx.dtype(2) != DType::i64)
              throw ctx.error("wants bins of u8, labels and seed of i64");
            return std::vector{DType::i32, DType::i32, DType::i32, DType::f32, DType::f64};
          },
      .infer_shapes =
          [](const InferContext& ctx) {
            if (ctx.input(0).ndim() != 2 || ctx.input(1).ndim() != 1 || ctx.input(2).ndim() != 0)
              throw ctx.error("wants bins [features, n], labels [n] and a scalar seed");
            const int64_t classes = ctx.attr<int64_t>("classes");
            if (classes < 1 || classes > 255 || ctx.attr<int64_t>("tries") < 1 ||
                ctx.attr<int64_t>("leaf_min") < 1)
              throw ctx.error("wants 1 to 255 classes, tries and leaf_min of at least 1");
            return std::vector<Shape>{{-1}, {-1}, {-1}, {-1, classes}, {ctx.input(0)[0]}};
          },
      .no_gradient = "a tree is not a smooth function of its records",
      .kernels = {{DeviceKind::cpu, DType::none, grow}},
      .value_shapes = true};
}

Op apply_op() {
  return {.name = "ApplyTree",
          .inputs = {"bins", "feature", "limit", "left", "share"},
          .outputs = {"y"},
          .infer_dtypes =
              [](const InferContext& ctx) {
                for (int i = 1; i < 4; ++i)
                  if (ctx.dtype(i) != DType::i32)
                    throw ctx.error("wants the nodes of a tree in i32");
                if (ctx.dtype(0) != DType::u8 || ctx.dtype(4) != DType::f32)
                  throw ctx.error("wants bins of u8 and shares of f32");
                return std::vector{DType::f32};
              },
          .infer_shapes =
              [](const InferContext& ctx) {
                if (ctx.input(0).ndim() != 2 || ctx.input(4).ndim() != 2)
                  throw ctx.error("wants bins [n, features] and shares [nodes, classes]");
                for (int i = 1; i < 4; ++i)
                  if (ctx.input(i).ndim() != 1 || !may_equal(ctx.input(i)[0], ctx.input(4)[0]))
                    throw ctx.error("wants one value for each node");
                return std::vector<Shape>{{ctx.input(0)[0], ctx.input(4)[1]}};
              },
          .no_gradient = "a tree is not a smooth function of its records",
          .kernels = {{DeviceKind::cpu, DType::none, apply}}};
}

}  // namespace

std::vector<Op> tree_ops() { return {grow_op(), apply_op()}; }

Tree grow_tree(Output bins, Output labels, Output seed, const TreeOptions& options, Origin at) {
  const Output first = bins.graph->add({.op = "GrowTree",
                                        .inputs = {bins, labels, seed},
                                        .attrs = {{"classes", options.classes},
                                                  {"tries", options.tries},
                                                  {"leaf_min", options.leaf_min}}},
                                       at);
  const auto output = [&](int32_t i) { return Output{first.graph, first.node, i}; };
  return {first, output(1), output(2), output(3), output(4)};
}

Output apply_tree(Output bins, const Tree& tree, Origin at) {
  return bins.graph->add(
      {.op = "ApplyTree", .inputs = {bins, tree.feature, tree.limit, tree.left, tree.share}}, at);
}

#ifdef TROUPE_FOREST_PLUGIN
namespace {
void add_ops(Registry& ops) {
  for (Op& op : tree_ops()) ops.add(std::move(op));
}
}  // namespace
TROUPE_PLUGIN(add_ops)
#endif
