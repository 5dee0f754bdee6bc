// The rules of rooms.cpp and includes.cpp, on a house of four rooms.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/house/examples.hpp"
#include "tests/house/rooms.hpp"

namespace troupe {
namespace {

const char* const house = R"(# The rooms: `troupe_room(FOLDER SEES ROOMS...)`.
function(troupe_room folder)
endfunction()

troupe_room(graph)
troupe_room(ops SEES graph
  FOLDERS support  # a part
  LIBRARIES Eigen)
troupe_room(placement SEES graph)
troupe_room(net/wire LIBRARIES protobuf)
troupe_room(net/mesh SEES net/wire LIBRARIES CAF spdlog)
troupe_room(actors/engine SEES placement net/mesh LIBRARIES CAF spdlog)
)";

const std::vector<Example> examples = {
    {"a room's own header", "ops/a.cpp", "#include \"ops/support/node.hpp\"", ""},
    {"a room that it sees", "actors/engine/a.cpp", "#include \"placement/partition.hpp\"", ""},
    {"a public header", "graph/a.cpp", "#include \"troupe/op.hpp\"", ""},
    {"a room that it sees through another", "actors/engine/a.cpp", "#include \"graph/a.hpp\"",
     "actors/engine/ may not include graph/"},
    {"uphill", "graph/a.cpp", "#include \"actors/engine/stage.hpp\"",
     "graph/ may not include actors/engine/"},
    {"a part of a room is in the room", "placement/a.cpp", "#include \"ops/support/node.hpp\"",
     "placement/ may not include ops/"},
    {"rooms of one folder", "net/wire/a.cpp", "#include \"net/mesh/mesh.hpp\"",
     "net/wire/ may not include net/mesh/"},
    {"the engine knows no op", "actors/engine/a.cpp", "#include \"ops/all.hpp\"",
     "actors/engine/ may not include ops/"},
    {"programs use the public interface", "apps/a.cpp", "#include \"net/mesh/mesh.hpp\"",
     "apps/ may not include net/mesh/"},
    {"a program's own header", "apps/a.cpp", "#include \"apps/cluster.hpp\"", ""},
    {"a public header that sees a room", "include/troupe/a.hpp", "#include \"graph/a.hpp\"",
     "include/ may not include graph/"},
    {"a test's header in the library", "net/mesh/a.cpp", "#include \"tests/support/a.hpp\"",
     "no part of the library"},
    {"a test may include anything", "tests/net/a.cpp",
     "#include \"ops/all.hpp\"\n#include <caf/all.hpp>", ""},
    {"a header beside the file", "graph/a.cpp", "#include \"passes.hpp\"",
     "by its path from the root"},
    {"CAF in a public header", "include/troupe/a.hpp", "#include <caf/all.hpp>",
     "may not include CAF"},
    {"CAF in the header for it", "include/troupe/caf.hpp", "#include <caf/all.hpp>", ""},
    {"a library of the room", "ops/support/a.cpp", "#include <Eigen/Core>", ""},
    {"Eigen in the graph", "graph/a.cpp", "#include <Eigen/Core>", "may not include Eigen"},
    {"Boost.Beast in actors", "actors/engine/a.cpp", "#include <boost/beast/http.hpp>",
     "may not include Boost.Beast"},
    {"generated code outside net/wire", "net/mesh/a.cpp", "#include \"net/wire/graph.pb.h\"",
     "may not include protobuf"},
    {"generated code in net/wire", "net/wire/a.cpp", "#include \"net/wire/graph.pb.h\"", ""},
    {"a library nobody chose", "net/wire/a.cpp", "#include <zmq/zmq.hpp>",
     "no library of the table"},
    {"an include with spaces", "graph/a.cpp", "#  include <spdlog/spdlog.h>",
     "may not include spdlog"},
    {"code in a document", "docs/a.md", "#include \"ops/all.hpp\"", ""},
    {"a system header", "net/wire/a.cpp", "#include <sys/socket.h>\n#include <unistd.h>", ""},
};

TEST_CASE("includes: the rule finds what breaks it and nothing else") {
  const std::vector<Room> rooms = read_rooms(house);
  check_examples(examples, [&](const Source& file) { return check_includes(rooms, file); });
}

TEST_CASE("rooms: what the file says is read") {
  const std::vector<Room> rooms = read_rooms(house);
  REQUIRE(rooms.size() == 6);
  CHECK(rooms[1].parts == std::vector<std::string>{"support"});
  CHECK(rooms[1].libraries == std::set<std::string>{"Eigen"});
  CHECK(rooms[4].sees == std::set<std::string>{"net/wire"});
  CHECK(rooms[4].archive() == "libtroupe_net_mesh.a");
  CHECK(seen_by(rooms, rooms[5]) ==
        std::set<std::string>{"graph", "net/mesh", "net/wire", "placement"});
  CHECK(room_of(rooms, "net/mesh/link/a.cpp") == &rooms[4]);
  CHECK(room_of(rooms, "networks/a.cpp") == nullptr);
  CHECK(check_rooms(rooms).empty());
}

TEST_CASE("rooms: a room sees rooms above it alone") {
  const auto found = [](const char* cmake) {
    std::string all;
    for (const Violation& v : check_rooms(read_rooms(cmake))) all += to_string(v) + "\n";
    return all;
  };
  CHECK(found("\ntroupe_room(a SEES b)\ntroupe_room(b)\n").find("a SEES b, which is not above") !=
        std::string::npos);
  CHECK(found("\ntroupe_room(a SEES typo)\n").find("a SEES typo") != std::string::npos);
  CHECK(found("\ntroupe_room(a)\ntroupe_room(a)\n").find("a is there twice") != std::string::npos);
  CHECK(found("\ntroupe_room(ops)\ntroupe_room(actors/engine SEES ops)\n")
            .find("the engine knows no op") != std::string::npos);
}

// The findings of the rule of links on what nm says of archives.
std::string links(const std::string& nm) {
  std::string all;
  for (const Violation& v : check_links(read_rooms(house), read_symbols(nm)))
    all += v.place + ": " + to_string(v) + "\n";
  return all;
}

TEST_CASE("links: a symbol of a room that is seen, also through others, is no finding") {
  CHECK(links("b/libtroupe_graph.a[g.o]: _Zg T 0 8\n"
              "b/libtroupe_placement.a[p.o]: _Zg U\n"
              "b/libtroupe_actors_engine.a[e.o]: _Zg U\n"
              "b/libtroupe_actors_engine.a[e.o]: _ZSt4cout U\n")
            .empty());
}

TEST_CASE("links: a symbol of a room that is not seen is a finding for each object") {
  const std::string found = links(
      "b/libtroupe_graph.a[g.o]: _Za U\n"
      "b/libtroupe_graph.a[g.o]: _Zb U\n"
      "b/libtroupe_graph.a[h.o]: _Za U\n"
      "b/libtroupe_ops.a[o.o]: _Za T 0 8\n"
      "b/libtroupe_ops.a[o.o]: _Zb V 0 8\n");
  CHECK(std::count(found.begin(), found.end(), '\n') == 2);
  CHECK(found.find("graph -> ops: graph/g.o: graph may not link ops, which defines _Z") == 0);
  CHECK(links("b/libtroupe_actors_engine.a[e.o]: _Zo U\nb/libtroupe_ops.a[o.o]: _Zo T 0 8\n")
            .find("actors/engine -> ops") == 0);
}

TEST_CASE("links: what a room defines itself, and weak references, ask for nobody") {
  CHECK(links("b/libtroupe_graph.a[g.o]: _Za U\n"
              "b/libtroupe_graph.a[h.o]: _Za W 0 8\n"
              "b/libtroupe_graph.a[h.o]: _Zw w\n"
              "b/libtroupe_ops.a[o.o]: _Za W 0 8\n"
              "b/libtroupe_ops.a[o.o]: _Zw T 0 8\n")
            .empty());
}

TEST_CASE("rooms: a room that is seen is included or linked") {
  const std::vector<Room> rooms = read_rooms(
      "\ntroupe_room(a)\ntroupe_room(b SEES a)\ntroupe_room(c SEES a)\ntroupe_room(d SEES a b)\n");
  const std::vector<Source> tree = {{"b/x.cpp", "#include \"a/y.hpp\"\n"}};
  const auto found = check_needed(rooms, tree,
                                  read_symbols("libtroupe_a.a[y.o]: _Zy T 0 8\n"
                                               "libtroupe_c.a[z.o]: _Zy U\n"));
  REQUIRE(found.size() == 2);
  CHECK(found[0].place == "d -> a");
  CHECK(found[1].place == "d -> b");
}

}  // namespace
}  // namespace troupe
