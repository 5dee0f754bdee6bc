// A static object that trains until the program ends: it is destroyed after many objects that were
// constructed later. The test runs its own program again.
#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>

#include "tests/support/fit.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

struct Service {
  Fit fit{adam()};
  Session session = Session::local(fit.graph, {.threads = 2});
  std::atomic<int64_t> steps_done{0};
  std::optional<Errc> ended;
  std::thread training;

  void begin(const std::string& folder) {
    training = std::thread([this, folder] {
      TrainOptions options{.steps = 1'000'000, .checkpoint_dir = folder, .checkpoint_every = 3};
      options.on_progress = [this](const TrainProgress& p) { steps_done = p.step; };
      ended = code_of([&] { train(session, fit.all, options); });
    });
  }
  ~Service() {
    session.close();
    training.join();
    if (ended != Errc::cancelled) std::_Exit(3);
  }
};

}  // namespace

TEST_CASE("a static object may train until its program ends" * doctest::test_suite("slow")) {
  constexpr const char* kChild = "TROUPE_TEST_STATIC_TRAINING";
  static const std::string folder = Folder("static-training").path();
  if (!std::getenv(kChild)) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    for (int i = 0; i < 8; ++i) {
      std::filesystem::remove_all(folder);
      const std::string command = std::string(kChild) + "=" + std::to_string(i) + " '" + self +
                                  "' -tc='a static object may train*' >/dev/null 2>&1";
      CHECK(std::system(command.c_str()) == 0);
    }
    std::filesystem::remove_all(folder);
    return;
  }
  static Service service;
  service.begin(folder);
  while (service.steps_done < 5 * std::atoi(std::getenv(kChild))) std::this_thread::yield();
}

}  // namespace troupe
