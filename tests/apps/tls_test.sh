#!/usr/bin/env bash
# Two machines, as two network namespaces, train over links with TLS; a process without a fitting
# certificate is refused. Argument: the build folder.
set -uo pipefail
unset TROUPE_SECRET_FILE TROUPE_TLS_DIR
if [ "${2:-}" != inside ]; then
  # A namespace of users makes us root of the others.
  if ! unshare -Urnm bash -c 'mount -t tmpfs none /run && ip netns add a && ip link add v0 type veth peer name v1 netns a' 2>/dev/null; then
    echo 'skipped: no right to make network namespaces'
    exit 77
  fi
  exec unshare -Urnm bash "${BASH_SOURCE[0]}" "$1" inside
fi
# shellcheck source=tests/support/app_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/app_test.sh"
node=$build/actor-node
ca=$out/ca

# Certificates: made, described, not overwritten; mistakes have words.
expect 0 'the authority of cluster "troupe"' "$node" certs init "$ca"
expect 78 'ca.key is there already' "$node" certs init "$ca"
[ "$(stat -c %a "$ca/ca.key")" = 600 ] || fail 'others can read the key of the authority'
expect 0 "$ca/ps-0" "$node" certs issue "$ca" /job:ps/task:0 --hosts 10.77.0.1,localhost
expect 0 "$ca/worker-all" "$node" certs issue "$ca" '/job:worker/*' --hosts 10.77.0.2 --days 10
expect 0 "$ca/digits" "$node" certs issue "$ca" digits
expect 78 'is there already; to replace certificate and key, say --renew' "$node" certs issue "$ca" digits
expect 64 'is no name for a certificate' "$node" certs issue "$ca" job/worker
expect 64 'is no machine' "$node" certs issue "$ca" x --hosts 10.77.0.1:7000
expect 64 'for 1 to 36500 days, got 0' "$node" certs issue "$ca" x --days 0
expect 64 'wants init, issue or show' "$node" certs
expect 64 'write actor-node certs issue DIR NAME' "$node" certs issue "$ca"
expect 74 'cannot read the authority' "$node" certs issue "$out" x
expect 0 '/job:ps/task:0 of cluster "troupe"' "$node" certs show "$ca/ps-0/cert.pem"
expect 0 '10.77.0.1' "$node" certs show "$ca/ps-0/cert.pem"
expect 65 'has no certificate' "$node" certs show "$ca/ps-0/key.pem"
[ $failures = 0 ] || fail "$failures of $tried checks of certificates"

# Machine a has 10.77.0.1 and b has 10.77.0.2.
mount -t tmpfs none /run || fail 'no /run of our own'
ip link set lo up || fail "no loopback"
ip netns add a && ip netns add b && ip link add v0 netns a type veth peer name v0 netns b || fail 'no namespaces'
for n in a b; do
  ip -n $n addr add "10.77.0.$([ $n = a ] && echo 1 || echo 2)/24" dev v0
  ip -n $n link set lo up && ip -n $n link set v0 up || fail "no network in $n"
done
ps=10.77.0.1:7000
worker=10.77.0.2:7000
printf 'ps = %s\nworker = %s\n' $ps $worker >"$out/spec"

# Beyond loopback TLS is wanted, or an explicit word, which is repeated aloud.
join=("$node" join --spec "$out/spec")
expect 78 'without TLS: .*give --tls, listen on 127.0.0.1, or say --insecure' ip netns exec a "${join[@]}" --job ps --task 0
ip netns exec a "${join[@]}" --job ps --task 0 --insecure 2>"$out/insecure.log" &
pids+=($!)
wait_for 20 grep -q 'links are not encrypted, and --insecure allows it' "$out/insecure.log" || fail '--insecure says nothing'
expect 78 'the process there has no TLS, and /job:worker/task:0 has; give both --tls' ip netns exec b "${join[@]}" --job worker --task 0 --tls "$ca/worker-all"
wait_for 5 grep -q 'the process that dialled has TLS, and /job:ps/task:0 has none' "$out/insecure.log" || fail 'the acceptor without TLS says nothing'
kill ${pids[0]} && wait ${pids[0]} 2>/dev/null
pids=()

ip netns exec a "${join[@]}" --job ps --task 0 --tls "$ca/ps-0" 2>"$out/ps.log" &
pids+=($!)
wait_for 20 grep -q 'listening: .*tls=given' "$out/ps.log" || fail 'the ps does not listen with TLS'
TROUPE_TLS_DIR=$ca/worker-all ip netns exec b "${join[@]}" --job worker --task 0 2>"$out/worker.log" &
pids+=($!)
grep -q 'no --secret-file\|not encrypted' "$out/ps.log" && fail 'a warning for a node with TLS'
wait_for 20 grep -q 'peer up: peer=/job:worker/task:0' "$out/ps.log" || fail 'the worker is not up'
wait_for 5 grep -q 'the certificate expires soon.* days=9' "$out/worker.log" || fail 'no word of a certificate that ends'

# The program trains over both machines, with the bits of one machine.
train=("$build/train_digits" --digits "$data" --steps 20)
ip netns exec a "${train[@]}" --spec "$out/spec" --out "$out/trained" --tls "$ca/digits" >"$out/train.log" 2>&1 || fail 'no training with TLS'
# up needs no certificates, and takes none.
TROUPE_TLS_DIR=$ca/digits "$node" up --ps 1 --workers 1 "${train[@]}" --out "$out/here" >"$out/here.log" 2>&1 || fail 'no training on loopback'
[ "$(sync_hash "$out/train.log")" = "$(sync_hash "$out/here.log")" ] || fail 'TLS changes the bits'

# A tool on the other machine than the program's asks and steers its training: the program dials it.
ip netns exec a "$build/train_digits" --digits "$data" --steps 1000000 --spec "$out/spec" --out "$out/asked" --tls "$ca/digits" >"$out/asked.log" 2>&1 &
asked=$!
pids+=($!)
visit=(--spec "$out/spec" --tls "$ca/digits")
jobs() { ip netns exec b "$build/troupe" jobs "${visit[@]}" --listen 10.77.0.2:0 | grep -q ' trains .*[1-9][0-9]*/1000000'; }
wait_for 60 jobs || fail 'the training does not show on the other machine'
expect 0 'is ssp:3 from step' ip netns exec b "$build/troupe" set "${visit[@]}" --listen 10.77.0.2:0 --rule ssp:3
expect 69 'on another machine than the program.s give --listen' ip netns exec b "$build/troupe" ledger "${visit[@]}"
expect 78 'without TLS: ' ip netns exec b "$build/troupe" jobs --spec "$out/spec" --listen 10.77.0.2:0
expect 78 'has TLS, and the process that dialled it has none' ip netns exec b "$build/troupe" jobs --spec "$out/spec"
kill -9 $asked
wait $asked 2>/dev/null

# Others are refused, in words.
started=$SECONDS
task7=("$node" join --job worker --task 7 --listen 10.77.0.2:7007 --seed $ps)
expect 78 '/job:ps/task:0 has TLS, and the process that dialled it has none; give both --tls' ip netns exec b "${task7[@]}" --insecure
expect 78 'has TLS, and the process that dialled it has none' ip netns exec a "${train[@]}" --spec "$out/spec" --out "$out/y"
"$node" certs init "$out/other" >/dev/null
other=$("$node" certs issue "$out/other" /job:worker/task:7)
expect 78 'is signed by another authority than the one in ca.pem' ip netns exec b "${task7[@]}" --tls "$other"
cp -r "$other" "$out/both" && cat "$ca/ca.pem" >>"$out/both/ca.pem"
expect 78 'it refuses the certificate of /job:worker/task:7 .*: its authority (ca.pem) does not sign it' ip netns exec b "${task7[@]}" --tls "$out/both"
expect 78 'is that of /job:ps/task:0 of cluster "troupe", and this process is /job:worker/task:7' ip netns exec b "${task7[@]}" --tls "$ca/ps-0"
expect 78 'is that of the program digits' ip netns exec b "${task7[@]}" --tls "$ca/digits"
expect 78 'cluster "blue"' ip netns exec b "${task7[@]}" --tls "$ca/worker-all" --cluster blue
expect 74 'cannot read' ip netns exec b "${task7[@]}" --tls "$out/none"
expect 78 'TROUPE_TLS_DIR is empty' env TROUPE_TLS_DIR= "$node" join --job worker
if command -v openssl >/dev/null; then
  old=$("$node" certs issue "$ca" /job:worker/task:7)
  openssl req -new -key "$old/key.pem" -subj /CN=old -out "$out/csr" 2>/dev/null
  openssl x509 -req -in "$out/csr" -CA "$ca/ca.pem" -CAkey "$ca/ca.key" -days 0 -out "$old/cert.pem" \
    -extfile <(echo 'subjectAltName=URI:troupe://troupe/job/worker/task/7') 2>/dev/null
  wait_for 5 bash -c "! openssl x509 -checkend 0 -noout -in '$old/cert.pem' >/dev/null"
  expect 78 'the certificate of /job:worker/task:7 of cluster "troupe" expired on 2.* UTC' ip netns exec b "${task7[@]}" --tls "$old"
fi
((SECONDS - started < 60)) || fail 'refusals take too long'
grep -q 'refused a connection: .*reason=untrusted' "$out/ps.log" || fail 'the ps does not say whom it refuses'
[ $failures = 0 ] || fail "$failures of $tried checks of refusals"

# A certificate of one task says which one; a key that cannot be read is no task that is taken.
mv "$ca/ps-0/key.pem" "$out/away"
for task in 0 ''; do
  expect 74 '^[^;]*cannot read the private key' ip netns exec a "${join[@]}" --job ps ${task:+--task $task} --tls "$ca/ps-0"
  grep -q 'is free' "$out/log" && fail 'a missing key is told as a task that is taken'
done
mv "$out/away" "$ca/ps-0/key.pem"
printf 'ps = 10.77.0.1:7010, 10.77.0.1:7011\nworker = %s\n' $worker >"$out/two"
one=$("$node" certs issue "$ca" /job:ps/task:1)
ip netns exec a "$node" join --spec "$out/two" --job ps --tls "$one" 2>"$out/one.log" &
pids+=($!)
wait_for 20 grep -q 'listening: address=10.77.0.1:7011' "$out/one.log" || fail 'a node is not the task of its certificate'
expect 64 '--announce does not go with a cluster spec' "${join[@]}" --job ps --announce 10.77.0.1:7012
ip netns exec a "$node" join --job ps --listen 10.77.0.1:7013 --seed $ps --tls "$one" 2>"$out/seed.log" &
pids+=($!)
wait_for 20 grep -q '/job:ps/task:1.*listening' "$out/seed.log" || fail 'a node with seeds is not the task of its certificate'
kill "${pids[@]: -2}"
[ $failures = 0 ] || fail "$failures of $tried checks of tasks"

# New certificates are used without a restart; files that do not fit change nothing.
"$node" certs issue "$ca" /job:ps/task:0 --renew --hosts 10.77.0.1 --days 300 >/dev/null || fail 'no new certificate'
wait_for 10 grep -q 'certificates read again' "$out/ps.log" || fail 'new certificates are not read'
cp "$ca/digits/cert.pem" "$ca/ps-0/cert.pem"
wait_for 10 grep -q 'new certificates cannot be used, the old ones stay: .*is not the key of' "$out/ps.log" || fail 'no word of bad certificates'
ip netns exec a "${train[@]}" --spec "$out/spec" --out "$out/again" --tls "$ca/digits" >"$out/again.log" 2>&1 || fail 'no training after that'
[ "$(sync_hash "$out/again.log")" = "$(sync_hash "$out/here.log")" ] || fail 'other bits after that'
echo 'a training over two machines with TLS has the bits of one machine; no TLS, another authority, another name and an expired certificate are refused; certificates change without a restart'
