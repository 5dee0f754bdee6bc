// Writes, reads and averages files of weights.
#include "apps/translate/last_weights.hpp"

#include <algorithm>

#include "troupe/files.hpp"
#include "troupe/training.hpp"

using namespace troupe;

std::string LastWeights::of(int64_t epoch) const {
  return (out_ / detail::concat("epoch", epoch, ".safetensors")).string();
}

void LastWeights::save(Session& session, int64_t epoch) const {
  save_weights(session, of(epoch));
  std::filesystem::remove(of(epoch - count_));
}

void LastWeights::average(Session& session, int64_t epoch) const {
  NamedTensors sums;
  int64_t files = 0;
  for (int64_t e = std::max<int64_t>(1, epoch - count_ + 1); e <= epoch; ++e) {
    if (!std::filesystem::exists(of(e))) continue;
    ++files;
    for (const auto& [name, value] : read_tensors(of(e))) {
      Tensor& sum =
          sums.try_emplace(name, Tensor::zeros(value.dtype(), value.shape())).first->second;
      for (int64_t i = 0; i < value.size(); ++i)
        sum.mutable_data<float>()[i] += value.data<float>()[i];
    }
  }
  for (auto& [name, sum] : sums)
    for (int64_t i = 0; i < sum.size(); ++i)
      sum.mutable_data<float>()[i] /= static_cast<float>(files);
  set_parameters(session, sums);
  write_tensors((out_ / "weights.safetensors").string(), sums);
}
