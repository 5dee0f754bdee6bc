#!/usr/bin/env bash
# `troupe_bench NAME --json` prints only lines of the documented form on standard output, with the
# documented metrics, since tools read them. The figures themselves are not checked. Argument: the
# build folder.
# slow
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"

number='-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-]?[0-9]+)?'
word='"[A-Za-z0-9_./%-]+"'
text='"[A-Za-z0-9 ,:;_./%-]+"'
pair="$word: ($number|true|false|$text)"
line="^\{\"bench\": $word, \"metric\": $word, \"value\": $number, \"unit\": $word, \"config\": \{($pair(, $pair)*)?\}\}\$"
lines=0

bench() {  # METRICS NAME [OPTIONS]: exactly these metrics, in any order
  local metrics
  "$build/troupe_bench" "${@:2}" --json >"$out/log" 2>"$out/errors.log" || fail "${*:2}: exit code $?"
  [ ! -s "$out/errors.log" ] || fail "${*:2}: something on standard error"
  grep -vE "$line" "$out/log" && fail "${*:2}: this line has another form"
  grep -v "^{\"bench\": \"$2\", " "$out/log" && fail "${*:2}: this line names another benchmark"
  metrics=$(sed 's/.*"metric": "\([^"]*\)".*/\1/' "$out/log" | sort -u | paste -sd ' ')
  [ "$metrics" = "$1" ] || fail "${*:2}: its metrics are $metrics; expected $1"
  cat "$out/log" >>"$out/all"
  lines=$((lines + $(wc -l <"$out/log")))
}

bench 'chain_ns_per_op chain_ns_per_op_best dag_ns_per_op empty_step_us loop_ns_per_iteration overlap_ms_eight_in_flight overlap_ms_one_in_flight overlap_ratio runs_per_s runs_per_s_most wide_ns_per_op' dispatch --nodes 100
bench 'null_step_changed_us null_step_us' remote --shards 2 --processes 1
bench 'link_gb_per_s link_of_loop loop_gb_per_s tls_link_gb_per_s tls_link_of_loop tls_loop_gb_per_s' links --mib 1 --rounds 1
bench 'between_of_step between_of_step_most change_of_step change_of_step_most step_ms' switch --steps 80 --every 10
bench 'build_ms first_step_ms next_step_ms prepare_ms rss_mib' graph --nodes 2000
bench 'naive_mib peak_mib peak_of_naive plan_arena_mib plan_peak_mib plan_pool_mib reserved_mib step_ms' memory --model mlp
bench 'bandwidth below_half_without_reason call gb_per_s peak share_of_roofline' ops --only ArgMax
bench 'build_ms first_step_ms load_ms prepare_ms session_ms startup_ms startup_ms_best' startup --rounds 1
bench 'examples_per_s gflops peak_rss_mib rss_over_idle_mib step_ms step_ms_best' train --model mlp --threads 1 --steps 20
bench 'loss rss_over_idle_mib step_ms step_ms_best times_ours times_ours_best' \
  train --model mlp --threads 1 --loaded --rounds 1
bench 'examples_per_s gflops peak_rss_mib rss_over_idle_mib step_ms step_ms_best' train --model gpt --threads 1 --steps 2
# Each model computes the same as the loop of oneDNN calls: the benchmark compares their losses.
for model in cnn resnet20 inception lstm sparse-lr; do
  bench 'loss' train --model $model --threads 1 --rounds 0
done
bench 'gb_per_s raw_gb_per_s' push_pull --mib 1
bench 'lookups_of_memory lookups_per_s of_smaller of_smaller_best step_us step_us_best updates_per_s' \
  embedding --rows 1k,2000 --bulk 256
bench 'pushes_per_s pushes_per_s_most' shard --workers 2
bench 'bytes decode_gb_per_s encode_gb_per_s pays_below_gb_per_s' compress --mib 1
bench 'examples_per_s of_one_process parameter_bytes_per_step' scale --workers 1 --rounds 1 --steps 10
bench 'all_reduce_us all_reduce_us_best loopback_us memory_us of_loopback of_memory' collective --kib 4 --processes 3
bench 'edge_of_scalar_us size_costs_us' transfer --mib 1 --rounds 5
bench 'idle_cpu_percent idle_rss_mib' footprint --seconds 1

# Each figure is labelled with its statistic.
of() { grep "\"metric\": \"$1\"" "$out/all" | grep -vq "\"statistic\": \"$2\"" && fail "$1 is not the $2"; }
of '[a-z_]*_best' minimum
of 'peak_rss_mib' maximum
of '[a-z_]*per_op' median
of '\(step_ms\|examples_per_s\|gflops\)' median

# The nodes run the program that users run: without it beside the benchmark there are no nodes.
cp "$build/troupe_bench" "$out"
"$out/troupe_bench" footprint --json 2>"$out/log"
{ [ $? = 74 ] && grep -q "there is no $out/actor-node; build it" "$out/log"; } || fail 'nodes without actor-node'

"$build/troupe_bench" dispatch --json --knobs 3 >"$out/log" 2>&1
[ $? = 64 ] || fail 'an option that there is not: not exit code 64'
"$build/troupe_bench" push_pull --mib none --json 2>/dev/null >"$out/log"
{ [ $? = 64 ] && [ ! -s "$out/log" ]; } || fail 'a wrong number: not exit code 64, or lines'
echo "$lines lines of fourteen benchmarks, all of the promised form"
