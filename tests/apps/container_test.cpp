// Between-graph replication with real processes: two nodes and two programs. Each is this test
// program again, with its part given by the environment.
#include <doctest/doctest.h>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <sstream>

#include "troupe/cluster.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

extern char** environ;

namespace troupe {
namespace {

constexpr int kAnswerFd = 3;  // where a part writes its one line

const char* told(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}
void answer(const std::string& line) {
  const std::string text = line + "\n";
  REQUIRE(::write(kAnswerFd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

// This program in a process of its own, playing `part`. The process ends with the object.
class Player {
 public:
  Player(const std::string& part, const std::vector<std::string>& environment) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kAnswerFd);
    std::vector<std::string> texts = environment;
    for (char** e = environ; *e; ++e) texts.emplace_back(*e);
    std::vector<char*> variables;
    for (std::string& text : texts) variables.push_back(text.data());
    variables.push_back(nullptr);
    std::string only = "--test-case=" + part, program = "test_apps", skipped = "--no-skip";
    char* arguments[] = {program.data(), only.data(), skipped.data(), nullptr};
    REQUIRE(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments,
                          variables.data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~Player() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(from_);
  }
  Player(const Player&) = delete;
  std::string line() {  // empty if the process ended without one
    std::string out;
    for (char c = 0; ::read(from_, &c, 1) == 1 && c != '\n';) out += c;
    return out;
  }

 private:
  pid_t pid_ = 0;
  int from_ = -1;
};

using Players = std::vector<std::unique_ptr<Player>>;

std::string start_ps(Players& players, int task, const std::string& seed) {
  players.push_back(std::make_unique<Player>(
      "part: a ps",
      std::vector<std::string>{detail::concat("PART_TASK=", task), "PART_SEED=" + seed}));
  return players.back()->line();
}

// The weights at the end of each program. `replicas`: "0", "1" or "0 1".
std::vector<std::string> weights(const std::string& address,
                                 const std::vector<std::string>& replicas,
                                 const std::string& rule) {
  Players programs;
  for (const std::string& s : replicas)
    programs.push_back(std::make_unique<Player>(
        "part: a program",
        std::vector<std::string>{"PART_SEED=" + address, "PART_SLOTS=" + s, "PART_RULE=" + rule,
                                 detail::concat("PART_CONTAINER=", rule, replicas.size())}));
  std::vector<std::string> out;
  for (const auto& program : programs) out.push_back(program->line());
  return out;
}

}  // namespace

TEST_CASE("part: a ps" * doctest::skip()) {
  NodeOptions options{.job = "ps", .task = std::atoi(told("PART_TASK"))};
  if (*told("PART_SEED")) options.seeds = {told("PART_SEED")};
  options.process.threads = 1;
  options.on_listening = answer;
  const std::atomic<bool> stop{false};  // a kill ends the process
  run_node(options, stop);
}

TEST_CASE("part: a program" * doctest::skip()) {
  Graph graph;
  std::vector<Tower> towers;
  const Output first = truncated_normal(graph, Shape{4, 3}, 0, 0.5, 11);
  std::istringstream replicas(told("PART_SLOTS"));
  for (int64_t replica; replicas >> replica;) {
    const auto scope = graph.scope({.name = detail::concat("tower", replica), .replica = replica});
    const Output x = placeholder(graph, DType::f32, {-1, 4}, "x");
    const Output loss = reduce_mean(square(matmul(x, parameter("w", first)) - 1.0));
    towers.push_back({replica, loss, minimize(loss, sgd(0.1)), {x}, [replica](int64_t step) {
                        const auto v = static_cast<float>((step * 3 + replica) % 7);
                        return std::vector<Tensor>{Tensor::of<float>({v, 1, 2, 0.5F}, {1, 4})};
                      }});
  }
  ConnectOptions options;
  options.process.threads = 1;
  options.wait_for = {"/job:ps/task:0", "/job:ps/task:1"};
  options.container = told("PART_CONTAINER");
  options.replicas = 2;
  Session session = Session::connect(graph, told("PART_SEED"), options);
  TrainOptions training{.rule = aggregation_from_string(told("PART_RULE")), .steps = 50};
  const TrainResult result = train(session, towers, training);
  answer(result.weights_sha256);
}

TEST_CASE("two programs with a replica each train the parameters of one program with both" *
          doctest::test_suite("slow")) {
  Players nodes;
  const std::string address = start_ps(nodes, 0, "");
  REQUIRE(address != "");
  REQUIRE(start_ps(nodes, 1, address) != "");
  const std::vector<std::string> one = weights(address, {"0 1"}, "sync");
  REQUIRE(one[0].size() == 64);
  const std::vector<std::string> two = weights(address, {"0", "1"}, "sync");
  CHECK(two[0] == one[0]);
  CHECK(two[1] == one[0]);
  for (const std::string& line : weights(address, {"0", "1"}, "async")) CHECK(line.size() == 64);
}

}  // namespace troupe
