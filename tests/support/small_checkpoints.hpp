// Checkpoints of a small model on a simulated disk, in which each value says which element it is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "chaos/sim_disk.hpp"
#include "training/checkpoints/checkpoint.hpp"

namespace troupe {

inline const std::string kDir = "run";

inline const std::vector<ParameterSpec>& parameters() {
  static const std::vector<ParameterSpec> all = {
      {"conv/w", DType::f32, {3, 3, 8}, Optimizer{.kind = "adam"}},
      {"fc/w", DType::f32, {300, 120}, Optimizer{.kind = "adam"}},
      {"scale", DType::f64, {}, Optimizer{.kind = "adam"}},
      {"table", DType::i64, {5}}};
  return all;
}

// For tests that save thousands of times.
inline const std::vector<ParameterSpec>& few_parameters() {
  static const std::vector<ParameterSpec> all = {
      {"conv/w", DType::f32, {3, 3, 8}, Optimizer{.kind = "adam"}},
      {"scale", DType::f64, {}, Optimizer{.kind = "adam"}}};
  return all;
}

// A value that says which element of which tensor at which step it is.
inline double value_at(const std::string& name, int64_t i, int64_t step) {
  return static_cast<double>(step * 1'000'000 + i) + 0.25 * static_cast<double>(name.size());
}
inline Tensor values_of(const Slice& slice, const std::string& what, int64_t step) {
  Tensor t = Tensor::empty(slice.dtype, Shape{slice.size});
  for (int64_t i = 0; i < slice.size; ++i) {
    const double v = value_at(what + slice.parameter, slice.offset + i, step);
    if (slice.dtype == DType::f32) t.mutable_data<float>()[i] = static_cast<float>(v);
    if (slice.dtype == DType::f64) t.mutable_data<double>()[i] = v;
    if (slice.dtype == DType::i64) t.mutable_data<int64_t>()[i] = static_cast<int64_t>(v);
  }
  return t;
}

inline std::vector<ShardImage> images(int32_t shards, int64_t step,
                                      const std::vector<ParameterSpec>& model = parameters()) {
  std::vector<ShardImage> out(static_cast<size_t>(shards));
  for (const Slice& slice : split_parameters(model, shards)) {
    SliceState s{
        .slice = slice, .version = step, .next_step = step, .values = values_of(slice, "", step)};
    if (slice.optimizer) {
      for (const char* name : {"adam_m", "adam_v"})
        s.optimizer_accumulators.emplace_back(name, values_of(slice, name, step));
      s.progress = replicas_at(3, step);
    }
    out[static_cast<size_t>(slice.shard)].slices.push_back(std::move(s));
  }
  for (ShardImage& image : out) {
    image.epoch = 4;
    image.step = step;
  }
  return out;
}

inline Manifest save(Disk& disk, int32_t shards, int64_t step, int keep = 3,
                     const std::vector<ParameterSpec>& model = parameters()) {
  Manifest m{.generation = next_generation(disk, kDir), .step = step, .epoch = 4};
  m.next_steps = {{0, step}, {1, step}, {2, step}};
  m.data_seed = UINT64_MAX;
  m.graph_fingerprint = "f00d";
  m.parameters = model;
  const std::vector<ShardImage> all = images(shards, step, model);
  for (int32_t i = 0; i < shards; ++i)
    m.files.push_back(write_shard_file(disk, kDir, shard_file_name(m.generation, step, i, shards),
                                       all[static_cast<size_t>(i)]));
  commit_checkpoint(disk, kDir, m);
  for (const std::string& line : prune_checkpoints(disk, kDir, keep)) throw Error(Errc::io, line);
  return m;
}

inline void check_state(Disk& disk, const Manifest& m, int32_t shards,
                        const std::vector<ParameterSpec>& model = parameters()) {
  const std::vector<Slice> wanted = split_parameters(model, shards, 10);
  const std::vector<SliceState> states = read_slices(disk, kDir, m, wanted);
  REQUIRE(states.size() == wanted.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const SliceState& s = states[i];
    CHECK(s.slice.id == wanted[i].id);
    CHECK(s.version == m.step);
    CHECK(s.next_step == m.step);
    CHECK(same_bits(s.values, values_of(wanted[i], "", m.step)));
    REQUIRE(s.optimizer_accumulators.size() == (wanted[i].optimizer ? 2 : 0));
    for (const auto& [name, tensor] : s.optimizer_accumulators)
      CHECK(same_bits(tensor, values_of(wanted[i], name, m.step)));
    if (wanted[i].optimizer) CHECK(s.progress == replicas_at(3, m.step));
  }
}

inline std::optional<Manifest> newest(Disk& disk, std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> ignored;
  return find_newest(disk, kDir, warnings ? *warnings : ignored);
}

}  // namespace troupe
