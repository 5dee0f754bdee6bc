// Implements training/optimizer.hpp: SGD, momentum (Polyak 1964) and Adam (Kingma and Ba 2015,
// algorithm 1).
#include "training/optimizer.hpp"

#include <cmath>

namespace troupe {
namespace {

struct Kind {
  std::string name;
  std::vector<std::string> slots;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"sgd", {}}, {"momentum", {"momentum"}}, {"adam", {"adam_m", "adam_v"}}};
  return all;
}

template <class T>
void apply_sgd(T learning_rate, int64_t n, const T* __restrict g, T* __restrict w) {
  for (int64_t i = 0; i < n; ++i) w[i] -= learning_rate * g[i];
}

template <class T>
void apply_momentum(T learning_rate, T momentum, int64_t n, const T* __restrict g, T* __restrict w,
                    T* __restrict v) {
  for (int64_t i = 0; i < n; ++i) {
    v[i] = momentum * v[i] + g[i];
    w[i] -= learning_rate * v[i];
  }
}

// With c1 = 1 - beta1^t and c2 = 1 - beta2^t:  rate = learning_rate / c1  and  root = 1 / sqrt(c2),
// which leaves one division and one square root per element.
template <class T>
struct AdamTerms {
  T beta1, one_minus_beta1, beta2, one_minus_beta2, rate, root, epsilon;
};

template <class T>
AdamTerms<T> adam_terms(const Optimizer& o, int64_t t) {
  const double c1 = 1 - std::pow(o.beta1, static_cast<double>(t));
  const double c2 = 1 - std::pow(o.beta2, static_cast<double>(t));
  return {static_cast<T>(o.beta1),
          static_cast<T>(1 - o.beta1),
          static_cast<T>(o.beta2),
          static_cast<T>(1 - o.beta2),
          static_cast<T>(o.learning_rate / c1),
          static_cast<T>(1 / std::sqrt(c2)),
          static_cast<T>(o.epsilon)};
}

template <class T>
void apply_adam(const AdamTerms<T>& a, int64_t n, const T* __restrict g, T* __restrict w,
                T* __restrict m, T* __restrict v) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] = a.beta1 * m[i] + a.one_minus_beta1 * g[i];
    v[i] = a.beta2 * v[i] + a.one_minus_beta2 * (g[i] * g[i]);
    w[i] -= a.rate * m[i] / (std::sqrt(v[i]) * a.root + a.epsilon);
  }
}

}  // namespace

const std::vector<std::string>& optimizer_slots(const Optimizer& optimizer) {
  for (const Kind& kind : kinds())
    if (kind.name == optimizer.kind) return kind.slots;
  throw Error(Errc::invalid_argument, "there is no optimizer '", optimizer.kind,
              "'; known are sgd, momentum and adam");
}

std::string describe(const Optimizer& o) {
  const std::string begin = detail::concat(o.kind, "(learning rate ", o.learning_rate);
  if (o.kind == "momentum") return detail::concat(begin, ", momentum ", o.momentum, ")");
  if (o.kind != "adam") return begin + ")";
  return detail::concat(begin, ", beta1 ", o.beta1, ", beta2 ", o.beta2, ", epsilon ", o.epsilon,
                        ")");
}

void check_optimizer(const Optimizer& o) {
  optimizer_slots(o);
  const auto refuse = [&](const char* what, double found, const char* right) {
    throw Error(Errc::invalid_argument, "optimizer ", o.kind, " has ", what, " ", found, "; wants ",
                right);
  };
  if (!std::isfinite(o.learning_rate)) refuse("learning rate", o.learning_rate, "a finite number");
  if (o.kind == "momentum" && !(o.momentum >= 0 && o.momentum < 1))
    refuse("momentum", o.momentum, "a number in [0, 1)");
  if (o.kind != "adam") return;
  if (!(o.beta1 >= 0 && o.beta1 < 1)) refuse("beta1", o.beta1, "a number in [0, 1)");
  if (!(o.beta2 >= 0 && o.beta2 < 1)) refuse("beta2", o.beta2, "a number in [0, 1)");
  if (!(o.epsilon > 0 && std::isfinite(o.epsilon)))
    refuse("epsilon", o.epsilon, "a positive number");
}

template <class T>
void apply_optimizer(const Optimizer& o, int64_t t, int64_t n, const OptimizerArrays<T>& a) {
  TROUPE_CHECK(t >= 1, "updates count from 1, got ", t);
  const T rate = static_cast<T>(o.learning_rate);
  if (o.kind == "sgd") return apply_sgd(rate, n, a.gradient, a.values);
  if (o.kind == "momentum")
    return apply_momentum(rate, static_cast<T>(o.momentum), n, a.gradient, a.values, a.slots[0]);
  TROUPE_CHECK(o.kind == "adam", "optimizer ", o.kind, " was not checked");
  apply_adam(adam_terms<T>(o, t), n, a.gradient, a.values, a.slots[0], a.slots[1]);
}

template void apply_optimizer<float>(const Optimizer&, int64_t, int64_t,
                                     const OptimizerArrays<float>&);
template void apply_optimizer<double>(const Optimizer&, int64_t, int64_t,
                                      const OptimizerArrays<double>&);

}  // namespace troupe
