// Collectives: their values to the bit on any devices and processes, their traffic, gradients and
// refusals, and training with an all-reduce in place of shared parameters.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/nn.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/session.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

using nn::Combine;
using nn::Parts;

constexpr int64_t kCut = 20'011;  // floats of a part that is cut into pieces, the last one smaller

std::string cpu(size_t r) { return detail::concat("/device:cpu:", r); }
std::string worker(size_t r) { return detail::concat("/job:worker/task:", r); }

// Numbers whose sum depends on the order.
Tensor numbers(size_t replica, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto h = static_cast<uint32_t>(i * 7 + replica + 1) * 2654435761u;
    values[i] = static_cast<float>(h >> 8) * (h & 1 ? 1e-7F : -1e-3F);
  }
  return Tensor::of<float>(values, shape);
}

// Values of the replicas, each fed to its device.
struct Replicas {
  Graph graph;
  Parts parts;
  std::vector<Tensor> values;

  Replicas(size_t count, const Shape& shape,
           const std::function<std::string(size_t)>& device = cpu) {
    for (size_t r = 0; r < count; ++r) {
      const auto scope = graph.scope({.device = device(r), .replica = static_cast<int64_t>(r)});
      parts.push_back(placeholder(graph, DType::f32, shape));
      values.push_back(numbers(r, shape));
    }
  }
  Feeds feeds() const {
    Feeds out;
    for (size_t r = 0; r < parts.size(); ++r) out.emplace_back(parts[r], values[r]);
    return out;
  }
  Tensor expected(Combine how) const {
    Tensor all = values[0].clone();
    float* const sum = all.mutable_data<float>();
    for (int64_t i = 0; i < all.size(); ++i) {
      for (size_t r = 1; r < values.size(); ++r) {
        const float x = values[r].data<float>()[i];
        sum[i] = how == Combine::max ? std::max(sum[i], x) : sum[i] + x;
      }
      if (how == Combine::mean) sum[i] /= static_cast<float>(values.size());
    }
    return all;
  }
};

void check_all_reduce(const Replicas& replicas, Session& session) {
  for (const Combine how : {Combine::sum, Combine::mean, Combine::max}) {
    const Tensor wanted = replicas.expected(how);
    for (const Tensor& got : session.run(nn::all_reduce(replicas.parts, how), replicas.feeds()))
      CHECK(same_bits(got, wanted));
  }
}

// The values that have crossed from one worker to another.
int64_t bytes_between_workers(Session& session, const Callable& call) {
  int64_t bytes = 0;
  for (const CutEdge& edge : session.cut_edges(call))
    if (edge.source.starts_with("/job:worker") && edge.destination.starts_with("/job:worker"))
      bytes += edge.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("an all-reduce sums in the order of its parts, on any devices and threads") {
  for (const size_t count : {1u, 2u, 3u, 5u})
    for (const Shape& shape : {Shape{7}, Shape{kCut}, Shape{3, 90, 80}})
      for (const int threads : {1, 2})
        for (const bool apart : {false, true}) {
          CAPTURE(count);
          CAPTURE(shape);
          CAPTURE(threads);
          CAPTURE(apart);
          const auto place = [&](size_t r) { return cpu(apart ? r : 0); };
          Replicas replicas(count, shape, place);
          Session session = Session::local(
              replicas.graph, {.threads = threads, .cpu_devices = static_cast<int>(count)});
          check_all_reduce(replicas, session);
        }
}

TEST_CASE("the results of a collective are on the devices of its parts, for their replicas") {
  Replicas replicas(3, {kCut});
  Graph& g = replicas.graph;
  const auto outer = g.scope({.device = "/job:ps/task:7", .replica = 9});
  for (const Parts& results : {nn::all_reduce(replicas.parts), nn::all_gather(replicas.parts),
                               nn::broadcast(replicas.parts, 1), nn::barrier(replicas.parts)}) {
    REQUIRE(results.size() == 3);
    for (size_t r = 0; r < 3; ++r) {
      CHECK(g.node(results[r].node).device == cpu(r));
      CHECK(g.node(results[r].node).replica == static_cast<int64_t>(r));
    }
  }
}

TEST_CASE("collectives between processes give the same bits") {
  const std::vector<std::string> tasks = {worker(0), worker(1), worker(2)};
  LocalCluster cluster(tasks);
  for (const Shape& shape : {Shape{6}, Shape{kCut - 1, 3}}) {
    CAPTURE(shape);
    Replicas replicas(3, shape, worker);
    const Tensor sum = replicas.expected(Combine::sum);
    const int64_t rows = shape[0] / 3;
    Session session = cluster.connect(replicas.graph);
    check_all_reduce(replicas, session);
    const auto gathered = session.run(nn::all_gather(replicas.parts), replicas.feeds());
    const auto scattered = session.run(nn::reduce_scatter(replicas.parts), replicas.feeds());
    const auto copies = session.run(nn::broadcast(replicas.parts, 2), replicas.feeds());
    for (size_t r = 0; r < 3; ++r) {
      for (size_t s = 0; s < 3; ++s) {
        const auto begin = static_cast<int64_t>(s) * shape[0];
        CHECK(same_bits(gathered[r].rows(begin, begin + shape[0]), replicas.values[s]));
      }
      const auto begin = static_cast<int64_t>(r) * rows;
      CHECK(same_bits(scattered[r], sum.rows(begin, begin + rows)));
      CHECK(same_bits(copies[r], replicas.values[2]));
    }
  }
}

TEST_CASE("of a large value each worker sends twice as much as the others' share of it") {
  LocalCluster cluster({worker(0), worker(1), worker(2)});
  constexpr int64_t kSize = 3 * 64 * 200;
  Replicas replicas(3, {kSize}, worker);
  Session session = cluster.connect(replicas.graph);
  const Callable call = session.prepare(nn::all_reduce(replicas.parts), replicas.parts);
  call(replicas.values);
  CHECK(bytes_between_workers(session, call) == 2 * (3 - 1) * kSize * 4);
}

TEST_CASE("a barrier is passed when all parts are done, and by none if one fails") {
  Replicas replicas(2, {2});
  Graph& g = replicas.graph;
  Parts checked = replicas.parts;
  checked[1] = check_finite(checked[1], "part 1");
  const Parts passed = nn::barrier(checked);
  Output after;
  {
    const auto scope = g.scope({.device = cpu(0), .control_inputs = {passed[0].node}});
    after = identity(replicas.parts[0] * 2.0);
  }
  Session session = Session::local(g, {.threads = 1, .cpu_devices = 2});
  session.run(passed, replicas.feeds());
  CHECK(session.run({after}, replicas.feeds())[0].size() == 2);
  replicas.values[1] = Tensor::of<float>({1, NAN}, {2});
  check_error(
      Errc::bad_data, [&] { session.run({passed[0]}, replicas.feeds()); }, "part 1");
  check_error(
      Errc::bad_data, [&] { session.run({after}, replicas.feeds()); }, "part 1");
}

TEST_CASE("gradients flow back through collectives to every part") {
  constexpr size_t kCount = 3;
  for (const int64_t size : {int64_t{6}, int64_t{30'000}}) {
    CAPTURE(size);
    Replicas replicas(kCount, {size});
    Graph& g = replicas.graph;
    // For each result the same numbers in place of weights.
    const auto slopes = [&](const Parts& results) {
      Output loss;
      for (size_t r = 0; r < kCount; ++r) {
        const Output one =
            reduce_sum(results[r] * constant(g, numbers(10 + r, results[r].shape())));
        loss = loss.defined() ? loss + one : one;
      }
      Session session = Session::local(g, {.threads = 2, .cpu_devices = kCount});
      Parts of_parts = gradients({loss}, replicas.parts);
      std::erase_if(of_parts, [](const Output& one) { return !one.defined(); });
      return session.run(of_parts, replicas.feeds());
    };
    const auto weight = [](size_t r, const Shape& shape, int64_t i) {
      return double{numbers(10 + r, shape).data<float>()[i]};
    };
    const auto close = [](double got, double want) {
      CHECK(got == doctest::Approx(want).epsilon(1e-4));
    };
    const auto summed = slopes(nn::all_reduce(replicas.parts));
    const auto meant = slopes(nn::all_reduce(replicas.parts, Combine::mean));
    const auto most = slopes(nn::all_reduce(replicas.parts, Combine::max));
    const auto scattered = slopes(nn::reduce_scatter(replicas.parts));
    const auto gathered = slopes(nn::all_gather(replicas.parts));
    const auto copied = slopes(nn::broadcast(replicas.parts, 1));
    CHECK(copied.size() == 1);  // no other part has a gradient
    const Tensor greatest = replicas.expected(Combine::max);
    const int64_t piece = size / static_cast<int64_t>(kCount);
    for (size_t s = 0; s < kCount; ++s)
      for (const int64_t i : {int64_t{0}, int64_t{3}, piece, size - 1}) {
        CAPTURE(s);
        CAPTURE(i);
        double all = 0, part = 0;
        for (size_t r = 0; r < kCount; ++r) {
          all += weight(r, {size}, i);
          part += weight(r, {size * 3}, static_cast<int64_t>(s) * size + i);
        }
        const auto at = [&](const std::vector<Tensor>& of) { return of.at(s).data<float>()[i]; };
        close(at(summed), all);
        close(at(meant), all / kCount);
        const bool is_greatest = replicas.values[s].data<float>()[i] == greatest.data<float>()[i];
        close(at(most), is_greatest ? all : 0);
        close(at(scattered), weight(static_cast<size_t>(i / piece), {piece}, i % piece));
        close(at(gathered), part);
        if (s == 1) close(copied.at(0).data<float>()[i], all);
      }
  }
}

TEST_CASE("collectives refuse parts that do not fit") {
  Graph g, other;
  const Output a = fill(g, {3, 2}, 1), b = fill(g, {2, 3}, 1);
  const Output whole = fill(g, {3, 2}, 1, DType::i32), flag = equal(a, a);
  check_invalid([&] { nn::all_reduce({}); }, "all_reduce", "there are no parts");
  check_invalid([&] { nn::all_gather({a, Output{}}); }, "all_gather", "part 1 is undefined");
  check_invalid([&] { nn::barrier({a, fill(other, {3, 2}, 1)}); }, "of another graph");
  check_invalid([&] { nn::all_reduce({a, b}); }, "parts of one type, got f32[3, 2] and f32[2, 3]");
  check_invalid([&] { nn::all_reduce({a, whole}); }, "f32[3, 2] and i32[3, 2]");
  check_invalid([&] { nn::all_reduce({whole}, Combine::mean); }, "a mean is of floats, got i32");
  check_invalid([&] { nn::reduce_scatter({flag, flag}); }, "combines numbers, got bool");
  check_invalid([&] { nn::reduce_scatter({a, a}); }, "cannot cut [3, 2] into 2 equal parts");
  check_invalid([&] { nn::broadcast({a, a}, 2); }, "there is no part 2 of 2");
  CHECK(nn::all_reduce({whole, whole}).size() == 2);
}

// A linear model on two devices: with shared parameters, or with parameters for each device that
// get the same mean gradient.
TEST_CASE(
    "replicas with parameters of their own and an all-reduce train as synchronous shards do") {
  constexpr int64_t kSteps = 5;
  const auto batch = [](size_t r) {
    return [r](int64_t step) {
      return std::vector<Tensor>{numbers(r + static_cast<size_t>(step) * 2, {4, 3})};
    };
  };
  const auto trained = [&](bool shared) {
    Graph g;
    std::vector<Tower> towers;
    Tower together{.feeds = {}};
    std::vector<ParameterGradient> slopes;
    for (const size_t r : {0u, 1u}) {
      const auto scope =
          g.scope({.device = cpu(r), .replica = shared ? static_cast<int64_t>(r) : 0});
      const Output x = placeholder(g, DType::f32, {4, 3});
      const Output w = parameter(shared ? "w" : detail::concat("w", r), fill(g, {3, 1}, 0.5));
      const Output loss = reduce_mean(square(matmul(x * 1e-4, w) - 1.0));
      if (shared) {
        towers.push_back(
            {static_cast<int64_t>(r), loss, minimize(loss, momentum(0.1, 0.9)), {x}, batch(r)});
        continue;
      }
      together.loss = loss;
      together.feeds.push_back(x);
      slopes.push_back(parameter_gradients(loss)[0]);
    }
    if (!shared) {
      const Parts mean = nn::all_reduce({slopes[0].gradient, slopes[1].gradient}, Combine::mean);
      for (const size_t r : {0u, 1u}) slopes[r].gradient = mean[r];
      together.update = apply_gradients(slopes, momentum(0.1, 0.9));
      together.batch = [&batch](int64_t step) {
        return std::vector<Tensor>{batch(0)(step)[0], batch(1)(step)[0]};
      };
      towers = {together};
    }
    Session session = Session::local(g, {.threads = 2, .cpu_devices = 2});
    TrainOptions options;
    options.steps = kSteps;
    train(session, towers, options);
    return parameter_values(session);
  };
  const std::map<std::string, Tensor> shared = trained(true), own = trained(false);
  CHECK(!same_bits(shared.at("w"), Tensor::of<float>({0.5F, 0.5F, 0.5F}, {3, 1})));
  CHECK(same_bits(own.at("w0"), shared.at("w")));
  CHECK(same_bits(own.at("w1"), shared.at("w")));
}

}  // namespace troupe
