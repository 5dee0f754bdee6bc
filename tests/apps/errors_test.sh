#!/usr/bin/env bash
# Each mistake of a user gives one clear line and the right exit code. Argument: the build folder.
set -uo pipefail
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# A cluster of two with one node missing. The waiting node says so after five seconds, which is
# checked below.
"$build/actor-node" up --ps 1 --workers 1 --run-dir "$out/ports" true 2>"$out/ports.log" || fail 'no cluster to copy from'
half=$out/ports/cluster.spec
"$build/actor-node" join --spec "$half" --job ps 2>"$out/half-node.log" &
pids+=($!)
"$build/train_digits" --digits "$data" --out "$out/half" --spec "$half" --wait 30 >"$out/half-program.log" 2>&1 &
pids+=($!)

expect 64 'unknown verb' "$build/actor-node" fly
expect 64 'no PROGRAM' "$build/actor-node" up --ps 1
expect 64 'there is no option --colour' "$build/actor-node" join --job worker --colour red
expect 64 'there is no option --frozen' "$build/actor-node" up --frozen 3 true
expect 64 'task wants a whole number, got "first"; see actor-node join --help' "$build/actor-node" join --task first
expect 64 'ps: 1 required' "$build/actor-node" up --ps
expect 64 'workers: At Most 1' "$build/actor-node" up --workers 1 --workers 2 true
expect 64 'run-dir= wants a value' "$build/actor-node" up --run-dir= true
expect 64 'takes no argument, got now' "$build/actor-node" join now
expect 64 'between 1 and 64' "$build/actor-node" up --ps 0 --workers 0 true
expect 78 '"master" is no job; the jobs are ps, worker,' "$build/actor-node" join --job master
expect 64 'incarnation wants a number above 0, got 0' "$build/actor-node" join --incarnation 0
expect 78 'insecure' "$build/actor-node" join --listen 0.0.0.0:0
expect 78 'give the address' "$build/actor-node" join --listen 0.0.0.0:0 --insecure
expect 64 'worker or ps' "$build/train_digits" --digits "$data" --kill chief
expect 74 'nowhere.csv' "$build/train_digits" --digits "$out/nowhere.csv"
head -c 9000 "$data" >"$out/cut.csv.gz"
expect 65 'cut.csv.gz' "$build/train_digits" --digits "$out/cut.csv.gz"
printf 'a,b,label\n1,2,3\n1,x,3\n' >"$out/bad.csv"
expect 65 'bad.csv' "$build/train_digits" --digits "$out/bad.csv"
expect 74 'MNIST\|train-images' "$build/train_digits" --data "$out"
expect 3 '' "$build/actor-node" up --ps 0 --workers 1 sh -c 'exit 3'
expect 3 '' "$build/actor-node" up --ps 0 --workers 1 -- sh -c 'exit 3'
expect 127 'cannot run' "$build/actor-node" up --ps 0 --workers 1 "$out/no-such-program"

expect 64 'only under actor-node up' "$build/train_digits" --digits "$data" --kill ps
expect 64 'this is one process' "$build/train_digits" --digits "$data" --verify --out "$out/x"
expect 64 'steps wants a whole number, got "many"' "$build/train_digits" --digits "$data" --steps many
expect 64 'dropout' "$build/train_digits" --digits "$data" --dropout 1
expect 64 'learning-rate wants a number above 0, got -1' "$build/train_digits" --digits "$data" --learning-rate -1
expect 64 'channels' "$build/train_digits" --digits "$data" --channels 0
expect 74 'cannot use .*/cut.csv.gz/x: Not a directory; check' "$build/train_digits" --digits "$data" --out "$out/cut.csv.gz/x"
expect 74 'let TMPDIR name one' env TMPDIR=/nowhere "$build/actor-node" up true
expect 64 'wants 0 to 1436' "$build/train_digits" --digits "$data" --validation 1437
expect 64 'frozen-after' "$build/actor-node" up --frozen-after 0.1 true
expect 64 'silence wants 0.5 to 3600 s, got 0.1' "$build/actor-node" up --silence 0.1 true
expect 78 'TROUPE_SILENCE wants 0.5 to 3600 s, got "2s"' env TROUPE_SILENCE=2s "$build/actor-node" join
expect 64 'restarts wants 0 to 10000, got -1' "$build/actor-node" up --restarts=-1 true
expect 64 'restarts-within wants 1 to 86400 s, got 0' "$build/actor-node" up --restarts-within 0 true
expect 78 'at least one worker' "$build/actor-node" up --ps 1 --workers 0 true
expect 64 'alive-fd' "$build/actor-node" join --alive-fd 99

# ./dev does nothing if it gets more arguments than it understands.
expect 64 'test takes at most 1, got: ops graph' "$tree/dev" test ops graph
expect 64 'build takes no argument' "$tree/dev" build ops
expect 64 'fmt takes no argument' "$tree/dev" fmt dev
expect 64 'whole number as SEED' "$tree/dev" sim cluster-step first
expect 64 'no stage is called' "$tree/dev" check everything

# Unreadable data: a folder; and a file without permission, which root can read anyway.
expect 74 "$out" "$build/train_digits" --digits "$out"
if [ "$(id -u)" != 0 ]; then
  cp "$data" "$out/locked.csv.gz"
  chmod 000 "$out/locked.csv.gz"
  expect 74 'locked.csv.gz' "$build/train_digits" --digits "$out/locked.csv.gz"
fi

# A folder that another run writes to.
mkdir -p "$out/held"
exec 9<"$out/held"
flock 9
expect 64 'another run writes into .*held; .*--out' "$build/train_digits" --digits "$data" --out "$out/held"
exec 9<&-

# Values that no node accepts, alone and under a supervisor.
for verb in 'join' 'up true'; do
  # shellcheck disable=SC2086  # a verb and its program are words
  set -- $verb
  expect 64 'memory-mib wants 1 to' "$build/actor-node" "$1" --memory-mib 0 "${@:2}"
  expect 64 'threads wants 0' "$build/actor-node" "$1" --threads=-3 "${@:2}"
  expect 64 'threads wants 0' "$build/actor-node" "$1" --threads 100000 "${@:2}"
  for name in '' 'my cluster' "$(printf '%064d' 0)" $'a\nb' ü; do
    expect 64 '--cluster wants 1 to 63 letters, digits' "$build/actor-node" "$1" --cluster "$name" "${@:2}"
  done
done
# Limits that are too low for our processes are named at once.
low='allow it 16 open files and sockets, it wants at least 64; raise that limit (ulimit -n)'
expect 78 "$low" bash -c 'ulimit -n 16; exec "$@"' - "$build/actor-node" join --job ps
expect 78 "$low" bash -c 'ulimit -n 16; exec "$@"' - env TROUPE_CLUSTER=127.0.0.1:1 "$build/train_digits" --digits "$data" --out "$out/x"
# Threads that cannot start; instrumented programs want more address space than any limit gives.
if grep -q '^TROUPE_SANITIZE:STRING=$' "$build/CMakeCache.txt"; then
  expect 78 'allow it 292 MiB of address space, it wants at least 528; raise that limit (ulimit -v)' \
    bash -c 'ulimit -v 300000; exec "$@"' - "$build/actor-node" join --threads 2
  expect 78 'threads more, it wants 1009 for 1000 lanes' bash -c 'ulimit -v 4000000; exec "$@"' - "$build/actor-node" join --threads 1000
fi
expect 64 'cpu-devices wants 1' "$build/actor-node" join --cpu-devices 100000
expect 64 '' "$build/actor-node" up -h
exec 9<"$out/held"
flock 9
expect 64 'another run writes into .*held; .*--run-dir' "$build/actor-node" up --run-dir "$out/held" true
exec 9<&-
expect 64 'TROUPE_PS wants a number of tasks' env TROUPE_CLUSTER=127.0.0.1:1 TROUPE_PS=abc "$build/train_digits" --digits "$data" --out "$out/x"
expect 64 'TROUPE_CLUSTER is empty' env TROUPE_CLUSTER= "$build/train_digits" --digits "$data" --out "$out/x"
expect 78 'foo' "$build/actor-node" join --seed foo
expect 64 'TROUPE_JOBS wants' env TROUPE_JOBS=0 "$tree/dev" build
# Printed output that does not arrive is an error in each program and verb.
into_nothing() { expect 74 'standard output could not be written to' bash -c '"$@" >/dev/full' - "$@"; }
into_nothing "$build/train_digits" --digits "$data" --steps 2 --out "$out/full"
for words in train_digits actor-node 'actor-node up' 'actor-node join' troupe 'troupe graph' 'troupe trace' 'troupe ops' 'troupe doctor' 'troupe replay'; do
  # shellcheck disable=SC2086  # a program and its verb are words
  into_nothing "$build/"$words --help
done
into_nothing "$build/troupe" ops
into_nothing "$build/troupe" doctor
expect 74 'address-file names: Not a directory; choose' "$build/actor-node" join --address-file /dev/full/x

# A loss that is no longer a number: the step, and the remedy.
expect 65 'learning rate' "$build/train_digits" --digits "$data" --steps 30 --learning-rate 1e30 --out "$out/nan"

# Cluster specs: file, line and remedy.
expect 74 'nowhere.spec' "$build/actor-node" join --spec "$out/nowhere.spec"
expect 74 'nowhere.spec' "$build/train_digits" --digits "$data" --out "$out/x" --spec "$out/nowhere.spec"
printf 'ps = 127.0.0.1:7000\nworkers = 127.0.0.1:7001\n' >"$out/typo.spec"
expect 78 'typo.spec:2: "workers" is no job.*did you mean "worker"' "$build/actor-node" join --spec "$out/typo.spec"
printf 'work\033[31mer = 127.0.0.1:7001\n' >"$out/steers.spec"
expect 78 'steers.spec:1: .*work\\x1b' "$build/actor-node" join --spec "$out/steers.spec"
printf 'worker = 127.0.0.1:7001, 127.0.0.1:7001\n' >"$out/twice.spec"
expect 78 'twice.spec:1: .*every task wants its own' "$build/train_digits" --digits "$data" --out "$out/x" --spec "$out/twice.spec"
printf 'worker = 127.0.0.1:1\n' >"$out/one.spec"
expect 78 'one.spec has no /job:worker/task:3' "$build/actor-node" join --spec "$out/one.spec" --task 3
expect 69 'nobody answered at 127.0.0.1:1 within 1000 ms; missing: /job:worker/task:0; start' "$build/train_digits" --digits "$data" --out "$out/x" \
  --spec "$out/one.spec" --wait 1
expect 64 'does not go with a cluster spec' "$build/actor-node" join --spec "$out/one.spec" --seed 127.0.0.1:7002
expect 78 '--hosts:1: ' "$build/actor-node" join --hosts 'worker 127.0.0.1:7001'

# Half a cluster: the missing task and the remedy.
expect 69 'waited 2000 ms for /job:worker/task:0; start them with actor-node join' "$build/train_digits" --digits "$data" \
  --out "$out/x" --spec "$half" --wait 2
for who in node program; do
  tried=$((tried + 1))
  wait_for 15 grep -q 'waiting for the cluster, start what is missing: missing=/job:worker/task:0 seconds=[5-9]$' \
    "$out/half-$who.log" || fail "the $who of half a cluster does not say whom it waits for"
done
kill "${pids[@]}" && wait "${pids[@]}"
pids=()

# Two nodes at one port; a node of another cluster; a second node for the same task.
"$build/actor-node" join --job ps --task 0 --address-file "$out/address" 2>/dev/null &
pids+=($!)
wait_for 20 test -s "$out/address" || fail 'the node does not listen'
address=$(cat "$out/address")
expect 74 'in use' "$build/actor-node" join --job ps --task 1 --listen "$address"
expect 78 'cluster' "$build/actor-node" join --job ps --task 1 --cluster other --seed "$address"
expect 78 'task' "$build/actor-node" join --job ps --task 0 --seed "$address"

# A peer that speaks another protocol, or our protocol in another version, is refused, and the node
# goes on. It may hang up before all bytes are sent.
say_to_node() { (trap '' PIPE && printf "$@" >&3 2>/dev/null) || true; }
exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
say_to_node 'GET / HTTP/1.1\r\nHost: x\r\n\r\n%0200d' 0
timeout 10 cat <&3 >/dev/null
exec 3>&-
exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
say_to_node 'TROUPE\r\n\x63\x00\x01\x00%0756d' 0
timeout 10 cat <&3 >"$out/refusal"
exec 3>&-
tried=$((tried + 2))
grep -qa 'dialled speaks protocol version [0-9]*, the one that dialled 99;' "$out/refusal" || { echo "another version was not told why"; failures=$((failures + 1)); }
kill -0 "${pids[0]}" || { echo "the node died of a stranger"; failures=$((failures + 1)); }

# The other way round: a web server, or a node of another version, listens at the seed's address.
answering() {  # NAME PERL_STRING: starts a server that gives every peer this answer; its address is in $out/NAME
  perl -MIO::Socket::INET -e '
    my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1") or die;
    open(my $file, ">", "$ARGV[0].part"); print $file "127.0.0.1:", $server->sockport, "\n"; close $file;
    rename "$ARGV[0].part", $ARGV[0];
    while (my $peer = $server->accept) { sysread($peer, my $asked, 768); print $peer eval $ARGV[1]; close $peer; }
  ' "$out/$1" "$2" &
  pids+=($!)
  wait_for 20 test -s "$out/$1" || fail "$1 does not listen"
}
answering web '"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"'
expect 78 'no node of Troupe' "$build/actor-node" join --job ps --task 1 --seed "$(cat "$out/web")"
answering newer 'pack("a8 v C C x4 a240 a512", "TROUPE\r\n", 99, 2, 2, "version 99 is spoken here", "")'
expect 78 'dialled speaks protocol version 99, the one that dialled [0-9]*; .*It said: version 99 is spoken here' \
  "$build/actor-node" join --job ps --task 1 --seed "$(cat "$out/newer")"

# SIGTERM ends a node within ten seconds, with exit code 0.
kill -TERM "${pids[0]}"
if ! timeout 10 tail --pid="${pids[0]}" -f /dev/null; then
  echo "SIGTERM did not end the node"
  failures=$((failures + 1))
fi
wait "${pids[0]}"
[ $? = 0 ] || { echo "a stopped node did not exit with 0"; failures=$((failures + 1)); }
pids=("${pids[@]:1}")

[ "$failures" = 0 ] || exit 1
echo "$tried mistakes, each with its exit code and message"
