// The rules of lines.cpp find what breaks them.
#include <doctest/doctest.h>

#include "tests/house/examples.hpp"
#include "tests/house/rules.hpp"

namespace troupe {
namespace {

// A file that breaks no rule, and these lines at its end.
std::string file(const std::string& lines) {
  return "// What it is.\n#pragma once\n" + lines + "\n";
}

const std::vector<Example> examples = {
    {"a clean header", "graph/a.hpp", file("#include <vector>\n#include \"troupe/op.hpp\""), ""},
    {"Boost in a public header", "include/troupe/a.hpp", file("boost::any x;"),
     "may not name boost::"},
    {"no comment at the top", "graph/a.cpp", "#include <vector>\n", "no comment"},
    {"an empty file", "graph/a.cpp", "", "no comment"},
    {"a script without a comment", "tests/apps/a.sh", "#!/bin/sh\nexit 0\n", "no comment"},
    {"a script with one", "tests/apps/a.sh", "#!/bin/sh\n# It ends.\nexit 0\n", ""},
    {"no pragma", "graph/a.hpp", "// What it is.\nint f();\n", "#pragma once"},
    {"using namespace in a header", "graph/a.hpp", file("using namespace std;"), "using namespace"},
    {"using namespace in a comment", "graph/a.hpp", file("// never using namespace std;"), ""},
    {"using namespace in a source", "graph/a.cpp", file("using namespace std::chrono_literals;"),
     ""},
    {"a line of 100 columns", "graph/a.cpp", file("//" + std::string(98, 'x')), ""},
    {"a line of 101 columns", "graph/a.cpp", file("//" + std::string(99, 'x')), "101 columns"},
    {"columns are not bytes", "graph/a.cpp", file("//" + std::string(97, 'x') + "\u00b5"), ""},
    {"a long address", "graph/a.cpp", file("// https://" + std::string(99, 'x')), ""},
    {"a banned word", "net/a.cpp", file("class PeerManager {};"), "marks a missing noun"},
    {"a banned word in the middle", "net/a.cpp", file("enum class PeerInfoKind { a };"),
     "marks a missing noun"},
    {"a banned word in a string", "net/a.cpp", file("f(\"class PeerManager\");"), ""},
    {"a word that only contains one", "net/a.cpp", file("struct Database {};"), ""},
    {"a wait in a test", "tests/net/a.cpp",
     file("std::this_thread::sleep"
          "_for(x);"),
     "waits for an event"},
    {"a request without deadline", "actors/a.cpp",
     file("self->request(a, caf::"
          "infi"
          "nite, x);"),
     "deadline"},
    {"a path of one machine", "bench/a.cpp",
     file("open(\"/ho"
          "me/me/x\");"),
     "a path of one machine"},
    {"a device is no path", "bench/a.cpp", file("\"/job:worker/task:1\""), ""},
    {"a log line of fields", "net/a.cpp",
     file("log_->warn(\n    \"a peer left: peer={} \"\n    \"reason={}\",\n    a, b);"), ""},
    {"a log line of prose", "net/a.cpp", file("log_->info(\"{} left because of {}\", a, b);"),
     "a log line is"},
    {"a log line with a comma", "actors/a.cpp",
     file("process_.log()->warn(\"a peer left: peer={}, reason={}\", a, b);"), "a log line is"},
    {"a log line without a phrase", "training/a.cpp", file("log.info(\"peer={}\", a);"),
     "a log line is"},
    {"a log line made elsewhere", "training/a.cpp", file("log->warn(line);"), "a log line is"},
    {"a log line that is passed on", "actors/master/master.cpp", file("log->warn(line);"), ""},
    {"a log line put together", "actors/a.cpp",
     file("host_.warn(detail::concat(\"run again: node=\", n, \" run=\",\n  r));"), ""},
    {"a log line put together of prose", "actors/a.cpp",
     file("host_.warn(detail::concat(\"node \", n, \" runs again\"));"), "a log line is"},
    {"log lines of a program", "apps/a.cpp", file("log->warn(\"{} is gone\", a);"), ""},
    {"something left open", "docs/a.md",
     "TO"
     "DO: say it\n",
     "finish it"},
};

TEST_CASE("lines: the rules find what breaks them and nothing else") {
  check_examples(examples, check_lines);
}

TEST_CASE("a finding names file and line") {
  const auto found = check_lines({"graph/a.cpp", file("int a;\nclass PeerManager;")});
  REQUIRE(found.size() == 1);
  CHECK(to_string(found[0]).substr(0, 14) == "graph/a.cpp:4:");
}

}  // namespace
}  // namespace troupe
