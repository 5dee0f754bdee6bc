// The text of a checkpoint's manifest (training/checkpoints/checkpoint.hpp): JSON with a digest of
// itself as the last member.
#include <algorithm>
#include <set>
#include <sstream>

#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/digest.hpp"
#include "data/files/json.hpp"
#include "graph/attr_text.hpp"
#include "graph/table_options.hpp"

namespace troupe {
namespace {

constexpr const char* kFormat = "troupe-checkpoint";
constexpr const char* kDigestKey = ",\n  \"sha256\": \"";
constexpr const char* kDigestEnd = "\"\n}\n";
constexpr size_t kDigestSize = 64;

std::string digest(const std::string& text) {
  Sha256 sha;
  sha.add(text);
  return sha.hex();
}

bool is_digest(const std::string& text) {
  return text.size() == kDigestSize &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// True for a file name that stays in the manifest's directory.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

// The last member covers everything before it, so any flipped bit is detected.
void check_digest(const std::string& text, const std::string& file) {
  const std::string key = kDigestKey, end = kDigestEnd;
  const size_t tail = key.size() + kDigestSize + end.size();
  const auto wrong = [&](const std::string& found) {
    return Error(Errc::bad_data, file,
                 ": expected to end with the SHA-256 of what stands before, found ", found);
  };
  if (text.size() < tail) throw wrong(detail::concat(text.size(), " bytes; the file is cut short"));
  const size_t at = text.size() - tail;
  if (text.compare(at, key.size(), key) != 0 ||
      text.compare(text.size() - end.size(), end.size(), end) != 0)
    throw wrong("something else; the file is cut short or damaged");
  const std::string stored = text.substr(at + key.size(), kDigestSize),
                    found = digest(text.substr(0, at));
  if (stored != found)
    throw wrong(detail::concat(stored, " for bytes with ", found, "; the file is damaged"));
}

Shape shape_of(const JsonReader& reader) {
  std::vector<int64_t> dims;
  for (const JsonReader& d : reader.as_array()) dims.push_back(d.as_i64(0));
  try {
    const Shape shape(dims);
    shape.size();  // throws for a product that overflows
    return shape;
  } catch (const Error& e) {
    throw reader.error(e.what());
  }
}

ParameterSpec parameter_of(const JsonReader& reader) {
  reader.only({"name", "dtype", "shape", "table_options"});
  ParameterSpec p;
  p.name = reader.string("name");
  try {
    p.dtype = dtype_from_string(reader.string("dtype"));
  } catch (const Error& e) {
    throw reader.error(e.what());
  }
  p.shape = shape_of(reader.member("shape"));
  if (!reader.json().find("table_options")) return p;
  try {
    p.table = table_options_from_text(reader.string("table_options"));
  } catch (const Error& e) {
    throw reader.error(e.what());
  }
  return p;
}

CheckpointFile file_of(const JsonReader& reader) {
  reader.only({"name", "bytes", "sha256"});
  CheckpointFile f{reader.string("name"), reader.i64("bytes", 0), reader.string("sha256")};
  if (!is_plain_name(f.name))
    throw reader.error("expected a file name without directories, found ", json_quote(f.name));
  if (!is_digest(f.sha256))
    throw reader.error("expected 64 hexadecimal digits, found ", json_quote(f.sha256));
  return f;
}

Aggregation rule_of(const JsonReader& reader) {
  try {
    return aggregation_from_string(reader.as_string());
  } catch (const Error& e) {
    throw reader.error(e.what());
  }
}

}  // namespace

std::string to_text(const Manifest& m) {
  std::ostringstream out;
  out << "{\n  \"format\": \"" << kFormat << "\",\n  \"version\": " << kCheckpointFormat
      << ",\n  \"generation\": " << m.generation << ",\n  \"step\": " << m.step
      << ",\n  \"epoch\": " << m.epoch << ",\n  \"rule\": \"" << to_string(m.rule)
      << "\",\n  \"rate_scale\": " << exact_text(m.rate_scale) << ",\n  \"next_steps\": [";
  for (size_t i = 0; i < m.next_steps.size(); ++i)
    out << (i ? ", " : "") << "{\"slot\": " << m.next_steps[i].first
        << ", \"step\": " << m.next_steps[i].second << "}";
  out << "],\n  \"data_seed\": " << m.data_seed
      << ",\n  \"graph\": " << json_quote(m.graph_fingerprint)
      << ",\n  \"compute\": " << json_quote(m.compute) << ",\n  \"sources\": [";
  for (size_t i = 0; i < m.sources.size(); ++i) out << (i ? ", " : "") << json_quote(m.sources[i]);
  out << "],\n  \"parameters\": [";
  for (size_t i = 0; i < m.parameters.size(); ++i) {
    const ParameterSpec& p = m.parameters[i];
    out << (i ? "," : "") << "\n    {\"name\": " << json_quote(p.name) << ", \"dtype\": \""
        << to_string(p.dtype) << "\", \"shape\": " << to_string(p.shape);
    if (p.table) out << ", \"table_options\": " << json_quote(describe(*p.table));
    out << "}";
  }
  out << "],\n  \"files\": [";
  for (size_t i = 0; i < m.files.size(); ++i)
    out << (i ? "," : "") << "\n    {\"name\": " << json_quote(m.files[i].name)
        << ", \"bytes\": " << m.files[i].bytes << ", \"sha256\": \"" << m.files[i].sha256 << "\"}";
  out << "]";
  const std::string text = out.str();
  return text + kDigestKey + digest(text) + kDigestEnd;
}

Manifest manifest_from_text(const std::string& text, const std::string& file) {
  check_digest(text, file);
  const Json json = parse_json(text, file);
  const JsonReader top(json, file);
  if (const std::string format = top.string("format"); format != kFormat)
    throw top.error("expected the format \"", kFormat, "\", found ", json_quote(format));
  const int64_t version = top.i64("version");
  if (version < kCheckpointFormatOldest || version > kCheckpointFormat)
    throw Error(Errc::bad_configuration, file, ": the checkpoint has format version ", version,
                ", this program reads ", kCheckpointFormatOldest, " to ", kCheckpointFormat,
                "; read it with the program that wrote it");
  top.only({"format", "version", "generation", "step", "epoch", "rule", "rate_scale", "next_steps",
            "data_seed", "graph", "compute", "sources", "parameters", "files", "sha256"});
  Manifest m;
  m.generation = top.i64("generation", 1);
  m.step = top.i64("step", 0);
  m.epoch = top.u64("epoch");
  m.rule = rule_of(top.member("rule"));
  std::set<int64_t> replicas;
  for (const JsonReader& r : top.array("next_steps")) {
    r.only({"slot", "step"});
    m.next_steps.emplace_back(r.i64("slot", 0, INT32_MAX), r.i64("step", 0));
    if (!replicas.insert(m.next_steps.back().first).second)
      throw r.error("the replica stands twice");
  }
  m.data_seed = top.u64("data_seed");
  m.graph_fingerprint = top.string("graph");
  if (version >= 3) m.compute = top.string("compute");
  if (version >= 4) {
    for (const JsonReader& r : top.array("sources")) m.sources.push_back(r.as_string());
    m.rate_scale = top.member("rate_scale").as_f64();
  }
  if (!(m.rate_scale > 0))
    throw top.member("rate_scale").error("expected a positive number, found ", m.rate_scale);
  std::set<std::string> names;
  for (const JsonReader& r : top.array("parameters")) {
    m.parameters.push_back(parameter_of(r));
    if (!names.insert(m.parameters.back().name).second) throw r.error("the parameter stands twice");
  }
  names.clear();
  for (const JsonReader& r : top.array("files")) {
    m.files.push_back(file_of(r));
    if (!names.insert(m.files.back().name).second) throw r.error("the file stands twice");
  }
  return m;
}

void check_manifest(const Manifest& manifest, const std::vector<ParameterSpec>& parameters,
                    const std::string& graph_fingerprint, uint64_t data_seed) {
  std::string text;
  const auto differs = [&](const auto&... parts) {
    text += (text.empty() ? "" : "; ") + detail::concat(parts...);
  };
  const auto named = [](std::string& list, const std::string& name) {
    list += (list.empty() ? "" : ", ") + name;
  };
  std::string missing, unused;
  for (const ParameterSpec& p : parameters) {
    const auto stored = std::find_if(manifest.parameters.begin(), manifest.parameters.end(),
                                     [&](const ParameterSpec& x) { return x.name == p.name; });
    if (stored == manifest.parameters.end())
      named(missing, p.name);
    else if (stored->dtype != p.dtype || !(stored->shape == p.shape))
      differs("its parameter ", p.name, " is ", stored->dtype, stored->shape, ", the graph's is ",
              p.dtype, p.shape);
    else if (stored->table.has_value() != p.table.has_value())
      differs("its parameter ", p.name, stored->table ? " is a table" : " is no table",
              " whose rows are made on first touch, the graph's is", stored->table ? " none" : "");
  }
  for (const ParameterSpec& stored : manifest.parameters)
    if (std::none_of(parameters.begin(), parameters.end(),
                     [&](const ParameterSpec& p) { return p.name == stored.name; }))
      named(unused, stored.name);
  if (!missing.empty()) differs("it has no parameter ", missing);
  if (!unused.empty()) differs("the graph has no parameter ", unused);
  const bool parameters_differ = !text.empty();
  if (!graph_fingerprint.empty() && !manifest.graph_fingerprint.empty() &&
      graph_fingerprint != manifest.graph_fingerprint)
    differs("its graph is ", manifest.graph_fingerprint, ", this one is ", graph_fingerprint);
  if (manifest.data_seed != data_seed)
    differs("its data seed is ", manifest.data_seed, ", this run's is ", data_seed);
  if (text.empty()) return;
  throw Error(Errc::bad_configuration, "the checkpoint of step ", manifest.step,
              manifest.compute.empty() ? "" : ", written in " + manifest.compute + ",",
              " is of another run: ", text,
              "; train the program that wrote it, or choose another directory",
              parameters_differ ? "; load_parameters() with LoadOptions::strict = false takes what "
                                  "both have"
                                : "");
}

}  // namespace troupe
