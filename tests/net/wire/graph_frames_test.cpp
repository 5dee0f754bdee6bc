// Frames travel with a graph.
#include <doctest/doctest.h>

#include "net/wire/graph_proto.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {

TEST_CASE("a graph with branches and loops is the same on the other side") {
  Graph graph;
  const Output n = placeholder(graph, DType::f32, {}, "n");
  const std::vector<Output> end = while_loop(
      [&](const std::vector<Output>& v) { return less(v[0], n); },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{
            v[0] + 1, cond(
                          greater(v[0], v[1]), [&] { return v[1] * 2; }, [&] { return n; })};
      },
      {fill(graph, {}, 0), fill(graph, {}, 1)});
  gradients({end[1]}, {n});
  CHECK(to_text(*graph_from_proto(graph_to_proto(graph))) == to_text(graph));
}

}  // namespace troupe
