// Mutants: mistakes on purpose, in the places where they would cost most, to see that simulations
// find them (docs/mutants.md). They exist in the program test_mutants alone, whose sources are
// compiled with TROUPE_MUTANTS; everywhere else mutant() is false before the compiler looks.
//
// Owner: the process; test_mutants sets one at a time. Thread: any.
#pragma once

#include <cstdint>

namespace troupe {

// A name says the mistake.
enum class Mutant : uint8_t {
  none,
  ack_before_apply,
  ack_parked,
  push_of_any_epoch,
  pull_of_any_epoch,
  push_of_any_incarnation,
  parked_forgotten,
  async_applies_again,
  async_does_not_count,
  update_in_lost_copy,
  sync_counts_again,
  sum_in_other_order,
  mean_of_all_but_one,
  round_of_all_but_one,
  local_step_counts_again,
  pull_a_step_early,
  previous_is_newest,
  backup_counts_late,
  backup_of_one_less,
  merged_for_first,
  bad_gradient_taken,
  ssp_without_bound,
  own_rule_ignored,
  replay_any_push,
  replay_before_pulls,
  replay_any_round,
  record_reads_again,
  accumulators_not_restored,
  touch_not_restored,
  image_a_step_ahead,
  image_without_window,
  cache_over_epochs,
  sequence_over_epochs,
  sequence_not_given_back,
  resent_with_next_number,
  codes_by_incarnation,
  coded_values_kept,
  residual_begins_anew,
  residual_of_newest,
  routes_not_found_again,
  epoch_not_drawn,
  stale_shards_kept,
  newcomer_without_routes,
  manifest_without_last_file,
  prune_before_commit,
  file_not_synced,
  folder_not_synced,
  frame_not_checked,
  tensor_not_checked,
  silence_not_noticed,
  cancel_forgets_last,
  late_value_for_next_run,
  lost_member_stays_installed,
  executable_keeps_number,
  stall_not_told,
  link_loss_not_told,
  failed_step_counts,
  round_not_begun_again,
  restored_steps_not_taken,
  failed_change_counts,
  restored_with_first_rule,
  old_incarnation_let_in,
  lent_not_held,
  segment_used_again,
  move_keeps_fence,
  kMutants,
};

#ifdef TROUPE_MUTANTS
inline namespace mutated {
bool mutant(Mutant which);
}
#else
constexpr bool mutant(Mutant) { return false; }
#endif

}  // namespace troupe
