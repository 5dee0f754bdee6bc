// Layers of networks: functions that make parameters with their initial values, and the nodes that
// read them. Implemented in nn/nn_*.cpp, nn/beam_search.cpp and nn/collectives.cpp.
//
//   nn::Model model(graph, {.training = true});
//   Output x = relu(nn::conv2d(model, images, 32, 5));
//   x = relu(nn::dense(model, nn::flatten(max_pool2d(x)), 128));
//   const Output logits = nn::dense(model, nn::dropout(model, x, 0.5), 10);
//   const Output loss =
//       model.with_penalties(reduce_mean(softmax_cross_entropy(logits, labels)));
//   const Output update = model.with_updates(minimize(loss, adam()));
//
// The same calls on another Model, for another replica or with .training = false, make layers that
// read the same parameters: parameters are named by the model's scopes, not by the graph's. A layer
// without a name that is built again on one Model has parameters of its own, unless Model::reuse()
// is open; layers of one name share them.
//
// All functions throw Error(invalid_argument) naming the caller's line for sizes and settings that
// do not fit. Images are NHWC. Sizes that decide the shape of a parameter, such as the last
// dimension of a dense layer's input, must be known while building.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe::nn {

// ---- initial values ----
// The initial value of a parameter. Random values are keyed by (the model's seed, the parameter's
// name): they are the same in every replica, program and layout of shards. For a matrix [in, out]
// and for filters [..., in, out], fan_in is in and fan_out is out, each times the size of a
// filter's window; for a vector both are its size.
struct Initializer {
  enum Kind : uint8_t { constant, uniform, normal, truncated_normal, orthogonal } kind = constant;
  enum Fan : uint8_t { none, in, average } fan = none;  // `spread` is divided by its square root
  double middle = 0;  // the value of a constant, or the centre of random numbers
  double spread = 0;  // half the width of uniform, or the standard deviation, or the gain
};
Initializer constant(double value);
Initializer zeros();
Initializer ones();
Initializer uniform(double low, double high);
Initializer normal(double mean, double stddev);
Initializer truncated_normal(double mean, double stddev);
// Variance gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio 2010).
Initializer glorot_uniform(double gain = 1);
Initializer glorot_normal(double gain = 1);
// Variance 2 / fan_in, for weights before a relu (He et al. 2015).
Initializer he_uniform();
Initializer he_normal();
// Variance 1 / fan_in (LeCun et al. 1998).
Initializer lecun_uniform();
Initializer lecun_normal();
// A matrix whose rows or columns, whichever are fewer, are orthogonal and of length `gain` (Saxe et
// al. 2014); all dimensions but the last one count as rows.
Initializer orthogonal(double gain = 1);

// ---- models ----
// The penalty that the weights of a layer add to the loss: l1 times the sum of |w|, and l2 / 2
// times the sum of w^2 (troupe/optimizer.hpp). Biases, gamma and beta are left out.
struct Regularizer {
  double l1 = 0, l2 = 0;
};

// The state that the layers of one model share: names, the training mode, and what training needs
// from them (parameters, penalties, running averages). Not copied; must not outlive the graph.
class Model {
 public:
  struct Options {
    bool training = false;  // dropout drops, and batch_norm normalises by the batch
    int64_t seed = 0;       // for initial values and dropout
    // Layers read parameters that exist. One whose parameter does not exist is refused with the
    // nearest name: for a model that answers with what another one has learnt.
    bool reuse = false;
  };

 private:
  // The number of layers of a kind without a name, and the opening of their scope that made them.
  struct Count {
    int64_t layers = 0, opening = 0;
  };

 public:
  explicit Model(Graph& graph) : Model(graph, Options{}) {}
  Model(Graph& graph, Options options) : graph_(graph), options_(options) {}
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  Graph& graph() const { return graph_; }
  bool training() const { return options_.training; }
  int64_t seed() const { return options_.seed; }

  // Layers made while this is open are called NAME/...; so are their parameters, and their nodes
  // within the graph's own scopes. Scopes nest, and close in the reverse order.
  class Scope {
   public:
    Scope(Model& model, std::string_view name, bool reuses, Origin at);
    Scope(Scope&& other) noexcept;
    Scope& operator=(Scope&&) = delete;
    ~Scope();
    const std::string& name() const { return name_; }  // with the enclosing scopes: "block1/conv"

   private:
    Model* model_;
    Graph::Scope nodes_;
    size_t outer_;  // length of the prefix without it
    std::string name_;
    bool reuses_;
    std::map<std::string, Count> counts_;  // if it reuses: below it, before it was opened
  };
  // A scope that is opened again goes on counting for kinds of layers that it does not have yet; a
  // further one of a kind that it has is refused unless it has a name: see reuse().
  [[nodiscard]] Scope scope(std::string_view name, Origin at = Origin::here());
  // The scope of that name, or the open one if it is empty, for layers that are built again: they
  // count from the first one anew, read its parameters, and are refused if there are none. For a
  // decoder that is trained and then runs in a loop. Dropout draws other numbers each time.
  [[nodiscard]] Scope reuse(std::string_view name = {}, Origin at = Origin::here());
  // The scope of a layer: `name`, or if that is empty `kind`, then kind_1, kind_2, ... for the
  // further layers of that kind in the open scope. Two layers of one name share their parameters.
  [[nodiscard]] Scope layer(std::string_view name, std::string_view kind,
                            Origin at = Origin::here());
  // Layers built from here on get the names of the first ones again, and so their parameters: for a
  // model that is applied several times, as by accumulate_gradients(). No scope may be open.
  // Dropout draws other numbers each time. reuse() is for a part of the model.
  void rewind(Origin at = Origin::here());

  // A parameter of the layer in whose scope it is made.
  Output parameter(std::string_view name, const Shape& shape, const Initializer& first,
                   DType dtype = DType::f32, Regularizer regularizer = {},
                   Origin at = Origin::here());
  // The floating ones, in the order in which they were first made.
  const std::vector<Output>& parameters() const { return parameters_; }

  // An average over the training steps, as batch_norm keeps it: a parameter that moves from `first`
  // by (1 - decay) * (value - average) in each step that runs with_updates(). It is state: not
  // trained by gradients, but pushed to shards like one. So each step counts exactly once even if
  // processes are killed, checkpoints hold it, and it moves by the mean over replicas under the
  // synchronous rule and by each replica under the asynchronous one. If a step gives several
  // values, by a shared layer or a rewound model, their mean counts. No gradient flows through it.
  // Without training, `value` may be undefined and no update is made.
  Output running_average(std::string_view name, const Shape& shape, double first, Output value,
                         double decay, DType dtype = DType::f32, Origin at = Origin::here());

  // The loss, plus the penalties of the regularizers of all layers made so far.
  Output with_penalties(Output loss, Origin at = Origin::here()) const;
  // `update` and the updates of all running averages as one node, for Tower::update.
  Output with_updates(Output update, Origin at = Origin::here());

  // Key of a random op in the open scope, different after each rewind().
  std::string random_key() const;

 private:
  struct Running {
    Output average;
    std::vector<Output> values;
    double decay = 0;
  };
  struct Regularized {
    Output parameter;
    Regularizer regularizer;
  };
  std::map<std::string, Count> take_counts(const std::string& prefix);
  Output read(std::string_view name, const Shape& shape, const Initializer& first, DType dtype,
              Origin at);

  Graph& graph_;
  const Options options_;
  std::string prefix_;  // of the open scopes: "block1/conv/"
  // Layers without a name, by prefix and kind; and how often each prefix was opened.
  std::map<std::string, Count> count_;
  std::map<std::string, int64_t> openings_;
  int64_t pass_ = 0;     // number of calls of rewind() and reuse()
  int64_t reusing_ = 0;  // open scopes of reuse()
  std::vector<Output> parameters_;
  std::vector<Regularized> regularized_;
  std::map<std::string, Running> running_;  // by name
};

// ---- layers ----
struct DenseOptions {
  bool bias = true;
  Initializer weights = glorot_uniform(), biases = zeros();
  Regularizer regularizer = {};
  std::string name = {};  // empty: the function's name, dense, dense_1, ...
};
// x [..., in] -> x w + b, [..., units]. Parameters w [in, units], b [units].
Output dense(Model& model, Output x, int64_t units, const DenseOptions& options = {},
             Origin at = Origin::here());

struct ConvOptions {
  int64_t stride = 1;
  bool same_padding = true;  // as in Conv2dOptions
  bool bias = true;
  Initializer weights = glorot_uniform(), biases = zeros();
  Regularizer regularizer = {};
  std::string name = {};  // empty: conv2d, conv2d_1, ...
};
// x [b, h, w, in] -> [b, h', w', filters]. Parameters w [window, window, in, filters], b [filters].
Output conv2d(Model& model, Output x, int64_t filters, int64_t window,
              const ConvOptions& options = {}, Origin at = Origin::here());

using FilterOptions = DenseOptions;  // of layers with filters, besides the position of windows
// Images of one to three dimensions, x [b, ..., in] -> [b, ..., filters]. `window` is the filter's
// size along each dimension, or one size for all. Parameters w [window..., in / groups, filters], b
// [filters]. Initializers count the inputs and outputs of one group.
Output convolution(Model& model, Output x, int64_t filters, const std::vector<int64_t>& window,
                   const ConvolutionOptions& where = {}, const FilterOptions& options = {},
                   Origin at = Origin::here());
// A convolution of each channel by itself -> [b, ..., in * multiplier]. Parameters w [window...,
// in, multiplier], b [in * multiplier].
Output depthwise_convolution(Model& model, Output x, int64_t multiplier,
                             const std::vector<int64_t>& window,
                             const ConvolutionOptions& where = {},
                             const FilterOptions& options = {}, Origin at = Origin::here());
// From the y of such a convolution back to an image of its x's size -> [b, ..., filters].
// Parameters w [window..., filters / groups, in], b [filters].
Output convolution_transpose(Model& model, Output x, int64_t filters,
                             const std::vector<int64_t>& window,
                             const ConvolutionOptions& where = {},
                             const FilterOptions& options = {}, Origin at = Origin::here());

struct EmbeddingOptions {
  Combiner combiner = Combiner::none;  // over the last dimension of ids
  DType dtype = DType::f32;
  Initializer weights = normal(0, 1);
  Regularizer regularizer = {};
  std::string name = {};  // empty: embedding, embedding_1, ...
};
// ids [i...], i32 or i64 in [0, rows) -> [i..., width]. Parameter w [rows, width].
Output embedding(Model& model, Output ids, int64_t rows, int64_t width,
                 const EmbeddingOptions& options = {}, Origin at = Origin::here());

// In training, keeps an element with probability 1 - rate and divides it by 1 - rate (Srivastava et
// al. 2014); otherwise x itself.
Output dropout(Model& model, Output x, double rate, Origin at = Origin::here());

// x [b, ...] -> [b, product of the other dimensions, which must be known].
Output flatten(Output x, Origin at = Origin::here());

// ---- norms ----
// Parameters gamma, ones at first, and beta, zeros at first, of the last dimension's size.

struct BatchNormOptions {
  double decay = 0.9;     // of the running averages, for each step
  double epsilon = 1e-5;  // added to the variance
  std::string name = {};  // empty: batch_norm, batch_norm_1, ...
};
// x [..., c]. Training normalises by the mean and variance of each channel of the batch, and moves
// the running averages `mean` and `variance` [c] by them, the variance with n / (n - 1) for n
// values a channel. Otherwise normalises by the running averages (Ioffe and Szegedy 2015, algorithm
// 2). Training must run Model::with_updates(), or the averages stay 0 and 1.
Output batch_norm(Model& model, Output x, const BatchNormOptions& options = {},
                  Origin at = Origin::here());

struct NormOptions {
  double epsilon = 1e-5;
  std::string name = {};  // empty: layer_norm, rms_norm, group_norm, and so on
};
// Normalises over the last dimension (Ba et al. 2016; Zhang and Sennrich 2019, without beta).
Output layer_norm(Model& model, Output x, const NormOptions& options = {},
                  Origin at = Origin::here());
Output rms_norm(Model& model, Output x, const NormOptions& options = {},
                Origin at = Origin::here());
// Normalises over groups of channels of each record, x [b, ..., c] (Wu and He 2018).
Output group_norm(Model& model, Output x, int64_t groups, const NormOptions& options = {},
                  Origin at = Origin::here());

// ---- sequences ----
struct RecurrentOptions {
  int64_t layers = 1;
  bool bidirectional = false;  // each layer reads in both directions and concatenates the results
  double dropout = 0;          // between layers, in training
  // [batch], i32 or i64: the length of each row; undefined: all steps.
  Output lengths = {};
  // Initial states, [batch, units], by layer and within it forward, backward; empty: zeros. c is
  // for lstm only.
  std::vector<Output> h = {}, c = {};
  Initializer weights = glorot_uniform(), recurrent = orthogonal(), biases = zeros();
  double forget_bias = 1;   // for lstm (Jozefowicz et al. 2015)
  bool reset_after = true;  // for gru, as in cuDNN and Keras
  Regularizer regularizer = {};
  std::string name = {};  // empty: lstm, gru, lstm_1, ...
};
struct Recurrent {
  Output y;                  // [time, batch, units, or 2 * units], of the last layer
  std::vector<Output> h, c;  // last states, in the order of the initial ones
};
// x [time, batch, n], by the formulas of troupe/ops/networks.hpp. Parameters of each layer and
// direction are called layer0/forward/w_x and so on: w_x [n, 4 * units], w_h [units, 4 * units], b;
// gru has 3 instead of 4, and recurrent_b.
Recurrent lstm(Model& model, Output x, int64_t units, const RecurrentOptions& options = {},
               Origin at = Origin::here());
Recurrent gru(Model& model, Output x, int64_t units, const RecurrentOptions& options = {},
              Origin at = Origin::here());

// ---- blocks ----
struct AttentionOptions {
  int64_t head_width = 0;  // of queries, keys and values; 0: width / heads
  bool causal = false;     // query i sees keys 0 to i
  // bool, broadcast to [b, heads, queries, keys]: true where a key is seen. Undefined: all are.
  Output mask = {};
  double dropout = 0;  // of the weights, in training
  bool bias = true;
  Initializer weights = glorot_uniform();
  Regularizer regularizer = {};
  std::string name = {};  // empty: attention, attention_1, ...
};
// Multi-head attention (Vaswani et al. 2017, 3.2.2): for each head softmax(q k^T / sqrt(d)) v, and
// a projection of all heads back to the width of the queries. queries [b, tq, width], memory [b,
// tk, any] -> [b, tq, width]; for self-attention pass the same value twice. The keys must not all
// be masked. Parameters query/w, key/w, value/w [in, heads * d], output/w [heads * d, width], and
// their b.
Output attention(Model& model, Output queries, Output memory, int64_t heads,
                 const AttentionOptions& options = {}, Origin at = Origin::here());

struct ResidualOptions {
  int64_t stride = 1;
  bool bottleneck = false;             // 1 x 1, 3 x 3 and 1 x 1 to 4 * filters, else two of 3 x 3
  double decay = 0.9, epsilon = 1e-5;  // as in BatchNormOptions
  Regularizer regularizer = {};
  std::string name = {};  // empty: residual, residual_1, ...
};
// relu(f(x) + x), where f consists of convolutions, batch norms and relus (He et al. 2016, figures
// 2 and 5): x [b, h, w, c] -> [b, ceil(h / stride), ceil(w / stride), filters, or 4 * filters]. If
// the shapes differ, x passes through a 1 x 1 convolution and a batch norm of its own.
Output residual_block(Model& model, Output x, int64_t filters, const ResidualOptions& options = {},
                      Origin at = Origin::here());

// Filters of the branches of an inception block.
struct Inception {
  int64_t one = 0;                       // 1 x 1
  int64_t three_reduced = 0, three = 0;  // 1 x 1, then 3 x 3
  int64_t five_reduced = 0, five = 0;    // 1 x 1, then 5 x 5
  int64_t pooled = 0;                    // a 3 x 3 max pool, then 1 x 1
};
struct InceptionOptions {
  bool batch_norm = false;  // after each convolution, as in later versions of the network
  double decay = 0.9, epsilon = 1e-5;  // as in BatchNormOptions
  Regularizer regularizer = {};
  std::string name = {};  // empty: inception, inception_1, ...
};
// The four branches side by side, each convolution followed by a relu (Szegedy et al. 2015, figure
// 2b): x [b, h, w, c] -> [b, h, w, one + three + five + pooled].
Output inception_block(Model& model, Output x, const Inception& filters,
                       const InceptionOptions& options = {}, Origin at = Origin::here());

// ---- collectives: one value of each replica becomes one result for each ----
// Result r is for the replica of part r, on its device. Sums are made in the order of the parts, so
// no bit depends on devices and processes. A call computes all parts that its results need.
using Parts = std::vector<Output>;
enum class Combine : uint8_t { sum, mean, max };  // of numbers; a mean of floats: sum / parts
// Parts have one shape. Three and more of at least 64 KiB are cut: each device combines a piece.
Parts all_reduce(const Parts& parts, Combine how = Combine::sum, Origin at = Origin::here());
// Result r: piece r of that, of as many equal pieces along axis 0 as there are parts.
Parts reduce_scatter(const Parts& parts, Combine how = Combine::sum, Origin at = Origin::here());
Parts all_gather(const Parts& parts, int64_t axis = 0, Origin at = Origin::here());
Parts broadcast(const Parts& parts, int64_t root = 0, Origin at = Origin::here());
// No values: each result is done when all parts are. Nodes wait for it by control inputs.
Parts barrier(const Parts& parts, Origin at = Origin::here());

// ---- beam search ----
// A decoder's result for the next token of each of n rows: logits [n, classes], floats, and its
// states after this step.
struct Decoded {
  Output logits;
  std::vector<Output> states;
};
// Called with the last token of each row, i64 [n], and the states. Row b * beams + i is beam i of
// sentence b. A value from outside of the loop that is the same for all beams of a sentence need
// not be a state.
using Decoder = std::function<Decoded(Output ids, const std::vector<Output>& states)>;

struct BeamOptions {
  int64_t beams = 4;
  int64_t length_max = 100;    // tokens, the end included
  int64_t begin = 2, end = 3;  // as in Vocabulary
  // The score of a sentence of n tokens is the sum of their log probabilities divided by
  // ((5 + n) / 6)^length_penalty (Wu et al. 2016, equation 14). 0: the sum.
  double length_penalty = 0;
  // Shapes of the states in the loop; empty: those of the first ones. A size besides the first one
  // that changes from step to step is -1.
  std::vector<Shape> shapes = {};
};
// The best first. A beam that cannot be, for lack of possible tokens, has the score -infinity.
struct Beams {
  Output ids;      // i64 [batch, beams, time]: the tokens, and `end` from the first one on
  Output lengths;  // i64 [batch, beams], the end included
  Output scores;   // f32 [batch, beams]
};
// Searches for the likeliest sentences from left to right, in a loop of the graph: of all tokens
// that may follow one of the beams, those with the best scores become the next beams. It ends when
// all beams have `end`, or after length_max steps; 1 beam is greedy. states: [batch, ...], at least
// one. Throws, too, for logits that are no matrix of a known number of floats.
Beams beam_search(const Decoder& decoder, const std::vector<Output>& states,
                  const BeamOptions& options = {}, Origin at = Origin::here());

}  // namespace troupe::nn
