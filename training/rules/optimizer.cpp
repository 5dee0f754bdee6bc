// The loops of the optimizers. Each rule is a formula of troupe/optimizer.hpp for one element, with
// the same letters; Each makes a loop of it, compiled for each instruction set.
#include "training/rules/optimizer.hpp"

#include <cmath>
#include <utility>

#include "devices/threads/isa.hpp"
#include "graph/optimizer.hpp"

namespace troupe {
namespace {

template <class T>
using Terms = OptimizerTerms<T>;

struct Sgd {
  static constexpr size_t accumulators = 0;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w) {
    w -= k.rate * g;
  }
};

struct Momentum {
  static constexpr size_t accumulators = 1;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& v) {
    v = k.momentum * v + g;
    w -= k.rate * v;
  }
};

struct Nesterov {
  static constexpr size_t accumulators = 1;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& v) {
    v = k.momentum * v + g;
    w -= k.rate * (g + k.momentum * v);
  }
};

struct Adagrad {
  static constexpr size_t accumulators = 1;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& a) {
    a += g * g;
    w -= k.rate * g / (std::sqrt(a) + k.epsilon);
  }
};

struct Adadelta {
  static constexpr size_t accumulators = 2;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& a, T& b) {
    a = k.keep1 * a + k.add1 * (g * g);
    const T d = g * std::sqrt((b + k.epsilon) / (a + k.epsilon));  // one root for two
    b = k.keep1 * b + k.add1 * (d * d);
    w -= k.rate * d;
  }
};

struct Rmsprop {
  static constexpr size_t accumulators = 1;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& a) {
    a = k.keep1 * a + k.add1 * (g * g);
    w -= k.rate * g / std::sqrt(a + k.epsilon);
  }
};

struct RmspropMomentum {
  static constexpr size_t accumulators = 2;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& a, T& v) {
    a = k.keep1 * a + k.add1 * (g * g);
    v = k.momentum * v + k.rate * g / std::sqrt(a + k.epsilon);
    w -= v;
  }
};

struct RmspropCentered {
  static constexpr size_t accumulators = 2;
  template <class T>
  static T change(const Terms<T>& k, T g, T& a, T& m) {
    a = k.keep1 * a + k.add1 * (g * g);
    m = k.keep1 * m + k.add1 * g;
    const T variance = a - m * m;  // negative by rounding only
    return k.rate * g / std::sqrt((variance < T{0} ? T{0} : variance) + k.epsilon);
  }
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& a, T& m) {
    w -= change(k, g, a, m);
  }
};

struct RmspropCenteredMomentum {
  static constexpr size_t accumulators = 3;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& a, T& m, T& v) {
    v = k.momentum * v + RmspropCentered::change(k, g, a, m);
    w -= v;
  }
};

// `rate` is already divided by 1 - beta1^t: one division and one square root per element remain.
struct Adam {
  static constexpr size_t accumulators = 2;
  template <class T>
  static T change(const Terms<T>& k, T g, T& m, T& v) {
    m = k.keep1 * m + k.add1 * g;
    v = k.keep2 * v + k.add2 * (g * g);
    return k.rate * m / (std::sqrt(v) * k.root + k.epsilon);
  }
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& m, T& v) {
    w -= change(k, g, m, v);
  }
};

struct Adamw {
  static constexpr size_t accumulators = 2;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& m, T& v) {
    w -= k.decay * w + Adam::change(k, g, m, v);
  }
};

// The direction of the change, before it is scaled; `k.rate` is 1 / (1 - beta1^t).
struct Lamb {
  template <class T>
  static T change(const Terms<T>& k, T w, T m, T v) {
    return k.rate * m / (std::sqrt(v) * k.root + k.epsilon) + k.decay * w;
  }
};

// Computes both cases of w and selects one: no branch.
struct Ftrl {
  static constexpr size_t accumulators = 2;
  template <class T>
  static void apply(const Terms<T>& k, T g, T& w, T& z, T& n) {
    const T before = std::sqrt(n);
    n += g * g;
    const T root = std::sqrt(n);
    z += g - (root - before) / k.rate * w;
    const T moved = (std::copysign(k.l1, z) - z) / ((k.beta + root) / k.rate + k.l2);
    w = std::abs(z) <= k.l1 ? T{0} : moved;
  }
};

// `to` may be `g` or `w`, so they are not __restrict.
template <class Rule>
struct Each {
  template <class T, class... Accumulators>
  static void run(Terms<T> k, int64_t n, const T* g, const T* w, T* to,
                  Accumulators*... accumulators) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      T x = w[i];
      Rule::apply(k, g[i], x, accumulators[i]...);
      to[i] = x;
    }
  }
};

template <class Rule, class T>
void loop(Terms<T> k, int64_t n, const OptimizerArrays<T>& a) {
  static_assert(Rule::accumulators <= kOptimizerAccumulatorsMax);
  [&]<size_t... s>(std::index_sequence<s...>) {
    in_isa<Each<Rule>>(k, n, a.gradient, a.before ? a.before : a.values, a.values,
                       a.accumulators[s]...);
  }
  (std::make_index_sequence<Rule::accumulators>());
}

template <class T>
using Loop = void (*)(Terms<T>, int64_t, const OptimizerArrays<T>&);

template <class T>
Loop<T> rmsprop_loop_of(const Optimizer& o) {
  if (o.centered)
    return o.momentum > 0 ? loop<RmspropCenteredMomentum, T> : loop<RmspropCentered, T>;
  return o.momentum > 0 ? loop<RmspropMomentum, T> : loop<Rmsprop, T>;
}

template <class T>
Loop<T> loop_of(const Optimizer& o) {
  if (o.kind == "sgd") return loop<Sgd, T>;
  if (o.kind == "momentum") return loop<Momentum, T>;
  if (o.kind == "nesterov") return loop<Nesterov, T>;
  if (o.kind == "adagrad") return loop<Adagrad, T>;
  if (o.kind == "adadelta") return loop<Adadelta, T>;
  if (o.kind == "rmsprop") return rmsprop_loop_of<T>(o);
  if (o.kind == "adam") return loop<Adam, T>;
  if (o.kind == "adamw") return loop<Adamw, T>;
  TROUPE_CHECK(o.kind == "ftrl", "optimizer ", o.kind, " was not checked");
  return loop<Ftrl, T>;
}

template <class T>
Terms<T> terms_of(const Optimizer& o, int64_t t, int64_t age) {
  const bool is_lamb = wants_whole_parameter(o);
  const bool is_adam = o.kind == "adam" || o.kind == "adamw" || is_lamb;
  const double rate = is_lamb ? 1 : learning_rate_at(o, t);
  const double keep1 = is_adam ? o.beta1 : o.rho;
  const double c1 = is_adam ? 1 - std::pow(o.beta1, static_cast<double>(age)) : 1;
  const double c2 = is_adam ? 1 - std::pow(o.beta2, static_cast<double>(age)) : 1;
  return {.rate = static_cast<T>(rate / c1),
          .momentum = static_cast<T>(o.momentum),
          .keep1 = static_cast<T>(keep1),
          .add1 = static_cast<T>(1 - keep1),
          .keep2 = static_cast<T>(o.beta2),
          .add2 = static_cast<T>(1 - o.beta2),
          .root = static_cast<T>(1 / std::sqrt(c2)),
          .epsilon = static_cast<T>(o.epsilon),
          .decay = static_cast<T>(rate * o.weight_decay),
          .beta = static_cast<T>(o.beta),
          .l1 = static_cast<T>(o.l1),
          .l2 = static_cast<T>(o.l2)};
}

}  // namespace

std::vector<std::string> optimizer_accumulators(const Optimizer& o) {
  if (o.kind == "sgd") return {};
  if (o.kind == "momentum" || o.kind == "nesterov") return {"momentum"};
  if (o.kind == "adagrad") return {"adagrad_a"};
  if (o.kind == "adadelta") return {"adadelta_a", "adadelta_b"};
  if (o.kind == "adam" || o.kind == "adamw") return {"adam_m", "adam_v"};
  if (o.kind == "lamb") return {"lamb_m", "lamb_v"};
  if (o.kind == "ftrl") return {"ftrl_z", "ftrl_n"};
  if (o.kind != "rmsprop") check_optimizer(o);  // throws and lists the known kinds
  std::vector<std::string> accumulators = {"rmsprop_a"};
  if (o.centered) accumulators.push_back("rmsprop_m");
  if (o.momentum > 0) accumulators.push_back("rmsprop_v");
  return accumulators;
}

template <class T>
OptimizerUpdate<T>::OptimizerUpdate(const Optimizer& optimizer, int64_t t, int64_t age)
    : loop_(loop_of<T>(optimizer)), terms_(terms_of<T>(optimizer, t, age)) {}

template <class T>
LambUpdate<T>::LambUpdate(const Optimizer& optimizer, int64_t t, int64_t age)
    : terms_(terms_of<T>(optimizer, t, age)), rate_(learning_rate_at(optimizer, t)) {}

template <class T>
void LambUpdate<T>::moments(int64_t n, const OptimizerArrays<T>& a) {
  constexpr int64_t kSums = 8;  // independent sums, so that the loop is vectorised
  const T* __restrict g = a.gradient;
  const T* __restrict w = a.before ? a.before : a.values;
  T* __restrict m = a.accumulators[0];
  T* __restrict v = a.accumulators[1];
  std::array<double, kSums> w_squared = {}, u_squared = {};
  const auto one = [&](int64_t i, size_t sum) {
    m[i] = terms_.keep1 * m[i] + terms_.add1 * g[i];
    v[i] = terms_.keep2 * v[i] + terms_.add2 * (g[i] * g[i]);
    const auto wi = static_cast<double>(w[i]);
    const auto ui = static_cast<double>(Lamb::change(terms_, w[i], m[i], v[i]));
    w_squared[sum] += wi * wi;
    u_squared[sum] += ui * ui;
  };
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (int64_t j = 0; j < kSums; ++j) one(i + j, static_cast<size_t>(j));
  for (int64_t j = 0; i + j < n; ++j) one(i + j, static_cast<size_t>(j));
  for (size_t j = 0; j < kSums; ++j) {
    values_squared_ += w_squared[j];
    change_squared_ += u_squared[j];
  }
}

template <class T>
void LambUpdate<T>::step(int64_t n, const OptimizerArrays<T>& a) const {
  const bool plain = values_squared_ == 0 || change_squared_ == 0;
  const T rate =
      static_cast<T>(plain ? rate_ : rate_ * std::sqrt(values_squared_ / change_squared_));
  const T* __restrict m = a.accumulators[0];
  const T* __restrict v = a.accumulators[1];
  const T* w = a.before ? a.before : a.values;
  T* to = a.values;
  TROUPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) to[i] = w[i] - rate * Lamb::change(terms_, w[i], m[i], v[i]);
}

template class LambUpdate<float>;
template class LambUpdate<double>;
template class OptimizerUpdate<float>;
template class OptimizerUpdate<double>;

}  // namespace troupe
