// HalfStep: a step that waits until it is taken back. It is of one of two synchronous replicas, and
// the other one never pushes.
#pragma once

#include <string>
#include <thread>

#include "actors/master/session_state.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {

struct HalfStep {
  Graph graph;
  Output loss, update;
  // `device`: of both towers; empty: the caller's.
  explicit HalfStep(const std::string& device = "") {
    for (int replica = 0; replica < 2; ++replica) {
      auto scope = graph.scope(
          {.name = detail::concat("tower", replica), .device = device, .replica = replica});
      Output w = parameter("w", fill(graph, {1}, 1));
      Output of_replica = reduce_sum(square(w));
      Output pushes = minimize(of_replica, sgd(0.1));
      if (replica == 0) loss = of_replica, update = pushes;
    }
  }
  // Runs it on a thread of its own, until it waits.
  std::thread run(Session& session, Errc& code) const {
    const Callable step = session.prepare({loss, update});  // ready: its caller fires it
    std::thread thread([step, &code] { code = code_of([&] { step(); }); });
    while (session.state().process->services().waiting_for().find("push") == std::string::npos)
      std::this_thread::yield();
    return thread;
  }
};

}  // namespace troupe
