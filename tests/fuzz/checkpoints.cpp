// The manifest of a checkpoint.
#include "tests/fuzz/targets.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/digest.hpp"

namespace troupe::fuzz {
namespace {

// As a manifest ends, so that more than the digest is read.
std::string sealed(std::string_view bytes) {
  std::string out(bytes);
  const size_t end = out.rfind(",\n  \"sha256\": \"");
  if (end != out.npos) out.resize(end);
  Sha256 sha;
  sha.add(out);
  return out + ",\n  \"sha256\": \"" + sha.hex() + "\"\n}\n";
}

void run_manifest(std::string_view bytes) {
  const Manifest manifest = manifest_from_text(sealed(bytes), "m.json");
  const std::string once = to_text(manifest);
  promise(to_text(manifest_from_text(once, "m.json")) == once, "a manifest reads back equal");
}

Seeds seeds() {
  Manifest m;
  m.generation = 7;
  m.step = 12;
  m.epoch = 3;
  m.rate_scale = 0.5;
  m.next_steps = {{0, 12}, {1, 12}};
  m.data_seed = 5;
  m.graph_fingerprint = std::string(16, 'a');
  m.sources = {R"({"replica":0})"};
  ParameterSpec parameter;
  parameter.name = "fc/weights";
  parameter.dtype = DType::f32;
  parameter.shape = Shape{2, 3};
  m.parameters = {parameter};
  m.files = {{shard_file_name(7, 12, 0, 1), 100, std::string(64, '0')}};
  return {to_text(m), to_text(Manifest{})};
}

}  // namespace

Target manifest_target() { return {"manifest", run_manifest, seeds}; }

}  // namespace troupe::fuzz
