// The history of a simulation, its report, and runs that stop at an event.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "data/files/json.hpp"
#include "tests/support/paths.hpp"
#include "chaos/sim_report.hpp"

namespace troupe {
namespace {

std::string read(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("a report has each event as text, object, trace event, and on a page") {
  int64_t now = 7'000;
  sim::History history(true);
  history.set_clock([&now] { return now; });
  history.note("options \"all\"");
  now = 9'500;
  history.note("job /job:worker/task:2 of 3 </script>");
  const std::string folder = binary_dir() + "/sim/history-test";
  write_report(folder, "history-test seed 1", "no invariant broken", history);

  CHECK(read(folder + "/history.txt").find("  1  2 ms  job /job:worker/task:2 of 3") !=
        std::string::npos);
  std::istringstream lines(read(folder + "/history.jsonl"));
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK(parse_json(line, "first").find("text")->text == "options \"all\"");
  REQUIRE(std::getline(lines, line));
  const Json second = parse_json(line, "second");
  CHECK(second.find("event")->text == "1");
  CHECK(second.find("us")->text == "2500");
  CHECK(second.find("process")->text == "worker2");
  const Json trace = parse_json(read(folder + "/trace.json"), "trace.json");
  const std::vector<Json>& events = trace.find("traceEvents")->items;
  REQUIRE(events.size() == 5);  // two events, the names of two lanes and of the history
  CHECK(events[1].find("ts")->text == "2500");
  CHECK(events[1].find("tid")->text == "1");
  CHECK(events[3].find("args")->find("name")->text == "worker2");
  const std::string page = read(folder + "/index.html");
  CHECK(page.find("REPORT") == std::string::npos);
  CHECK(page.find("of 3 </script>") == std::string::npos);  // it would end the script
}

TEST_CASE("a history of which a part is kept has its first line and the newest") {
  sim::History history;
  history.stop_at(300);
  for (int i = 0; i < 300; ++i) {
    CHECK(!history.is_over());
    history.note(detail::concat("event ", i));
  }
  CHECK(history.is_over());
  CHECK(history.first() == "event 0");
  CHECK(history.lines().front().text == "event 100");
}

}  // namespace troupe
