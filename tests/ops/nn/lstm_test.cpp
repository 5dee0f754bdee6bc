// Lstm and LstmGradient. Expected values come from a NumPy program that takes one row and one step
// at a time; gradients of nodes come from complex steps of that program.

#include "tests/support/op_cases.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {
namespace {

// x, h0, c0, w_x, w_h, bias: 3 steps, 2 rows, 2 features, 3 units.
std::vector<Tensor> lstm_inputs() {
  return {waves({3, 2, 2}, 0.1), waves({2, 3}, 0.2),  waves({2, 3}, 0.3),
          waves({2, 12}, 0.4),   waves({3, 12}, 0.5), waves({12}, 0.6)};
}
BuildCase lstm_of(double forget_bias, bool reverse) {
  return [=](Graph&, const std::vector<Output>& in) -> std::vector<Output> {
    const Output lengths = in.size() > 6 ? in[6] : Output{};
    const Lstm out = lstm(in[0], in[1], in[2], in[3], in[4], in[5],
                          {.lengths = lengths, .forget_bias = forget_bias, .reverse = reverse});
    return {out.y, out.h, out.c};
  };
}
OpCase lstm_case(std::string name, std::vector<Tensor> expected, std::vector<double> lengths = {},
                 double forget_bias = 0, bool reverse = false) {
  OpCase c = Case("Lstm", std::move(name), lstm_inputs(), std::move(expected))
                 .made_by(lstm_of(forget_bias, reverse));
  if (!lengths.empty()) c.inputs.push_back(i64(vector({lengths[0], lengths[1]})));
  c.twice = false;
  return c;
}
// projected, h0, c0, w_h, bias, lengths of a node: 2 steps, 2 rows, 2 units.
std::vector<Tensor> lstm_node() {
  return {waves({2, 2, 8}, 0.1), waves({2, 2}, 0.2), waves({2, 2}, 0.3),
          waves({2, 8}, 0.5),    waves({8}, 0.6),    i64(vector({2, 1}))};
}
std::vector<Tensor> with(std::vector<Tensor> inputs, size_t i, Tensor other) {
  inputs[i] = std::move(other);
  return inputs;
}
// The gates, cells and y that this node saves for its gradient.
std::vector<Tensor> lstm_saved() {
  return {
      in_rows({2, 2, 8},
              {{0.8462347354962128, 0.8573197477886277, 0.15876328893146366, 0.3241697642676957,
                0.9862264471065331, 0.5328791116391421, 0.06668712273151493, 0.5214403050089392},
               {0.6050970798672013, 0.6829881730485592, 0.46890638688098263, 0.47337455260811445,
                0.6531942974047935, 0.38454813796176923, 0.29207789634972475, 0.45580299354059306},
               {0.8514532083741896, 0.5224135388186117, 0.21940057920286488, 0.7039501151899504,
                0.9321837965195228, -0.6627813254336763, 0.1870598118200241, 0.7642930246253261},
               {0, 0, 0, 0, 0, 0, 0, 0}}),
      values({2, 2, 2},
             {0.8814968365618269, 0.7516145180956009, 0.14680241147318415, -0.10316521337252044,
              0.9871118008481383, 0.18285318890914054, 0.14680241147318415, -0.10316521337252044}),
      values({2, 2, 2}, {0.04715902592180843, 0.3316939990763679, 0.042572353153416176,
                         -0.0468568973046498, 0.14144117880435228, 0.1382164044475609, 0, 0})};
}
// The inputs of a gradient node: saved values, incoming gradients, and the forward node's inputs.
std::vector<Tensor> lstm_gradient_node(std::vector<Tensor> saved) {
  for (Tensor one :
       {waves({2, 2, 2}, 0.7), waves({2, 2}, 0.8), waves({2, 2}, 0.9), waves({2, 2}, 0.2),
        waves({2, 2}, 0.3), waves({2, 8}, 0.5), i64(vector({2, 1}))})
    saved.push_back(std::move(one));
  return saved;
}

const Table lstm_table(
    "Lstm takes rows through their steps, and its gradients are those of differences", [] {
      const std::vector<Tensor> saved = lstm_saved();
      const std::vector<Tensor> none = {zeros({0, 2, 8}),   waves({2, 2}, 0.2),
                                        waves({2, 2}, 0.3), waves({2, 8}, 0.5),
                                        waves({8}, 0.6),    zeros({0}, DType::i64)};
      return table_of(
          "Lstm",
          {lstm_case(
               "all of the time",
               {values({3, 2, 3},
                       {-0.06593614608026478, 0.17617238178073974, -0.07360045385140095,
                        -0.11437356919670416, 0.1764730213777891, -0.09826402307111938,
                        -0.20172393604794148, 0.17940095527866803, 0.07483103814512414,
                        -0.0755000067158135, 0.006774548970451356, -0.02975363136190751,
                        -0.27618823532185255, 0.1638749049529362, 0.16096342656413828,
                        -0.03728372904233439, 0.04203223758273005, -0.023204306299900328}),
                values({2, 3}, {-0.27618823532185255, 0.1638749049529362, 0.16096342656413828,
                                -0.03728372904233439, 0.04203223758273005, -0.023204306299900328}),
                values({2, 3}, {-1.1032231190079982, 1.5088338887756023, 0.2218441785581319,
                                -0.08079931862364806, 0.08145153290334081, -0.04355027943804948})}),
           lstm_case(
               "lengths, and a bias of the forget gate",
               {values({3, 2, 3},
                       {-0.061943067309759105, 0.17775633248559444, -0.1834799169879654,
                        -0.18703379808084936, 0.2869017217629137, -0.042217961312630815,
                        -0.21181184810648288, 0.16724105506582576, -0.016102398084908424, 0, 0, 0,
                        -0.3101091537751609, 0.15969821787710695, 0.11048639661585893, 0, 0, 0}),
                values({2, 3}, {-0.3101091537751609, 0.15969821787710695, 0.11048639661585893,
                                -0.18703379808084936, 0.2869017217629137, -0.042217961312630815}),
                values({2, 3}, {-1.4474220818203798, 1.7876954834133545, 0.1504521082623787,
                                -0.36416533843339255, 0.4270934337932817, -0.10420699085678353})},
               {3, 1}, 1),
           lstm_case(
               "from the last step to the first",
               {values({3, 2, 3}, {-0.18568738976927318, 0.3147566190800324, 0.11898153648961575,
                                   -0.10969886470900408, -0.12928222691016808, 0.06143022337048719,
                                   -0.21595395768246647, 0.17008222896508843, 0.03291724942033794,
                                   -0.12140306030193727, 0.0473797866308779, -0.044742253814263645,
                                   -0.12456258002383899, 0.08351182910782173, -0.16949888177977218,
                                   -0.07328965998492855, 0.2790111391433054, -0.22462623796999837}),
                values({2, 3}, {-0.18568738976927318, 0.3147566190800324, 0.11898153648961575,
                                -0.10969886470900408, -0.12928222691016808, 0.06143022337048719}),
                values({2, 3}, {-1.354023095090378, 1.6705327314564022, 0.146980044945441,
                                -0.16848276143212806, -0.38403211242397783, 0.16364795508321225})},
               {}, 0, true),
           lstm_case(
               "the same by lengths, one of them 0",
               {values({3, 2, 3}, {-0.17990446790218942, 0.25711253343030605, 0.06794220882923346,
                                   0, 0, 0, -0.08497663077490021, 0.11804953561409769,
                                   -0.12184103676417501, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
                values({2, 3}, {-0.17990446790218942, 0.25711253343030605, 0.06794220882923346,
                                -0.8322674422239013, 0.6569865987187891, 0.6629692300821833}),
                values({2, 3}, {-1.1778349392379326, 1.6643916962160452, 0.08287380071750475,
                                -0.7727644875559877, 0.7289690401258759, 0.5849171928917617})},
               {2, 0}, 0, true),
           Case("a node", lstm_node(),
                {saved[0], saved[1], saved[2],
                 values({2, 2}, {0.14144117880435228, 0.1382164044475609, 0.042572353153416176,
                                 -0.0468568973046498}),
                 values({2, 2}, {0.9871118008481383, 0.18285318890914054, 0.14680241147318415,
                                 -0.10316521337252044})},
                {{"forget_bias", 0.5}})
               .rough(),
           Case("no time", none,
                {zeros({0, 2, 8}), zeros({0, 2, 2}), zeros({0, 2, 2}), none[1], none[2]})
               .rough(),
           Case(
               "no rows",
               {zeros({3, 0, 8}), zeros({0, 2}), zeros({0, 2}), waves({2, 8}, 0.5), waves({8}, 0.6),
                zeros({0}, DType::i64)},
               {zeros({3, 0, 8}), zeros({3, 0, 2}), zeros({3, 0, 2}), zeros({0, 2}), zeros({0, 2})})
               .rough(),
           Case("gates that are shut and open",
                {values({1, 1, 4}, {1000, -1000, 1000, 1000}), zeros({1, 1}), full({1, 1}, 7),
                 zeros({1, 4}), zeros({4}), zeros({0}, DType::i64)},
                {values({1, 1, 4}, {1, 0, 1, 1}), full({1, 1, 1}, 1),
                 full({1, 1, 1}, std::tanh(1.0)), full({1, 1}, std::tanh(1.0)), full({1, 1}, 1)})
               .rough()},
          {Refused(
               with(lstm_node(), 1, zeros({2, 3})),
               "wants x * w_x [time, batch, 4h], h0 and c0 [batch, h], w_h [h, 4h], bias [4h] and "
               "lengths [batch], or [0] for all of the time; got [2, 2, 8], [2, 3], [2, 2]"),
           Refused(with(lstm_node(), 4, zeros({6})), "wants x * w_x [time, batch, 4h]"),
           Refused(with(lstm_node(), 5, zeros({3}, DType::i64)), "lengths [batch]"),
           Refused(with(lstm_node(), 5, vector({2, 1})), "wants indices of i32 or i64, got f64"),
           Refused(with(lstm_node(), 4, f32(zeros({8}))),
                   "wants inputs of one dtype, got f64 and f32"),
           Refused({i32(zeros({1, 1, 4})), i32(zeros({1, 1})), i32(zeros({1, 1})),
                    i32(zeros({1, 4})), i32(zeros({4})), i64(zeros({0}))},
                   "has no kernel for i32; cast to one of f32, f64"),
           Refused(lstm_node(), "wants a finite forget_bias, got inf", {{"forget_bias", INFINITY}}),
           Refused(with(lstm_node(), 5, i64(vector({2, 3}))),
                   "length 3 (number 1 of 2) is not in [0, 2], the steps that there are")
               .in_step(),
           Refused(with(lstm_node(), 5, i64(vector({-1, 0}))), "length -1 (number 0 of 2)")
               .in_step()});
    });

const Table lstm_gradient_table("LstmGradient is what complex steps of the formulas give", [] {
  return table_of(
      "LstmGradient",
      {Case("two rows, one of one step", lstm_gradient_node(lstm_saved()),
            {in_rows({2, 2, 8}, {{0.02739610133419994, 0.061798670283181534, 0.008425943012797038,
                                  0.18886862688150294, 0.004942294508276427, 0.582001038881056,
                                  0.016535944599605095, 0.08064936450488083},
                                 {-0.21840003523326598, -0.054748632864489555, 0.18462636662428292,
                                  0.1266740985291548, -0.4854339013515932, -0.3826918830759234,
                                  -0.050928633780417495, 0.021380693392341672},
                                 {0.10799238744393513, -0.18565769757755393, 0.1382783799870243,
                                  0.17586451060986855, 0.10219042977574871, 0.32887998633688736,
                                  0.19033816844721616, 0.026758801833808462},
                                 {0, 0, 0, 0, 0, 0, 0, 0}}),
             values({2, 2}, {0.1529586114203383, -0.2008915047096502, -0.8812813101153039,
                             -0.5076597000363053}),
             values({2, 2}, {0.03389324250198936, 0.3073379875512351, -0.6561166601371127,
                             -0.3112711179033577}),
             values({2, 2, 2},
                    {0.19866933079506122, 0.9463000876874145, -0.44252044329485246,
                     -0.8322674422239013, 0.04715902592180843, 0.3316939990763679, 0, 0})},
            {{"reverse", false}}),
       Case("backwards",
            lstm_gradient_node(
                {in_rows({2, 2, 8}, {{0.7098471043095002, 0.8542882419846869, 0.29934891502972194,
                                      0.2848244549521711, 0.9374386654547172, 0.7523442797917669,
                                      0.12254003680398588, 0.3843676989119706},
                                     {0.6050970798672013, 0.6829881730485592, 0.46890638688098263,
                                      0.47337455260811445, 0.6531942974047935, 0.38454813796176923,
                                      0.29207789634972475, 0.45580299354059306},
                                     {0.9192992693624908, 0.5388523451721932, 0.12206785069275708,
                                      0.7274135937383261, 0.9819342318765627, -0.795716922785786,
                                      0.11216234166438392, 0.8347874313224565},
                                     {0, 0, 0, 0, 0, 0, 0, 0}}),
                 values({2, 2, 2}, {0.9464563879156553, 0.7089865226376926, 0.14680241147318415,
                                    -0.10316521337252044, 0.9387649383895719, 0.23266137908796009,
                                    -0.529836140908493, -0.7727644875559877}),
                 values({2, 2, 2},
                        {0.09045593942138136, 0.23448002249215247, 0.042572353153416176,
                         -0.0468568973046498, 0.08240054554610157, 0.19079253773949278, 0, 0})}),
            {in_rows({2, 2, 8}, {{0.16590466257158967, 0.07706918280405599, 0.16918441467035528,
                                  0.03900132236914329, 0.07393035424619414, 0.30509657441304466,
                                  0.1080701058515121, 0.18389699206603113},
                                 {-0.21840003523326598, -0.054748632864489555, 0.18462636662428292,
                                  0.1266740985291548, -0.4854339013515932, -0.3826918830759234,
                                  -0.050928633780417495, 0.021380693392341672},
                                 {0.02247475304639979, -0.07470903641577187, 0.00977074274222451,
                                  0.06812340196542603, 0.010155018798988795, 0.07468696347828277,
                                  0.0726930775533264, 0.005714986615685516},
                                 {0, 0, 0, 0, 0, 0, 0, 0}}),
             values({2, 2}, {-0.1304221247663826, -0.03994436571886136, -0.8812813101153039,
                             -0.5076597000363053}),
             values({2, 2}, {0.037659924413648196, 0.27484394376074056, -0.6561166601371127,
                             -0.3112711179033577}),
             values({2, 2, 2},
                    {0.08240054554610157, 0.19079253773949278, -0.44252044329485246,
                     -0.8322674422239013, 0.19866933079506122, 0.9463000876874145, 0, 0})},
            {{"reverse", true}}),
       Case(
           "no time",
           {zeros({0, 1, 4}), zeros({0, 1, 1}), zeros({0, 1, 1}), zeros({0, 1, 1}), full({1, 1}, 2),
            full({1, 1}, 3), zeros({1, 1}), zeros({1, 1}), zeros({1, 4}), zeros({0}, DType::i64)},
           {zeros({0, 1, 4}), full({1, 1}, 2), full({1, 1}, 3), zeros({0, 1, 1})})},
      {Refused(with(lstm_gradient_node({zeros({2, 2, 8}), zeros({2, 2, 2}), zeros({2, 2, 2})}), 3,
                    zeros({2, 2, 3})),
               "wants gates [time, batch, 4h], cells, y and dy [time, batch, h]",
               {{"reverse", false}})});
});

}  // namespace

TEST_CASE("what a layer saves for its gradient has none itself") {
  Graph g;
  const std::vector<Tensor> inputs = lstm_node();
  NodeSpec spec{.op = "Lstm"};
  for (const Tensor& input : inputs) spec.inputs.push_back(constant(g, input));
  const Output gates = g.add(spec);
  CHECK_THROWS_WITH_AS(gradients({gates}, {spec.inputs[0]}),
                       doctest::Contains("gates and cells are saved for the gradient"), Error);
}

}  // namespace troupe
