// What an op of one's own needs: its registration, ops_with(); a plugin, which brings it into a
// program that runs, and check_op(), which tries it as the built-in ops are tried. Implemented in
// ops/plugin.cpp and ops/check/op_check.cpp; docs/adding_an_op.md shows both.
//
// A plugin is a shared library. It is built with these headers and links nothing of ours: it takes
// what it needs from the program, which therefore exports its symbols
// (troupe_enable_plugins() of the CMake package does that).
//
//   void add_ops(troupe::Registry& ops) { ops.add(cube_op()); }
//   TROUPE_PLUGIN(add_ops)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/op.hpp"

namespace troupe {

// Grows when a plugin that was built before would misunderstand the program, or be misunderstood,
// though no type of the headers has another size.
inline constexpr uint32_t kPluginAbi = 1;

// What a plugin says of itself. It is read from the file before any code of the library runs.
struct PluginDescription {
  std::array<char, 16> mark;  // finds it in the file
  uint32_t abi;               // kPluginAbi of the headers it was built with
  uint32_t unused;
  uint64_t layout;  // of their types
  void (*add_ops)(Registry&);
};

namespace detail {
// A function, so that a library holds these bytes once.
constexpr std::array<char, 16> plugin_mark() {
  return {'T', 'r', 'o', 'u', 'p', 'e', ' ', 'p', 'l', 'u', 'g', 'i', 'n', ':', '\n', '\x1a'};
}

// Sizes of what crosses the border, and the compiler's own ABI, as one number (FNV-1a by words).
constexpr uint64_t plugin_layout() {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const uint64_t n : {sizeof(Op),
                           sizeof(Kernel),
                           sizeof(AttrSpec),
                           sizeof(Attr),
                           sizeof(Node),
                           sizeof(NodeSpec),
                           sizeof(Graph),
                           sizeof(Output),
                           sizeof(Tensor),
                           sizeof(Buffer),
                           sizeof(Shape),
                           sizeof(Registry),
                           sizeof(InferContext),
                           sizeof(GradientContext),
                           sizeof(KernelContext),
                           sizeof(AsyncContext),
                           sizeof(RunContext),
                           sizeof(std::string),
                           sizeof(std::vector<bool>),
                           size_t{__GXX_ABI_VERSION}})
    hash = (hash ^ n) * 0x100000001b3u;
  return hash;
}
}  // namespace detail

// Once in a plugin, at namespace scope: `function`, a void(troupe::Registry&), adds its ops.
#define TROUPE_PLUGIN(function)                                                                    \
  extern "C" __attribute__((visibility("default")))                                                \
  const ::troupe::PluginDescription troupe_plugin;                                                 \
  extern "C" constinit const ::troupe::PluginDescription troupe_plugin = {                         \
      ::troupe::detail::plugin_mark(), ::troupe::kPluginAbi, 0, ::troupe::detail::plugin_layout(), \
      function};

struct Plugin {
  std::string path;              // absolute
  std::vector<std::string> ops;  // that it added, by name
};

// Adds the ops of the plugin at `path` to `registry`: all of them, or none when it throws. A plugin
// stays loaded until the process ends. Throws, naming the file and what to do: Error(io) for one
// that cannot be read; Error(bad_data) for one that is no plugin; Error(bad_configuration) for
// another ABI, a symbol that this program does not have, an op whose name exists or whose schema is
// wrong, and for whatever the plugin throws.
Plugin load_plugin(Registry& registry, const std::string& path);

// builtin_ops() and these, for Graph and ProcessOptions::ops. Throws: Error(invalid_argument) for a
// name that exists or a bad schema.
std::shared_ptr<const Registry> ops_with(const std::vector<Op>& own);

// builtin_ops() and those of the plugins, in this order: for Graph and ProcessOptions::ops. Without
// plugins it is builtin_ops() itself. All processes of a cluster must load the same ones; what
// differs is named when they meet. Throws: as load_plugin().
std::shared_ptr<const Registry> ops_with_plugins(const std::vector<std::string>& paths);

// The table of an op: what it gives, and what it refuses.

// A graph to check instead of a single node: the outputs it makes of the inputs.
using BuildCase = std::function<std::vector<Output>(Graph&, const std::vector<Output>&)>;

struct OpCase {
  std::string name;
  std::string op = {};  // whose case it is, also when `build` makes the nodes
  std::vector<Tensor> inputs = {};
  Attrs attrs = {};
  // Left out: what the op gives in one way is compared with what it gives in the others.
  std::vector<Tensor> expected = {};
  // |got - expected| <= tolerance * max(1, |expected|); left out: by dtype (1e-5 for f32, 1e-12 for
  // f64). At least 2^-7 for bf16 and 2^-10 for f16, a unit in the last place, also where it is
  // given. Integers are exact.
  std::optional<double> tolerance = {};
  BuildCase build = {};
  // True: only with the dtypes as written. Else the case runs once for each kernel dtype of the op
  // that can hold it: every tensor with the dtype of the dispatch input is converted.
  bool as_written = false;
  // False: not differentiable here, or so steep that differences say nothing. Has its value checked
  // only.
  bool smooth = true;
  bool twice = true;  // second derivatives are checked, too
  double gradient_tolerance = 1e-6;
};

struct OpError {
  std::string op = {};
  std::vector<Tensor> inputs = {};
  Attrs attrs = {};
  std::string message;  // a part of the error's text
  BuildCase build = {};
  bool when_run = false;  // depends on values: thrown by the kernel, not while building
};

struct OpCases {
  std::vector<OpCase> values = {};
  std::vector<OpError> errors = {};
};

// What is wrong with an op that is not built in, one sentence each; none: all is well. The cases
// need not name it. Each value is tried in every dtype that has a kernel and can hold it, with
// shapes known while building and not before the step, over the memory of input 0 if the op is
// in_place, and on an accelerator (a shadow one, and a GPU where there is one); a smooth one in f64
// also has its gradient, and that gradient's own, compared with central differences; each error is
// to be refused as Error(invalid_argument) with that text. A table without a value, without a
// refusal, or without a gradient that could be checked is told of, too. Nothing is thrown for what
// the op does.
std::vector<std::string> check_op(const Op& op, const OpCases& cases);

// The same of single cases, for ops of `registry`.
[[nodiscard]] std::vector<std::string> check_value_of(
    const OpCase& c, const std::shared_ptr<const Registry>& registry);
[[nodiscard]] std::vector<std::string> check_gradient_of(
    const OpCase& c, const std::shared_ptr<const Registry>& registry);
[[nodiscard]] std::vector<std::string> check_refusal_of(
    const OpError& e, const std::shared_ptr<const Registry>& registry);

// `tensor` in another dtype: floats to nearest, from and to bool as 0 and 1. Requires: integers
// that fit.
Tensor converted(const Tensor& tensor, DType dtype);
// Approximately equal, dtype and shape included; NaN equals NaN. Else a text that says where they
// differ.
std::optional<std::string> difference(const Tensor& got, const Tensor& expected,
                                      std::optional<double> tolerance = {});

}  // namespace troupe
