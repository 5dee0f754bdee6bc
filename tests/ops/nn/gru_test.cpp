// Gru and GruGradient. Expected values come from a NumPy program that takes one row and one step at
// a time; gradients of nodes come from complex steps of that program.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

std::vector<Tensor> with(std::vector<Tensor> inputs, size_t i, Tensor other) {
  inputs[i] = std::move(other);
  return inputs;
}

// x, h0, w_x, w_h, bias, recurrent bias: 3 steps, 2 rows, 2 features, 3 units.
std::vector<Tensor> gru_inputs() {
  return {waves({3, 2, 2}, 0.1), waves({2, 3}, 0.2), waves({2, 9}, 0.4),
          waves({3, 9}, 0.5),    waves({9}, 0.6),    waves({9}, 0.7)};
}
OpCase gru_case(std::string name, std::vector<Tensor> expected, bool reset_after,
                std::vector<double> lengths = {}, bool reverse = false) {
  OpCase c{.name = std::move(name),
           .op = "Gru",
           .inputs = gru_inputs(),
           .expected = std::move(expected)};
  c.build = [=](Graph&, const std::vector<Output>& in) -> std::vector<Output> {
    const Output given = in.size() > 6 ? in[6] : Output{};
    const Gru out = gru(in[0], in[1], in[2], in[3], in[4], in[5],
                        {.lengths = given, .reset_after = reset_after, .reverse = reverse});
    return {out.y, out.h};
  };
  if (!lengths.empty()) c.inputs.push_back(i32(vector({lengths[0], lengths[1]})));
  c.twice = false;
  return c;
}
std::vector<Tensor> gru_node() {
  return {waves({2, 2, 6}, 0.1), waves({2, 2}, 0.2), waves({2, 6}, 0.5),
          waves({6}, 0.6),       waves({6}, 0.65),   i64(vector({2, 1}))};
}
// The gates, inner values and y that this node saves for its gradient.
std::vector<Tensor> gru_saved(bool reset_after) {
  if (reset_after)
    return {
        values({2, 2, 6}, {0.6129301103727884,
                           0.9194530241858383,
                           0.2521642970654596,
                           0.10388315473718836,
                           0.9183545575850349,
                           0.9324665929075812,
                           0.7283295049156377,
                           0.6683332936303319,
                           0.23744926022474994,
                           0.40131070809511843,
                           0.7170946719136574,
                           0.13718601362100932,
                           0.8356938291554187,
                           0.8443484096043493,
                           0.11281855881203207,
                           0.2387543008016432,
                           0.9783165191720519,
                           0.3899097729693186,
                           0,
                           0,
                           0,
                           0,
                           0,
                           0}),
        values({2, 2, 2}, {0.1652238756082215, 0.6780874850315524, 1.3551493456123476,
                           -0.19676745835176757, 0.6350285061724206, 0.8956363745190465, 0, 0}),
        values({2, 2, 2}, {0.7368756382631453, 0.9339036599863507, 0.4417449206619586,
                           -0.25186603920937134, 0.9510775069496016, 0.5197906531044383, 0, 0})};
  return {values({2, 2, 6}, {0.6129301103727884,
                             0.9194530241858383,
                             0.2521642970654596,
                             0.10388315473718836,
                             0.9290409802734062,
                             0.9320422653006333,
                             0.7283295049156377,
                             0.6683332936303319,
                             0.23744926022474994,
                             0.40131070809511843,
                             0.8014754965729677,
                             0.21375907729892812,
                             0.8362690565522685,
                             0.8452039250253688,
                             0.11223172394998748,
                             0.23784493306963053,
                             0.9838519466957285,
                             0.4255023455818334,
                             0,
                             0,
                             0,
                             0,
                             0,
                             0}),
          values({2, 2, 2}, {0.12177041485190489, 0.8700784774115172, -0.32230069537998846,
                             -0.5562320408427919, 0.6229094965444446, 0.789017652660679, 0, 0}),
          values({2, 2, 2}, {0.7448673266861591, 0.9335234128698546, 0.5060895809287612,
                             -0.20602256593705076, 0.9570302907945218, 0.5463325823289151, 0, 0})};
}
std::vector<Tensor> gru_gradient_node(std::vector<Tensor> saved) {
  for (Tensor one : {waves({2, 2, 2}, 0.7), waves({2, 2}, 0.8), waves({2, 2}, 0.2),
                     waves({2, 6}, 0.5), i64(vector({2, 1}))})
    saved.push_back(std::move(one));
  return saved;
}
std::vector<Tensor> and_then(std::vector<Tensor> values, Tensor last) {
  values.push_back(std::move(last));
  return values;
}

OpCases gru_cases() {
  return {
      .values =
          {gru_case(
               "reset after the product",
               {values({3, 2, 3}, {-0.005236230950669107, 0.8718770704751112, 0.10591578536138713,
                                   -0.8477242570001239, 0.35534420143403656, 0.7287800097210012,
                                   -0.4483825782686058, 0.793736928973222, 0.4818671382723613,
                                   -0.7101266449468673, 0.12072396566213087, 0.7085992070642262,
                                   -0.7945158142107656, 0.6665592241964455, 0.6580505670804287,
                                   -0.5086674589696395, 0.04693214245845649, 0.5454437840010311}),
                values({2, 3}, {-0.7945158142107656, 0.6665592241964455, 0.6580505670804287,
                                -0.5086674589696395, 0.04693214245845649, 0.5454437840010311})},
               true),
           gru_case(
               "reset before it",
               {values({3, 2, 3}, {-0.08855526952836337, 0.8664457232329855, 0.5051341219892087,
                                   -0.885786142831775, 0.4077395589458813, 0.7375843166480303,
                                   -0.5846334584911707, 0.7937592033447914, 0.6907635353195695,
                                   -0.8216329213230622, 0.21132455465983607, 0.7621641190113566,
                                   -0.8468964029304776, 0.6948981213462625, 0.779740686252719,
                                   -0.6974928827999217, 0.155628744635343, 0.6956090270137434}),
                values({2, 3}, {-0.8468964029304776, 0.6948981213462625, 0.779740686252719,
                                -0.6974928827999217, 0.155628744635343, 0.6956090270137434})},
               false),
           gru_case("lengths",
                    {values({3, 2, 3},
                            {-0.08855526952836337, 0.8664457232329855, 0.5051341219892087,
                             -0.885786142831775, 0.4077395589458813, 0.7375843166480303,
                             -0.5846334584911707, 0.7937592033447914, 0.6907635353195695, 0, 0, 0,
                             -0.8468964029304776, 0.6948981213462625, 0.779740686252719, 0, 0, 0}),
                     values({2, 3}, {-0.8468964029304776, 0.6948981213462625, 0.779740686252719,
                                     -0.885786142831775, 0.4077395589458813, 0.7375843166480303})},
                    false, {3, 1}),
           gru_case(
               "backwards by lengths, one of them 0",
               {values({3, 2, 3}, {-0.34758611140488793, 0.7818236303550146, 0.33611513703109996, 0,
                                   0, 0, -0.21531706683430762, 0.8803886165905885,
                                   0.3719272557726363, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
                values({2, 3}, {-0.34758611140488793, 0.7818236303550146, 0.33611513703109996,
                                -0.8322674422239013, 0.6569865987187891, 0.6629692300821833})},
               true, {2, 0}, true),
           gru_case(
               "backwards",
               {values({3, 2, 3}, {-0.6643741555684545, 0.6946587405620018, 0.5844681014461706,
                                   -0.9070568311844797, 0.12321692004582152, 0.7254238124075254,
                                   -0.6678453457738006, 0.7702176851957205, 0.627457969828431,
                                   -0.763090098880458, 0.26809949363987057, 0.6564723989741917,
                                   -0.45349782740655564, 0.8625365718268353, 0.3662576477773702,
                                   -0.6778682032153742, 0.43715040963159746, 0.5629595585434375}),
                values({2, 3}, {-0.6643741555684545, 0.6946587405620018, 0.5844681014461706,
                                -0.9070568311844797, 0.12321692004582152, 0.7254238124075254})},
               false, {}, true),
           {.name = "a node, reset_after true",
            .op = "Gru",
            .inputs = gru_node(),
            .attrs = {{"reset_after", true}},
            .expected =
                and_then(gru_saved(true),
                         values({2, 2}, {0.9510775069496016, 0.5197906531044383, 0.4417449206619586,
                                         -0.25186603920937134})),
            .smooth = false},
           {.name = "a node, reset_after false",
            .op = "Gru",
            .inputs = gru_node(),
            .attrs = {{"reset_after", false}},
            .expected =
                and_then(
                    gru_saved(false), values({2, 2}, {0.9570302907945218, 0.5463325823289151,
                                                      0.5060895809287612, -0.20602256593705076})),
            .smooth = false},
           {.name = "no time",
            .op = "Gru",
            .inputs = {zeros({0, 1, 3}), full({1, 1}, 5), zeros({1, 3}), zeros({3}), zeros({3}),
                       zeros({0}, DType::i64)},
            .expected = {zeros({0, 1, 3}), zeros({0, 1, 1}), zeros({0, 1, 1}), full({1, 1}, 5)},
            .smooth = false},
           {.name = "no units",
            .op = "Gru",
            .inputs = {zeros({2, 1, 0}), zeros({1, 0}), zeros({0, 0}), zeros({0}), zeros({0}),
                       zeros({0}, DType::i64)},
            .expected = {zeros({2, 1, 0}), zeros({2, 1, 0}), zeros({2, 1, 0}), zeros({1, 0})},
            .smooth = false}},
      .errors = {{.op = "Gru",
                  .inputs = with(gru_node(), 2, zeros({3, 6})),
                  .message = "wants x * w_x [time, batch, 3h], h0 [batch, h], w_h [h, 3h], bias "
                             "and recurrent_bias [3h]"},
                 {.op = "Gru",
                  .inputs = with(gru_node(), 2, zeros({3, 6})),
                  .attrs = {{"reset_after", true}},
                  .message = "wants x * w_x [time, batch, 3h]"},
                 {.op = "Gru",
                  .inputs = with(gru_node(), 5, i64(vector({2, 9}))),
                  .message = "length 9 (number 1 of 2) is not in [0, 2]",
                  .when_run = true}}};
}
const ListedCases listed_gru(gru_cases);

OpCases gru_gradient_cases() {
  return {
      .values = {{.name = "two rows, one of one step, reset_after true",
                  .op = "GruGradient",
                  .inputs = gru_gradient_node(gru_saved(true)),
                  .attrs = {{"reset_after", true}},
                  .expected = {values({2, 2, 6}, {0.005002639344523017,
                                                  0.005349517099663632,
                                                  -0.14787385794321925,
                                                  0.0011729957840271922,
                                                  0.12762214625246066,
                                                  0.10652463782045277,
                                                  -0.16784582726792033,
                                                  0.021482782734029347,
                                                  0.35481529472359724,
                                                  0.19529958076627116,
                                                  -0.6259692669239738,
                                                  -0.4925408844561907,
                                                  0.0054931687656102545,
                                                  0.06240898818153057,
                                                  -0.04000324554091421,
                                                  0.08120910276974962,
                                                  0.06299827401488703,
                                                  0.5302005404148422,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  0}),
                               values({2, 2}, {0.48932752240619015, -0.10161851231980926,
                                               -1.3550571361185972, 0.4889264834136495}),
                               values({2, 2, 2}, {0.19866933079506122, 0.9463000876874145,
                                                  -0.44252044329485246, -0.8322674422239013,
                                                  0.7368756382631453, 0.9339036599863507, 0, 0}),
                               values({2, 2, 2},
                                      {0.07822345618853285, 0.09794440039431643,
                                       -0.45591188627114254, -0.3291814715562027,
                                       0.052647268841683255, 0.44767398307063855, 0, 0})}},
                 {.name = "two rows, one of one step, reset_after false",
                  .op = "GruGradient",
                  .inputs = gru_gradient_node(gru_saved(false)),
                  .attrs = {{"reset_after", false}},
                  .expected = {values({2, 2, 6}, {0.006360036621005341,
                                                  -0.004743401928454969,
                                                  -0.14388300213832142,
                                                  0.0012041995724929,
                                                  0.10693775151266266,
                                                  0.10674699421777176,
                                                  0.051603240546135215,
                                                  -0.05260596246926379,
                                                  0.38063386743608724,
                                                  0.21072547578384374,
                                                  -0.4608505620816017,
                                                  -0.47905098244196304,
                                                  0.025631613517009606,
                                                  0.015886945263766855,
                                                  -0.0394163706647039,
                                                  0.07564036309946916,
                                                  0.047078268236172796,
                                                  0.512665597059806,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  0,
                                                  0}),
                               values({2, 2}, {0.4435447385338197, -0.11717489474890257,
                                               -1.2430981573212443, 0.174436512920771}),
                               values({2, 2, 2}, {0.19866933079506122, 0.9463000876874145,
                                                  -0.44252044329485246, -0.8322674422239013,
                                                  0.7448673266861591, 0.9335234128698546, 0, 0}),
                               values({2, 2, 2},
                                      {0.13493618957518463, -0.06768341462043341,
                                       -0.589349959869009, 0.28515243906326476, 0.25131605263966383,
                                       0.13007497017938074, 0, 0})}}},
      .errors = {
          {.op = "GruGradient",
           .inputs = with(gru_gradient_node({zeros({2, 2, 6}), zeros({2, 2, 2}), zeros({2, 2, 2})}),
                          4, zeros({1, 2})),
           .attrs = {{"reset_after", true}},
           .message = "wants gates [time, batch, 3h], inner, y and dy [time, batch, h]"}}};
}
const ListedCases listed_gru_gradient(gru_gradient_cases);

}  // namespace

TEST_CASE("Gru takes rows through their steps, reset before or after the product") {
  check(gru_cases());
}

TEST_CASE("GruGradient is what complex steps of the formulas give") { check(gru_gradient_cases()); }

}  // namespace troupe
