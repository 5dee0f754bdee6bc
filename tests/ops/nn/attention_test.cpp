// Attention and its gradient. Expected values come from a NumPy program that takes one query and
// one key at a time; gradients of the node come from complex steps of that program.

#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// 2 x 2 pairs of 3 queries and 4 keys, optionally with a mask.
OpCase attention_case(std::string name, AttentionOptions options, Tensor mask, Tensor expected) {
  OpCase c = Case("Attention", std::move(name),
                  {waves({2, 2, 3, 2}, 0.1), waves({2, 2, 4, 2}, 0.2), waves({2, 2, 4, 3}, 0.3)},
                  {std::move(expected)});
  if (mask.defined()) c.inputs.push_back(std::move(mask));
  c.build = [options](Graph&, const std::vector<Output>& in) {
    AttentionOptions given = options;
    if (in.size() > 3) given.mask = in[3];
    return std::vector<Output>{scaled_dot_product_attention(in[0], in[1], in[2], given)};
  };
  return c;
}

std::vector<Tensor> node_inputs() {
  return {waves({1, 2, 3, 2}, 0.1), waves({1, 2, 2, 2}, 0.2), waves({1, 2, 2, 3}, 0.3),
          waves({3, 2}, 0.4)};
}
std::vector<Tensor> with(std::vector<Tensor> inputs, size_t i, Tensor other) {
  inputs[i] = std::move(other);
  return inputs;
}
std::vector<Tensor> gradient_inputs() {
  std::vector<Tensor> in = node_inputs();
  in.insert(in.begin(), waves({1, 2, 3, 3}, 0.5));
  in.push_back(values({1, 2, 3, 3}, {-0.03653986326285394, 0.8532450870130954, -0.18333200022983265,
                                     -0.520974380477039, 0.7714716651679615, 0.3221746273532536,
                                     0.09719050691623876, 0.8758190151407764, -0.3228794231166744,
                                     -0.04452250277169875, -0.9008407263633913, 0.2766592384299077,
                                     -0.6654365733530119, -0.4974333164492113, 0.7936196615603008,
                                     -0.2027244538644164, -0.79805703638527, 0.4083749644085073}));
  in.push_back(values({1, 2, 3}, {1.4273530051712848, 0.19292703388640606, 1.571706358671825,
                                  1.650672015348877, 0.19571118104771407, 1.4703010059324264}));
  return in;
}

Tensor some_seen() {
  return booleans(values({2, 1, 3, 4},
                         {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1}));
}

const Table table("Attention weighs values by a softmax over the keys that are seen", [] {
  const Tensor add = values(
      {3, 4}, {0.958851077208406, 1.6169928076391802, -1.3755323183679475, -1.2625332757446432,
               1.7008732412571288, 0.8242369704835132, -1.9132700325403758, -0.3312083508966188,
               1.9986187774958353, -0.18381370045535975, -1.9512520109363152, 0.6866298576397908});
  const Tensor inf =
      values({3, 4}, {0.958851077208406, -INFINITY, -1.3755323183679475, -1.2625332757446432,
                      1.7008732412571288, -INFINITY, -1.9132700325403758, -0.3312083508966188,
                      -INFINITY, -INFINITY, -INFINITY, -INFINITY});
  const Tensor yes = booleans(scalar(1));
  return table_of(
      "Attention",
      {attention_case("all keys", {}, {},
                      values({2, 2, 3, 3},
                             {-0.2536838478006035,   0.1825969606179399,    0.20663062169916707,
                              -0.3513821532190872,   0.004482686329722707,  0.35022701431260994,
                              -0.3085049025033537,   0.16540289707003092,   0.2658823972473482,
                              -0.016897025944526245, 0.3708025296301461,    -0.07865470288286797,
                              0.1402472740523361,    0.25707477066590717,   -0.2064926116975087,
                              -0.07156458256223547,  0.3424005971965766,    -0.01666828102232093,
                              0.23556693807381535,   -0.16526658758914986,  -0.19297955827007315,
                              0.3834001292691957,    -0.023576743930881272, -0.3773246619713769,
                              0.26626800188889893,   -0.19553323599293965,  -0.21588124006994322,
                              -0.00656318566919184,  -0.40904983516688054,  0.11197082397668334,
                              -0.11220148546557099,  -0.20679383436986087,  0.1654899794912076,
                              0.018514787876361127,  -0.3900511424046711,   0.0819970965086842})),
       attention_case(
           "causal, and another scale", {.causal = true, .scale = 0.5}, {},
           values({2, 2, 3, 3}, {0.29552020666133955,  0.9092974268256817,   -0.529836140908493,
                                 -0.4635592476689966,  0.7811634433310989,   0.26226203003270365,
                                 -0.3834289187670008,  0.347735704419746,    0.29382125679808047,
                                 0.9611527245021165,   -0.3975556831214329,  -0.8587070026099295,
                                 0.8623951666105782,   -0.08113364142305574, -0.841487920611561,
                                 0.4532381415248369,   0.5098323026622487,   -0.5846163119489165,
                                 -0.25639966963301114, -0.9254786136713307,  0.49488531755262194,
                                 0.514177681088123,    -0.7610584914321552,  -0.31806128817234264,
                                 0.35353125443318545,  -0.35596660284603754, -0.2618025805735983,
                                 -0.9715886235161109,  0.35988714257413607,  0.8788496697392603,
                                 -0.8465973637442852,  0.006994552017393713, 0.8447949447092777,
                                 -0.37723767929461394, -0.5358389942574118,  0.5153174877724552})),
       attention_case("some keys, and none for a query", {}, some_seen(),
                      in_rows({2, 2, 3, 3},
                              {{0.06129294321916906, 0.8697594415243175, -0.2854203740230864},
                               {-0.5385548669351142, 0.7685040472871258, 0.3405198362615661},
                               {0.0577369735638993, 0.5011506234403985, -0.18687797085002933},
                               {0.703517848279672, 0.4279138332121567, -0.8137865311642306},
                               {0.8864834089689826, -0.158313059289409, -0.8456878768399387},
                               {-0.022206451715805542, 0.27408767219854135, -0.048422923318310995},
                               {-0.22431165562761912, -0.35492718731779194, 0.3157724835510066},
                               {0, 0, 0},
                               {0.21342985770229972, -0.14534935713367658, -0.17597492887016306},
                               {0.2019325772482019, 0.16798258604782304, -0.24521983994777463},
                               {0, 0, 0},
                               {0.4449476347280146, -0.15197308799973502, -0.4057858433883033}})),
       attention_case("a mask that is added", {}, add,
                      values({2, 2, 3, 3},
                             {-0.11534065426120821, 0.7434836264120481,    -0.07624688946291826,
                              -0.28522420327533216, 0.540326749958785,     0.14598794956976366,
                              0.22846487584631478,  0.7380511301996306,    -0.41865252511593826,
                              0.5904186441579637,   0.5264480722736385,    -0.7260785154478644,
                              0.8261577586148852,   -0.2478064528021466,   -0.7623007644259632,
                              0.11011872324198824,  -0.030204705376675627, -0.10233530326278129,
                              0.15907492078108668,  -0.7386946425259387,   0.031278554529048236,
                              0.3417300541346281,   -0.5413057306212787,   -0.20224152789229274,
                              -0.2097181659673604,  -0.7761976672272664,   0.40973575778188587,
                              -0.5815757748214013,  -0.5168021354152015,   0.7147499943982425,
                              -0.7950874930677272,  0.1923864450465924,    0.7455116246250447,
                              -0.26103526744581484, 0.04429846166854967,   0.24962004166230783})),
       [&] {
         OpCase c = attention_case(
             "minus infinity hides", {}, inf,
             in_rows({2, 2, 3, 3},
                     {{0.2027483259551775, 0.7505063866410054, -0.39614555765982096},
                      {0.21900140009482982, 0.34522846649904293, -0.3079629744598069},
                      {0, 0, 0},
                      {0.4690901757622803, -0.21131603724168588, -0.41463635985240066},
                      {0.8487007901492799, -0.3507826102878365, -0.758307974088878},
                      {0, 0, 0},
                      {-0.17751416694277444, -0.758812657157835, 0.373051833095863},
                      {-0.20028181532340505, -0.3521654945344633, 0.2910309854266574},
                      {0, 0, 0},
                      {-0.5657173342424764, 0.18287565799970318, 0.5185922908946117},
                      {-0.8234201757474423, 0.3172843030319247, 0.7416595046033309},
                      {0, 0, 0}}));
         c.smooth = false;
         return c;
       }(),
       Case("a node with a mask that is added", node_inputs(),
            {values({1, 2, 3, 3}, {-0.03653986326285394, 0.8532450870130954, -0.18333200022983265,
                                   -0.520974380477039, 0.7714716651679615, 0.3221746273532536,
                                   0.09719050691623876, 0.8758190151407764, -0.3228794231166744,
                                   -0.04452250277169875, -0.9008407263633913, 0.2766592384299077,
                                   -0.6654365733530119, -0.4974333164492113, 0.7936196615603008,
                                   -0.2027244538644164, -0.79805703638527, 0.4083749644085073}),
             values({1, 2, 3}, {1.4273530051712848, 0.19292703388640606, 1.571706358671825,
                                1.650672015348877, 0.19571118104771407, 1.4703010059324264})})
           .rough(),
       Case("no keys", {zeros({1, 1, 2, 3}), zeros({1, 1, 0, 3}), zeros({1, 1, 0, 2}), yes},
            {zeros({1, 1, 2, 2}), full({1, 1, 2}, -INFINITY)})
           .rough(),
       Case("no queries", {zeros({1, 1, 0, 3}), zeros({1, 1, 2, 3}), zeros({1, 1, 2, 2}), yes},
            {zeros({1, 1, 0, 2}), zeros({1, 1, 0})})
           .rough(),
       Case("no pairs", {zeros({0, 1, 2, 3}), zeros({0, 1, 2, 3}), zeros({0, 1, 2, 2}), yes},
            {zeros({0, 1, 2, 2}), zeros({0, 1, 2})})
           .rough(),
       Case("no features: the mean of the values",
            {zeros({1, 1, 1, 0}), zeros({1, 1, 2, 0}), values({1, 1, 2, 1}, {1, 4}), yes},
            {full({1, 1, 1, 1}, 2.5), full({1, 1, 1}, std::log(2.0))}, {{"scale", 1.0}})
           .rough(),
       Case("large scores",
            {full({1, 1, 1, 1}, 1000), values({1, 1, 2, 1}, {1, -1}), values({1, 1, 2, 1}, {3, 5}),
             yes},
            {full({1, 1, 1, 1}, 3), full({1, 1, 1}, 1000)})
           .rough(),
       Case("NaN is seen",
            {full({1, 1, 1, 1}, NAN), values({1, 1, 2, 1}, {1, -1}), values({1, 1, 2, 1}, {3, 5}),
             yes},
            {full({1, 1, 1, 1}, NAN), full({1, 1, 1}, NAN)})
           .rough(),
       Case("AttentionGradient", "of the node", gradient_inputs(),
            {values({1, 2, 3, 2},
                    {0.13836682393312283, 0.3838095213132618, -0.08007629330765023,
                     -0.2221200352029786, -0.14845728028992874, -0.4117989852183514,
                     -0.034633250129186305, -0.025951773403739133, -0.33021033733594574,
                     -0.24743689426055196, -0.25947219275430905, -0.19443059850904482}),
             values({1, 2, 2, 2}, {-0.06857648483764074, 0.15044747422645804, 0.06857648483764074,
                                   -0.15044747422645818, -0.01160459999370312, -0.0462391063781387,
                                   0.011604599993703075, 0.046239106378138696}),
             values({1, 2, 2, 3}, {-0.5974167944703903, 0.6227724809509403, 0.43693518373180396,
                                   -0.5110593210679162, 0.870556368048905, 0.28672653107389645,
                                   0.9202537368225246, -0.42746159659131566, -0.810101590335392,
                                   0.6375553921217493, -0.5768143947541549, -0.4889166741327916})})
           .rough(),
       Case("AttentionGradient", "no queries",
            {zeros({1, 1, 0, 2}), zeros({1, 1, 0, 3}), waves({1, 1, 2, 3}, 1),
             waves({1, 1, 2, 2}, 2), yes, zeros({1, 1, 0, 2}), zeros({1, 1, 0})},
            {zeros({1, 1, 0, 3}), zeros({1, 1, 2, 3}), zeros({1, 1, 2, 2})})
           .rough(),
       Case("AttentionGradient", "differentiated again",
            {waves({1, 1, 2, 2}, 0.5), waves({1, 1, 2, 2}, 0.1), waves({1, 1, 3, 2}, 0.2),
             waves({1, 1, 3, 2}, 0.3)},
            {values({1, 1, 2, 2}, {0, 0, -0.1264610976700065, -0.3507847617065658}),
             values({1, 1, 3, 2}, {0.06918455940882878, 0.17424271256138515, -0.06918455940882876,
                                   -0.17424271256138515, 0, 0}),
             values({1, 1, 3, 2}, {0.3286404041823632, 0.670098165440811, -0.536981024762134,
                                   -0.4928683994935426, 0, 0})})
           .once()
           .made_by([](Graph&, const std::vector<Output>& in) {
             const Output y = scaled_dot_product_attention(in[1], in[2], in[3], {.causal = true});
             return gradients({y}, {in[1], in[2], in[3]}, {in[0]});
           })},
      {Refused(with(node_inputs(), 0, zeros({2, 3, 2})),
               "wants q, k and v [batch, heads, time, features], got ["),
       Refused(with(node_inputs(), 1, zeros({1, 2, 2, 5})),
               "wants q [batch, heads, queries, d], k [batch, heads, keys, d] and v "
               "[batch, heads, keys, dv], got [1, 2, 3, 2], [1, 2, 2, 5]"),
       Refused(with(node_inputs(), 2, zeros({1, 2, 7, 3})), "and v [batch, heads, keys, dv]"),
       Refused(with(node_inputs(), 3, zeros({2, 3})),
               "wants a mask that broadcasts to [batch, heads, queries, keys], [1, "
               "2, 3, 2], got [2, 3]"),
       Refused(with(node_inputs(), 3, i64(zeros({3, 2}))), "wants a mask of bool or f64, got i64"),
       Refused(with(node_inputs(), 1, f32(zeros({1, 2, 2, 2}))),
               "wants inputs of one dtype, got f64 and f32"),
       Refused({i32(zeros({1, 1, 1, 1})), i32(zeros({1, 1, 1, 1})), i32(zeros({1, 1, 1, 1})), yes},
               "has no kernel for i32; cast to one of f32, f64"),
       Refused(node_inputs(), "wants a finite scale, got nan", {{"scale", NAN}}),
       Refused("AttentionGradient", with(gradient_inputs(), 0, zeros({1, 2, 3, 4})),
               "wants dy and y of shape [1, 2, 3, 3] and log_sums of [1, 2, 3]")});
});

// Attention and its gradients, with some keys masked, in sizes that are cut into blocks and jobs.
std::vector<Output> large(Graph& g, DType dtype, bool causal, bool by_ops) {
  const auto input = [&](const Shape& shape, double seed) {
    return constant(g, converted(waves(shape, seed), dtype));
  };
  const Output q = input({2, 3, 150, 16}, 0.1), k = input({2, 3, 300, 16}, 0.2),
               v = input({2, 3, 300, 8}, 0.3), mask = input({2, 1, 1, 300}, 0.4);
  // The rate is so small that nothing is dropped.
  const Output y = scaled_dot_product_attention(
      q, k, v, {.mask = mask, .causal = causal, .dropout = by_ops ? 1e-12 : 0});
  const auto slopes = gradients({y}, {q, k, v, mask}, {input({2, 3, 150, 8}, 0.5)});
  return {y, slopes[0], slopes[1], slopes[2], slopes[3]};
}

}  // namespace

TEST_CASE("attention by blocks is attention by ops, and oneDNN's that of the loops") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    Graph blocks, ops, single;
    const auto expected = evaluate(ops, large(ops, DType::f64, causal, true));
    const auto got = evaluate(blocks, large(blocks, DType::f64, causal, false));
    const auto fast = evaluate(single, large(single, DType::f32, causal, false));
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(got[i], expected[i], 1e-10).value_or("") == "");
      CHECK(difference(fast[i], f32(expected[i]), 1e-4).value_or("") == "");
    }
  }
}

TEST_CASE("without features attention is the mean of what is seen, and so are its gradients") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(dtype);
    Graph g;
    const Output q = constant(g, Tensor::zeros(dtype, {1, 1, 2, 0})),
                 k = constant(g, Tensor::zeros(dtype, {1, 1, 3, 0})),
                 v = constant(g, converted(values({1, 1, 3, 1}, {1, 2, 6}), dtype)),
                 mask = fill(g, {3}, 0, dtype);
    const Output all = scaled_dot_product_attention(q, k, v, {.mask = mask});
    const Output causal = scaled_dot_product_attention(q, k, v, {.causal = true});
    const auto slopes = gradients({all}, {v, mask});  // the mask's gradient consists of ops
    const std::vector<Tensor> got = evaluate(g, {all, causal, slopes[0], slopes[1]});
    const auto is = [&](const Tensor& x, const Tensor& expected) {
      CHECK(difference(x, converted(expected, dtype)).value_or("") == "");
    };
    is(got[0], values({1, 1, 2, 1}, {3, 3}));
    is(got[1], values({1, 1, 2, 1}, {1, 1.5}));
    is(got[2], values({1, 1, 3, 1}, {2.0 / 3, 2.0 / 3, 2.0 / 3}));
    is(got[3], vector({-4.0 / 3, -2.0 / 3, 2}));  // 2 queries, (v - 3) / 3
  }
}

TEST_CASE("dropout of attention drops weights and scales the others") {
  Graph g;
  const Output q = constant(g, zeros({1, 1, 2000, 1})), k = constant(g, zeros({1, 1, 1, 1}));
  const Output v = constant(g, full({1, 1, 1, 1}, 3));
  const Tensor y = evaluate(scaled_dot_product_attention(q, k, v, {.dropout = 0.25, .seed = 7}));
  int64_t kept = 0;
  for (const double value : y.values<double>()) {
    CHECK((value == 0 || value == 4));
    kept += value == 4;
  }
  CHECK(kept > 1400);
  CHECK(kept < 1600);
}

TEST_CASE("attention refuses a scale and a dropout that cannot be") {
  Graph g;
  const Output x = constant(g, zeros({1, 1, 2, 2}));
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(x, x, x, {.scale = 0.0}),
                       doctest::Contains("wants a finite scale that is not 0, got 0"), Error);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(x, x, x, {.dropout = 1}),
                       doctest::Contains("wants a dropout in [0, 1)"), Error);
  CHECK_THROWS_WITH_AS(scaled_dot_product_attention(x, x, {}),
                       doctest::Contains("undefined Outputs"), Error);
}

}  // namespace troupe
