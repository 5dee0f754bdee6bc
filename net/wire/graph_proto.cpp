// Writes graphs to protobuf and reads them back, checking each node.
#include "net/wire/graph_proto.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "graph/frames.hpp"
#include "net/wire/graph.pb.h"
#include "troupe/op.hpp"

namespace troupe {
namespace {

constexpr int64_t kConstantBytesMax = int64_t{1} << 30;  // one tensor in a graph

// Numbers the texts in order of appearance.
class TextTable {
 public:
  uint32_t index(const std::string& text, google::protobuf::RepeatedPtrField<std::string>& out) {
    const auto [it, fresh] = numbers_.emplace(text, static_cast<uint32_t>(numbers_.size()));
    if (fresh) out.Add(std::string(text));
    return it->second;
  }

 private:
  std::map<std::string, uint32_t> numbers_;
};

struct AttrWriter {
  proto::Attr& out;
  void operator()(bool v) const { out.set_boolean(v); }
  void operator()(int64_t v) const { out.set_integer(v); }
  void operator()(double v) const { out.set_real(v); }
  void operator()(const std::string& v) const { out.set_text(v); }
  void operator()(DType v) const { out.set_dtype(static_cast<uint32_t>(v)); }
  void operator()(const Shape& v) const {
    auto& dims = *out.mutable_shape()->mutable_dims();
    dims.Assign(v.begin(), v.end());
  }
  void operator()(const std::vector<int64_t>& v) const {
    out.mutable_integers()->mutable_values()->Assign(v.begin(), v.end());
  }
  void operator()(const Tensor& v) const {
    auto& tensor = *out.mutable_tensor();
    tensor.set_dtype(static_cast<uint32_t>(v.dtype()));
    for (int i = 0; i < v.ndim(); ++i) tensor.add_dims(v.dim(i));
    tensor.set_elements(v.raw(), static_cast<size_t>(v.byte_size()));
  }
};

// Reads one graph; its errors name the node.
class GraphReader {
 public:
  GraphReader(const proto::Graph& in, std::shared_ptr<const Registry> registry)
      : in_(in), registry_(std::move(registry)), graph_(std::make_unique<Graph>(registry_)) {}

  std::unique_ptr<Graph> read() {
    for (at_ = 0; at_ < in_.nodes_size(); ++at_) add(in_.nodes(at_));
    return std::move(graph_);
  }

 private:
  template <class... Parts>
  Error error(const Parts&... parts) const {
    return Error(Errc::bad_data, "graph node number ", at_, " (", in_.nodes(at_).name(),
                 "): ", detail::concat(parts...));
  }

  // The number of a node before this one; throws for any other.
  int32_t earlier(uint32_t number, const char* how) const {
    if (number >= static_cast<uint32_t>(in_.nodes_size()))
      throw error("its ", how, " is node number ", number, ", but the graph has ", in_.nodes_size(),
                  " nodes; the input is missing");
    if (static_cast<int>(number) >= at_) {
      const bool cycle = reaches(static_cast<int>(number), at_);
      throw error("its ", how, " is node number ", number, " (",
                  in_.nodes(static_cast<int>(number)).name(), "), ",
                  cycle ? "which depends on it: the graph has a cycle"
                        : "which stands behind it; a node reads earlier ones only");
    }
    return static_cast<int32_t>(number);
  }

  // True if node `from` depends on node `goal`.
  bool reaches(int from, int goal) const {
    std::vector<bool> seen(static_cast<size_t>(in_.nodes_size()));
    std::vector<int> open = {from};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (at == goal) return true;
      if (at < 0 || at >= in_.nodes_size() || seen[static_cast<size_t>(at)]) continue;
      seen[static_cast<size_t>(at)] = true;
      for (uint32_t next : in_.nodes(at).inputs())
        open.push_back(static_cast<int>(std::min<uint32_t>(next, INT32_MAX)));
      for (uint32_t next : in_.nodes(at).control_inputs())
        open.push_back(static_cast<int>(std::min<uint32_t>(next, INT32_MAX)));
      if (in_.nodes(at).frame() > 0)
        open.push_back(static_cast<int>(std::min<uint32_t>(in_.nodes(at).frame() - 1, INT32_MAX)));
    }
    return false;
  }

  DType dtype(uint32_t number) const {
    if (!is_dtype(number)) throw error("there is no dtype number ", number);
    return static_cast<DType>(number);
  }

  Shape shape(const google::protobuf::RepeatedField<int64_t>& dims, int64_t least,
              const std::string& attr) const {
    if (dims.size() > Shape::kNdimMax)
      throw error("attribute ", attr, " has ", dims.size(), " dimensions, at most ",
                  Shape::kNdimMax, " are possible");
    int64_t product = 1;
    for (int64_t d : dims)
      if (d < least || (d > 0 && __builtin_mul_overflow(product, d, &product)) ||
          product > (int64_t{1} << 59))  // the limit of Shape::size()
        throw error("attribute ", attr, " has a shape past all bounds");
    return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(dims.size())));
  }

  Tensor tensor(const proto::Tensor& in, const std::string& attr) const {
    const DType type = dtype(in.dtype());
    const Shape dims = shape(in.dims(), 0, attr);
    const int64_t size = dims.size();
    if (size > kConstantBytesMax / size_of(type))
      throw error("attribute ", attr, " has a shape past all bounds");
    const int64_t bytes = size * size_of(type);
    if (bytes != static_cast<int64_t>(in.elements().size()))
      throw error("attribute ", attr, " of type ", type, dims, " wants ", bytes,
                  " bytes of elements, got ", in.elements().size());
    Tensor out = Tensor::empty(type, dims);
    if (bytes > 0) std::memcpy(out.mutable_raw(), in.elements().data(), static_cast<size_t>(bytes));
    if (type == DType::boolean)
      for (char c : in.elements())
        if (c != 0 && c != 1)
          throw error("attribute ", attr, " holds a bool that is neither 0 nor 1");
    return out;
  }

  Attr attr(const proto::Attr& in) const {
    switch (in.value_case()) {
      case proto::Attr::kBoolean:
        return in.boolean();
      case proto::Attr::kInteger:
        return int64_t{in.integer()};
      case proto::Attr::kReal:
        return in.real();
      case proto::Attr::kText:
        return in.text();
      case proto::Attr::kDtype:
        return dtype(in.dtype());
      case proto::Attr::kShape:
        return shape(in.shape().dims(), -1, in.name());
      case proto::Attr::kIntegers:
        return std::vector<int64_t>(in.integers().values().begin(), in.integers().values().end());
      case proto::Attr::kTensor:
        return tensor(in.tensor(), in.name());
      case proto::Attr::VALUE_NOT_SET:
        break;
    }
    throw error("attribute ", in.name(), " has no value");
  }

  void add(const proto::Node& in) {
    if (in.op() >= static_cast<uint32_t>(in_.ops_size()))
      throw error("its op is number ", in.op(), " of ", in_.ops_size());
    const std::string& op = in_.ops(static_cast<int>(in.op()));
    if (!registry_->find(op))
      throw error("op ", op, " is not known here; install the version that wrote the graph");
    if (in.name().empty()) throw error("it has no name");
    if (graph_->find(in.name())) throw error("another node has this name; names are unique");
    if (in.inputs_size() != in.input_outputs_size())
      throw error("it names ", in.inputs_size(), " inputs and ", in.input_outputs_size(),
                  " outputs of them");
    if (in.file() >= static_cast<uint32_t>(in_.files_size()))
      throw error("its file is number ", in.file(), " of ", in_.files_size());
    NodeSpec spec{.op = op, .name = in.name()};
    for (int i = 0; i < in.inputs_size(); ++i)
      spec.inputs.push_back(
          {graph_.get(), earlier(in.inputs(i), "input"),
           static_cast<int32_t>(std::min<uint32_t>(in.input_outputs(i), INT32_MAX))});
    for (uint32_t number : in.control_inputs())
      spec.control_inputs.push_back(earlier(number, "control input"));
    for (const proto::Attr& a : in.attrs())
      if (!spec.attrs.emplace(a.name(), attr(a)).second)
        throw error("attribute ", a.name(), " is given twice");
    if (!in.colocate_with().empty() && !graph_->find(in.colocate_with()))
      throw error("it is to stand with ", in.colocate_with(),
                  ", and there is no such node before it");
    try {
      const auto scope =
          graph_->scope({.device = in.device(), .colocate_with = in.colocate_with()}, Origin{});
      const auto frame = open_frame(
          *graph_, in.frame() == 0 ? -1 : earlier(in.frame() - 1, "frame"), {}, Origin{});
      graph_->add(std::move(spec), {in_.files(static_cast<int>(in.file())).c_str(), in.line()});
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {  // the builder's argument error is bad data here
      throw error(e.what());
    }
  }

  const proto::Graph& in_;
  const std::shared_ptr<const Registry> registry_;
  std::unique_ptr<Graph> graph_;
  int at_ = 0;
};

}  // namespace

std::string graph_to_proto(const Graph& graph) {
  proto::Graph out;
  out.set_version(kGraphVersion);
  TextTable ops, files;
  for (const auto& node : graph.nodes()) {
    proto::Node& n = *out.add_nodes();
    n.set_name(node->name);
    n.set_op(ops.index(node->op->name, *out.mutable_ops()));
    for (const Output& input : node->inputs) {
      n.add_inputs(static_cast<uint32_t>(input.node));
      n.add_input_outputs(static_cast<uint32_t>(input.index));
    }
    for (int32_t id : node->control_inputs) n.add_control_inputs(static_cast<uint32_t>(id));
    for (const auto& [name, value] : node->attrs) {
      proto::Attr& attr = *n.add_attrs();
      attr.set_name(name);
      std::visit(AttrWriter{attr}, value);
    }
    n.set_frame(static_cast<uint32_t>(node->frame + 1));
    n.set_device(node->device);
    n.set_colocate_with(node->colocate_with);
    n.set_file(files.index(node->file, *out.mutable_files()));
    n.set_line(node->line);
  }
  const size_t size = out.ByteSizeLong();
  if (size > kGraphBytesMax)
    throw Error(Errc::invalid_argument, "the graph takes ", size, " bytes, more than the limit of ",
                kGraphBytesMax, "; feed large constants instead of building them in");
  return out.SerializeAsString();
}

std::unique_ptr<Graph> graph_from_proto(const std::string& bytes,
                                        std::shared_ptr<const Registry> registry) {
  if (bytes.size() > kGraphBytesMax)
    throw Error(Errc::bad_data, "a graph of ", bytes.size(), " bytes is past the limit of ",
                kGraphBytesMax);
  proto::Graph in;
  if (!in.ParseFromString(bytes))
    throw Error(Errc::bad_data, "these ", bytes.size(),
                " bytes are no graph: they are cut or damaged");
  if (in.version() == 0)
    throw Error(Errc::bad_data, "these ", bytes.size(),
                " bytes are no graph: they have no version");
  if (in.version() > kGraphVersion)
    throw Error(Errc::bad_data, "the graph has format version ", in.version(),
                ", this program reads up to ", kGraphVersion, "; install a newer one");
  if (in.nodes_size() > kGraphNodesMax)
    throw Error(Errc::bad_data, "a graph of ", in.nodes_size(), " nodes is past the limit of ",
                kGraphNodesMax);
  return GraphReader(in, std::move(registry)).read();
}

}  // namespace troupe
