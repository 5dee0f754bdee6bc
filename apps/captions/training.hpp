// Parts of the two trainings of captions: of an encoder that names single digits, and of the
// network that writes sentences.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/captions/digits.hpp"
#include "apps/captions/network.hpp"
#include "apps/program/program.hpp"

struct Options : ProgramOptions {
  SceneOptions scenes;
  NetworkOptions network;
  std::string rule = "sync", encoder_scope = "encoder";
  std::optional<std::string> encoder;
  int64_t epochs = 16, batch = 64, replicas = 2, pretrain = 400, decay_every = 0;
  double learning_rate = 0.001, clip = 1;
  bool freeze = false;
};

// With the function "scene", which may come from a plugin.
troupe::ProcessOptions process_of(const Options& given);

// Placeholders for the fields of scenes.
struct SceneInputs {
  troupe::Output images, words, digits;
  SceneInputs(troupe::Graph& graph, int64_t side);
};

using LossOf =
    std::function<troupe::Output(troupe::nn::Model& model, const troupe::SourceBatch& batch)>;
// `freeze`: parameters of the encoder are not trained. `decay`: steps after which the learning rate
// is a tenth; 0: never.
std::vector<troupe::Tower> towers_of(troupe::Graph& graph, const Cluster& cluster,
                                     const troupe::Source& source, const Options& given,
                                     int64_t decay, bool freeze, const LossOf& loss_of);

// Trains the encoder to name single digits. Returns the path of its weights.
std::string pretrain(const Options& given, const Cluster& cluster, const Scenes& scenes,
                     const OutFolder& out);
// Gives the encoder the weights of a file, or of a folder with checkpoints; a layer that it lacks
// is new. Throws: as load_parameters(); Error(bad_configuration) for a layer of another shape.
void take_encoder(troupe::Session& session, const std::string& path, const Options& given);
