// SmallNetwork: a loss of n, h0 [1, 3], w [3, 3] and u, whose loop or function is compared with the
// same network written out, and with central differences.
#pragma once

#include <initializer_list>
#include <vector>

#include "tests/support/central_differences.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/recursion.hpp"
#include "troupe/session.hpp"

namespace troupe {

struct SmallNetwork {
  explicit SmallNetwork(const Tensor& u0)
      : at{Tensor::of<double>({0.1, -0.4, 0.3}, {1, 3}),
           Tensor::of<double>({0.5, -0.2, 0.1, 0.3, 0.4, -0.6, 0.2, 0.1, 0.7}, {3, 3}), u0} {
    n = placeholder(graph, DType::i64, {}, "n");
    h0 = placeholder(graph, DType::f64, {1, 3}, "h0");
    w = placeholder(graph, DType::f64, {3, 3}, "w");
    u = placeholder(graph, DType::f64, u0.shape(), "u");
  }
  void differentiate(Output of) {
    loss = of;
    d = gradients({loss}, {h0, w, u});
  }
  // The loss and its gradients; a gradient is undefined if the loss does not depend on the value.
  std::vector<Tensor> run(Session& session, int64_t steps, const std::vector<Tensor>& values) {
    Values fetches = {loss};
    for (const Output& gradient : d)
      if (gradient.defined()) fetches.push_back(gradient);
    std::vector<Tensor> got =
        session.run(fetches, {{n, count(steps)}, {h0, values[0]}, {w, values[1]}, {u, values[2]}});
    for (size_t i = 0; i < d.size(); ++i)
      if (!d[i].defined()) got.insert(got.begin() + 1 + static_cast<ptrdiff_t>(i), Tensor());
    return got;
  }

  Graph graph;
  Output n, h0, w, u, loss;
  Values d;
  std::vector<Tensor> at;  // values of h0, w and u
};

// `Network(steps)` writes its steps out; `network` computes them by a loop or a function.
template <class Network>
void check_written_out(Session& session, Network& network, std::initializer_list<int64_t> all) {
  for (const int64_t steps : all) {
    CAPTURE(steps);
    Network plain(steps);
    Session written_out = Session::local(plain.graph, {.threads = 1});
    const std::vector<Tensor> want = plain.run(written_out, steps, plain.at);
    const std::vector<Tensor> got = network.run(session, steps, plain.at);
    for (size_t i = 0; i < 4; ++i) {
      CAPTURE(i);
      if (want[i].defined()) check_close(got[i], want[i]);
    }
  }
}

// The same for a part of the network in another process.
template <class Network>
void check_written_out_remotely(std::initializer_list<int64_t> all) {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Network remote(-1, "/job:worker/task:1");
  Session session = cluster.connect(remote.graph);
  check_written_out(session, remote, all);
}

// The gradients of five steps against central differences.
template <class Network>
void check_network_slopes() {
  Network network(-1);
  Session session = Session::local(network.graph, {.threads = 1});
  std::vector<Tensor> got = network.run(session, 5, network.at);
  got.erase(got.begin());  // the loss
  check_slopes(
      [&](const std::vector<Tensor>& x) {
        return network.run(session, 5, x)[0].template item<double>();
      },
      network.at, got);
}

}  // namespace troupe
