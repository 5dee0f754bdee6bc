// The messages of one step of a prepared call.
#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

const std::string kPs = "/job:ps/task:0", kFirst = "/job:worker/task:0",
                  kSecond = "/job:worker/task:1";
constexpr int64_t kCalls = 200;
// A StartStep has 8 numbers; credits and heartbeats, which come now and then, are counted, too.
constexpr int64_t kBytesPerCallMax = 128;

// The messages that this process sent to another one since the last look.
class Sent {
 public:
  Sent(Process& process, std::string to) : process_(process), to_(std::move(to)) { take(); }
  struct Count {
    int64_t messages = 0, bytes = 0;  // messages: of the data plane
  };
  Count take() {
    const PeerStats now = process_.mesh()->stats().at(to_);
    const PeerStats before = std::exchange(before_, now);
    return {now.messages_out - before.messages_out, now.bytes_out - before.bytes_out};
  }

 private:
  Process& process_;
  const std::string to_;
  PeerStats before_;
};

}  // namespace

TEST_CASE("a repeated call sends one small message to each worker that has a part in it") {
  LocalCluster cluster({kPs, kFirst, kSecond});
  Graph g;
  const Output x = placeholder(g, DType::f32, {1}, "x");
  Output one, other, fed, trained;
  {
    const auto scope = g.scope({.device = kFirst});
    one = fill(g, {1}, 2) + fill(g, {1}, 3);
    fed = add(x, x) + x;
    trained = identity(parameter("w", fill(g, {1}, 7)));
  }
  {
    const auto scope = g.scope({.device = kSecond});
    other = one + fill(g, {1}, 4);
  }
  ConnectOptions options;
  options.process.passes =
      false;  // they would fold the constants, and the first worker had no part
  Session session = cluster.connect(g, {}, options);
  Process& client = *session.state().process;
  const auto repeat = [&](const Callable& call, const std::vector<Tensor>& feeds, float want) {
    int wrong = 0;
    for (int64_t i = 0; i < kCalls; ++i) wrong += call(feeds)[0].item<float>() != want;
    CHECK(wrong == 0);
  };
  const Callable plain = session.prepare({other}), feeding = session.prepare({fed}, {x}),
                 reading = session.prepare({trained});
  Sent ps(client, kPs), first(client, kFirst), second(client, kSecond);

  SUBCASE("without feeds it is the StartStep; answers are not acknowledged") {
    repeat(plain, {}, 9);
    for (Sent* worker : {&first, &second}) {
      const Sent::Count sent = worker->take();
      CHECK(sent.messages == kCalls);
      CHECK(sent.bytes <= kCalls * kBytesPerCallMax);
    }
    CHECK(ps.take().messages == 0);
  }
  SUBCASE("a feed follows once, however many of its nodes read it, and nobody else is asked") {
    repeat(feeding, {Tensor::of<float>({2}, {1})}, 6);
    const Sent::Count sent = first.take();
    CHECK(sent.messages == 2 * kCalls);  // StartStep and Deliver
    CHECK(sent.bytes <= 2 * kCalls * kBytesPerCallMax);
    CHECK(second.take().messages == 0);
    CHECK(ps.take().messages == 0);
  }
  SUBCASE("parameters are the worker's own affair: one small Pull, and no values that it has") {
    repeat(reading, {}, 7);  // once anyhow: the values come
    Sent pulls(cluster.process(1), kPs), values(cluster.process(0), kFirst);
    first.take();
    repeat(reading, {}, 7);
    CHECK(first.take().messages == kCalls);
    CHECK(ps.take().messages == 0);
    CHECK(pulls.take().messages == kCalls);
    CHECK(values.take().messages == kCalls);  // Pulled, without values
  }
}

}  // namespace troupe
