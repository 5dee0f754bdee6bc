// A session that is a static object of its program: it is destroyed after the thread-local objects
// of the destroying thread. The test runs its own program again.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "troupe/ops.hpp"
#include "troupe/session.hpp"

namespace troupe {

TEST_CASE("a session that is a static object is closed when its program ends") {
  constexpr const char* kChild = "TROUPE_TEST_STATIC_SESSION";
  if (!std::getenv(kChild)) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string command = std::string(kChild) + "=1 '" + self +
                                "' -tc='a session that is a static object*' >/dev/null 2>&1";
    CHECK(std::system(command.c_str()) == 0);
    return;
  }
  static Graph graph;
  static const Output x = fill(graph, {64, 64}, 1), y = matmul(x, x) + x;
  static Session session = Session::local(graph, {.threads = 2});
  CHECK(session.run({y})[0].data<float>()[0] == 65);
}

}  // namespace troupe
