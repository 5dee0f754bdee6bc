// Ops and source functions that a program defines itself: ops_with() registers them, a plugin
// brings them into a running program, and check_op() tests them as the built-in ops are tested.
// Implemented in ops/plugin.cpp and ops/check/op_check.cpp; docs/adding_an_op.md shows both.
//
// A plugin is a shared library. It is built with these headers and links nothing of the library: it
// resolves its symbols in the program, which therefore exports them (troupe_enable_plugins() of the
// CMake package does that).
//
//   void add_ops(troupe::Registry& ops) { ops.add(cube_op()); }
//   TROUPE_PLUGIN(add_ops)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/op.hpp"
#include "troupe/source.hpp"

namespace troupe {

// Incremented when a plugin that was built before would misunderstand the program, or be
// misunderstood, although no type of the headers has changed its size.
inline constexpr uint32_t kPluginAbi = 1;

// A plugin's description of itself. It is read from the file before any code of the library runs.
struct PluginDescription {
  std::array<char, 16> mark;  // locates it in the file
  uint32_t abi;               // kPluginAbi of the headers it was built with
  uint32_t unused;
  uint64_t layout;  // plugin_layout() of those headers
  void (*add_ops)(Registry&);
};

namespace detail {
// A function, so that a library holds these bytes once.
constexpr std::array<char, 16> plugin_mark() {
  return {'T', 'r', 'o', 'u', 'p', 'e', ' ', 'p', 'l', 'u', 'g', 'i', 'n', ':', '\n', '\x1a'};
}

// One number (FNV-1a by words) for the sizes of types and the compiler's ABI.
template <class... Types>
constexpr uint64_t layout_of() {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint64_t n : {sizeof(Types)..., size_t{__GXX_ABI_VERSION}})
    hash = (hash ^ n) * 0x100000001b3u;
  return hash;
}

// The layout of the types that cross the border.
constexpr uint64_t plugin_layout() {
  return layout_of<Op, Kernel, AttrSpec, Attr, Node, NodeSpec, Graph, Output, Tensor, Buffer, Shape,
                   Registry, InferContext, GradientContext, KernelContext, AsyncContext,
                   SourceFunction, std::string, std::vector<bool>>();
}
}  // namespace detail

// Use once in a plugin, at namespace scope: `function`, a void(troupe::Registry&), adds its ops.
#define TROUPE_PLUGIN(function)                                                                    \
  extern "C" __attribute__((visibility("default")))                                                \
  const ::troupe::PluginDescription troupe_plugin;                                                 \
  extern "C" constinit const ::troupe::PluginDescription troupe_plugin = {                         \
      ::troupe::detail::plugin_mark(), ::troupe::kPluginAbi, 0, ::troupe::detail::plugin_layout(), \
      function};

struct Plugin {
  std::string path;              // absolute
  std::vector<std::string> ops;  // names of the ops that it added
};

// Adds the ops of the plugin at `path` to `registry`: all of them, or none when it throws. A plugin
// stays loaded until the process ends. Throws, naming the file and what to do: Error(io) if it
// cannot be read; Error(bad_data) if it is no plugin; Error(bad_configuration) for another ABI, a
// symbol that this program does not have, an op whose name exists or whose schema is wrong, and for
// any exception of the plugin.
Plugin load_plugin(Registry& registry, const std::string& path);

// builtin_ops() and `own`, and functions for sources (troupe/source.hpp), for Graph and
// ProcessOptions::ops. Throws: Error(invalid_argument) for a name that exists or a bad schema.
std::shared_ptr<const Registry> ops_with(const std::vector<Op>& own,
                                         const std::vector<SourceFunction>& functions = {});

// builtin_ops() and the ops of the plugins, in this order: for Graph and ProcessOptions::ops.
// Without plugins it is builtin_ops() itself. All processes of a cluster must load the same
// plugins; processes that differ name the differences when they meet. Throws: as load_plugin().
std::shared_ptr<const Registry> ops_with_plugins(const std::vector<std::string>& paths);

// The test table of an op: expected values and expected errors.

// Builds a graph to check instead of a single node; returns the outputs for the inputs.
using BuildCase = std::function<std::vector<Output>(Graph&, const std::vector<Output>&)>;

struct OpCase {
  std::string name;
  std::string op = {};  // the op under test, also when `build` makes the nodes
  std::vector<Tensor> inputs = {};
  Attrs attrs = {};
  // Left out: the results of the different ways to run the op are compared with each other.
  std::vector<Tensor> expected = {};
  // got - expected| <= tolerance * max(1, |expected|); left out: by dtype (1e-5 for f32, 1e-12 for
  // f64). At least 2^-7 for bf16 and 2^-10 for f16, a unit in the last place, even if a smaller one
  // is given. Integers are exact.
  std::optional<double> tolerance = {};
  BuildCase build = {};
  // True: only with the dtypes as written. False: the case runs once for each kernel dtype of the
  // op that can hold it, with every tensor of the dispatch input's dtype converted.
  bool as_written = false;
  // False: not differentiable here, or too steep for finite differences. Only its value is checked.
  bool smooth = true;
  bool twice = true;  // second derivatives are checked, too
  double gradient_tolerance = 1e-6;
};

struct OpError {
  std::string op = {};
  std::vector<Tensor> inputs = {};
  Attrs attrs = {};
  std::string message;  // a substring of the error's text
  BuildCase build = {};
  bool when_run = false;  // depends on values: thrown by the kernel, not while building
};

struct OpCases {
  std::vector<OpCase> values = {};
  std::vector<OpError> errors = {};
};

// The faults of an op that is not built in, one sentence each; empty: none. The cases need not name
// the op. Each value is tried in every dtype that has a kernel and can hold it, with shapes known
// while building and with shapes known only in the step, over the memory of input 0 if the op is
// in_place, and on an accelerator (a shadow one, and a GPU if there is one). A smooth value in f64
// also has its gradient, and the gradient of that, compared with central differences. Each error
// must be refused as Error(invalid_argument) with that text. A table without a value, without a
// refusal, or without a gradient that could be checked is reported, too. Faults of the op are never
// thrown.
std::vector<std::string> check_op(const Op& op, const OpCases& cases);

}  // namespace troupe
