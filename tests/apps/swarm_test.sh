#!/usr/bin/env bash
# 20,000 faults in simulated clusters, over more than 500 times 60 s: no invariant is broken, and a core
# simulates at least 100 times as fast as the clock. Argument: the build folder.
# slow
set -uo pipefail
export TROUPE_SIM_NAME=cluster-swarm TROUPE_SIM_SEEDS=1001-2400
log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
"$1/tests/test_sim" --test-case='cluster-swarm:*' >"$log" 2>&1
code=$?
line=$(grep -E '^cluster-swarm: [0-9]+ seeds, ' "$log" | tail -n 1)
[[ $line =~ ([0-9]+)\ seeds,\ ([0-9.]+)\ s\ simulated,\ ([0-9]+)\ faults,\ ([0-9]+) ]] || line=
if [[ $code != 0 || -z $line ]]; then
  tail -n 40 "$log"
  exit 1
fi
if ((${BASH_REMATCH[1]} < 1400 || ${BASH_REMATCH[2]%.*} < 30000 || ${BASH_REMATCH[3]} < 20000 || ${BASH_REMATCH[4]} < 100)); then
  echo "too little: $line"
  exit 1
fi
echo "$line"
