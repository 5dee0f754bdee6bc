// The parts that programs share: plots, tables, places.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <utility>

#include "apps/program/checkpoints.hpp"
#include "apps/program/cluster.hpp"
#include "apps/program/plot.hpp"
#include "apps/program/program.hpp"
#include "apps/program/run_all.hpp"
#include "apps/program/tables.hpp"
#include "tests/support/fit.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// Ten records of two columns and two classes; the second column is constant.
std::string ten_records() {
  std::string out = "a,b,label\n";
  for (int i = 0; i < 10; ++i) out += detail::concat(i, ",3,", i % 2, "\n");
  return out;
}

}  // namespace

TEST_CASE("a plot as CSV reads back with every bit, and steps that are done again replace points") {
  Plot plot{"title", "x", "y"};
  plot.add("loss, training", 1, 0.1);
  plot.add("loss, training", 2, 1.0 / 3);
  plot.add("loss, training", 3, 7);
  const TempFile file("plot.csv", to_csv(plot) + "no number,x,1\nshort\n");
  Plot again;
  again.add_csv(file.path());
  again.add_csv(file.path() + ".none");
  REQUIRE(again.series.size() == 1);
  CHECK(again.series[0].name == "loss, training");
  CHECK(again.series[0].points == plot.series[0].points);
  again.add("loss, training", 2, 0.25);
  again.add("loss, training", 2.5, 0.5);
  again.add("loss, training", 3, 6);
  using Points = std::vector<std::pair<double, double>>;
  CHECK(again.series[0].points == Points{{1, 0.1}, {2, 0.25}, {2.5, 0.5}, {3, 6}});
}

TEST_CASE("work after a training finds the checkpoints that the training left") {
  const Folder folder("in-sight");
  const OutFolder out(folder.path() + "/out", false);
  Graph graph;
  const Output loss = reduce_mean(square(parameter("w", fill(graph, {2}, 1))));
  const Output update = minimize(loss, sgd(0.1));
  Session session = Session::local(graph);
  TrainOptions options;
  options.steps = 3;
  const Trained trained = train_in_sight(session, {{0, loss, update}}, options, {}, out, "sync");
  CHECK(has_checkpoint(out / "checkpoint-sync"));
  bool lost = true;
  after_training(session, trained.options, [&] {
    if (std::exchange(lost, false)) throw Error(Errc::peer_lost, "a ps is gone");
    CHECK(parameter_value(session, "w").data<float>()[0] == doctest::Approx(0.729));
  });
  CHECK(!lost);
}

namespace {

// One call that fails, one that ends, and one that outlasts every test.
struct Calls {
  Graph graph;
  Output x = placeholder(graph, DType::f32, {});
  Output checked = check_finite(x, "the value");
  Output endless = while_loop([](const auto& v) { return less(v[0], 1e15); },
                              [](const auto& v) { return std::vector<Output>{v[0] + 1}; },
                              {fill(graph, {}, 0, DType::i64)})[0];
  Session session = Session::local(graph);
  Callable check = session.prepare({checked}, {x}), never = session.prepare({endless});
  Call fails{check, {Tensor::scalar(NAN)}}, ends{check, {Tensor::scalar(1.0f)}}, stays{never};
};

}  // namespace

TEST_CASE("a call that fails ends the others, and its error is that of them all") {
  Calls c;
  ProgressLine line("calls");
  const Refusal refusal = refusal_of([&] {
    run_all({c.fails, c.stays, c.ends}, 2, line, "calls", [](auto...) {});
  });
  CHECK(refusal.code == Errc::bad_data);
  has(refusal.text, "the value");
  CHECK(c.session.under_way().empty());
}

TEST_CASE("when the user of the values throws, no call is left under way") {
  Calls c;
  ProgressLine line("calls");
  const auto use = [](size_t, const std::vector<Tensor>&) { throw std::runtime_error("enough"); };
  CHECK_THROWS_AS(run_all({c.ends, c.stays}, 2, line, "calls", use), std::runtime_error);
  CHECK(c.session.under_way().empty());
}

TEST_CASE("a folder tells its work, and another work does not go on with its checkpoints") {
  const Folder folder("work");
  const OutFolder out(folder.path() + "/out", false);
  require_work(out, "cats");  // there is none yet
  const std::filesystem::path some = out / "checkpoint-a";
  std::filesystem::create_directory(some);
  std::ofstream(some / "000002-step40.shard-0-of-1.safetensors") << "cut off";
  CHECK_FALSE(has_checkpoint(some));
  CHECK_FALSE(has_checkpoint(out / "nowhere"));
  std::ofstream(some / "000001-step20.manifest.json") << "{}";
  CHECK(has_checkpoint(some));
  begin_work(out, "cats");
  CHECK_FALSE(std::filesystem::exists(some));
  require_work(out, "cats");
  const Refusal refusal = refusal_of([&] { require_work(out, "dogs"); });
  CHECK(refusal.code == Errc::bad_configuration);
  has(refusal.text, "are of: cats; this run is of: dogs; give another --out");
}

TEST_CASE("a plot draws a line through the finite points and escapes its words") {
  Plot plot{"a < b & c", "x", "y"};
  plot.add("line", 0, 0);
  plot.add("line", 1, std::numeric_limits<double>::quiet_NaN());
  plot.add("line", 2, 10);
  plot.series.push_back({.name = "dots", .points = {{1, 5}}, .dots = true});
  const std::string svg = to_svg(plot);
  has(svg, "a &lt; b &amp; c");
  has(svg, "<path d=\"M64.0 352.0L624.0 32.0\" fill=\"none\"");  // from corner to corner
  has(svg, "<circle cx=\"344.0\" cy=\"192.0\"");                 // in the middle
  CHECK(svg.find("nan") == svg.npos);
  Plot noisy{"noise", "x", "y"};
  for (int i = 0; i < 100'000; ++i) noisy.add("line", i, i % 7 == 3 ? i % 11 : 0);
  const std::string thin = to_svg(noisy);
  CHECK(thin.size() < 20'000);
  has(thin, "M64.0 352.0");
  has(thin, "L624.0 ");
  has(thin, " 32.0L");  // the highest points are there
  has(to_svg(Plot{}), "</svg>");
}

TEST_CASE("a table keeps every fifth record for testing, and its columns are standardized") {
  const TempFile file("ten.csv", ten_records());
  const Table table = load_table(file.path());
  CHECK(table.classes == 2);
  CHECK(table.all.size() == 10);
  CHECK(table.train.size() == 8);
  REQUIRE(table.test.size() == 2);
  CHECK(table.test.features.data<float>()[0] == 4);
  CHECK(table.test.features.data<float>()[2] == 9);
  const Standardizer scaled(table.all.features);
  const Tensor x = scaled(table.all.features, DType::f64);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < 10; ++i) {
    sum += x.data<double>()[2 * i], squares += std::pow(x.data<double>()[2 * i], 2);
    CHECK(x.data<double>()[2 * i + 1] == 0);  // a constant column
  }
  CHECK(std::abs(sum) < 1e-12);
  CHECK(std::abs(squares - 10) < 1e-12);
  const Dataset odd = every(table.all, 1, 3);
  CHECK(odd.size() == 3);
  CHECK(odd.features.data<float>()[4] == 7);
}

TEST_CASE("a table that cannot be learned from is refused with its name") {
  const TempFile few("few.csv", "a,label\n1,0\n2,1\n"), one("one.csv", [] {
    std::string out = "a,label\n";
    for (int i = 0; i < 12; ++i) out += "1,0\n";
    return out;
  }());
  const Refusal of_few = refusal_of([&] { load_table(few.path()); });
  CHECK(of_few.code == Errc::bad_data);
  has(of_few.text, "few.csv: 2 records are too few; at least 10");
  has(refusal_of([&] { load_table(one.path()); }).text, "all labels are 0");
  CHECK(code_of([&] { load_table(few.path() + ".none"); }) == Errc::io);
}

TEST_CASE("parts of a program go round the workers, and are anywhere without a cluster") {
  Cluster cluster;
  CHECK(cluster.device(1) == "");
  cluster.workers = 2;
  CHECK(cluster.device(3) == "/job:worker/task:1");
  CHECK(code_of([] { find_cluster({}, {}, 0); }) == Errc::invalid_argument);
}

}  // namespace troupe
