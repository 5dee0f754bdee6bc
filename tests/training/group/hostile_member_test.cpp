// The behaviour of a process towards a member that keeps to the protocol and means harm: its
// messages are well formed, and their content is refused.
#include <caf/all.hpp>
#include <doctest/doctest.h>

#include <stdlib.h>

#include <filesystem>
#include <future>
#include <limits>

#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"
#include "net/wire/graph_proto.hpp"
#include "training/group/services.hpp"
#include "training/parameters/messages.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

using Answer = std::pair<Errc, std::string>;
constexpr std::chrono::seconds kSoon{20};

// A folder that is removed at the end of its scope.
class TempFolder {
 public:
  TempFolder() : path_((std::filesystem::temp_directory_path() / "troupe-XXXXXX").string()) {
    REQUIRE(mkdtemp(path_.data()));
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Listener final : MeshListener {
  std::promise<caf::actor> agent;
  void up(const Member&, const caf::actor& its) override { agent.set_value(its); }
  void down(const Member&, const std::string&) override {}
};

// A ps, and a worker that sends it whatever a member can send.
class HostileMember {
 public:
  // `data_dirs`: of the ps.
  explicit HostileMember(std::vector<std::string> data_dirs = {})
      : ps_(process("/job:ps/task:0", {}, std::move(data_dirs))) {
    const std::string address = ps_->start(&met_by_ps_);
    worker_ = process("/job:worker/task:0", {address});
    worker_->start(&met_);
    agent_ = met_.agent.get_future().get();
    met_by_ps_.agent.get_future().wait();
    self_ = std::make_unique<caf::scoped_actor>(worker_->system());
  }
  ~HostileMember() {
    self_.reset();
    agent_ = nullptr;
    worker_->stop();
    ps_->stop();
  }
  caf::actor service(const std::string& name) {
    caf::actor out;
    (*self_)
        ->request(agent_, kSoon, FindService{name})
        .receive([&](const caf::actor& found) { out = found; },
                 [](const caf::error& e) { FAIL(caf::to_string(e)); });
    return out;
  }
  // The error, or ok. `Told`: of the answer; none: it is empty.
  template <class... Told, class Message>
  Answer answer(const caf::actor& to, const Message& message) {
    Answer out{Errc::ok, ""};
    (*self_)
        ->request(to, kSoon, message)
        .receive([](const Told&...) {}, [&](const caf::error& e) { out = from_caf(e); });
    return out;
  }
  template <class Message>
  void tell(const caf::actor& to, const Message& message) {
    (*self_)->send(to, message);
  }
  template <class Message>
  void tell_unnamed(const caf::actor& to, const Message& message) {
    caf::anon_send(to, message);
  }
  // A message of a step, which travels on the data plane.
  template <class Message>
  void tell_agent(const Message& message) {
    (*self_)->send(worker_->remote(ps_->task(), ps_->agent().id()), message);
  }
  const caf::actor& agent() const { return agent_; }
  Process& ps() { return *ps_; }

 private:
  static std::unique_ptr<Process> process(const std::string& task, std::vector<std::string> seeds,
                                          std::vector<std::string> data_dirs = {}) {
    ProcessOptions options{.threads = 1, .cuda = false, .ops = builtin_ops()};
    options.data_dirs = std::move(data_dirs);
    return std::make_unique<Process>(task, 1, options, ClusterOptions{.seeds = std::move(seeds)});
  }
  Listener met_, met_by_ps_;
  std::unique_ptr<Process> ps_, worker_;
  caf::actor agent_;
  std::unique_ptr<caf::scoped_actor> self_;
};

SliceSpec slice_of(const std::string& parameter, std::vector<int64_t> shape, int64_t offset,
                   int64_t size) {
  SliceSpec out;
  out.parameter = parameter;
  out.dtype = static_cast<uint8_t>(DType::f32);
  out.shape = std::move(shape);
  out.offset = offset;
  out.size = size;
  return out;
}

CreateShard one_shard(SliceSpec slice) {
  return {.container = "c", .epoch = 1, .replicas = {0}, .slices = {std::move(slice)}};
}

}  // namespace

TEST_CASE("a member chooses no other files than those of a checkpoint") {
  HostileMember evil;
  const TempFolder folder;
  const caf::actor shards = evil.service("shards");
  CHECK(evil.answer<ShardDescription>(shards, one_shard(slice_of("w", {4}, 0, 4))).first ==
        Errc::ok);
  CHECK(evil.answer(shards, SetInitial{"c", 0, 0, 1, 0, std::string(16, 0)}).first == Errc::ok);
  CHECK(evil.answer(shards, CaptureShard{"c", 0, 1, 0, 1}).first == Errc::ok);
  WriteShard write;
  write.container = "c";
  write.epoch = write.capture = 1;
  write.directory = folder.path() + "/new";
  for (const char* name :
       {"authorized_keys", "../x", "/etc/x", "", "x.so", "000001-step0.manifest.json",
        "000001-step0.shard-0-of-1.safetensors.temp", "000001-step0.shard-0-of-1.safetensors/x"}) {
    CAPTURE(name);
    write.name = name;
    CHECK(evil.answer<ShardFile>(shards, write).first == Errc::invalid_argument);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
  BeginEpoch begin;
  begin.container = "c";
  begin.epoch = 7;
  begin.mode = BeginEpoch::restore;
  begin.directory = "/etc";
  for (const char* name : {"passwd", "../etc/passwd", "000001-step0.shard-0-of-1.safetensors"}) {
    begin.manifest = name;
    CHECK(evil.answer(shards, begin).first == Errc::invalid_argument);
  }
  write.name = "000001-step0.shard-0-of-1.safetensors";  // the epoch is still the first one
  CHECK(evil.answer<ShardFile>(shards, write).first == Errc::ok);
  // It learns about a folder that a checkpoint cannot be read there, and no more.
  begin.manifest = "000001-step0.manifest.json";
  std::string told;
  for (const char* directory : {"/nowhere", "/etc", "/etc/passwd", "/proc/self/nothing"}) {
    begin.directory = directory;
    const auto [code, text] = evil.answer(shards, begin);
    CHECK(code == Errc::io);
    if (told.empty()) told = text;
    CHECK(text == told);
  }
  CHECK(told == "the checkpoint cannot be read; the log of /job:ps/task:0 says why");
}

TEST_CASE("a member sends no route that leads out of a parameter, and no slice without a dtype") {
  HostileMember evil;
  const caf::actor shards = evil.service("shards"), parameters = evil.service("parameters");
  SliceSpec odd = slice_of("w", {4}, 0, 4);
  odd.dtype = 77;
  CHECK(evil.answer<ShardDescription>(shards, one_shard(odd)).first == Errc::invalid_argument);
  CHECK(evil.answer<ShardDescription>(shards, one_shard(slice_of("w", {-1}, 0, 4))).first ==
        Errc::invalid_argument);
  SliceSpec wide = slice_of("w", {4}, 2, 2);
  wide.dtype = static_cast<uint8_t>(DType::f64);
  const int64_t most = std::numeric_limits<int64_t>::max();
  const std::vector<std::pair<std::string, std::vector<SliceSpec>>> routes = {
      {"no dtype", {odd}},
      {"no known shape", {slice_of("w", {-1}, 0, 4)}},
      {"a gap", {slice_of("w", {8}, 0, 2), slice_of("w", {8}, 4, 4)}},
      {"an overlap", {slice_of("w", {8}, 0, 4), slice_of("w", {8}, 2, 6)}},
      {"an end that is missing", {slice_of("w", {8}, 0, 4)}},
      {"a slice behind the end", {slice_of("w", {4}, 0, 4), slice_of("w", {4}, 4, 4)}},
      {"an offset before the begin", {slice_of("w", {4}, -4, 4), slice_of("w", {4}, 0, 4)}},
      {"a size that overflows", {slice_of("w", {4}, 0, 2), slice_of("w", {4}, 2, most)}},
      {"two shapes", {slice_of("w", {4}, 0, 2), slice_of("w", {1 << 20}, 2, 2)}},
      {"two dtypes", {slice_of("w", {4}, 0, 2), wide}},
  };
  for (const auto& route : routes) {
    CAPTURE(route.first);
    const std::vector<SliceSpec>& slices = route.second;
    RouteParameters m{.session = 1, .epoch = 1, .slices = slices};
    m.tasks.assign(slices.size(), "/job:worker/task:0");
    m.doors.assign(slices.size(), 1);
    CHECK(evil.answer(parameters, m).first == Errc::invalid_argument);
  }
  RouteParameters good{.session = 1, .epoch = 1, .slices = {slice_of("w", {4}, 0, 4)}};
  good.tasks = {"/job:worker/task:0"};
  good.doors = {1};
  CHECK(evil.answer(parameters, good).first == Errc::ok);
}

TEST_CASE("a member orders nothing of a shard that is another process's own") {
  HostileMember evil;
  const TempFolder folder;
  const caf::actor shards = evil.service("shards");
  const caf::actor its = evil.ps().services().actor("shards");
  caf::scoped_actor owner(evil.ps().system());
  const auto refused = [](const caf::error& e) { FAIL(caf::to_string(e)); };
  const std::string container = own_container(9);
  CreateShard create = one_shard(slice_of("w", {4}, 0, 4));
  create.container = container;
  create.session = 9;
  owner->request(its, kSoon, create).receive([](const ShardDescription&) {}, refused);
  // A claim of more epochs does not make it another session's either.
  create.session = 0;
  create.claim = 99;
  CHECK(evil.answer<ShardDescription>(shards, create).first == Errc::ok);

  const SetInitial values{container, 0, 0, 1, 0, std::string(16, 0)};
  const CaptureShard capture{container, 0, 1, 0, 1};
  const SetRateScale scale{container, 0, 1, 0, 0.5};
  const ChangeRule change{container, 0, 1, 0, "async"};
  WriteShard write;
  write.container = container;
  write.epoch = write.capture = 1;
  write.directory = folder.path();
  write.name = "000001-step0.shard-0-of-1.safetensors";
  BeginEpoch begin;
  begin.container = container;
  begin.epoch = 2;
  CHECK(evil.answer(shards, values).first == Errc::invalid_argument);
  owner->request(its, kSoon, values).receive([] {}, refused);
  CHECK(evil.answer(shards, scale).first == Errc::invalid_argument);
  CHECK(evil.answer(shards, change).first == Errc::invalid_argument);
  CHECK(evil.answer(shards, capture).first == Errc::invalid_argument);
  owner->request(its, kSoon, capture).receive([] {}, refused);
  CHECK(evil.answer<ShardFile>(shards, write).first == Errc::invalid_argument);
  CHECK(evil.answer(shards, begin).first == Errc::invalid_argument);
  owner->request(its, kSoon, write).receive([](const ShardFile&) {}, refused);
  // Nobody goes so far ahead that no epoch is left.
  begin.epoch = std::numeric_limits<uint64_t>::max();
  Errc far = Errc::ok;
  owner->request(its, kSoon, begin)
      .receive([] {}, [&](const caf::error& e) { far = from_caf(e).first; });
  CHECK(far == Errc::invalid_argument);
  // The ps has no parts of the session, whose end only its own process tells.
  CHECK(evil.answer<EdgeCounts>(evil.agent(), Uninstall{9, -1}).first == Errc::invalid_argument);
  evil.tell(shards, DropContainer{container});
  CHECK(evil.answer<ShardDescription>(shards, DescribeShard{container, 0}).first == Errc::ok);
  owner->request(caf::actor_cast<caf::actor>(evil.ps().agent()), kSoon, Uninstall{9, -1})
      .receive([](const EdgeCounts&) {}, refused);
  CHECK(evil.answer<ShardDescription>(shards, DescribeShard{container, 0}).first == Errc::stale);
}

TEST_CASE("a container is shared unless it has the name of its own session") {
  HostileMember other;
  const caf::actor shards = other.service("shards");
  caf::scoped_actor owner(other.ps().system());
  CreateShard create = one_shard(slice_of("w", {4}, 0, 4));
  create.container = "session-a";
  create.session = 9;
  owner->request(other.ps().services().actor("shards"), kSoon, create)
      .receive([](const ShardDescription&) {},
               [](const caf::error& e) { FAIL(caf::to_string(e)); });
  create.session = 10;
  create.claim = 1;
  CHECK(other.answer<ShardDescription>(shards, create).first == Errc::ok);
  const SetInitial values{"session-a", 0, 0, 1, 0, std::string(16, 0)};
  CHECK(other.answer(shards, values).first == Errc::ok);
}

TEST_CASE("a member reads no files outside of the data folders of a process that has some") {
  const TempFolder data;
  HostileMember evil({data.path()});
  const auto source = std::make_shared<const std::string>(
      R"({"stage":"read","name":"lines","args":{"paths":["/etc/passwd"]}})");
  std::promise<std::pair<Errc, std::string>> answer;
  evil.ps().services().input(1)->read(
      {.source = source, .seen = std::make_shared<const std::string>()},
      [&](Errc code, const std::string& text, const std::vector<Tensor>&) {
        answer.set_value({code, text});
      });
  const auto [code, text] = answer.get_future().get();
  CHECK(code == Errc::invalid_argument);
  CHECK(text.find("reads no data from /etc/passwd") != std::string::npos);
}

TEST_CASE("a member sets no routes for a session of another process, and does not end it") {
  HostileMember evil;
  const caf::actor parameters = evil.service("parameters");
  caf::scoped_actor owner(evil.ps().system());
  RouteParameters routes{.session = 9, .epoch = 1, .slices = {slice_of("w", {4}, 0, 4)}};
  routes.tasks = {"/job:worker/task:0"};
  routes.doors = {1};
  owner->request(evil.ps().services().actor("parameters"), kSoon, routes)
      .receive([] {}, [](const caf::error& e) { FAIL(caf::to_string(e)); });
  routes.epoch = 5;
  CHECK(evil.answer(parameters, routes).first == Errc::invalid_argument);
  CHECK(evil.answer<EdgeCounts>(evil.agent(), Uninstall{9, -1}).first == Errc::invalid_argument);
  routes.session = 10;
  CHECK(evil.answer(parameters, routes).first == Errc::ok);
}

TEST_CASE("a member takes back, replaces and adds nothing in a session of another process") {
  HostileMember evil;
  const caf::actor its = caf::actor_cast<caf::actor>(evil.ps().agent());
  caf::scoped_actor owner(evil.ps().system());
  const InstallGraph graph{9, 0, 1, graph_to_proto(Graph())};
  const auto refused = [](const caf::error& e) { FAIL(caf::to_string(e)); };
  owner->request(its, kSoon, graph).receive([] {}, refused);
  CHECK(evil.answer(evil.agent(), InstallGraph{9, 1, 1, graph.bytes}).first ==
        Errc::invalid_argument);
  InstallParts parts;
  parts.session = 9;
  CHECK(evil.answer<PartsInstalled>(evil.agent(), parts).first == Errc::invalid_argument);
  ConnectParts connections;
  connections.session = 9;
  CHECK(evil.answer(evil.agent(), connections).first == Errc::invalid_argument);
  CHECK(evil.answer<Became>(evil.agent(), Become{9, "x", "MatMul"}).first ==
        Errc::invalid_argument);
  CHECK(evil.answer<EdgeCounts>(evil.agent(), Uninstall{9, -1}).first == Errc::invalid_argument);
  CHECK(evil.answer(evil.agent(), InstallGraph{10, 0, 1, graph.bytes}).first == Errc::ok);
  // It makes up no sessions.
  CHECK(evil.answer<Became>(evil.agent(), Become{11, "x", "MatMul"}).first == Errc::ok);
  owner->request(its, kSoon, InstallGraph{11, 0, 1, graph.bytes}).receive([] {}, refused);
  owner->request(its, kSoon, Uninstall{9, -1}).receive([](const EdgeCounts&) {}, refused);
  CHECK(evil.answer(evil.agent(), InstallGraph{9, 0, 1, graph.bytes}).first == Errc::ok);
}

TEST_CASE("an order without a sender is refused") {
  HostileMember evil;
  const caf::actor shards = evil.service("shards"), parameters = evil.service("parameters");
  CreateShard create = one_shard(slice_of("w", {4}, 0, 4));
  create.session = 9;
  evil.tell_unnamed(shards, create);
  create.session = 0;
  create.takes_over = true;
  evil.tell_unnamed(shards, create);
  CHECK(evil.answer<ShardDescription>(shards, DescribeShard{"c", 0}).first == Errc::stale);
  CHECK(evil.answer<ShardDescription>(shards, create).first == Errc::ok);
  evil.tell_unnamed(shards, create);
  CHECK(evil.answer<ShardDescription>(shards, DescribeShard{"c", 0}).first == Errc::ok);
  RouteParameters routes{.session = 9, .epoch = 5, .slices = {slice_of("w", {4}, 0, 4)}};
  routes.tasks = {"/job:worker/task:0"};
  routes.doors = {1};
  evil.tell_unnamed(parameters, routes);
  routes.epoch = 1;
  CHECK(evil.answer(parameters, routes).first == Errc::ok);
  caf::scoped_actor other(evil.ps().system());
  Errc code = Errc::ok;
  other
      ->request(caf::actor_cast<caf::actor>(evil.ps().services().actor("parameters")), kSoon,
                routes)
      .receive([] {}, [&](const caf::error& e) { code = from_caf(e).first; });
  CHECK(code == Errc::invalid_argument);  // the session is the member's
}

TEST_CASE("a member begins and ends no steps of a session of another process") {
  HostileMember evil;
  const std::string cpu = "/job:ps/task:0/device:cpu:0";
  const caf::actor its = caf::actor_cast<caf::actor>(evil.ps().agent());
  caf::scoped_actor owner(evil.ps().system());
  const auto refused = [](const caf::error& e) { FAIL(caf::to_string(e)); };
  Graph g;
  const Output value = dequeue(make_queue(g, {{DType::f32, Shape{}}}))[0];  // of an empty one
  InstallParts parts{.session = 9, .executable = 0, .call = 0, .version = 1};
  parts.fetches = {value.name()};
  parts.devices = {cpu};
  parts.client_device = cpu;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    parts.placed_nodes.push_back(static_cast<int32_t>(i));
    parts.placement.push_back(0);
  }
  owner->request(its, kSoon, InstallGraph{9, 0, 1, graph_to_proto(g)}).receive([] {}, refused);
  owner->request(its, kSoon, parts).receive([](const PartsInstalled&) {}, refused);
  const auto running = [&] {
    int64_t out = -1;
    owner->request(its, kSoon, Describe{})
        .receive([&](const Description& d) { out = d.running_steps; }, refused);
    return out;
  };
  evil.tell_agent(StartStep{.session = 9, .run = 1});
  CHECK(evil.answer<Description>(evil.agent(), Describe{}).first == Errc::ok);
  CHECK(running() == 0);
  owner->send(its, StartStep{.session = 9, .run = 1});
  CHECK(running() == 1);
  evil.tell_agent(CancelStep{.session = 9, .run = 1});
  CHECK(evil.answer<Description>(evil.agent(), Describe{}).first == Errc::ok);
  bool ended = false;
  owner->receive([&](const FinishStep&) { ended = true; },
                 caf::after(std::chrono::milliseconds(300)) >> [] {});
  CHECK_FALSE(ended);
  owner->send(its, CancelStep{.session = 9, .run = 1});
  owner->receive([&](const FinishStep&) { ended = true; }, caf::after(kSoon) >> [] {});
  CHECK(ended);
}

}  // namespace troupe
