// Shared by candidate samplers: classes drawn for a sampled loss, and the expected count of each
// class among them (Jean et al. 2015; Mnih and Teh 2012).
//   true_ids: any shape, i32 or i64, each in [0, classes)
//   ids: [count], i64   true_expected: the shape of true_ids   expected: [count]
// Draw t uses number t of the stream (RandomNumbers of ops/random/random.hpp). If `unique`, a class
// that was drawn before is rejected and drawn again, and the expected count of a class of
// probability p is 1 - (1 - p)^draws, where draws includes the rejected ones; otherwise it is p *
// count.
#pragma once

#include <cmath>
#include <unordered_set>

#include "ops/support/indices.hpp"
#include "ops/random/random.hpp"
#include "troupe/ops.hpp"

namespace troupe {

std::vector<AttrSpec> candidate_attrs(std::vector<AttrSpec> attrs);
Attrs candidate_node_attrs(int64_t count, const CandidateOptions& options);
Candidates to_candidates(Output first);
// Throws: Error if an attribute is out of range.
void check_candidate_attrs(const InferContext& ctx);
std::vector<Shape> candidate_shapes(const InferContext& ctx, const Shape& true_ids);
// Throws: Error if more distinct classes are wanted than there are.
void check_candidate_count(const KernelContext& ctx, int64_t classes_to_draw);

// Limit of draws for unique classes, a minute of work; beyond it, the missing classes are too
// unlikely.
constexpr uint64_t kDrawsMax = uint64_t{1} << 30;

// Fills ids; returns the number of draws. D::at(u), with u in [0, 1), returns a class.
template <class D>
uint64_t draw_candidates(KernelContext& ctx, const D& distribution, std::vector<int64_t>& ids) {
  RandomNumbers random(random_stream(ctx));
  if (!ctx.attr<bool>("unique")) {
    for (size_t t = 0; t < ids.size(); ++t) ids[t] = distribution.at(random.unit(t));
    return ids.size();
  }
  std::unordered_set<int64_t> seen;
  uint64_t draws = 0;
  for (int64_t& id : ids) {
    do {
      if (draws == kDrawsMax)
        throw ctx.error("found only ", seen.size(), " different classes in ", draws,
                        " draws; ask for fewer, or not for unique ones");
      id = distribution.at(random.unit(draws++));
    } while (!seen.insert(id).second);
  }
  return draws;
}

// D::probability(id): the probability of a class. T: the type of the expected counts.
template <class T, class D>
void run_candidates(KernelContext& ctx, const Tensor& true_ids, int64_t classes,
                    const D& distribution) {
  const auto count = static_cast<size_t>(ctx.attr<int64_t>("count"));
  const bool unique = ctx.attr<bool>("unique");
  with_indices(true_ids, [&](const auto* given) {
    const int64_t n = true_ids.size();
    check_indices(ctx, given, n, classes);
    std::vector<int64_t> ids(count);
    const double draws = static_cast<double>(draw_candidates(ctx, distribution, ids));
    const auto expected = [&](int64_t id) {
      const double p = distribution.probability(id);
      return static_cast<T>(unique ? -std::expm1(draws * std::log1p(-p)) : draws * p);
    };
    int64_t* drawn = ctx.output(0).mutable_data<int64_t>();
    T* of_true = ctx.output(1, true_ids.shape()).template mutable_data<T>();
    T* of_drawn = ctx.output(2).mutable_data<T>();
    std::copy(ids.begin(), ids.end(), drawn);
    for (int64_t i = 0; i < n; ++i) of_true[i] = expected(static_cast<int64_t>(given[i]));
    for (const int64_t id : ids) *of_drawn++ = expected(id);
  });
}

}  // namespace troupe
