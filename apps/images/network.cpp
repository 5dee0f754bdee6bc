// Layers of the two networks of images.
#include "apps/images/network.hpp"

#include "troupe/ops.hpp"

using namespace troupe;

namespace {

// A convolution, batch norm and relu.
Output conv(nn::Model& model, Output x, int64_t filters, nn::Regularizer decay) {
  return relu(nn::batch_norm(
      model, nn::conv2d(model, x, filters, 3,
                        {.bias = false, .weights = nn::he_normal(), .regularizer = decay})));
}

// He et al. 2016, 4.2: 6 blocks + 2 layers, three stages of 16, 32 and 64 filters.
Output resnet(nn::Model& model, Output x, int64_t blocks, nn::Regularizer decay) {
  x = conv(model, x, 16, decay);
  for (int64_t stage = 0; stage < 3; ++stage)
    for (int64_t block = 0; block < blocks; ++block)
      x = nn::residual_block(model, x, int64_t{16} << stage,
                             {.stride = stage > 0 && block == 0 ? 2 : 1, .regularizer = decay});
  return x;
}

// A small network of the blocks of Szegedy et al. 2015, with batch norm.
Output inception(nn::Model& model, Output x, nn::Regularizer decay) {
  const nn::InceptionOptions options = {.batch_norm = true, .regularizer = decay};
  x = max_pool2d(conv(model, x, 32, decay));
  x = nn::inception_block(model, x, {16, 16, 32, 4, 8, 8}, options);
  x = max_pool2d(nn::inception_block(model, x, {24, 24, 48, 6, 12, 12}, options));
  x = nn::inception_block(model, x, {32, 32, 64, 8, 16, 16}, options);
  return nn::inception_block(model, x, {48, 48, 96, 12, 24, 24}, options);
}

}  // namespace

void add_network_flags(Flags& flags, NetworkOptions& to) {
  flags.add("network", &to.name, "resnet or inception");
  flags.add("blocks", &to.blocks, "in a stage of the resnet, of 6 blocks + 2 layers");
  flags.add("weight-decay", &to.weight_decay, "factor of the squared weights, halved");
}

void check(const NetworkOptions& given) {
  if (given.name != "resnet" && given.name != "inception")
    throw Error(Errc::invalid_argument, "--network is resnet or inception, got ", given.name);
  if (given.blocks < 1 || !(given.weight_decay >= 0))
    throw Error(Errc::invalid_argument, "--blocks wants at least 1, and --weight-decay 0 or more");
}

Output logits_of(nn::Model& model, Output pictures, const NetworkOptions& given, int64_t classes) {
  const nn::Regularizer decay = {.l2 = given.weight_decay};
  const Output x = given.name == "resnet" ? resnet(model, pictures, given.blocks, decay)
                                          : inception(model, pictures, decay);
  return nn::dense(model, reduce_mean(x, {.axes = {1, 2}}), classes, {.regularizer = decay});
}
