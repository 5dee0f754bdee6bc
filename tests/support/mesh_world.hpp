// Meshes in one thread: CAF's deterministic scheduler and multiplexer, our transport and clock from
// SimNet.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/network/test_multiplexer.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <spdlog/sinks/ostream_sink.h>

#include "net/caf/caf_bridge.hpp"
#include "net/mesh/mesh.hpp"
#include "tests/support/link_pair.hpp"

namespace troupe {

struct SimConfig : caf::actor_system_config {
  explicit SimConfig(Rng& rng) {
    load_test_network(*this, rng);
    set("scheduler.policy", caf::atom("testing"));
  }
};

struct SimNode : MeshListener {
  sim::SimHost& host;
  SimConfig config;
  caf::actor_system system;
  caf::scheduler::test_coordinator& jobs;
  caf::io::network::test_multiplexer& mpx;
  Doors doors;
  caf::actor agent;
  std::unique_ptr<Mesh> mesh;
  std::string address;
  std::map<std::string, caf::actor> agents;
  std::vector<std::string> history;
  std::ostringstream log;
  std::string refusal;
  Errc refusal_code = Errc::ok;
  int asked = 0;

  SimNode(sim::SimHost& h, const std::string& job, int task, std::vector<std::string> seeds,
          uint64_t incarnation = 1, const std::string& listen = "127.0.0.1:0",
          const std::string& secret = "")
      : host(h),
        config(h.rng()),
        system(config),
        jobs(dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())),
        mpx(dynamic_cast<caf::io::network::test_multiplexer&>(system.middleman().backend())) {
    jobs.clock().current_time += std::chrono::hours(1);  // zero has a special meaning
    system.await_actors_before_shutdown(false);
    agent = system.spawn([this]() -> caf::behavior {
      return {[this](int x) {
        ++asked;
        return x + 1;
      }};
    });
    MeshOptions options{.job = job,
                        .task = task,
                        .incarnation = incarnation,
                        .listen = listen,
                        .seeds = std::move(seeds),
                        .kinds = data_kinds(),
                        .insecure = true,
                        .log = std::make_shared<spdlog::logger>(
                            "net", std::make_shared<spdlog::sinks::ostream_sink_mt>(log))};
    if (!secret.empty()) options.secret = std::make_shared<const Secret>(secret, host.rng());
    mesh = std::make_unique<Mesh>(system, host, host, host.rng(), doors, options);
    address = mesh->start(agent, this);
  }
  ~SimNode() override {
    mesh->stop();
    agents.clear();
    caf::anon_send_exit(agent, caf::exit_reason::kill);
    agent = nullptr;
    while (run_one()) {
    }
  }
  bool run_one() { return mpx.try_exec_runnable() || jobs.try_run_once(); }
  void up(const Member& m, const caf::actor& a) override {
    agents[m.name()] = a;
    history.push_back("up " + m.name());
  }
  void down(const Member& m, const std::string&) override {
    agents.erase(m.name());
    history.push_back("down " + m.name());
  }
  void refused(Errc code, const std::string& reason) override {
    refusal_code = code;
    refusal = reason;
  }
};

struct MeshWorld {
  sim::SimNet net;
  std::vector<std::unique_ptr<SimNode>> nodes;
  std::string secret;  // of the nodes that are added next; empty: none
  explicit MeshWorld(uint64_t seed) : net(seed) {}
  SimNode& add(const std::string& job, int task, std::vector<std::string> seeds,
               uint64_t incarnation = 1, const std::string& listen = "127.0.0.1:0") {
    sim::SimHost& host = net.add(job + std::to_string(task));
    nodes.push_back(
        std::make_unique<SimNode>(host, job, task, std::move(seeds), incarnation, listen, secret));
    return *nodes.back();
  }
  bool run_actors() {
    bool any = false;
    for (auto& n : nodes)
      if (n->host.alive && !n->host.frozen)
        while (n->run_one()) any = true;
    return any;
  }
  bool run_until(const std::function<bool()>& done, sim::ns limit) {
    const TimePoint end = net.now() + limit;
    for (;;) {
      run_actors();
      if (done()) return true;
      if (net.next_due() > end || !net.step()) return done();
    }
  }
  void run_for(sim::ns time) {
    run_until([] { return false; }, time);
  }
};

}  // namespace troupe
