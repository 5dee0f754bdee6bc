// Op and Registry: which ops there are, which of their kernels fits a node, and the text that names
// a node in errors.
#include "troupe/op.hpp"

#include <algorithm>

#include "graph/words.hpp"

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

// Op and attribute names stand in the text form.
bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_word_character);
}

void check_attrs(const Op& op) {
  static const std::set<std::string> kWords = {"on", "in", "with", "after", "at"};
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

void check_kernels(const Op& op) {
  for (const Kernel& kernel : op.kernels)
    if (!kernel.run == !kernel.start) throw bad_schema(op, "a kernel has either `run` or `start`");
  if (op.dispatch < -1 || (op.dispatch > 0 && op.dispatch >= static_cast<int>(op.inputs.size())))
    throw bad_schema(op,
                     detail::concat("dispatch names input ", op.dispatch, ", which there is not"));
}

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t fnv1a(uint64_t hash, std::string_view text) {
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return (hash ^ 0xffu) * 0x100000001b3u;  // 0xff ends a text: it is in none of them
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

std::string InferContext::where() const {
  std::string text = describe(node_);
  for (size_t i = 0; i < inputs_.size(); ++i)
    text += detail::concat(i == 0 ? (inputs_.size() == 1 ? " (input " : " (inputs ") : ", ",
                           inputs_[i]);
  return text + (inputs_.empty() ? ": " : "): ");
}

void Registry::add(Op op) {
  if (!is_word(op.name)) throw bad_schema(op, "an op's name is letters, digits and _");
  if (ops_.count(op.name)) throw bad_schema(op, "there is already an op of this name");
  check_names(op, op.inputs, "input");
  check_names(op, op.outputs, "output");
  check_attrs(op);
  check_kernels(op);
  if (!op.outputs.empty() && !op.infer_shapes)
    throw bad_schema(op, "an op with outputs needs infer_shapes");
  if (!op.outputs.empty() && op.inputs.empty() && !op.infer_dtypes)
    throw bad_schema(op, "an op with outputs and no inputs needs infer_dtypes");
  std::string name = op.name;
  ops_.emplace(std::move(name), std::make_unique<Op>(std::move(op)));
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

uint64_t Registry::fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix_all = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) hash = fnv1a(hash, name);
    hash = fnv1a(hash, "");
  };
  for (const auto& [name, op] : ops_) {
    hash = fnv1a(hash, name);
    mix_all(op->inputs);
    mix_all(op->outputs);
    for (const AttrSpec& attr : op->attrs) {
      hash = fnv1a(hash, attr.name);
      hash = fnv1a(hash, std::to_string(static_cast<int>(attr.kind)));
      hash = fnv1a(hash, attr.default_value ? to_string(*attr.default_value) : "");
    }
    hash = fnv1a(hash, "");
  }
  return hash;
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
