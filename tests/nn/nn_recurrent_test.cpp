// Recurrent layers against NumPy: several layers, both directions, the states of all; and refusals.
#include "tests/support/parameters.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

std::map<std::string, Tensor> lstm_parameters() {
  std::map<std::string, Tensor> out;
  for (int k = 0; k < 4; ++k) {
    const std::string at = detail::concat("lstm/layer", k / 2, k % 2 ? "/backward/" : "/forward/");
    out[at + "w_x"] = sines({k < 2 ? 2 : 4, 8}, 0.31, k);
    out[at + "w_h"] = sines({2, 8}, 0.47, k + 0.5);
    out[at + "b"] = sines({8}, 0.9, k + 0.25);
  }
  return out;
}

const std::vector<double> kLstm = {
    -0.15379019336367902, 0.1800006609287075,  0.294686447048402,   0.23274903611408287,
    -0.16147730882925043, 0.17320308204272294, 0.285109011722869,   0.22817029468336833,
    -0.10920921123723352, 0.3275920938884859,  0.24538091264313183, 0.18363255156789496,
    -0.11749534093023332, 0.3241096266859903,  0.2538111544984057,  0.18993359226426715,
    0.0235477382026143,   0.44823916515556933, 0.20143286527214596, 0.12410275815902883,
    0.04898796106821303,  0.46086377549568425, 0.21051274883240922, 0.12680916464923814};

}  // namespace

TEST_CASE("two LSTM layers that read both ways, with the last states of each") {
  Graph graph;
  nn::Model model(graph);
  const Tensor sequence = sines({3, 2, 2}, 0.7, 0.1);
  const Output x = placeholder(graph, DType::f64, {-1, -1, 2}, "x");
  const nn::Recurrent r = nn::lstm(model, x, 2, {.layers = 2, .bidirectional = true});
  CHECK(model.parameters().size() == 12);
  REQUIRE(r.h.size() == 4);
  REQUIRE(r.c.size() == 4);
  FedValues feeds = feed_parameters(graph, lstm_parameters());
  feeds[x] = sequence;
  check_close(evaluate(r.y, feeds), {3, 2, 4}, kLstm);
  check_close(evaluate(r.h[3], feeds), {2, 2},
              {0.294686447048402, 0.23274903611408287, 0.285109011722869, 0.22817029468336833});
  check_close(evaluate(r.c[1], feeds), {2, 2},
              {-1.0676850871493748, -0.5505435530359424, -1.3440388782744628, -0.696262464066886});
}

TEST_CASE("a sequence that is cut in two goes on with the states of its first part") {
  Graph graph;
  nn::Model model(graph);
  const Tensor sequence = sines({6, 2, 3}, 0.4, 0.2);
  const auto piece = [&](int64_t begin, int64_t end) {
    return constant(graph, sequence.rows(begin, end));
  };
  const nn::RecurrentOptions two = {.layers = 2, .name = "net"};
  const nn::Recurrent whole = nn::lstm(model, piece(0, 6), 4, two),
                      first = nn::lstm(model, piece(0, 4), 4, two);
  nn::RecurrentOptions on = two;
  on.h = first.h;
  on.c = first.c;
  const nn::Recurrent rest = nn::lstm(model, piece(4, 6), 4, on);
  const FedValues feeds = feed_parameters(graph);
  const Tensor want = evaluate(whole.y, feeds).rows(4, 6);
  check_close(evaluate(rest.y, feeds), {2, 2, 4},
              {want.values<double>().begin(), want.values<double>().end()});
}

TEST_CASE("a GRU from a first state") {
  Graph graph;
  nn::Model model(graph);
  const Output x = constant(graph, sines({3, 2, 2}, 0.7, 0.1)),
               h = constant(graph, sines({2, 2}, 1.3, 0.2));
  const nn::Recurrent r = nn::gru(model, x, 2, {.h = {h}});
  CHECK(r.c.empty());
  const std::string at = "gru/layer0/forward/";
  const FedValues feeds = feed_parameters(graph, {{at + "w_x", sines({2, 6}, 0.31, 0)},
                                                  {at + "w_h", sines({2, 6}, 0.47, 0.5)},
                                                  {at + "b", sines({6}, 0.9, 0.25)},
                                                  {at + "recurrent_b", sines({6}, 0.8, 0.35)}});
  check_close(evaluate(r.y, feeds), {3, 2, 2},
              {0.01871971099545494, 0.05152415668238913, 0.3410887065281923, -0.8008302764650749,
               -0.07864844391353772, -0.28750313395235577, 0.16400506303086262, -0.8567811104074814,
               -0.1946915763440237, -0.5675508479234664, 0.17034995711107176, -0.8469177610377719});
}

TEST_CASE("a recurrent network has a gradient for every parameter, dropout between its layers") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  const Output x = constant(graph, sines({4, 3, 2}, 0.4, 0.2));
  const Output lengths = constant(graph, Tensor::of<int64_t>({4, 2, 1}, {3}));
  const nn::RecurrentOptions deep = {
      .layers = 2, .bidirectional = true, .dropout = 0.5, .lengths = lengths};
  const Output y = add(nn::lstm(model, x, 3, deep).y, nn::gru(model, x, 3, deep).y);
  const auto found = parameter_gradients(reduce_sum(square(y)), model.parameters());
  CHECK(found.size() == 28);
  const FedValues feeds = feed_parameters(graph);
  for (const ParameterGradient& one : found)
    CHECK(evaluate(one.gradient, feeds).shape() == one.parameter.shape());
}

TEST_CASE("recurrent layers refuse what does not fit") {
  Graph graph;
  nn::Model model(graph);
  const Output x = placeholder(graph, DType::f32, {-1, -1, 2}),
               flat = placeholder(graph, DType::f32, {-1, 2});
  const auto refused = [](auto&& call, const char* text) {
    check_invalid(call, text, "nn_recurrent_test.cpp");
  };
  refused([&] { nn::lstm(model, flat, 2); }, "wants floats with 3 dimensions");
  refused([&] { nn::gru(model, x, 0); }, "at least one unit");
  refused([&] { nn::gru(model, x, 2, {.layers = 0}); }, "at least one layer");
  refused([&] { nn::lstm(model, x, 2, {.layers = 2, .h = {flat}}); },
          "wants one first h for each layer and direction, 2, got 1");
  refused([&] { nn::gru(model, x, 2, {.c = {flat}}); }, "wants one first c for each layer");
}

}  // namespace troupe
