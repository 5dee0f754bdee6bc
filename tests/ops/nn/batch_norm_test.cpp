// BatchNorm, its gradient, and BatchNormInference.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/evaluate.hpp"
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs epsilon(double value) { return {{"epsilon", value}}; }

// Differentiates only this output.
BuildCase only(int32_t index) {
  return [=](Graph&, const std::vector<Output>& in) {
    const BatchNorm parts = batch_norm(in[0], in[1], in[2]);
    return std::vector{index == 0 ? parts.y : index == 1 ? parts.mean : parts.variance};
  };
}

OpCases cases() {
  const Tensor x = matrix({{1, 2}, {-3, 0.5}, {2, -1}}), dy = matrix({{1, -2}, {0.5, 3}, {1, -1}});
  const Tensor gamma = vector({2, -1}), beta = vector({0.25, -1});
  const Tensor mean = vector({0.5, -1}), variance = vector({2, 0.25});
  const Tensor images = waves({2, 2, 2, 2}, 0.5);
  const Tensor dx_of_images =
      values({2, 2, 2, 2},
             {1.0261167801761075, 0.5646200913245343, -0.8680735809855846, 0.5151627009155688,
              1.1059530259681183, 0.9375045987978133, -0.8168273242834021, 0.17032322216051163,
              0.9270272034638404, 1.2314004609053966, -0.5221032573797257, -0.05311327566882325,
              0.5360756355838356, 1.3695406033131854, -0.06088478585840885, -0.09678405784452332});
  return {.values =
              {
                  {.name = "rows",
                   .op = "BatchNorm",
                   .inputs = {x, gamma, beta},
                   .expected = {matrix({{1.1758191078240388, -2.224740788929097},
                                        {-2.5274573234721163, -1},
                                        {2.1016382156480775, 0.22474078892909666}}),
                                vector({0, 0.5}), vector({4.666666666666667, 1.5})}},
                  {.name = "images",
                   .op = "BatchNorm",
                   .inputs = {images, gamma, beta},
                   .expected = {values(
                                    {2, 2, 2, 2},
                                    {1.4364252925681278, -2.3381944815637876, -1.3478464706166096,
                                     0.41313560360145174, 2.32145187514798, -1.5807319957947326,
                                     -1.9892183791073053, -0.47672689828201364, 2.6765796963682167,
                                     -0.6175595646334491, -2.034520341997423, -1.4492511275767397,
                                     2.409047586832916, 0.2997373384490172, -1.471919259195903,
                                     -2.250408874199746}),
                                vector({-0.017934586165897062, 0.10822311871287163}),
                                vector({0.7029346418047906, 0.2738298499164903})}},
                  {.name = "another epsilon",
                   .op = "BatchNorm",
                   .inputs = {x, gamma, beta},
                   .attrs = epsilon(0.5),
                   .expected = {matrix({{1.1298826901281198, -2.060660171779821},
                                        {-2.3896480703843594, -1},
                                        {2.0097653802562396, 0.06066017177982119}}),
                                vector({0, 0.5}), vector({4.666666666666667, 1.5})}},
                  {.name = "y alone",
                   .op = "BatchNorm",
                   .inputs = {x, gamma, beta},
                   .expected = {matrix({{1.1758191078240388, -2.224740788929097},
                                        {-2.5274573234721163, -1},
                                        {2.1016382156480775, 0.22474078892909666}})},
                   .build = only(0)},
                  {.name = "the mean alone",
                   .op = "BatchNorm",
                   .inputs = {x, gamma, beta},
                   .expected = {vector({0, 0.5})},
                   .build = only(1)},
                  {.name = "the variance alone",
                   .op = "BatchNorm",
                   .inputs = {x, gamma, beta},
                   .expected = {vector({4.666666666666667, 1.5})},
                   .build = only(2)},
                  {.name = "more rows than are summed at once",
                   .op = "BatchNorm",
                   .inputs = {waves({18, 3}, 1), waves({3}, 2), waves({3}, 3)},
                   .expected =
                       {matrix({{1.1962196218992125, -1.2575018936775775, 1.1054692375661617},
                                {-0.14079838879811843, -1.6839032739241604, 0.13888450839110433},
                                {-1.1818191465512178, -1.1829176098823302, -0.9308061623119801},
                                {-0.6317664881196301, -0.37779336878355785, -0.7728599633638942},
                                {0.8250695940479565, -0.2701409463173581, 0.41623100283617415},
                                {1.3763201632974251, -0.9938847481334128, 1.1571846424574885},
                                {0.336204972798155, -1.6486552676254997, 0.5282216445754814},
                                {-1.0013263801841055, -1.4198888317146927, -0.688200023424691},
                                {-0.9723253529009798, -0.5921810701144865, -0.9787976580584123},
                                {0.38712948573894296, -0.19523728331397194, 0.0179451339885916},
                                {1.3858158009145354, -0.7228732118765798, 1.0620359498290306},
                                {0.7813233604514445, -1.5186862731818143, 0.8545793372994759},
                                {-0.6743323309907565, -1.5926495936865277, -0.3463394427705757},
                                {-1.1702507953649066, -0.8527495102371498, -1.0467239695860204},
                                {-0.08948738739036305, -0.21945466298174976, -0.37526471446957793},
                                {1.2234401036897855, -0.4806120327564123, 0.832713119491179},
                                {1.135191434563839, -1.3113302262523876, 1.0744313342303349},
                                {-0.2444481220236089, -1.6781588316941467, 0.04918171062901566}}),
                        vector({0.03367685608256857, 0.08235401220373419, -0.05489857819376347}),
                        vector({0.48463795056271475, 0.503684018445735, 0.4909766550017101})},
                   .smooth = false},
                  {.name = "more channels than a vector register has",
                   .op = "BatchNorm",
                   .inputs = {waves({2, 19}, 1), waves({19}, 2), waves({19}, 3)},
                   .expected =
                       {
                           matrix({{-0.7666742885348803, -1.5297449224169597, 0.8880535637085851,
                                    0.24094208382790172, 0.21832647503865144, -1.7551161206886605,
                                    0.9502758247123209, -0.24907405404952476, -0.6706031872947251,
                                    -1.5219785557301406, 0.7630728990296964, -0.6737523363241487,
                                    -1.3844601342006353, -0.8377314400884561, 0.37653319403134233,
                                    0.4751423251751563, -1.7366881488471948, 0.9586701665540931,
                                    -0.10834522941625901},
                                   {1.0489143046546128, -0.4701015927112421, -0.654955154007598,
                                    1.6988375378622709, -0.9512847335425078, 0.004211771311803725,
                                    0.2338712047021252, 1.6948367530734771, -0.8861009697738718,
                                    0.477361376476671, 1.062817602425559, 1.2478576389796048,
                                    -0.5893709820406621, 0.7722606814267479, 1.6141690157917759,
                                    -0.9226536055487491, -0.13869533175336746,
                                    -0.027893213844182252, 1.7438777384691502}}),
                           vector({0.8963998617973397, -0.00040139463116062313, -0.8962964268208107,
                                   0.23136711433638568, 0.8366756691342359, -0.4469692212943264,
                                   -0.7214966225675724, 0.6328909562356224, 0.5584075921667933,
                                   -0.776786443882646, -0.3582382790914367, 0.8691005036963169,
                                   0.1342806493099624, -0.9037031484043498, 0.09859370098890508,
                                   0.8782966373150718, -0.3249210731415441, -0.7945680546053097,
                                   0.5296725114995426}),
                           vector({0.0030171815273213713, 0.18299681912511648,
                                   0.0030587145976881946, 0.17100674546647623, 0.026201144611456943,
                                   0.13824870010669987, 0.06639955269022337, 0.09327924891622982,
                                   0.11315391287592996, 0.04784463826119964, 0.15425175161389373,
                                   0.013812616494657995, 0.17895810714336285, 7.25185189662351e-05,
                                   0.180819555391422, 0.010213326891053013, 0.15934987673250764,
                                   0.04158621156436606, 0.12015705899509543})},
                   .smooth = false},
                  {.name = "one row is its own mean",
                   .op = "BatchNorm",
                   .inputs = {matrix({{5, -7}}), gamma, beta},
                   .expected = {matrix({{0.25, -1}}), vector({5, -7}), vector({0, 0})},
                   .smooth = false},
                  {.name = "a mean that squares would drown in",
                   .op = "BatchNorm",
                   .inputs = {matrix({{65536}, {65537}, {65538}, {65539}}), vector({1}),
                              vector({0})},
                   .expected = {matrix({{-1.3416354199689269},
                                        {-0.447211806656309},
                                        {0.447211806656309},
                                        {1.3416354199689269}}),
                                vector({65537.5}), vector({1.25})},
                   .smooth = false},
                  {.name = "NaN and infinity spread in their channels",
                   .op = "BatchNorm",
                   .inputs = {matrix({{NAN, 1, INFINITY}, {1, 1, 0}}), full({3}, 1), full({3}, 3)},
                   .expected = {matrix({{NAN, 3, NAN}, {NAN, 3, NAN}}), vector({NAN, 1, INFINITY}),
                                vector({NAN, 0, NAN})},
                   .smooth = false},
                  {.name = "no rows",
                   .op = "BatchNorm",
                   .inputs = {zeros({0, 2}), gamma, beta},
                   .expected = {zeros({0, 2}), vector({NAN, NAN}), vector({NAN, NAN})},
                   .smooth = false},
                  {.name = "no channels",
                   .op = "BatchNorm",
                   .inputs = {zeros({2, 0}), zeros({0}), zeros({0})},
                   .expected = {zeros({2, 0}), zeros({0}), zeros({0})}},
                  {.name = "back",
                   .op = "BatchNormGradient",
                   .inputs = {dy, x, gamma, mean, variance},
                   .expected = {matrix({{0.2062391095621231, -7.999360033598399},
                                        {-0.2651654112244891, -11.99952002159904},
                                        {0.1473139864022202, 1.9999600011999599}}),
                                vector({0.176776253356556, -2.9999400017999402}),
                                vector({2.5, 0})}},
                  {.name = "back to images",
                   .op = "BatchNormGradient",
                   .inputs = {waves({2, 2, 2, 2}, 1), images, gamma, mean, variance},
                   .attrs = epsilon(0.5),
                   .expected = {dx_of_images, vector({3.2033091922626613, 3.139251202382753}),
                                vector({0.2837183799234354, 0.7752321139872264})}},
                  {.name = "back over more rows than are summed at once",
                   .op = "BatchNormGradient",
                   .inputs = {waves({18, 3}, 2), waves({18, 3}, 1),
                              waves({3}, 3), waves({3}, 4), full({3}, 0.5)},
                   .expected = {matrix(
                                    {{-0.05548461953517382, 1.495027281730665, 0.11146965516409844},
                                     {0.04855903833282977, 0.3484750308521819,
                                      -0.011985175029149706},
                                     {-0.05938417088796976, -0.7038966876486669,
                                      0.03365107224337245},
                                     {-0.24502808988091912, -0.35289061007804473,
                                      0.19160487389653932},
                                     {-0.27742341955881195, 0.9648260781801679, 0.2653746694276128},
                                     {-0.11626892773804871, 1.6099551593356687,
                                      0.16318754936491234},
                                     {0.03795202403278353, 0.7799273387847676,
                                      0.012168839882559526},
                                     {-0.006618293329206753, -0.49266582637233985,
                                      0.00019253811012522745},
                                     {-0.19453242099701132, -0.6246617897375439,
                                      0.14215769657249067},
                                     {-0.2920168192345322, 0.5481483028595526, 0.2614533386239148},
                                     {-0.17779655715783077, 1.5667364890864672,
                                      0.20967037515773623},
                                     {0.006033274743363812, 1.1639337232576787,
                                      0.05122911782244206},
                                     {0.030780182477302673, -0.15915542334224494,
                                      -0.016762456311781478},
                                     {-0.13434208877509088, -0.7565491555932347, 0.090280197594},
                                     {-0.28391408322827016, 0.1149369221524809,
                                      0.23919125312285294},
                                     {-0.23186158164885867, 1.3711353353476825, 0.2447187284846758},
                                     {-0.04294021309657917, 1.4492793388402816,
                                      0.09998619827615172},
                                     {0.04782343019528364, 0.25215431373843805,
                                      -0.014952627216385142}}),
                                vector({8.724605429948392, 6.773309312911832, 9.324447286165375}),
                                vector({1.6516541359262153, 0.12448794173953481,
                                        -1.6837333077248653})},
                   .smooth = false},
                  {.name = "back over more channels than a vector register has",
                   .op = "BatchNormGradient",
                   .inputs = {waves({2, 19}, 2), waves({2, 19}, 1), waves({19}, 3), waves({19}, 4),
                              full({19}, 0.5)},
                   .expected = {matrix(
                                    {{-0.5369900757284076, -1.2113629170183948, 0.3718318593849703,
                                      -0.20920268064343528, 0.534270419153705, -0.03603814491244249,
                                      -0.382244372204741, -0.655431063395423, -1.7061671911867233,
                                      -1.2358474507970276, -2.3592797920753643, -1.0219264884104413,
                                      -1.85358590741711, -0.12140506187363155, -0.7287486065208204,
                                      0.5736693805947981, -0.01309477399992214, 0.26139784052422976,
                                      -0.23769071674601722},
                                     {-0.7090328480420218, 0.21579958888302134, 0.47330872710554744,
                                      0.1990086245446175, 0.8472702618846252, -0.6276393590904499,
                                      0.3386151396012468, -1.710610002476241, -0.35620323097497053,
                                      -2.1246679921635647, -0.5023561699891542, -1.4418748092527265,
                                      -0.05896675757163353, -0.15566740159194897,
                                      0.3075750967759972, 0.7557423912619373, -0.06463642370314024,
                                      0.7120959575928284, -1.107219417447057}}),
                                vector(
                                    {2.6704848227908857, -0.9046777491483933, 2.019913568699467,
                                     -0.05990305961904463, 1.0370315368431702, 0.9958193946865695,
                                     -0.021427552676978934, 1.9867296097157383, -0.8789888729542656,
                                     2.653996863626832, -1.3116531027744236, 2.823327600483553,
                                     -1.206406173636706, 2.450491781897072, -0.5907391116978215,
                                     1.6328759950571363, 0.3745327562458701, 0.5840455873455462,
                                     1.4372755732980502}),
                                vector(
                                    {1.1639797596697168, -1.521614994351609, -0.7718763307502766,
                                     1.720519025340017, 0.32851752325874367, -1.8051743736430006,
                                     0.1366560353157994, 1.769959618117611, -0.5927551391555252,
                                     -1.6172131458264731, 1.0094931590396985, 1.3570778746839507,
                                     -1.3591971840062955, -1.0068277270415675, 1.6186456026730647,
                                     0.5897205788013965, -1.770610102175723, -0.13345385238264224,
                                     1.8049996904197794})},
                   .smooth = false},
                  {.name = "back from no rows",
                   .op = "BatchNormGradient",
                   .inputs = {zeros({0, 2}), zeros({0, 2}), gamma, mean, variance},
                   .expected = {zeros({0, 2}), zeros({2}), zeros({2})},
                   .smooth = false},
                  {.name = "rows",
                   .op = "BatchNormInference",
                   .inputs = {x, gamma, beta, mean, variance},
                   .expected = {matrix({{0.9571050134262237, -6.99988000359988},
                                        {-4.699735093983565, -3.99994000179994},
                                        {2.3713150402786707, -1}})}},
                  {.name = "images",
                   .op = "BatchNormInference",
                   .inputs = {images, gamma, beta, mean, variance},
                   .attrs = epsilon(0.5),
                   .expected = {values({2, 2, 2, 2}, {0.22397513614322978, -3.0882717711474212,
                                                      -1.2524185562765917, -1.4257766117672217,
                                                      0.6932711586874443, -2.6305739751639496,
                                                      -1.5925137483880873, -1.9634773078312366,
                                                      0.8815819702199474, -2.0485756489406084,
                                                      -1.6165356607421828, -2.5511264715212194,
                                                      0.739719841579928, -1.4942976765113354,
                                                      -1.318209649258794, -3.035227191693697})}},
                  {.name = "NaN spreads",
                   .op = "BatchNormInference",
                   .inputs = {matrix({{NAN, 1}}), gamma, beta, vector({0, 1}), variance},
                   .expected = {matrix({{NAN, -1}})},
                   .smooth = false},
                  {.name = "no rows",
                   .op = "BatchNormInference",
                   .inputs = {zeros({0, 2}), gamma, beta, mean, variance},
                   .expected = {zeros({0, 2})}},
              },
          .errors = {
              {.op = "BatchNorm",
               .inputs = {vector({1}), vector({1}), vector({1})},
               .message = "wants x [..., channels] of at least 2 dimensions, got ["},
              {.op = "BatchNorm",
               .inputs = {x, vector({1}), beta},
               .message = "wants one gamma for each channel of ["},
              {.op = "BatchNorm",
               .inputs = {x, f32(gamma), beta},
               .message = "inputs must have one dtype, got f64 and f32"},
              {.op = "BatchNorm",
               .inputs = {x, gamma, beta},
               .attrs = epsilon(NAN),
               .message = "wants epsilon >= 0, got "},
              {.op = "BatchNormGradient",
               .inputs = {zeros({2, 2}), x, gamma, mean, variance},
               .message = "wants dy in the shape of x, got [2, 2] and [3, 2]"},
              {.op = "BatchNormGradient",
               .inputs = {dy, x, gamma, f32(mean), variance},
               .message = "inputs must have one dtype, got f64 and f32"},
              {.op = "BatchNormGradient",
               .inputs = {dy, x, gamma, mean, vector({1, 2, 3})},
               .message = "wants one variance for each channel of ["},
              {.op = "BatchNormInference",
               .inputs = {x, gamma, beta, vector({1}), variance},
               .message = "wants one mean for each channel of ["},
          }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("BatchNorm normalises channels") { check(cases()); }

TEST_CASE(
    "sums over more rows than a job has, of channels beside whole vectors, are those of f64") {
  constexpr int64_t kRows = 4'500, kChannels = 37;
  Tensor x = Tensor::empty(DType::f64, {kRows, kChannels});
  Tensor dy = Tensor::empty(DType::f64, {kRows, kChannels});
  for (int64_t i = 0; i < x.size(); ++i) {
    x.mutable_data<double>()[i] = 3 + std::sin(static_cast<double>(i) * 0.7);
    dy.mutable_data<double>()[i] = std::cos(static_cast<double>(i) * 0.3);
  }
  for (const DType dtype : {DType::f32, DType::f64}) {
    Graph g;
    const Output in = cast(constant(g, x), dtype), slope = cast(constant(g, dy), dtype);
    const Output gamma = fill(g, {kChannels}, 2, dtype), beta = fill(g, {kChannels}, 1, dtype);
    const BatchNorm y = batch_norm(in, gamma, beta, 0);
    const NormGradient d = batch_norm_gradient(slope, in, gamma, y.mean, y.variance, 0);
    const auto value = [](Output output) { return converted(evaluate(output), DType::f64); };
    const Tensor mean = value(y.mean), variance = value(y.variance), dgamma = value(d.dgamma),
                 dbeta = value(d.dbeta), normed = value(y.y), dx = value(d.dx);
    const double tolerance = dtype == DType::f32 ? 1e-4 : 1e-11;
    for (int64_t c = 0; c < kChannels; ++c) {
      double sum = 0, squares = 0, sum_dy = 0, products = 0;
      const auto at = [&](const Tensor& t, int64_t row) {
        return t.data<double>()[row * kChannels + c];
      };
      for (int64_t row = 0; row < kRows; ++row) sum += at(x, row);
      const double m = sum / kRows;
      for (int64_t row = 0; row < kRows; ++row) squares += (at(x, row) - m) * (at(x, row) - m);
      const double scale = 1 / std::sqrt(squares / kRows);
      for (int64_t row = 0; row < kRows; ++row) {
        sum_dy += at(dy, row);
        products += at(dy, row) * (at(x, row) - m) * scale;
      }
      const auto near = [&](const Tensor& t, int64_t i, double wanted) {
        CHECK(std::abs(t.data<double>()[i] - wanted) < tolerance * (1 + std::abs(wanted)));
      };
      near(mean, c, m);
      near(variance, c, squares / kRows);
      near(dbeta, c, sum_dy);
      near(dgamma, c, products);
      for (const int64_t row : {int64_t{0}, int64_t{63}, int64_t{64}, kRows - 1}) {
        const double z = (at(x, row) - m) * scale;
        near(normed, row * kChannels + c, 2 * z + 1);
        near(dx, row * kChannels + c,
             2 * scale * (at(dy, row) - sum_dy / kRows - z * products / kRows));
      }
    }
  }
}

}  // namespace troupe
