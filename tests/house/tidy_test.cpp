// The house is tidy: every file of the tree keeps the rules of tests/house/rules.cpp, and the rules
// find what breaks them.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/house/rules.hpp"
#include "tests/support/paths.hpp"

namespace troupe {
namespace {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// A file that breaks no rule, and these lines at its end.
std::string file(const std::string& lines) {
  return "// What it is.\n#pragma once\n" + lines + "\n";
}

struct Example {
  const char* name;
  std::string path;
  std::string text;
  std::string expected;  // part of the only finding; empty: none
};

const std::vector<Example> examples = {
    {"a clean header", "graph/a.hpp", file("#include <vector>\n#include \"troupe/op.hpp\""), ""},
    {"a folder's own header", "ops/a.cpp", file("#include \"ops/support/node.hpp\""), ""},
    {"a listed folder", "actors/a.cpp", file("#include \"placement/partition.hpp\""), ""},
    {"mathematics above messages", "graph/a.cpp", file("#include \"actors/engine/stage.hpp\""),
     "graph/ may not include actors/"},
    {"the engine knows no op", "actors/a.cpp", file("#include \"ops/all.hpp\""),
     "actors/ may not include ops/"},
    {"programs use the public interface", "apps/a.cpp", file("#include \"net/mesh/mesh.hpp\""),
     "apps/ may not include net/"},
    {"a test's header in the library", "net/a.cpp", file("#include \"tests/support/a.hpp\""),
     "no part of the library"},
    {"a test may include anything", "tests/net/a.cpp",
     file("#include \"ops/all.hpp\"\n#include <caf/all.hpp>"), ""},
    {"a header beside the file", "graph/a.cpp", file("#include \"passes.hpp\""),
     "by its path from the root"},
    {"CAF in a public header", "include/troupe/a.hpp", file("#include <caf/all.hpp>"),
     "may not include CAF"},
    {"CAF in the header for it", "include/troupe/caf.hpp", file("#include <caf/all.hpp>"), ""},
    {"Boost in a public header", "include/troupe/a.hpp", file("boost::any x;"),
     "may not name boost::"},
    {"Eigen in the graph", "graph/a.cpp", file("#include <Eigen/Core>"), "may not include Eigen"},
    {"Boost.Beast in actors", "actors/a.cpp", file("#include <boost/beast/http.hpp>"),
     "may not include Boost.Beast"},
    {"generated code outside net", "actors/a.cpp", file("#include \"net/wire/graph.pb.h\""),
     "may not include protobuf"},
    {"generated code in net", "net/a.cpp", file("#include \"net/wire/graph.pb.h\""), ""},
    {"a library nobody chose", "net/a.cpp", file("#include <zmq/zmq.hpp>"),
     "no library of the table"},
    {"an include with spaces", "graph/a.cpp", file("#  include <spdlog/spdlog.h>"),
     "may not include spdlog"},
    {"a system header", "net/a.cpp", file("#include <sys/socket.h>\n#include <unistd.h>"), ""},
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

TEST_CASE("the rules find what breaks them and nothing else") {
  for (const Example& e : examples) {
    CAPTURE(e.name);
    const std::vector<Violation> found = check_file(e.path, e.text);
    for (const Violation& v : found) INFO(to_string(v));
    CHECK(found.size() == (e.expected.empty() ? 0u : 1u));
    if (!e.expected.empty() && !found.empty())
      CHECK(to_string(found[0]).find(e.expected) != std::string::npos);
  }
}

TEST_CASE("a finding names file and line") {
  const auto found = check_file("graph/a.cpp", file("int a;\n#include <caf/all.hpp>"));
  REQUIRE(found.size() == 1);
  CHECK(to_string(found[0]).substr(0, 14) == "graph/a.cpp:4:");
}

TEST_CASE("a sixteenth public header is one too many") {
  std::vector<std::string> paths;
  for (int i = 0; i < 15; ++i) paths.push_back("include/troupe/a" + std::to_string(i) + ".hpp");
  CHECK(check_tree(paths).empty());
  paths.push_back("include/troupe/b.hpp");
  CHECK(check_tree(paths).size() == 1);
}

TEST_CASE("every file of the tree keeps the rules") {
  const std::string root = source_dir();
  const std::vector<std::string> paths = files_of(root);
  for (const char* known :
       {"include/troupe/graph.hpp", "graph/graph.cpp", "dev", "tests/house/rules.cpp"}) {
    CAPTURE(known);
    REQUIRE(std::find(paths.begin(), paths.end(), known) != paths.end());
  }
  std::vector<Violation> found = check_tree(paths);
  for (const std::string& path : paths)
    for (Violation& v : check_file(path, read(root + "/" + path))) found.push_back(std::move(v));
  std::string all;
  for (const Violation& v : found) all += to_string(v) + "\n";
  CHECK_MESSAGE(found.empty(), found.size(), " violations:\n", all);
}

}  // namespace
}  // namespace troupe
