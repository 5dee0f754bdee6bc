// Qr, Eigh and Svd.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// Differentiates only these outputs of a decomposition, with sizes known or not.
BuildCase only(const std::string& op, std::vector<int32_t> indices, Shape shape = {}) {
  return [=](Graph& graph, const std::vector<Output>& in) {
    const Output x = shape.ndim() == 0 ? in[0] : reshape(in[0], shape);
    const Output first = graph.add({.op = op, .inputs = {x}});
    std::vector<Output> outputs;
    for (const int32_t i : indices) outputs.push_back({&graph, first.node, i});
    return outputs;
  };
}

const Table table("decompositions find their parts", [] {
  const Tensor tall = matrix({{1, 2}, {-1, 0.5}, {3, 1}}), wide = matrix({{2, 1, -1}, {0.5, 3, 2}});
  const Tensor square = matrix({{1, 2, 0}, {-1, 1, 3}, {2, 0.5, -2}});
  const Tensor batch = values({2, 3, 2}, {1, 2, -1, 0.5, 3, 1, 5, 1, -3, 0, 1, 3});
  const Tensor symmetric = matrix({{2, -1, 0.5}, {-1, 3, 1}, {0.5, 1, -1}});
  OpCases table = table_of(
      "Qr",
      {Case("tall", {tall},
            {matrix({{-0.3015113445777635, -0.8616404368553292},
                     {0.30151134457776363, -0.49236596391733084},
                     {-0.9045340337332909, 0.1230914909793327}}),
             matrix({{-3.3166247903554003, -1.3568010505999362}, {0, -1.8463723646899908}})}),
       Case("square", {square},
            {matrix({{-0.40824829046386313, -0.7784989441615231, -0.47673129462279623},
                     {0.4082482904638631, -0.6227991553292184, 0.6674238124719147},
                     {-0.8164965809277261, 0.0778498944161522, 0.5720775535473553}}),
             matrix({{-2.449489742783178, -0.8164965809277263, 2.8577380332470415},
                     {0, -2.1408720964441885, -2.0240972548199596},
                     {0, 0, 0.8581163303210333}})}),
       Case("wide", {wide},
            {matrix({{-0.9701425001453321, -0.24253562503633297},
                     {-0.24253562503633297, 0.9701425001453319}}),
             matrix({{-2.0615528128088303, -1.6977493752543307, 0.48507125007266616},
                     {0, 2.667891875399663, 2.182820625326997}})})
           .rough(),
       Case("wide, with known sizes", {wide},
            {matrix({{-0.9701425001453321, -0.24253562503633297},
                     {-0.24253562503633297, 0.9701425001453319}}),
             matrix({{-2.0615528128088303, -1.6977493752543307, 0.48507125007266616},
                     {0, 2.667891875399663, 2.182820625326997}})})
           .made_by(only("Qr", {0, 1}, {2, 3})),
       Case("r of a wide matrix", {wide},
            {matrix({{-2.0615528128088303, -1.6977493752543307, 0.48507125007266616},
                     {0, 2.667891875399663, 2.182820625326997}})})
           .made_by(only("Qr", {1}, {2, 3})),
       Case("q of a wide matrix", {wide},
            {matrix({{-0.9701425001453321, -0.24253562503633297},
                     {-0.24253562503633297, 0.9701425001453319}})})
           .made_by(only("Qr", {0}, {2, 3})),
       Case("a batch", {batch},
            {values({2, 3, 2}, {-0.3015113445777635, -0.8616404368553292, 0.30151134457776363,
                                -0.49236596391733084, -0.9045340337332909, 0.1230914909793327,
                                -0.8451542547285165, 0.0499750187343886, 0.50709255283711,
                                -0.23988008992506563, -0.1690308509457033, -0.96951536344714}),
             values({2, 2, 2}, {-3.3166247903554003, -1.3568010505999362, 0, -1.8463723646899908,
                                -5.916079783099616, -1.3522468075656264, 0, -2.8585710716070314})}),
       Case("q alone", {tall},
            {matrix({{-0.3015113445777635, -0.8616404368553292},
                     {0.30151134457776363, -0.49236596391733084},
                     {-0.9045340337332909, 0.1230914909793327}})})
           .made_by(only("Qr", {0})),
       Case("r alone", {tall},
            {matrix({{-3.3166247903554003, -1.3568010505999362}, {0, -1.8463723646899908}})})
           .made_by(only("Qr", {1})),
       Case("size one", {matrix({{-3}})}, {matrix({{1}}), matrix({{-3}})}),
       Case("nothing to reflect", {matrix({{2, 1}, {0, 3}, {0, 0}})},
            {matrix({{1, 0}, {0, 1}, {0, 0}}), matrix({{2, 1}, {0, 3}})})
           .rough(),
       Case("squares that would run over", {matrix({{3e30}, {4e30}})},
            {matrix({{-0.6}, {-0.8}}), matrix({{-5e30}})})
           .rough(),
       Case("0", {matrix({{0, 0}, {0, 0}})}, {matrix({{1, 0}, {0, 1}}), matrix({{0, 0}, {0, 0}})})
           .rough(),
       Case("NaN spreads", {matrix({{1}, {NAN}})}, {matrix({{NAN}, {NAN}}), matrix({{NAN}})})
           .rough(),
       Case("no columns", {zeros({3, 0})}, {zeros({3, 0}), zeros({0, 0})}),
       Case("no matrices", {zeros({0, 3, 2})}, {zeros({0, 3, 2}), zeros({0, 2, 2})}),
       Case("Eigh", "a symmetric matrix", {symmetric},
            {vector({-1.3946789627587366, 1.6964423749737267, 3.6982365877850096}),
             matrix({{-0.21599857783698392, 0.854200060739249, -0.4729554636595962},
                     {-0.2631078501318801, 0.4155513843046529, 0.8706843895473644},
                     {0.9402759560742687, 0.3125048851386961, 0.13498823353563033}})}),
       Case("Eigh", "a batch; what is above the diagonal is not looked at",
            {values({2, 3, 3},
                    {2, 6, 7.5, -1, 3, 8, 0.5, 1, -1, 1, 7.25, 7, 0.25, -2, 7.5, 0, 0.5, 4})},
            {matrix({{-1.3946789627587366, 1.6964423749737267, 3.6982365877850096},
                     {-2.0616566356634225, 1.0201351047756666, 4.041521530887757}}),
             values({2, 3, 3}, {-0.21599857783698392, 0.854200060739249, -0.4729554636595962,
                                -0.2631078501318801, 0.4155513843046529, 0.8706843895473644,
                                0.9402759560742687, 0.3125048851386961, 0.13498823353563033,
                                -0.08111062830758893, 0.9966818930358032, 0.006802210678574096,
                                0.9933315735230371, 0.08027317737714237, 0.08275628094607097,
                                -0.0819356516895749, -0.01346926458071838, 0.9965466009644803})}),
       Case(
           "Eigh", "four dimensions",
           {matrix({{1, 0.5, 0, 0.75}, {0.5, 2, -1, 0}, {0, -1, 3, 0.25}, {0.75, 0, 0.25, 4}})},
           {vector({0.6009813760043619, 1.5511040295693352, 3.6173501100460923, 4.230564484380211}),
            matrix(
                {{0.8726604341553068, 0.4099832653928645, -0.16215948725161186,
                  0.20995663707530188},
                 {-0.4250515654759027, 0.7211943372726137, -0.5435431819427182,
                  -0.06140605781179287},
                 {-0.15832483918163537, 0.5287328645955224, 0.7980198815040532, 0.2419484902184333},
                 {-0.1809093105521803, -0.17953831869640724, -0.20354208110888672,
                  0.9453086452016959}})}),
       Case("Eigh", "values alone", {symmetric},
            {vector({-1.3946789627587366, 1.6964423749737267, 3.6982365877850096})})
           .made_by(only("Eigh", {0})),
       Case("Eigh", "vectors alone", {symmetric},
            {matrix({{-0.21599857783698392, 0.854200060739249, -0.4729554636595962},
                     {-0.2631078501318801, 0.4155513843046529, 0.8706843895473644},
                     {0.9402759560742687, 0.3125048851386961, 0.13498823353563033}})})
           .made_by(only("Eigh", {1})),
       Case("Eigh", "the trace, though values are equal",
            {matrix({{2, 0, 0}, {0, 2, 0}, {0, 0, 2}})}, {scalar(6)})
           .once()
           .made_by([](Graph&, const std::vector<Output>& in) {
             return std::vector{reduce_sum(eigh(in[0]).values)};
           }),
       Case("Eigh", "size one", {matrix({{-3}})}, {vector({-3}), matrix({{1}})}),
       Case("Eigh", "two", {matrix({{0, 1}, {1, 0}})},
            {vector({-1, 1}), matrix({{M_SQRT1_2, M_SQRT1_2}, {-M_SQRT1_2, M_SQRT1_2}})})
           .rough(),
       Case("Eigh", "large numbers", {matrix({{2e30, 0}, {0, -1e30}})},
            {vector({-1e30, 2e30}), matrix({{0, 1}, {1, 0}})})
           .rough(),
       Case("Eigh", "numbers whose sums would run over",
            {matrix({{1.5e308, 0}, {-1e308, 1.2e308}})},
            {vector({3.388125791921657e307, INFINITY}),
             matrix({{0.6525563374413567, 0.7577402104053356},
                     {0.7577402104053356, -0.6525563374413567}})})
           .as_typed()
           .rough(),
       Case("Eigh", "0", {matrix({{0, 0}, {0, 0}})}, {vector({0, 0}), matrix({{1, 0}, {0, 1}})})
           .rough(),
       Case("Eigh", "NaN in one of two", {values({2, 1, 1}, {NAN, 2})},
            {matrix({{NAN}, {2}}), values({2, 1, 1}, {NAN, 1})})
           .rough(),
       Case("Eigh", "empty matrices", {zeros({2, 0, 0})}, {zeros({2, 0}), zeros({2, 0, 0})}),
       Case("Svd", "tall", {tall},
            {vector({3.6694689453412006, 1.6688312254918236}),
             matrix({{0.5008576392603806, 0.7632004707335105},
                     {-0.17354728924565307, 0.550649318285984},
                     {0.8479522177516868, -0.33809816583845775}}),
             matrix({{0.877037421408631, -0.4804220659471207},
                     {0.4804220659471207, 0.877037421408631}})}),
       Case("Svd", "wide", {wide},
            {vector({3.7101379745798946, 2.341981257307624}),
             matrix({{0.24942164698879477, 0.9683949824391893},
                     {0.9683949824391891, -0.2494216469887946}}),
             matrix({{0.26496070818188244, 0.7737376786128396},
                     {0.850266652054514, 0.09399308418286392},
                     {0.454799344242891, -0.6264944571347837}})}),
       Case("Svd", "square", {square},
            {vector({4.166839310796143, 2.591086847900424, 0.41679623875626937}),
             matrix({{-0.09719193115731484, 0.8444731282449838, -0.5267056713099298},
                     {0.7525231830460932, 0.4086968041752, 0.5164066045619038},
                     {-0.6513544254060827, 0.34616767314281466, 0.6752076381194169}}),
             matrix({{-0.5165603481369473, 0.4353816512439671, 0.7372979211232816},
                     {0.055788594349227894, 0.8763607823784683, -0.4784134319284278},
                     {0.8544314129719093, 0.20599659431426476, 0.4769825611673356}})}),
       Case("Svd", "a batch", {batch},
            {matrix({{3.6694689453412006, 1.6688312254918236},
                     {6.110713712788043, 2.7675219819080334}}),
             values({2, 3, 2}, {0.5008576392603806, 0.7632004707335105, -0.17354728924565307,
                                0.550649318285984, 0.8479522177516868, -0.33809816583845775,
                                0.8312643752176456, -0.16057009459184454, -0.47118463991301096,
                                0.30441805103403596, 0.29493147272555253, 0.9389072877166336}),
             values({2, 2, 2}, {0.877037421408631, -0.4804220659471207, 0.4804220659471207,
                                0.877037421408631, 0.9597581467905109, -0.28082788264209857,
                                0.28082788264209857, 0.9597581467905109})}),
       Case("Svd", "singular values alone", {wide},
            {vector({3.7101379745798946, 2.341981257307624})})
           .made_by(only("Svd", {0})),
       Case("Svd", "u alone", {tall},
            {matrix({{0.5008576392603806, 0.7632004707335105},
                     {-0.17354728924565307, 0.550649318285984},
                     {0.8479522177516868, -0.33809816583845775}})})
           .made_by(only("Svd", {1})),
       Case("Svd", "v alone", {wide},
            {matrix({{0.26496070818188244, 0.7737376786128396},
                     {0.850266652054514, 0.09399308418286392},
                     {0.454799344242891, -0.6264944571347837}})})
           .made_by(only("Svd", {2})),
       Case("Svd", "u of a wide matrix", {wide},
            {matrix({{0.24942164698879477, 0.9683949824391893},
                     {0.9683949824391891, -0.2494216469887946}})})
           .made_by(only("Svd", {1})),
       Case("Svd", "size one", {matrix({{-3}})}, {vector({3}), matrix({{1}}), matrix({{-1}})}),
       Case("Svd", "large numbers of a singular matrix", {matrix({{3e30, 0}, {4e30, 0}})},
            {vector({5e30, 0}), matrix({{0.6, 0.8}, {0.8, -0.6}})})
           .rough()
           .made_by(only("Svd", {0, 1})),
       Case("Svd", "numbers whose sums would run over",
            {matrix({{1e308, 8e307}, {-1e308, 4e307}, {8e307, -1e308}})},
            {vector({1.673320053068151e308, 1.2806248474865698e308}),
             matrix({{0.37731224737570374, 0.870022185848612},
                     {-0.6436503043467892, 0},
                     {0.6658451424277129, -0.49301257198087983}}),
             matrix({{0.9284766908852592, 0.3713906763541039},
                     {-0.3713906763541039, 0.9284766908852592}})})
           .as_typed()
           .rough(),
       Case("Svd", "infinity in one of two", {values({2, 1, 1}, {INFINITY, 2})},
            {matrix({{NAN}, {2}}), values({2, 1, 1}, {NAN, 1}), values({2, 1, 1}, {NAN, 1})})
           .rough(),
       Case("Svd", "no columns", {zeros({3, 0})}, {zeros({0}), zeros({3, 0}), zeros({0, 0})})});
  for (const std::string op : {"Qr", "Eigh", "Svd"}) {
    table.errors.push_back(
        Refused(op, {vector({1})}, "wants matrices [..., rows, columns], got ["));
    table.errors.push_back(
        Refused(op, {i32(matrix({{1}}))}, "has no kernel for i32; cast to one of f32, f64"));
  }
  table.errors.push_back(
      Refused("Eigh", {zeros({2, 3})}, "wants square matrices [..., n, n], got [2, 3]"));
  return table;
});

// Different numbers around 0.
Tensor random(const Shape& shape) {
  Graph graph;
  return evaluate(random_uniform(graph, shape, -1, 1, 7, DType::f64));
}

Tensor product(const Tensor& a, const Tensor& b, MatmulOptions options = {}) {
  Graph graph;
  return evaluate(matmul(constant(graph, a), constant(graph, b), options));
}

Tensor identity_matrix(int64_t n) {
  Tensor x = zeros({n, n});
  for (int64_t i = 0; i < n; ++i) x.mutable_data<double>()[i * (n + 1)] = 1;
  return x;
}

// x [m, n] with column j times factors[j].
Tensor scaled(const Tensor& x, const Tensor& factors) {
  Graph graph;
  return evaluate(multiply(constant(graph, x), constant(graph, factors)));
}

}  // namespace

TEST_CASE("the parts of larger matrices are orthonormal and give them back") {
  for (const Shape& shape : {Shape{40, 40}, Shape{50, 17}, Shape{17, 50}}) {
    CAPTURE(shape);
    const int64_t k = std::min(shape[0], shape[1]);
    const Tensor a = random(shape);
    Graph graph;
    const Output x = constant(graph, a);
    const Qr of_qr = qr(x);
    const Svd of_svd = svd(x);
    const std::vector<Tensor> got =
        evaluate(graph, {of_qr.q, of_qr.r, of_svd.s, of_svd.u, of_svd.v});
    const auto near = [](const Tensor& x, const Tensor& y) {
      CHECK(difference(x, y, 1e-12).value_or("") == "");
    };
    near(product(got[0], got[0], {.transpose_a = true}), identity_matrix(k));
    near(product(got[0], got[1]), a);
    near(product(got[3], got[3], {.transpose_a = true}), identity_matrix(k));
    near(product(got[4], got[4], {.transpose_a = true}), identity_matrix(k));
    near(product(scaled(got[3], got[2]), got[4], {.transpose_b = true}), a);
    if (shape[0] != shape[1]) continue;
    const Tensor square = product(a, a, {.transpose_b = true});
    Graph other;
    const Eigh of_eigh = eigh(constant(other, square));
    const std::vector<Tensor> parts = evaluate(other, {of_eigh.values, of_eigh.vectors});
    near(product(parts[1], parts[1], {.transpose_a = true}), identity_matrix(k));
    near(product(scaled(parts[1], parts[0]), parts[1], {.transpose_b = true}), square);
  }
}

TEST_CASE("the gradient of a wide qr says that it needs sizes") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {-1, -1});
  const Output slope = gradients({qr(x).r}, {x})[0];
  CHECK_THROWS_WITH_AS(evaluate(slope, {{x, iota({2, 3}, 1)}}),
                       doctest::Contains("wants square matrices [..., n, n], got [2, 3]"), Error);
}

}  // namespace troupe
