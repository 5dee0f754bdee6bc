// Mutants: simulations find mistakes that somebody makes in the code under them.
//
// docs/mutants.md has a row for each mutant: the seed of a preset that finds it, and the fewest of
// its faults that do. The test is to run these. With TROUPE_MUTANTS_SEARCH set to parts of names,
// with commas, or to "all", mutants are looked for anew in seeds 1 to 200, and their rows are
// written.
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <sstream>

#include "graph/base/mutant.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/simulation/presets.hpp"
#include "tests/support/simulation/sim_shards.hpp"

namespace troupe {

namespace {
Mutant present = Mutant::none;
}

inline namespace mutated {
bool mutant(Mutant which) { return which == present; }
}  // namespace mutated

namespace {

using sim::Faults;

struct MutantRow {
  Mutant mutant;
  const char* name;
  const char* mistake;
  const char* preset;
  const char* not_found = "";  // why no seed finds it
};

const std::vector<MutantRow>& rows() {
  static const std::vector<MutantRow> all = {
      {Mutant::ack_before_apply, "ack_before_apply", "a push is acknowledged before it counts",
       "cluster-pushes"},
      {Mutant::ack_parked, "ack_parked", "a push that waits for an earlier one is acknowledged",
       "cluster-pushes", "a replica runs one step at a time, so no push waits for another"},
      {Mutant::push_of_any_epoch, "push_of_any_epoch", "a shard takes pushes of other epochs",
       "cluster-swarm", "no push of an epoch is under way when a shard serves in the next one"},
      {Mutant::pull_of_any_epoch, "pull_of_any_epoch", "a shard answers pulls of other epochs",
       "cluster-swarm", "no pull of an epoch is under way when a shard serves in the next one"},
      {Mutant::push_of_any_incarnation, "push_of_any_incarnation",
       "a shard takes pushes of a worker that was replaced", "shards-async",
       "the step of such a push is counted once, whichever comes first"},
      {Mutant::parked_forgotten, "parked_forgotten",
       "pushes that wait get no answer when their worker is replaced", "cluster-all",
       "a replica runs one step at a time, so no push waits for another"},
      {Mutant::async_applies_again, "async_applies_again",
       "async: a gradient that came before is applied again", "cluster-async"},
      {Mutant::async_does_not_count, "async_does_not_count",
       "async: the steps of gradients are not noted", "cluster-async"},
      {Mutant::update_in_lost_copy, "update_in_lost_copy",
       "an update of values that a reader holds goes to a copy, which is lost", "cluster-async"},
      {Mutant::sync_counts_again, "sync_counts_again",
       "sync: a gradient of a step that is over waits for others", "cluster-pushes"},
      {Mutant::sum_in_other_order, "sum_in_other_order",
       "sync: gradients are not summed in the order of replicas", "cluster-pushes"},
      {Mutant::mean_of_all_but_one, "mean_of_all_but_one",
       "sync: an update does not wait for the last replica", "cluster-pushes"},
      {Mutant::round_of_all_but_one, "round_of_all_but_one",
       "local: the end of a round does not wait for the last replica", "cluster-local"},
      {Mutant::local_step_counts_again, "local_step_counts_again",
       "local: a step that is done again changes the replica's copy again", "cluster-local"},
      {Mutant::round_not_begun_again, "round_not_begun_again",
       "local: a replica whose copies are lost does not begin the round again", "cluster-local"},
      {Mutant::pull_a_step_early, "pull_a_step_early",
       "sync: a step reads values before its update is made", "cluster-pushes",
       "a step begins when the pushes of the one before are acknowledged"},
      {Mutant::previous_is_newest, "previous_is_newest",
       "sync: a step that is done again reads the values behind it", "cluster-worker-kill"},
      {Mutant::backup_counts_late, "backup_counts_late",
       "sync-backup: a late gradient is taken for the open step", "shards-sync-backup"},
      {Mutant::backup_of_one_less, "backup_of_one_less",
       "sync-backup: a step ends with one gradient too few", "shards-sync-backup"},
      {Mutant::merged_for_first, "merged_for_first",
       "an update of several gradients is counted for the first replica alone", "cluster-pushes"},
      {Mutant::bad_gradient_taken, "bad_gradient_taken",
       "a gradient that is not finite is in its update", "shards-sync-bad"},
      {Mutant::ssp_without_bound, "ssp_without_bound",
       "ssp: a pull does not wait for the slowest replica", "shards-ssp"},
      {Mutant::own_rule_ignored, "own_rule_ignored",
       "a restored parameter follows the rule of the others", "cluster-own-rules"},
      {Mutant::replay_any_push, "replay_any_push", "a replay takes gradients as they come",
       "cluster-replay"},
      {Mutant::replay_before_pulls, "replay_before_pulls",
       "a replay makes an update before all have read the values before it", "cluster-replay"},
      {Mutant::replay_any_round, "replay_any_round",
       "a replay of sync-backup takes gradients that were late in the record", "cluster-replay"},
      {Mutant::record_reads_again, "record_reads_again",
       "a step that is done again reads other values, and its training is recorded",
       "cluster-replay"},
      {Mutant::accumulators_not_restored, "accumulators_not_restored",
       "the optimizer's accumulators begin with zeros after a restore", "cluster-ps-kill"},
      {Mutant::touch_not_restored, "touch_not_restored",
       "the rows of a table begin as if they were touched long ago after a restore",
       "cluster-table"},
      {Mutant::image_a_step_ahead, "image_a_step_ahead",
       "a checkpoint says one step more than it has", "cluster-ps-kill"},
      {Mutant::image_without_window, "image_without_window",
       "async: a checkpoint says that all steps before the newest have counted", "shards-async",
       "a replica runs one step at a time, so none is left out of the window"},
      {Mutant::cache_over_epochs, "cache_over_epochs", "a client offers values of the epoch before",
       "cluster-async"},
      {Mutant::sequence_over_epochs, "sequence_over_epochs",
       "a client goes on with the numbers of the epoch before", "cluster-ps-kill"},
      {Mutant::sequence_not_given_back, "sequence_not_given_back",
       "the number of a push that failed is not used again", "cluster-ps-links"},
      {Mutant::resent_with_next_number, "resent_with_next_number",
       "a push that is sent again has another number", "cluster-pushes"},
      {Mutant::codes_by_incarnation, "codes_by_incarnation",
       "a worker that is back rounds the gradient of a step in another way", "cluster-compressed"},
      {Mutant::coded_values_kept, "coded_values_kept",
       "a shard that went back answers with coded values of before", "cluster-compressed",
       "the steps that are done again give a version the same values; a test of the shard finds "
       "it"},
      {Mutant::residual_begins_anew, "residual_begins_anew",
       "a worker that is back goes on with no residual", "cluster-residuals",
       "all replicas go back when a worker dies, to a step without residuals; a test of residuals "
       "finds it"},
      {Mutant::residual_of_newest, "residual_of_newest",
       "a step that is done again adds the residual that it left", "cluster-residuals",
       "a step that fails in a process that lives has not coded its gradients yet, or all go back; "
       "a test of residuals finds it"},
      {Mutant::routes_not_found_again, "routes_not_found_again",
       "a client keeps the link of a process that was replaced", "cluster-swarm",
       "the owner of the shards sends its routes again as well"},
      {Mutant::epoch_not_drawn, "epoch_not_drawn", "a restore begins no epoch", "cluster-ps-kill"},
      {Mutant::stale_shards_kept, "stale_shards_kept",
       "shards that were lost are taken to be as they were", "cluster-ps-kill"},
      {Mutant::newcomer_without_routes, "newcomer_without_routes",
       "a worker that is back is not told where parameters live", "cluster-worker-kill"},
      {Mutant::manifest_without_last_file, "manifest_without_last_file",
       "a manifest leaves out the file of the last shard", "cluster-ps-kill"},
      {Mutant::prune_before_commit, "prune_before_commit",
       "old checkpoints are removed before the new one is there", "cluster-power",
       "files are removed and named in one job, which the power does not cut in two"},
      {Mutant::file_not_synced, "file_not_synced", "a file is named before it is synced",
       "cluster-power"},
      {Mutant::folder_not_synced, "folder_not_synced", "a folder is never synced", "cluster-power"},
      {Mutant::frame_not_checked, "frame_not_checked", "the checksum of a frame is not compared",
       "cluster-corruption"},
      {Mutant::tensor_not_checked, "tensor_not_checked",
       "the checksum of a large tensor is not compared", "cluster-corruption-large"},
      {Mutant::lent_not_held, "lent_not_held", "a tensor that a peer reads in place is not held",
       "cluster-one-machine"},
      {Mutant::segment_used_again, "segment_used_again",
       "memory that a lost reader may still read is used again", "cluster-one-machine",
       "a step that lost a link is done again, and the results of the reader reach nobody"},
      {Mutant::silence_not_noticed, "silence_not_noticed", "a silent link is never given up",
       "cluster-edges", "each cut ends, and the bytes under way then arrive"},
      {Mutant::cancel_forgets_last, "cancel_forgets_last",
       "a step that is taken back goes on in one process", "cluster-edges",
       "the part that goes on waits for values that never come, and is dropped later"},
      {Mutant::move_keeps_fence, "move_keeps_fence",
       "the pushes of a replica that has moved have the incarnation of its process",
       "cluster-moves"},
      {Mutant::late_value_for_next_run, "late_value_for_next_run",
       "a value of a step that has ended goes to the next one", "cluster-edges",
       "steps of one call are not begun while values of the one before come"},
      {Mutant::lost_member_stays_installed, "lost_member_stays_installed",
       "the master believes that a lost process has its part of a call", "cluster-worker-kill",
       "a step that is begun in vain fails, and is done again"},
      {Mutant::executable_keeps_number, "executable_keeps_number",
       "a call that is installed anew keeps its number", "cluster-worker-kill",
       "a process takes back its old part before it has the new one"},
      {Mutant::stall_not_told, "stall_not_told", "a step that does not get on is not reported",
       "cluster-pushes"},
      {Mutant::link_loss_not_told, "link_loss_not_told",
       "an agent does not tell the master of a lost link", "cluster-edges",
       "the process at the other end of the link tells the master as well"},
      {Mutant::failed_step_counts, "failed_step_counts", "a step that failed counts as done",
       "cluster-worker-kill"},
      {Mutant::restored_steps_not_taken, "restored_steps_not_taken",
       "a training goes on behind the checkpoint that it restored", "cluster-ps-kill"},
      {Mutant::failed_change_counts, "failed_change_counts",
       "a change of the rule counts, although a shard was not told", "cluster-rules"},
      {Mutant::restored_with_first_rule, "restored_with_first_rule",
       "a restore takes the rule that the training began with", "cluster-rules"},
      {Mutant::old_incarnation_let_in, "old_incarnation_let_in",
       "a process that was replaced may join again", "cluster-swarm",
       "no simulated process outlives its successor's start"},
  };
  return all;
}

// While it lives, the mutant is in the code.
struct Planted {
  explicit Planted(Mutant mutant) { present = mutant; }
  ~Planted() { present = Mutant::none; }
  Planted(const Planted&) = delete;
};

struct Found {
  std::string invariant;
  uint64_t seed = 0;
  Faults faults;
  int64_t ms = 0;  // of the processor, with the shrinking
};

// A seed of a row's preset, to be run with its mutant and without. The worlds of shards alone have
// their faults from the seed as they go, and no list of them.
class Run {
 public:
  Run(const MutantRow& row, uint64_t seed) : mutant_(row.mutant), seed_(seed) {
    const std::string name = row.preset;
    if (name.starts_with("shards-")) {
      sim::Draw draw(seed);
      shards_ = sim::ShardWorldOptions::draw(draw, name);
    } else {
      const sim::Preset preset = sim::preset_of(name);
      training_.emplace(seed, preset.options, preset.faults);
    }
  }
  bool has_faults() const { return training_.has_value(); }
  const Faults& faults() const { return training_->faults(); }
  // The invariant that is broken, or "".
  std::string with_mutant(const Faults& faults) const {
    const Planted planted(mutant_);
    return without(faults);
  }
  std::string without(const Faults& faults) const {
    return training_ ? training_->broken_by(faults) : shards_broken();
  }

 private:
  std::string shards_broken() const {
    sim::History silent;
    const auto broken =
        sim::broken_in([&] { sim::ShardWorld(*shards_, seed_, nullptr, silent).run(); });
    return broken ? broken->invariant : "";
  }

  const Mutant mutant_;
  const uint64_t seed_;
  std::optional<sim::Training> training_;
  std::optional<sim::ShardWorldOptions> shards_;
};

constexpr uint64_t kSeedsMax = 200;
constexpr size_t kFaultsMax = 10;
constexpr int kShrinkRunsMax = 60;

std::optional<Found> search(const MutantRow& row) {
  const std::clock_t began = std::clock();
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    const Run run(row, seed);
    Found out{"", seed, run.has_faults() ? run.faults() : Faults{}, 0};
    out.invariant = run.with_mutant(out.faults);
    if (out.invariant.empty() || !run.without(out.faults).empty()) continue;
    if (run.has_faults())
      out.faults = sim::shrink(
                       out.faults,
                       [&](const Faults& fewer) { return run.with_mutant(fewer) == out.invariant; },
                       kShrinkRunsMax)
                       .faults;
    if (out.faults.size() > kFaultsMax) continue;
    out.ms = (std::clock() - began) * 1000 / CLOCKS_PER_SEC;
    return out;
  }
  return std::nullopt;
}

std::string line_of(const MutantRow& row, const std::optional<Found>& found) {
  std::string out = detail::concat("`", row.name, "` | ", row.mistake, " | ");
  if (!found) return out + "not found: " + row.not_found + " | | | ";
  return out + detail::concat(found->invariant, " | ", row.preset, " ", found->seed, " | ",
                              found->faults.size(), " | ", (found->ms + 50) / 100 / 10.0, " | `",
                              to_text(found->faults), "`");
}

const std::string kHead =
    "mutant | mistake | breaks | seed | faults | s | faults as text\n"
    "--- | --- | --- | --- | --- | --- | ---\n";

std::string page() { return source_dir() + "/docs/mutants.md"; }
std::string read_page() {
  std::ostringstream out;
  out << std::ifstream(page()).rdbuf();
  return out.str();
}

// The cells of each row, by the mutant's name.
std::map<std::string, std::vector<std::string>> table_of(const std::string& text) {
  std::map<std::string, std::vector<std::string>> out;
  std::istringstream lines(text.substr(std::min(text.find(kHead), text.size())));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '`') continue;
    std::vector<std::string> cells;
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find(" | ", at), line.size());
      cells.push_back(line.substr(at, end - at));
      at = end + 3;
    }
    out[cells[0].substr(1, cells[0].size() - 2)] = cells;
  }
  return out;
}

// Writes the row of one mutant, or those of all as they are.
void write_row(const std::string& name, const std::string& line) {
  const std::string before = read_page();
  const auto table = table_of(before);
  std::string text = before.substr(0, std::min(before.find(kHead), before.size())) + kHead;
  for (const MutantRow& row : rows()) {
    const auto known = table.find(row.name);
    if (row.name == name) {
      text += line + "\n";
    } else if (known != table.end()) {
      std::string old;
      for (const std::string& cell : known->second) old += (old.empty() ? "" : " | ") + cell;
      text += old + "\n";
    }
  }
  std::ofstream(page()) << text;
}

// Looks for those with a part of the text, which has commas, in their names.
void search_all(const std::string& text) {
  for (const MutantRow& row : rows()) {
    std::istringstream parts(text);
    bool wanted = text == "all";
    for (std::string part; std::getline(parts, part, ',');)
      wanted = wanted || std::string(row.name).find(part) != std::string::npos;
    if (!wanted) continue;
    const std::string line = line_of(row, search(row));
    std::cout << line << std::endl;
    write_row(row.name, line);
  }
}

}  // namespace

TEST_CASE("each mutant that simulations can see is found, by at most ten faults") {
  if (const char* part = std::getenv("TROUPE_MUTANTS_SEARCH"); part && *part) search_all(part);
  CHECK(rows().size() == static_cast<size_t>(Mutant::kMutants) - 1);
  const auto table = table_of(read_page());
  size_t found = 0;
  for (const MutantRow& row : rows()) {
    CAPTURE(std::string(row.name));
    const auto cells = table.find(row.name);
    REQUIRE(cells != table.end());
    const bool is_found = cells->second.size() == 7;
    CHECK((is_found || row.not_found[0] != '\0'));
    if (!is_found) continue;
    ++found;
    const std::string &invariant = cells->second[2], &seed = cells->second[3];
    std::string text = cells->second[6];
    text = text.substr(1, text.size() - 2);
    const Faults faults = sim::faults_of(text);
    CHECK(faults.size() <= kFaultsMax);
    REQUIRE(seed.starts_with(detail::concat(row.preset, " ")));
    const Run run(row, std::stoull(seed.substr(std::string(row.preset).size() + 1)));
    CHECK(run.without(faults) == "");
    CHECK(run.with_mutant(faults) == invariant);
  }
  CHECK(found >= 20);
}

}  // namespace troupe
