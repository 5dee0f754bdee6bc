// Shards that are lost while the disk of another process does not answer: its checkpoint is given
// up, and the one before it is restored.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "data/files/disk.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "training/group/services.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// The real disk, but for files whose name has `part`: making one does not return until release().
class HungDisk final : public Disk {
 public:
  explicit HungDisk(std::string part) : part_(std::move(part)) {}
  void wait_until_hung() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return hung_; });
  }
  void release() {
    std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }
  std::unique_ptr<WriteFile> create(const std::string& path) override {
    if (path.find(part_) != path.npos) {
      std::unique_lock lock(mutex_);
      hung_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return released_; });
    }
    return real_.create(path);
  }
  void make_dirs(const std::string& dir) override { real_.make_dirs(dir); }
  std::vector<std::string> list(const std::string& dir) override { return real_.list(dir); }
  std::unique_ptr<ReadFile> open(const std::string& path) override { return real_.open(path); }
  void rename(const std::string& from, const std::string& to) override { real_.rename(from, to); }
  void rename_new(const std::string& from, const std::string& to) override {
    real_.rename_new(from, to);
  }
  void remove(const std::string& path) override { real_.remove(path); }
  void sync_dir(const std::string& dir) override { real_.sync_dir(dir); }
  int64_t free_bytes(const std::string& dir) override { return real_.free_bytes(dir); }
  std::string unique() override { return real_.unique(); }

 private:
  Disk& real_ = real_disk();
  const std::string part_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  bool hung_ = false, released_ = false;
};

// A weight on each of two ps.
Tower two_weights(Graph& graph) {
  auto scope = graph.scope({.replica = 0});
  Output v = parameter("v", fill(graph, {1, 1}, 4, DType::f64));
  Output w = parameter("w", fill(graph, {1, 1}, 5, DType::f64));
  Output loss = reduce_mean(square(v * w - 3.0));
  return {0, loss, minimize(loss, sgd(0.001)), {}, {}};
}

}  // namespace

TEST_CASE("a lost ps is restored while the disk of another one does not answer") {
  HungDisk disk("step40.shard-1-of-2");
  const TrainingServices services({.disk = &disk});
  LocalCluster cluster({"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"}, 1, builtin_ops(),
                       kLease, &services);
  Graph graph;
  const Tower tower = two_weights(graph);
  Session session = cluster.connect(graph);
  const Folder folder("hung-disk");
  TrainOptions options = steps(60);
  options.checkpoint_dir = folder.path();
  options.checkpoint_every = 20;
  std::mutex mutex;
  std::condition_variable changed;
  bool restored = false, in_time = false;
  options.on_event = [&](const TrainEvent& e) {
    std::lock_guard lock(mutex);
    restored |= e.text.find("shards restored at step 20;") == 0;
    changed.notify_all();
  };
  std::thread fate([&] {
    disk.wait_until_hung();
    cluster.process(0).stop();
    cluster.restart(0);
    std::unique_lock lock(mutex);
    in_time = changed.wait_for(lock, 20s, [&] { return restored; });
    disk.release();
  });
  const TrainResult result = train(session, {tower}, options);
  fate.join();
  CHECK(in_time);
  CHECK(result.recoveries == 1);
  CHECK(result.unsaved.empty());
  Graph alone;
  const Tower quiet = two_weights(alone);
  Session local = Session::local(alone, {.threads = 1});
  CHECK(result.weights_sha256 == train(local, {quiet}, steps(60)).weights_sha256);
}

}  // namespace troupe
