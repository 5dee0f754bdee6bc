// Candidate samplers: the checks of attributes, shapes and counts, documented in
// ops/random/candidates.hpp.
#include "ops/random/candidates.hpp"

namespace troupe {

std::vector<AttrSpec> candidate_attrs(std::vector<AttrSpec> attrs) {
  attrs.push_back({"count", AttrKind::integer});
  attrs.push_back({"unique", AttrKind::boolean, true});
  return with_random_attrs(std::move(attrs));
}

Attrs candidate_node_attrs(int64_t count, const CandidateOptions& options) {
  return {{"count", count}, {"unique", options.unique}, {"seed", options.seed}};
}

Candidates to_candidates(Output first) {
  const auto outputs = all_outputs(first);
  return {outputs[0], outputs[1], outputs[2]};
}

void check_candidate_attrs(const InferContext& ctx) {
  check_random_attrs(ctx);
  const int64_t count = ctx.attr<int64_t>("count");
  if (count < 0) throw ctx.error("wants a count of at least 0 candidates, got ", count);
}

std::vector<Shape> candidate_shapes(const InferContext& ctx, const Shape& true_ids) {
  const Shape drawn{ctx.attr<int64_t>("count")};
  return {drawn, true_ids, drawn};
}

void check_candidate_count(const KernelContext& ctx, int64_t classes_to_draw) {
  const int64_t count = ctx.attr<int64_t>("count");
  if (count > classes_to_draw && (ctx.attr<bool>("unique") || classes_to_draw == 0))
    throw ctx.error("cannot draw ", count, " unique candidates of ", classes_to_draw,
                    " classes; ask for fewer, or not for unique ones");
}

}  // namespace troupe
