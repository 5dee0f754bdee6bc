// Codes gradients with what is left of those before.
#include "training/codecs/residuals.hpp"

#include "devices/threads/isa.hpp"
#include "graph/base/mutant.hpp"

namespace troupe {
namespace {

struct AddLoop {
  static void run(const float* a, const float* b, float* to, int64_t n) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = a[i] + b[i];
  }
};
struct SubtractLoop {  // b = a - b
  static void run(const float* a, float* b, int64_t n) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) b[i] = a[i] - b[i];
  }
};

}  // namespace

// Residuals of earlier epochs are of steps that are over, or that are done again without them.
std::shared_ptr<Residuals::Residual> Residuals::find(uint64_t epoch, const GradientKey& key) {
  std::lock_guard lock(mutex_);
  if (epoch < epoch_) return std::make_shared<Residual>();  // its push is refused as stale
  if (epoch > epoch_) residuals_.clear();
  epoch_ = epoch;
  auto& found = residuals_[{key.replica, std::string(key.parameter)}];
  if (!found) found = std::make_shared<Residual>();
  return found;
}

void Residuals::clear() {
  std::lock_guard lock(mutex_);
  residuals_.clear();
}

Residuals::Coded Residuals::code(uint64_t epoch, const Codec& codec, const Tensor& gradient,
                                 const GradientKey& key, const FlushPlan& plan,
                                 const MakeTensor& make) {
  const auto residual = find(epoch, key);
  std::lock_guard lock(residual->mutex);
  Residual& r = *residual;
  Tensor before;
  if (key.step == r.step) {
    before = mutant(Mutant::residual_of_newest) ? r.after : r.before;
  } else if (r.step >= 0 && key.step == r.step + 1) {
    before = r.after;
  } else if (key.step != plan.begin && !plan.flushes(key.step - 1) &&
             !mutant(Mutant::residual_begins_anew)) {
    return {.refused = detail::concat(
                "the residual of ", key.parameter, " of replica ", key.replica, " before step ",
                key.step,
                r.step < 0 ? " was lost with its process; all towers go back to the newest "
                             "checkpoint"
                           : " is that of another step: a parameter with the codec topk or sign "
                             "wants a gradient in each step; give it another codec"),
            .lost = r.step < 0};
  }
  Tensor sum = gradient;
  if (before.defined()) {
    sum = make(DType::f32, gradient.shape());
    in_isa<AddLoop>(gradient.data<float>(), before.data<float>(), sum.mutable_data<float>(),
                    sum.size());
  }
  r.step = key.step;
  r.before = before;
  r.after = {};
  if (plan.flushes(key.step)) return {sum};
  const Tensor codes = encode(codec, sum, key, make);
  if (!codes.defined()) return {sum};  // not finite, which the shard names, or too large for codes
  Tensor left = make(DType::f32, gradient.shape());
  decode(codec.kind, codes, 0, sum.size(), left);
  in_isa<SubtractLoop>(sum.data<float>(), left.mutable_data<float>(), left.size());
  r.after = left;
  return {codes, codec.kind};
}

}  // namespace troupe
