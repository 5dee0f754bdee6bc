// The numbers of finished parts of steps that a watcher of the program reads from a file.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "actors/observe/step_counts.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"

namespace troupe {

TEST_CASE("step counts are rows of a file, which later starts of a program go on with") {
  const TempFile file("steps", "");
  const std::string& path = file.path();
  setenv("TROUPE_STEPS_OUT", path.c_str(), 1);
  for (int start = 0; start < 2; ++start) {
    StepCounts counts, of_another_session;
    for (int i = 0; i < 3; ++i) counts.finished("/job:worker/task:1");
    of_another_session.finished("/job:worker/task:0");
    of_another_session.finished("/job:worker/task:1");
    counts.finished(std::string(200, 'x'));  // too long for a row
  }
  unsetenv("TROUPE_STEPS_OUT");
  StepCounts().finished("/job:worker/task:1");  // no file is wanted

  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  REQUIRE(bytes.size() == StepCounts::kRowBytes * StepCounts::kRowsMax);
  const auto row = [&](size_t i) {
    uint64_t count = 0;
    std::memcpy(&count, bytes.data() + (i + 1) * StepCounts::kRowBytes - sizeof count,
                sizeof count);
    return detail::concat(bytes.c_str() + i * StepCounts::kRowBytes, " ", count);
  };
  CHECK(row(0) == "/job:worker/task:1 8");
  CHECK(row(1) == "/job:worker/task:0 2");
  CHECK(row(2) == " 0");
}

TEST_CASE("step counts that cannot be written are left out") {
  for (const char* path : {"/", "/dev/null", "/no/such/folder/steps", ""}) {
    setenv("TROUPE_STEPS_OUT", path, 1);
    StepCounts().finished("/job:worker/task:0");
  }
  unsetenv("TROUPE_STEPS_OUT");
}

}  // namespace troupe
