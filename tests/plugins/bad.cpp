// Plugins that are refused; each is this file with another BAD_PLUGIN.
#include <cstdlib>
#include <stdexcept>

#include "troupe/custom_op.hpp"

using namespace troupe;

namespace bad {
// Refused by Registry::add(): an op with outputs needs infer_shapes.
[[maybe_unused]] static void add_wrong_schema(Registry& ops) {
  ops.add({.name = "NoShapes", .inputs = {"x"}, .outputs = {"y"}});
}
[[maybe_unused]] static void add_and_throw(Registry& ops) {
  ops.add({.name = "Half", .inputs = {"x"}});
  throw std::runtime_error("the license has run out");
}
[[maybe_unused]] static void throw_number(Registry&) { throw 7; }
[[maybe_unused]] static void add_again(Registry& ops) {
  ops.add({.name = "Half", .inputs = {"x"}});
  ops.add({.name = "MatMul", .inputs = {"x"}});
}
// Adds a Cube that differs from the one of cube.so.
[[maybe_unused]] static void add_other_cube(Registry& ops) {
  ops.add({.name = "Cube", .inputs = {"z"}});
}
void nowhere_defined();  // a library that calls it does not load
[[maybe_unused]] static void call_nobody(Registry&) { nowhere_defined(); }
}  // namespace bad

#define WRONG_SCHEMA 1
#define THROWS 2
#define THROWS_NUMBER 3
#define NAME_EXISTS 4
#define OTHER_CUBE 5
#define MISSING_SYMBOL 6
#define OTHER_ABI 7
#define OTHER_LAYOUT 8
#define NO_PLUGIN 9

#if BAD_PLUGIN == WRONG_SCHEMA
TROUPE_PLUGIN(bad::add_wrong_schema)
#elif BAD_PLUGIN == THROWS
TROUPE_PLUGIN(bad::add_and_throw)
#elif BAD_PLUGIN == THROWS_NUMBER
TROUPE_PLUGIN(bad::throw_number)
#elif BAD_PLUGIN == NAME_EXISTS
TROUPE_PLUGIN(bad::add_again)
#elif BAD_PLUGIN == OTHER_CUBE
TROUPE_PLUGIN(bad::add_other_cube)
#elif BAD_PLUGIN == MISSING_SYMBOL
TROUPE_PLUGIN(bad::call_nobody)
#elif BAD_PLUGIN == OTHER_ABI || BAD_PLUGIN == OTHER_LAYOUT
extern "C" __attribute__((visibility("default"))) const PluginDescription troupe_plugin;
extern "C" constinit const PluginDescription troupe_plugin = {
    detail::plugin_mark(), kPluginAbi + (BAD_PLUGIN == OTHER_ABI ? 6 : 0), 0,
    detail::plugin_layout() + 1, bad::throw_number};
// No code of an incompatible library may run: this would end the program.
[[maybe_unused]] const bool ran = (std::abort(), true);
#endif
