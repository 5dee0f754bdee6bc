# Shared code of the scripts in tests/apps; source it first, with the build folder as its argument.
# It sets $build, $data (the digits), $out (the script's own folder, removed when the script ends),
# $pids (background processes, ended with the script), and the counters $tried and $failures of
# expect().
# shellcheck shell=bash disable=SC2034  # the scripts use them
build=$1
data=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../data" && pwd)/digits.csv.gz
out=$(mktemp -d)
pids=()
tried=0
failures=0

finish() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && kill -CONT "$pid" 2>/dev/null; done
  wait
  if mountpoint -q "$out/disk"; then umount "$out/disk"; fi
  rm -rf "$out"
}
trap finish EXIT

fail() {  # WHAT: prints it, shows the logs, and ends the script
  echo "$(basename "$0" .sh): $1"
  tail -n 40 "$out"/*.log "$out/log" "$out/stamped" 2>/dev/null
  exit 1
}

expect() {  # CODE TEXT COMMAND...: checks the exit code and that the output has TEXT; the output is in $out/log
  local code=$1 text=$2
  shift 2
  tried=$((tried + 1))
  timeout 120 "$@" >"$out/log" 2>&1
  local got=$?
  if [ "$got" != "$code" ] || { [ -n "$text" ] && ! grep -q -- "$text" "$out/log"; }; then
    echo "expected exit $code and \"$text\", got exit $got from: $*"
    head -n 8 "$out/log"
    failures=$((failures + 1))
  fi
}

wait_for() {  # SECONDS COMMAND...: until the command succeeds
  local end=$((SECONDS + $1))
  shift
  until "$@" 2>/dev/null; do
    ((SECONDS < end)) || return 1
    read -rt 0.05 <> <(:) || true
  done
}

sync_hash() { grep '^sync .*sha256' "$1" | sed 's/.*sha256 \([0-9a-f]*\).*/\1/'; }  # LOG: the hash of the synchronous weights that it reports
