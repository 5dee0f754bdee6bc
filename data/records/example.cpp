// bind_example(): the few fields of the messages of tensorflow/core/example/example.proto, read
// from protobuf's wire format. Generated code would register their names, which a process that
// holds TensorFlow, too, may do only once.
//   Example {1: Features}  Features {1: repeated entries}  entry {1: name, 2: Feature}
//   Feature {1: BytesList | 2: FloatList | 3: Int64List}  lists {1: repeated values}
#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "data/records/records.hpp"
#include "data/source/fields.hpp"

namespace troupe {
namespace {

// Protobuf's encoding, "Message Structure".
enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// The fields of one message, one after the other.
class Message {
 public:
  Message(const SourceCall& call, std::string_view bytes) : call_(call), left_(bytes) {}

  bool next() {
    if (left_.empty()) return false;
    const uint64_t tag = varint();
    number_ = tag >> 3;
    type_ = static_cast<WireType>(tag & 7);
    switch (type_) {
      case WireType::varint:
        varint_ = varint();
        return true;
      case WireType::fixed64:
        bytes_ = take(8);
        return true;
      case WireType::bytes:
        bytes_ = take(varint());
        return true;
      case WireType::fixed32:
        bytes_ = take(4);
        return true;
    }
    throw malformed();
  }
  bool is(uint64_t number, WireType type) const { return number_ == number && type_ == type; }
  std::string_view bytes() const { return bytes_; }  // of the field, if it is no varint
  uint64_t value() const { return varint_; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= shift < 64 ? uint64_t{byte & 0x7fu} << shift : 0;
      if (!(byte & 0x80)) return value;
    }
    throw malformed();
  }
  bool done() const { return left_.empty(); }
  Error malformed() const {
    return call_.bad("it is no tf.train.Example: a message of it is damaged or cut short");
  }

 private:
  std::string_view take(uint64_t n) {
    if (n > left_.size()) throw malformed();
    const std::string_view out = left_.substr(0, n);
    left_.remove_prefix(n);
    return out;
  }

  const SourceCall& call_;
  std::string_view left_, bytes_;
  uint64_t number_ = 0, varint_ = 0;
  WireType type_ = WireType::varint;
};

constexpr const char* kKinds[] = {"no values", "bytes", "floats", "whole numbers"};
constexpr DType kDtypes[] = {DType::none, DType::u8, DType::f32, DType::i64};

struct Feature {
  std::string name;
  Field field;
  uint64_t kind = 0;  // the number of its list in the message Feature
};

// Values of a list, whether packed or not, appended.
void read_values(Message list, std::vector<float>& out) {
  while (list.next())
    if (list.is(1, WireType::bytes) || list.is(1, WireType::fixed32)) {
      const std::string_view bytes = list.bytes();
      if (bytes.size() % 4 != 0) throw list.malformed();
      if (bytes.empty()) continue;  // memcpy() wants addresses
      const size_t old = out.size();
      out.resize(old + bytes.size() / 4);
      std::memcpy(out.data() + old, bytes.data(), bytes.size());
    }
}
void read_values(const SourceCall& call, Message list, std::vector<int64_t>& out) {
  while (list.next()) {
    if (list.is(1, WireType::varint)) out.push_back(static_cast<int64_t>(list.value()));
    if (!list.is(1, WireType::bytes)) continue;
    for (Message packed(call, list.bytes()); !packed.done();)
      out.push_back(static_cast<int64_t>(packed.varint()));
  }
}
void read_values(Message list, std::vector<std::string_view>& out) {
  while (list.next())
    if (list.is(1, WireType::bytes)) out.push_back(list.bytes());
}

// The shape of `count` values. Throws: Error(bad_data) if they do not fit.
Shape shape_of(const SourceCall& call, const Feature& feature, int64_t count) {
  Shape shape = feature.field.type.shape;
  int64_t known = 1;
  for (const int64_t size : shape)
    if (size >= 0) known *= size;
  for (int i = 0; i < shape.ndim(); ++i)
    if (shape[i] < 0) shape.set(i, known == 0 ? 0 : count / known);
  if (shape.size() != count)
    throw call.bad("feature ", feature.name, " has ", count, " ", kKinds[feature.kind],
                   ", which do not fill the shape ", feature.field.type.shape);
  return shape;
}

template <class T>
Tensor tensor_of(const SourceCall& call, const Feature& feature, const std::vector<T>& values) {
  const auto count = static_cast<int64_t>(values.size());
  return Tensor::of(std::span<const T>(values), shape_of(call, feature, count));
}

// The tensor of the message Feature in `bytes`.
Tensor read_feature(const SourceCall& call, const Feature& feature, std::string_view bytes) {
  std::vector<float> floats;
  std::vector<int64_t> numbers;
  std::vector<std::string_view> texts;
  uint64_t kind = 0;
  for (Message message(call, bytes); message.next();) {
    for (uint64_t k = 1; k <= 3; ++k)
      if (message.is(k, WireType::bytes)) kind = k;
    if (kind != feature.kind) continue;
    const Message list(call, message.bytes());
    if (kind == 1) read_values(list, texts);
    if (kind == 2) read_values(list, floats);
    if (kind == 3) read_values(call, list, numbers);
  }
  if (kind != feature.kind)
    throw call.bad("feature ", feature.name, " has ", kKinds[kind], ", expected ",
                   kKinds[feature.kind], " for ", feature.field.type.dtype);
  if (kind == 2) return tensor_of(call, feature, floats);
  if (kind == 3) return tensor_of(call, feature, numbers);
  if (texts.size() != 1)
    throw call.bad("feature ", feature.name, " has ", texts.size(), " texts, expected one");
  const auto* begin = reinterpret_cast<const uint8_t*>(texts[0].data());
  const Shape shape = shape_of(call, feature, static_cast<int64_t>(texts[0].size()));
  return Tensor::of(std::span(begin, texts[0].size()), shape);
}

struct Features {
  std::vector<Feature> list = {};
  std::map<std::string, size_t, std::less<>> numbers = {};  // places in the list, by name

  Record read(const SourceCall& call, std::string_view example) const {
    std::vector<std::string_view> found(list.size());
    std::vector<bool> is_found(list.size());
    std::string names;
    for (Message outer(call, example); outer.next();) {
      if (!outer.is(1, WireType::bytes)) continue;
      for (Message features(call, outer.bytes()); features.next();) {
        if (!features.is(1, WireType::bytes)) continue;
        std::string_view name, value;
        for (Message entry(call, features.bytes()); entry.next();) {
          if (entry.is(1, WireType::bytes)) name = entry.bytes();
          if (entry.is(2, WireType::bytes)) value = entry.bytes();
        }
        if (const auto it = numbers.find(name); it != numbers.end()) {
          found[it->second] = value;
          is_found[it->second] = true;
        }
        if (names.size() < 200) names.append(names.empty() ? "" : ", ").append(name);
      }
    }
    Record out;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!is_found[i])
        throw call.bad("the Example has no feature ", list[i].name, "; it has ",
                       names.empty() ? "none" : names);
      out.push_back(read_feature(call, list[i], found[i]));
    }
    return out;
  }
};

// "[2, -1]", with or without brackets.
Shape shape_from(const std::string& text) {
  std::vector<int64_t> sizes;
  std::string_view left = text;
  const auto skip = [&](const char* characters) {
    left.remove_prefix(std::min(left.find_first_not_of(characters), left.size()));
  };
  for (skip(" ["); !left.empty() && left != "]"; skip(", ")) {
    int64_t size = 0;
    const auto [end, failure] = std::from_chars(left.data(), left.data() + left.size(), size);
    if (failure != std::errc() || size < -1)
      throw Error(Errc::invalid_argument, "example wants shapes such as [28, -1], got \"", text,
                  "\"");
    sizes.push_back(size);
    left.remove_prefix(static_cast<size_t>(end - left.data()));
  }
  if (std::count(sizes.begin(), sizes.end(), -1) > 1)
    throw Error(Errc::invalid_argument, "example wants at most one -1 in a shape, got ", text);
  std::vector<int64_t> least = sizes;  // refused if no tensor can be so large
  std::replace(least.begin(), least.end(), int64_t{-1}, int64_t{1});
  (void)Shape(least).size();
  return Shape(sizes);
}

DType dtype_from(const std::string& text) {
  const DType dtype = dtype_from_string(text);
  if (std::find(std::begin(kDtypes), std::end(kDtypes), dtype) == std::end(kDtypes))
    throw Error(Errc::invalid_argument, "example reads u8 (bytes), f32 (floats) and i64 ",
                "(whole numbers), not ", text);
  return dtype;
}

}  // namespace

SourceStep bind_example(const Fields& inputs, const SourceArgs& args) {
  using Texts = std::vector<std::string>;
  ArgReader read("example", args);
  const auto names = read.want<Texts>("names"), dtypes = read.want<Texts>("dtypes"),
             shapes = read.want<Texts>("shapes"), fields = read.get<Texts>("fields", names);
  const auto field = read.get<std::string>("field", "record");
  read.done();
  if (names.size() != dtypes.size() || names.size() != shapes.size() ||
      names.size() != fields.size())
    throw Error(Errc::invalid_argument, "example wants equally many names, dtypes, shapes and ",
                "fields, got ", names.size(), ", ", dtypes.size(), ", ", shapes.size(), " and ",
                fields.size());
  const size_t from = field_of("example", inputs, field, {DType::u8, {-1}});
  Features features;
  SourceStep out;
  for (size_t i = 0; i < names.size(); ++i) {
    const DType dtype = dtype_from(dtypes[i]);
    const auto kind = static_cast<uint64_t>(
        std::find(std::begin(kDtypes), std::end(kDtypes), dtype) - std::begin(kDtypes));
    features.list.push_back({names[i], {fields[i], {dtype, shape_from(shapes[i])}}, kind});
    if (!features.numbers.emplace(names[i], i).second)
      throw Error(Errc::invalid_argument, "example names the feature ", names[i], " twice");
    out.fields.push_back(features.list.back().field);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (i != from) out.fields.push_back(inputs[i]);
  out.map = [features = std::move(features), from](const SourceCall& call) {
    Record record = features.read(call, text_of(call.record()[from]));
    for (size_t i = 0; i < call.record().size(); ++i)
      if (i != from) record.push_back(call.record()[i]);
    return record;
  };
  return out;
}

}  // namespace troupe
