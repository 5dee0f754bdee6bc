// Stages of sources, and the steps that replicas read.
#include "tests/data/source/numbers.hpp"

namespace troupe {
namespace {

TEST_CASE("map changes records, filter drops them, expand gives several") {
  const Numbers n(5);
  CHECK(epoch(n.source.map("doubled")) == std::vector{0, 2, 4, 6, 8});
  CHECK(epoch(n.source.filter("even")) == std::vector{0, 2, 4});
  CHECK(epoch(n.source.expand("upto")) == std::vector{1, 2, 2, 3, 3, 3, 4, 4, 4, 4});
}

TEST_CASE("select, rename and length change the fields of records") {
  const Numbers n(5);
  const Source two = Source::zip({n.source, n.source.map("rename", {{"from", std::string("image")},
                                                                    {"to", std::string("x")}})});
  const auto names = [](const Source& source) {
    std::string out;
    const Stage stage = stages(source);
    for (const Field& field : stage->fields()) out += field.name + " ";
    return out;
  };
  CHECK(names(two) == "image x ");
  CHECK(names(two.map("select", {{"fields", std::vector<std::string>{"x"}}})) == "x ");
  const Source batches = n.source.batch(3).map("length", {{"field", std::string("image")}});
  CHECK(names(batches) == "image length ");
  const auto stream = stages(batches)->open(0);
  CHECK(stream->next()->make()[1].item<int64_t>() == 3);
  CHECK(stream->next()->make()[1].item<int64_t>() == 2);
  has(refusal_of([&] {
        names(n.source.map("length", {{"field", std::string("x")}}));
      }).text,
      "length finds no field x; the records have image");
}

TEST_CASE("a key for random draws differs by seed, epoch and record, and is the same again") {
  const Numbers n(4);
  std::set<int64_t> keys;
  for (const uint64_t seed : {0, 1})
    for (const int64_t number : {0, 1}) {
      const Stage stage = stages(n.source.map("drawn", {}, seed));
      const auto once = stage->open(number), again = stage->open(number);
      while (const Lazy record = once->next()) {
        const int64_t key = record->make()[0].item<int64_t>();
        CHECK(again->next()->make()[0].item<int64_t>() == key);
        keys.insert(key);
      }
    }
  CHECK(keys.size() == 16);
}

TEST_CASE("shuffle gives each record once an epoch, in an order of the seed and epoch") {
  const Numbers n(40);
  const Source source = n.source.shuffle(40, 7);
  CHECK(sorted(epoch(source)) == range(0, 40));
  CHECK(epoch(source) == epoch(source));
  CHECK(epoch(source) != epoch(source, 1));
  CHECK(epoch(source) != epoch(n.source.shuffle(40, 8)));
  const std::vector<int> near = epoch(n.source.shuffle(5, 7));
  CHECK(sorted(near) == range(0, 40));
  for (size_t i = 0; i < near.size(); ++i) CHECK(near[i] <= static_cast<int>(i) + 4);
  CHECK(epoch(n.source.shuffle(1, 7)) == range(0, 40));
}

TEST_CASE("each order of a full shuffle is as likely as any other one") {
  const Numbers n(3);
  std::map<std::vector<int>, int> counts;
  const Stage stage = stages(n.source.shuffle(3, 1));
  for (int64_t e = 0; e < 6000; ++e) {
    std::vector<int> order;
    const auto stream = stage->open(e);
    while (const Lazy record = stream->next()) order.push_back(values_of(record->make())[0]);
    ++counts[order];
  }
  CHECK(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 150);  // 5 sigma
}

TEST_CASE("take, skip, repeat, interleave and cache") {
  const Numbers n(6);
  CHECK(epoch(n.source.take(2)) == range(0, 2));
  CHECK(epoch(n.source.skip(4)) == range(4, 6));
  CHECK(epoch(n.source.skip(9)).empty());
  CHECK(epoch(n.source.take(2).repeat(2).map("doubled")) == std::vector{0, 2, 0, 2});
  const Source mixed = Source::interleave({n.source.take(3), n.source.skip(4), n.source.take(1)});
  CHECK(epoch(mixed) == std::vector{0, 4, 0, 1, 5, 2});
  CHECK(epoch(Source::interleave({n.source.take(3), n.source.skip(4)}, 2)) ==
        std::vector{0, 1, 4, 5, 2});
  const Source cached = n.source.map("drawn").cache();
  const Stage stage = stages(cached);
  const int64_t first = stage->open(0)->next()->make()[0].item<int64_t>();
  CHECK(stage->open(3)->next()->make()[0].item<int64_t>() == first);
}

TEST_CASE("every and but_every share the records, as many as they say") {
  const Numbers n(7);
  CHECK(epoch(n.source.every(3)) == std::vector{2, 5});
  CHECK(epoch(n.source.but_every(3)) == std::vector{0, 1, 3, 4, 6});
  CHECK(epoch(n.source.every(1)) == range(0, 7));
  CHECK(epoch(n.source.every(8)).empty());
  CHECK(stages(n.source.every(3))->size() == 2);
  CHECK(stages(n.source.but_every(3))->size() == 5);
  CHECK(stages(n.source.filter("even").every(3))->size() == -1);
  has(refusal_of([&] { stages(n.source.but_every(1)); }).text,
      "but_every of a source wants n of at least 2, got 1");
}

TEST_CASE("zip joins fields, and refuses sources of different lengths and names that repeat") {
  const Numbers n(4), more(5);
  const Source zipped = Source::zip({n.source, n.source.map("drawn")});
  const Stage stage = stages(zipped);
  CHECK(stage->fields().size() == 2);
  CHECK(stage->open(0)->next()->make().size() == 2);
  has(refusal_of([&] {
        stages(Source::zip({n.source, n.source}));
      }).text,
      "zip has two fields called image");
  has(refusal_of([&] {
        stages(Source::zip({n.source, more.source.map("drawn")}));
      }).text,
      "zip has a source of 4 records and one of 5");
  const Stage late = stages(Source::zip({n.source, more.source.filter("even").map("drawn")}));
  const auto stream = late->open(0);
  const Refusal refused = refusal_of([&] {
    while (stream->next()) continue;
  });
  CHECK(refused.code == Errc::bad_data);
  has(refused.text, "record 3: zip has a record more here; source 1 ended after 3 records");
}

TEST_CASE("batches hold consecutive records, the last one those that remain") {
  const Numbers n(7);
  const auto sizes = [](const Source& source) {
    std::vector<int64_t> out;
    const auto stream = stages(source)->open(0);
    while (const Lazy record = stream->next()) out.push_back(record->make()[0].dim(0));
    return out;
  };
  CHECK(epoch(n.source.batch(3)) == range(0, 7));
  CHECK(sizes(n.source.batch(3)) == std::vector<int64_t>{3, 3, 1});
  CHECK(sizes(n.source.batch(3, {.drop_last = true})) == std::vector<int64_t>{3, 3});
  CHECK(stages(n.source.batch(3))->size() == 3);
  CHECK(stages(n.source.batch(3, {.drop_last = true}))->size() == 2);
  CHECK(stages(n.source.batch(3))->fields()[0].type == TensorType{DType::u8, {-1}});
}

TEST_CASE("records of different sizes are padded if that is asked for, and refused otherwise") {
  const Numbers n(4);
  const auto known = ops_with({}, {function("ragged", ragged())});
  const auto first = [&](const Source& source) { return source.records(0, *known).next(); };
  const Source rows = n.source.skip(1).map("ragged");
  const Record padded = *first(rows.batch(2, {.pad = true, .padding = -1}));
  CHECK(same_bits(padded[0], Tensor::of<int64_t>({1, 1, -1, -1, 2, 2, 2, 2}, {2, 2, 2})));
  const Refusal refused = refusal_of([&] { first(rows.batch(2)); });
  CHECK(refused.code == Errc::bad_data);
  has(refused.text, "record 2: row is [2, 2], but [1, 2] in ");
  has(refused.text, "pad the batch");
}

TEST_CASE("buckets batch records of similar length, and refuse a longer one") {
  const Numbers n(8);
  const auto known = ops_with({}, {function("ragged", ragged())});
  const auto shapes = [&](const Source& source) {
    std::string out;
    auto records = source.records(0, *known);
    while (const auto record = records.next()) out += to_string((*record)[0].shape());
    return out;
  };
  const Source rows = n.source.map("ragged");
  CHECK(shapes(rows.bucket("row", {2, 7}, {2, 3})) == "[2, 1, 2][3, 5, 2][1, 2, 2][2, 7, 2]");
  has(refusal_of([&] {
        shapes(rows.bucket("row", {2, 6}, {2, 2}));
      }).text,
      "record 7: row has a length of 7, past the last bucket, 6");
  has(refusal_of([&] {
        shapes(rows.bucket("row", {4, 4}, {2, 2}));
      }).text,
      "bucket wants rising bounds");
  has(refusal_of([&] { shapes(rows.bucket("rows", {4}, {2})); }).text,
      "bucket finds no field rows");
}

TEST_CASE("a source is its text, and a text that is damaged is refused") {
  const Numbers n(9);
  const Source source = n.source.shuffle(4, uint64_t{1} << 63)
                            .map("doubled", {}, 3)
                            .batch(2, {.padding = 1})
                            .repeat(2)
                            .prefetch(2, 3);
  const Source again = Source::from_text(source.to_text());
  CHECK(again.to_text() == source.to_text());
  CHECK(epoch(again) == epoch(source));
  const SourceArgs args = {{"a", std::vector<int64_t>{}},
                           {"b", std::vector<double>{1}},
                           {"c", 2.0},
                           {"d", std::vector<std::string>{}},
                           {"e", false}};
  const Source any = Source::of("idx", args);
  CHECK(Source::from_text(any.to_text()).spec()->args == args);
  for (const char* text :
       {"", "{", "[]", "{\"stage\":3}", "{\"stage\":\"map\",\"args\":{\"a\":{}}}"})
    CHECK(refusal_of([&] { Source::from_text(text); }).code == Errc::bad_data);
}

TEST_CASE("a source that cannot be built says which stage, and what there is") {
  const Numbers n(3);
  const auto text = [](const Source& source) { return refusal_of([&] { stages(source); }).text; };
  has(text(Source::of("idy", {})), "there is no reader idy; there are ");
  has(text(n.source.map("nothing")), "knows no function nothing");
  has(text(n.source.map("even")),
      "the function even is for filter, and the source calls it by map");
  has(text(n.source.shuffle(0)), "shuffle of a source wants window of at least 1, got 0");
  has(text(n.source.batch(0)), "batch of a source wants size of at least 1, got 0");
  has(refusal_of([&] { plan_source(n.source.prefetch(0).spec()); }).text, "wants threads");
  has(text(Source::interleave({n.source, n.source.map("drawn")})), "the same fields");
}

TEST_CASE("an exception of a function, and a result of other types, name record and function") {
  const Numbers n(5);
  Refusal refused = refusal_of([&] { epoch(n.source.map("thrown")); });
  CHECK(refused.code == Errc::bad_data);
  has(refused.text, n.file.path() + ": record 3: function thrown failed: three");
  refused = refusal_of([&] { epoch(n.source.map("two")); });
  has(refused.text, "record 0: function two gave 2 tensors for 1 fields");
}

TEST_CASE("replicas take each record of an epoch once and equal numbers of steps") {
  for (int n = 3; n < 30; ++n) {
    const Numbers all(n);
    for (int64_t replicas = 1; replicas <= 3; ++replicas)
      for (int64_t size = 1; size <= 4; ++size) {
        CAPTURE(n);
        CAPTURE(replicas);
        CAPTURE(size);
        const auto steps = all_steps(all.source.batch(size).repeat(2), replicas);
        std::vector<int> seen;
        for (const auto& replica : steps) {
          CHECK(replica.size() == steps[0].size());
          for (const auto& step : replica) {
            CHECK(!step.empty());
            CHECK(static_cast<int64_t>(step.size()) <= size + 1);
            seen.insert(seen.end(), step.begin(), step.end());
          }
        }
        std::vector<int> twice = range(0, n);
        for (const int value : range(0, n)) twice.push_back(value);
        CHECK(sorted(seen) == sorted(twice));
        SourceCursor at = cursor(all.source.batch(size), 0, replicas);
        CHECK(at.steps_per_epoch() * 2 == static_cast<int64_t>(steps[0].size()));
      }
  }
}

TEST_CASE("a source tells the steps of its epochs, for any number of replicas") {
  const Numbers n(14);
  const Source batches = n.source.shuffle(14).batch(3).prefetch(2);  // 5 batches, one of 2
  CHECK(batches.steps_per_epoch() == 5);
  CHECK(batches.repeat(4).steps_per_epoch() == 5);
  CHECK(batches.steps_per_epoch(2) == 3);
  CHECK(batches.steps_per_epoch(3) == 2);
  CHECK(n.source.filter("even").batch(3).steps_per_epoch(1, *functions()) == 3);
  has(refusal_of([&] { batches.steps_per_epoch(0); }).text, "at least 1 replica, got 0");
  has(refusal_of([&] { n.source.expand("varied").batch(3).steps_per_epoch(1, *functions()); }).text,
      "differs between epochs");
}

TEST_CASE("any step may be read at any time, with the records that it has in order") {
  const Numbers n(11);
  for (const Source& source : {n.source.shuffle(11, 3).batch(2).repeat(4),
                               n.source.expand("varied", {}, 5).batch(3).repeat(4)}) {
    const auto steps = all_steps(source, 2);
    SourceCursor at = cursor(source, 1, 2);
    const auto last = static_cast<int64_t>(steps[1].size());
    for (const int64_t step : {int64_t{5}, int64_t{6}, int64_t{2}, last - 1, int64_t{0}, int64_t{1},
                               int64_t{1}, last, int64_t{3}, last + 9, last - 2}) {
      CAPTURE(step);
      const Lazy record = at.at(step);
      REQUIRE(static_cast<bool>(record) == (step < last));
      if (record) CHECK(values_of(record->make()) == steps[1][static_cast<size_t>(step)]);
    }
  }
}

TEST_CASE("an epoch that replicas cannot share is refused, and one without records") {
  const Numbers n(2);
  const auto text = [&](const Source& source, int64_t replicas) {
    return refusal_of([&] { cursor(source, 0, replicas).at(0); }).text;
  };
  has(text(n.source.batch(4), 3), "2 records are the last ones of an epoch, and 3 replicas cannot");
  has(text(n.source, 3), "2 records are the last ones of an epoch, and 3 replicas cannot share");
  has(text(n.source.skip(2), 1), "the source has no records in epoch 0");
  has(refusal_of([&] { cursor(n.source.expand("varied")).steps_per_epoch(); }).text,
      "differs between epochs");
}

TEST_CASE("a reader's threads give the same steps as none, in any order of reads") {
  const Numbers n(23);
  const Source source = n.source.shuffle(23, 1).map("doubled").batch(4).repeat(3);
  const auto steps = all_steps(source, 1)[0];
  const auto last = static_cast<int64_t>(steps.size());
  for (const int64_t threads : {0, 1, 4}) {
    CAPTURE(threads);
    StepReader reader(shared(source.prefetch(std::max<int64_t>(1, threads), 3)), 0, 1,
                      threads == 0);
    Replies replies;
    for (const int64_t step :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{2}, int64_t{9}, int64_t{3}, int64_t{4},
          last - 1, last, last + 3, int64_t{0}, int64_t{1}}) {
      CAPTURE(step);
      const auto [code, values] = replies.read(reader, step);
      CHECK(code == (step < last ? Errc::ok : Errc::end_of_data));
      if (step < last) CHECK(values == steps[static_cast<size_t>(step)]);
    }
    CHECK(!reader.waits());
  }
}

TEST_CASE("a step that cannot be made fails with its error, and others come") {
  const Numbers n(6);
  StepReader reader(shared(n.source.map("thrown").batch(2)), 0, 1, false);
  Replies replies;
  CHECK(replies.read(reader, 0).first == Errc::ok);
  CHECK(replies.read(reader, 1).first == Errc::bad_data);
  CHECK(replies.read(reader, 1).first == Errc::bad_data);
  CHECK(replies.read(reader, 2).first == Errc::ok);
}

}  // namespace
}  // namespace troupe
