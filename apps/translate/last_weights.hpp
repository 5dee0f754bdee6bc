// LastWeights: the weights of the last epochs, each in a file of --out, and their mean.
//
// Owner: the program. Thread: its main one. A resumed training finds the files of the earlier one.
#pragma once

#include "apps/program/out_folder.hpp"
#include "troupe/session.hpp"

class LastWeights {
 public:
  LastWeights(const OutFolder& out, int64_t count) : out_(out), count_(count) {}
  // Keeps the files of `count` epochs.
  void save(troupe::Session& session, int64_t epoch) const;
  // Sets the parameters to their mean up to this epoch, and writes them into weights.safetensors.
  void average(troupe::Session& session, int64_t epoch) const;

 private:
  std::string of(int64_t epoch) const;

  const OutFolder& out_;
  const int64_t count_;
};
