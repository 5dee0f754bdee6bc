// A service outside the tree: two independent runtimes in one process train with the installed
// headers and library, one of them on the service's own CAF actor system. An error names this file.
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <thread>

#include "troupe/caf.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace {

// Learns y = slope * x; returns the learned slope.
float learn(troupe::Graph& graph, troupe::Session& session, float slope) {
  using namespace troupe;
  const Output x = placeholder(graph, DType::f32, {-1, 1}, "x");
  const Output y = placeholder(graph, DType::f32, {-1, 1}, "y");
  const Output w = parameter("w", fill(graph, {1, 1}, 0));
  const Output update = minimize(reduce_mean(square(matmul(x, w) - y)), sgd(0.1));
  for (int i = 0; i < 200; ++i)
    session.run({update}, {{x, Tensor::of<float>({1, 2}, {2, 1})},
                           {y, Tensor::of<float>({slope, 2 * slope}, {2, 1})}});
  return session.run({w})[0].item<float>();
}

bool near(float got, float want) {
  if (std::fabs(got - want) < 1e-3f) return true;
  std::fprintf(stderr, "learned %f, expected %f\n", got, want);
  return false;
}

}  // namespace

int main() {
  troupe::Graph first, second;
  caf::actor_system_config config;
  caf::actor_system system(config);
  bool good = true;
  {
    troupe::Session one = troupe::Session::local(first);
    troupe::Session two = troupe::local_session(second, system);
    float learned = 0;
    std::thread other([&] { learned = learn(first, one, 3); });
    good = near(learn(second, two, -2), -2) && good;
    other.join();
    good = near(learned, 3) && good;
  }
  try {
    const troupe::Output x = troupe::placeholder(first, troupe::DType::f32, {2, 3}, "bad");
    troupe::matmul(x, x);
    good = false;
  } catch (const troupe::Error& error) {
    if (std::string(error.what()).find("main.cpp:") == std::string::npos) {
      std::fprintf(stderr, "no origin in: %s\n", error.what());
      good = false;
    }
  }
  return good ? 0 : 1;
}
