// Op and Registry: the known ops, the choice of a kernel for a node, and the text that names a node
// in errors.
#include "troupe/op.hpp"

#include <algorithm>

#include "graph/base/fnv.hpp"
#include "graph/base/words.hpp"
#include "graph/op.hpp"
#include "troupe/source.hpp"

namespace troupe {
namespace {

Error bad_schema(const Op& op, const std::string& what) {
  return Error(Errc::invalid_argument, "op \"", op.name, "\": ", what);
}

bool is_variadic(const std::string& name) {
  return name.ends_with("...") || name.ends_with("...?");
}

// Only the last name may stand for several values.
void check_names(const Op& op, const std::vector<std::string>& names, const char* what) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) throw bad_schema(op, detail::concat(what, " ", i, " has no name"));
    if (is_variadic(names[i]) && i + 1 < names.size())
      throw bad_schema(
          op, detail::concat("only the last ", what, " may end in \"...\", not ", names[i]));
  }
}

// Op and attribute names appear in the text form.
bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_word_character);
}

void check_attrs(const Op& op) {
  static const auto& kWords = *new std::set<std::string>{"on", "in", "with", "after", "at"};
  std::set<std::string> seen;
  for (const AttrSpec& attr : op.attrs) {
    if (!is_word(attr.name))
      throw bad_schema(
          op, "the name of an attribute is letters, digits and _, not \"" + attr.name + "\"");
    if (kWords.count(attr.name))
      throw bad_schema(
          op, "no attribute can be called " + attr.name + ", a word of the text form of graphs");
    if (!seen.insert(attr.name).second)
      throw bad_schema(op, "attribute " + attr.name + " is listed twice");
    if (attr.default_value && attr.default_value->index() != static_cast<size_t>(attr.kind))
      throw bad_schema(
          op, "the default of attribute " + attr.name + " has another type than the attribute");
  }
}

std::string named(const Kernel& kernel) {
  return detail::concat("the kernel for ",
                        kernel.dtype == DType::none ? "any dtype" : to_string(kernel.dtype), " on ",
                        to_string(kernel.device));
}

void check_kernels(const Op& op) {
  std::set<std::pair<DeviceKind, DType>> seen;
  for (const Kernel& kernel : op.kernels) {
    if (!kernel.run == !kernel.start)
      throw bad_schema(op, named(kernel) + " has " + (kernel.run ? "both" : "neither") +
                               " of `run` and `start`; give it one of them");
    if (!seen.insert({kernel.device, kernel.dtype}).second)
      throw bad_schema(op, named(kernel) + " is listed twice");
  }
  if (op.dispatch < -1 || (op.dispatch > 0 && op.dispatch >= static_cast<int>(op.inputs.size())))
    throw bad_schema(op,
                     detail::concat("dispatch names input ", op.dispatch, ", which there is not"));
}

// True if `op` is the built-in op of its name, except for its kernels.
bool is_built_in(const Op& op) {
  const Op* const known = op.built_in;
  return known && known->name == op.name && known->control == op.control &&
         known->inputs == op.inputs && known->outputs == op.outputs &&
         known->infer_dtypes == op.infer_dtypes && known->infer_shapes == op.infer_shapes &&
         known->attrs.size() == op.attrs.size() &&
         std::equal(op.attrs.begin(), op.attrs.end(), known->attrs.begin(),
                    [](const AttrSpec& a, const AttrSpec& b) {
                      return a.name == b.name && a.kind == b.kind;
                    });
}

void add_text(Fnv& hash, std::string_view text) {
  hash.add(text).add("\xff");  // ends a text, as it occurs in none
}

}  // namespace

const char* to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::shadow:
      return "shadow";
    case DeviceKind::cuda:
      return "cuda";
  }
  return "unknown";
}

void refuse_index(const Node& node, const char* who, const char* what, int i, size_t count) {
  const std::string have = count == 0 ? detail::concat("it has no ", what, "s")
                                      : detail::concat("it has ", count, " ", what,
                                                       count == 1 ? "" : "s", ", counted from 0");
  throw Error(Errc::invalid_argument, describe(node), ": the ", who, " of ", node.op->name,
              " asks for ", what, " ", i, ", but ", have);
}

namespace {

// values[i], for the `who` of the op of `node`.
template <class Value>
const Value& at(const std::vector<Value>& values, int i, const Node& node, const char* who,
                const char* what) {
  if (i < 0 || static_cast<size_t>(i) >= values.size()) [[unlikely]]
    refuse_index(node, who, what, i, values.size());
  return values[static_cast<size_t>(i)];
}

}  // namespace

const TensorType& InferContext::type(int i) const {
  return at(inputs_, i, node_, "type rule", "input");
}

Output GradientContext::input(int i) const {
  return at(node_.inputs, i, node_, "gradient", "input");
}

Output GradientContext::output(int i) const {
  at(node_.outputs, i, node_, "gradient", "output");
  return {&graph_, node_.id, i};
}

Output GradientContext::output_gradient(int i) const {
  return at(output_gradients_, i, node_, "gradient", "output");
}

std::string InferContext::where() const {
  std::string text = describe(node_);
  for (size_t i = 0; i < inputs_.size(); ++i)
    text += detail::concat(i == 0 ? (inputs_.size() == 1 ? " (input " : " (inputs ") : ", ",
                           inputs_[i]);
  return text + (inputs_.empty() ? ": " : "): ");
}

void Registry::add(Op op) {
  if (op.control != ControlKind::none && !is_built_in(op))
    throw bad_schema(op,
                     "its `control` says that it opens, borders or calls a frame of control flow, "
                     "which built-in ops alone can; leave `control` out, and build with cond(), "
                     "while_loop() and define() (troupe/ops/control_flow.hpp)");
  if (!is_built_in(op)) op.properties = nullptr;  // a copy may do something else
  add_checked(std::move(op));
}

void Registry::add_built_in(Op op) {
  Op& added = add_checked(std::move(op));
  added.built_in = &added;
}

Op& Registry::add_checked(Op op) {
  if (!is_word(op.name)) throw bad_schema(op, "an op's name is letters, digits and _");
  if (ops_.count(op.name)) throw bad_schema(op, "there is already an op of this name");
  check_names(op, op.inputs, "input");
  check_names(op, op.outputs, "output");
  check_attrs(op);
  check_kernels(op);
  if (!op.outputs.empty() && !op.infer_shapes)
    throw bad_schema(op, "an op with outputs needs infer_shapes");
  if (op.aliases && (op.inputs.empty() || op.outputs.empty()))
    throw bad_schema(op, "it `aliases` its first input as its first output, but lacks one of them");
  if (op.join && (op.inputs.empty() || op.join->like < 0))
    throw bad_schema(op, "its `join` names no input that it shares with " + op.join->with);
  if (!op.outputs.empty() && op.inputs.empty() && !op.infer_dtypes)
    throw bad_schema(op, "an op with outputs and no inputs needs infer_dtypes");
  std::string name = op.name;
  return *ops_.emplace(std::move(name), std::make_unique<Op>(std::move(op))).first->second;
}

const Op* Registry::find(std::string_view name) const {
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : it->second.get();
}

const Op& Registry::get(std::string_view name) const {
  if (const Op* op = find(name)) return *op;
  std::vector<std::string_view> names;
  for (const auto& [known, op] : ops_) names.push_back(known);
  const std::string nearest = did_you_mean(name, names);
  throw Error(Errc::invalid_argument, "there is no op \"", name, "\"",
              nearest.empty() ? "; troupe ops lists those that are built in, and others come with "
                                "ops_with() or a plugin"
                              : nearest);
}

std::vector<const Op*> Registry::all() const {
  std::vector<const Op*> ops;
  for (const auto& [name, op] : ops_) ops.push_back(op.get());
  return ops;
}

void Registry::add(SourceFunction function) {
  if (function.name.empty() || !function.bind)
    throw Error(Errc::invalid_argument, "the source function \"", function.name,
                "\" wants a name and bind()");
  auto shared = std::make_shared<const SourceFunction>(std::move(function));
  if (!functions_.emplace(shared->name, shared).second)
    throw Error(Errc::invalid_argument, "there are two source functions \"", shared->name, "\"");
}

const SourceFunction* Registry::find_function(std::string_view name) const {
  const auto it = functions_.find(name);
  return it == functions_.end() ? nullptr : it->second.get();
}

std::vector<const SourceFunction*> Registry::functions() const {
  std::vector<const SourceFunction*> out;
  for (const auto& [name, function] : functions_) out.push_back(function.get());
  return out;
}

uint64_t Registry::fingerprint() const {
  Fnv hash;
  const auto mix_all = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) add_text(hash, name);
    add_text(hash, "");
  };
  for (const auto& [name, op] : ops_) {
    add_text(hash, name);
    mix_all(op->inputs);
    mix_all(op->outputs);
    for (const AttrSpec& attr : op->attrs) {
      add_text(hash, attr.name);
      add_text(hash, std::to_string(static_cast<int>(attr.kind)));
      add_text(hash, attr.default_value ? to_string(*attr.default_value) : "");
    }
    add_text(hash, "");
  }
  for (const auto& [name, function] : functions_) add_text(hash, "function " + name);
  return hash.value();
}

DType dispatch_dtype(const Node& node) {
  const int i = node.op->dispatch;
  if (i >= 0 && i < static_cast<int>(node.inputs.size()))
    return node.inputs[static_cast<size_t>(i)].dtype();
  return node.outputs.empty() ? DType::none : node.outputs[0].dtype;
}

const Kernel* find_kernel(const Node& node, DeviceKind device) {
  const DType dtype = dispatch_dtype(node);
  const Kernel* any = nullptr;
  for (const Kernel& kernel : node.op->kernels) {
    if (kernel.device != device) continue;
    if (kernel.dtype == dtype && dtype != DType::none) return &kernel;
    if (kernel.dtype == DType::none && !any) any = &kernel;
  }
  return any;
}

}  // namespace troupe
