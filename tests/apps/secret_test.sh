#!/usr/bin/env bash
# The secret of a cluster: `actor-node up` makes one; processes without it reach no actor, whichever
# user starts them, and cost little. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
unset TROUPE_SECRET_FILE
node=$build/actor-node

# Files that are no secret.
secret=$out/secret
(umask 077 && head -c 32 /dev/urandom | base64 >"$secret")
join=("$node" join --job worker --task 0)
(umask 077 && printf '%s' 0123456789abcde >"$out/short" && : >"$out/empty")
cp "$secret" "$out/open" && chmod 644 "$out/open"
expect 74 'cannot read the secret .*/none: No such file' "${join[@]}" --secret-file "$out/none"
expect 78 'is not a file' "${join[@]}" --secret-file "$out"
expect 78 'chmod 600' "${join[@]}" --secret-file "$out/open"
expect 78 'has 15 bytes, and wants 16 to 1024' "${join[@]}" --secret-file "$out/short"
expect 78 'has 0 bytes' "${join[@]}" --secret-file "$out/empty"
expect 78 'TROUPE_SECRET_FILE is empty' env TROUPE_SECRET_FILE= "${join[@]}"
expect 78 'chmod 600' "$node" up --secret-file "$out/open" true
expect 74 'No such file' "$build/train_digits" --digits "$data" --out "$out/x" --spec <(echo 'worker = 127.0.0.1:9') --secret-file "$out/none"
[ $failures = 0 ] || fail "$failures of $tried checks of files"

# By hand, with one secret: the program trains.
address_of() { wait_for 20 test -s "$1" || fail "no address in $1"; cat "$1"; }
"$node" join --job ps --task 0 --address-file "$out/ps" --secret-file "$secret" 2>"$out/ps.log" &
ps_pid=$!
pids+=($!)
ps=$(address_of "$out/ps")
TROUPE_SECRET_FILE=$secret "$node" join --job worker --seed "$ps" --address-file "$out/worker" 2>"$out/worker.log" &
pids+=($!)
worker=$(address_of "$out/worker")
grep -q 'secret=given' "$out/ps.log" || fail 'the log does not say that a secret was given'
grep -q 'no --secret-file' "$out/ps.log" "$out/worker.log" && fail 'a warning for a node with a secret'
printf 'ps = %s\nworker = %s\n' "$ps" "$worker" >"$out/spec"
train=("$build/train_digits" --digits "$data" --steps 20 --spec "$out/spec")
"${train[@]}" --out "$out/trained" --secret-file "$secret" >"$out/train.log" 2>&1 || fail 'no training with the secret'

# Without it, or with another one, nobody gets in: no node, no program, no number of a task.
refused() {  # USER-PREFIX...
  expect 78 'has a secret and .* has none; give both the same --secret-file' "$@" "$node" join --job worker --task 7 --seed "$ps"
  expect 78 'has a secret and .* has none' "$@" "$node" join --job worker --seed "$ps"
  expect 78 'has a secret and .* has none' "$@" "${train[@]}" --out "$out/y"
}
refused env
cp "$secret" "$out/other" && echo more >>"$out/other"
expect 78 'has another secret than' "${join[@]}" --seed "$ps" --secret-file "$out/other"
[ $failures = 0 ] || fail "$failures of $tried checks of refusals"
grep -c 'peer up' "$out/ps.log" >"$out/ups"

# A node without a secret says so.
"$node" join --job ps --task 0 --address-file "$out/bare" 2>"$out/bare.log" &
pids+=($!)
bare=$(address_of "$out/bare")
wait_for 5 grep -q 'no --secret-file: all users of this machine can join' "$out/bare.log" || fail 'no warning without a secret'
expect 78 'has a secret and .* has none' "${join[@]}" --seed "$bare" --secret-file "$secret"

# up makes one, and hands it to nodes and program. Two of one shell are strangers to each other.
TROUPE_SECRET_FILE=$secret "$node" up --ps 1 --workers 1 --run-dir "$out/run" bash -c '
  [ "$TROUPE_SECRET_FILE" = "$0/secret" ] || exit 41
  [ "$(stat -c %a "$0/secret")" = 600 ] || exit 42
  cmp -s "$0/secret" "$1" && exit 43
  "$2" join --job worker --task 9 --address-file "$0/joined" --seed "${TROUPE_CLUSTER%%,*}" 2>"$0/joined.log" &
  joined=$!
  trap "kill $joined 2>/dev/null" EXIT
  until grep -q "peer up: peer=/job:worker/task:0" "$0/joined.log"; do read -rt 0.02 <> <(:); done
  kill $joined && wait $joined || exit 47
  grep -q "$(cat "$0/secret")" "$0/cluster.spec" "$0"/*.log && exit 44
  grep -q secret=given "$0/worker-0.log" || exit 45
  env -u TROUPE_SECRET_FILE "$2" join --job worker --task 8 --seed "${TROUPE_CLUSTER%%,*}" 2>"$0/refused.log"
  [ $? = 78 ] || exit 46' "$out/run" "$secret" "$node" 2>"$out/up.log" || fail "up with a secret of its own: $?"
[ ! -e "$out/run/secret" ] || fail 'up left its secret'

# A file or a link of that name is replaced and not followed; a lost folder gets the secret again.
echo old >"$out/target"
ln -s "$out/target" "$out/run/secret"
"$node" up --ps 1 --workers 1 --run-dir "$out/run" bash -c '
  [ -L "$0/secret" ] && exit 41
  until grep -q "peer up: peer=/job:worker/task:0" "$0/ps-0.log"; do read -rt 0.02 <> <(:); done
  pid=$(cat "$0/worker-0.pid")
  rm -r "$0"
  kill -9 "$pid"
  until grep -q "peer up: peer=/job:ps/task:0" "$0/worker-0.log"; do read -rt 0.02 <> <(:); done
  [ "$(stat -c %a "$0/secret")" = 600 ]' "$out/run" 2>"$out/up2.log" || fail "up with an old link, and without its folder: $?"
[ "$(cat "$out/target")" = old ] || fail 'up wrote through a link'
"$node" up --ps 1 --workers 1 --secret-file "$secret" bash -c '[ "$TROUPE_SECRET_FILE" = "$0" ] && [ ! -e "$TROUPE_RUN_DIR/secret" ]' "$secret" 2>"$out/up3.log" ||
  fail "up with a secret that was given: $?"

[ $failures = 0 ] || fail "$failures of $tried checks"
if [ "$(id -u)" != 0 ] || ! setpriv --reuid=65534 --clear-groups true 2>/dev/null; then
  echo 'skipped: no right to be another user, so only processes of this one were tried'
  exit 77
fi

# Another user of this machine.
other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if ! "${other[@]}" "$node" --help >/dev/null 2>&1; then
  echo 'skipped: another user cannot run the programs of this folder'
  exit 77
fi
expect 78 'has a secret and .* has none' "${other[@]}" "$node" join --job worker --task 7 --seed "$ps"
expect 78 'has a secret and .* has none' "${other[@]}" "$node" join --job worker --seed "$ps"
expect 74 'Permission denied' "${other[@]}" "$node" join --job worker --task 7 --seed "$ps" --secret-file "$secret"
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$ps_pid/status"; }
before=$(resident)
# It keeps 64 connections, more than which no process accepts, each with a beginning of a greeting.
"${other[@]}" bash -c '
  for ((i = 0; i < 64; ++i)); do
    exec {fd}<>"/dev/tcp/${0%:*}/${0##*:}" || exit 1
    printf "TROUPE\r\n" >&"$fd"
  done
  echo open
  start=${EPOCHREALTIME/[.,]/}
  while IFS= read -r -t 20 -n 1 -u "$fd" _; do :; done
  (( (${EPOCHREALTIME/[.,]/} - start) < 10000000 )) || exit 2
  echo closed' "$ps" >"$out/stranger" 2>"$out/stranger.log" &
stranger=$!
wait_for 20 grep -q open "$out/stranger" || fail 'the stranger cannot connect'
grew=$(($(resident) - before))
((grew <= 64 * 64)) || fail "64 strangers cost $grew KiB"
wait $stranger || fail "a stranger that says nothing more is not closed within seconds: $?"
[ "$(grep -c 'peer up' "$out/ps.log")" = "$(cat "$out/ups")" ] || fail 'the ps met somebody without the secret'
"${train[@]}" --out "$out/again" --secret-file "$secret" >"$out/again.log" 2>&1 || fail 'no training after the strangers'
[ $failures = 0 ] || fail "$failures of $tried checks as another user"
echo "files that are no secret refused; nodes, programs and draws without it refused, as another user, too; 64 strangers cost $grew KiB and are closed"
