#!/usr/bin/env bash
# compile_times.sh BUILD [NAME...]: the CPU seconds that each file of ops/ takes to compile, slowest first; with names, those
# of these files alone. `./dev compile-times` runs it; BUILD is a configured build folder, whose commands and compiler it takes.
#
# One file at a time, without ccache, into /dev/null: seconds of the compiler in user and in kernel mode, so that waiting
# counts for nothing. Whatever else runs still takes caches and half of a core from it, and never speeds it up: so a file above
# the bar is measured up to three times, and the least counts. Exit code 1 if a file is above the bar or does not compile.
set -euo pipefail
export LC_ALL=C CCACHE_DISABLE=1

root=$(dirname -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")")
readonly root
readonly bar=6.0  # CPU seconds
readonly rounds=3
readonly EX_USAGE=64

refuse() {
  printf 'compile-times: %s\n' "$*" >&2
  exit $EX_USAGE
}

(($# > 0)) || refuse 'usage: compile_times.sh BUILD [NAME...]'
readonly commands=$1/compile_commands.json
shift
[[ -r $commands ]] || refuse "cannot read $commands; ./dev build makes it"

scratch=$(mktemp -d)
readonly scratch
trap 'rm -rf -- "$scratch"' EXIT

load() { cut -d ' ' -f 1 /proc/loadavg; }

above_bar() { awk -v seconds="$1" -v bar="$bar" 'BEGIN { exit !(seconds > bar) }'; }  # SECONDS

# Prints three lines for each file of ops/: its name, the folder of its command, and the command, its output discarded. CMake writes
# each value in a line of its own; in JSON's strings it escapes quotes and backslashes.
list_commands() {
  awk -v ops="$root/ops/" '
    match($0, /^ *"(directory|command|file)": "/) {
      key = $0; sub(/^ *"/, "", key); sub(/".*/, "", key)
      text = substr($0, RLENGTH + 1); sub(/",?$/, "", text)
      gsub(/\\"/, "\"", text); gsub(/\\\\/, "\\", text)
      value[key] = text
    }
    /^}/ && index(value["file"], ops) == 1 && value["file"] ~ /\.cpp$/ {
      sub(/ -o [^ ]+ /, " -o /dev/null ", value["command"])
      print substr(value["file"], length(ops) + 1); print value["directory"]; print value["command"]
    }' "$commands"
}

cpu_seconds() {  # FOLDER COMMAND -> user and kernel seconds together; the messages of the compiler go to messages
  local TIMEFORMAT='%U %S'
  {
    time { (cd -- "$1" && eval "$2") >"$scratch/messages" 2>&1 </dev/null; }
  } 2>"$scratch/times" || return 1
  awk '{ printf "%.2f\n", $1 + $2 }' "$scratch/times"
}

least_seconds() {  # FOLDER COMMAND: of several rounds, if the first ones are above the bar
  local least='' seconds round
  for ((round = 0; round < rounds; ++round)); do
    seconds=$(cpu_seconds "$1" "$2") || return 1
    least=$(printf '%s\n' ${least:+"$least"} "$seconds" | sort -n | head -n 1)
    above_bar "$least" || break
  done
  printf '%s\n' "$least"
}

list_commands >"$scratch/commands"
declare -A folder_of=() command_of=()
names=()
while IFS= read -r file && IFS= read -r folder && IFS= read -r command; do
  name=${file%.*}
  names+=("$name")
  folder_of[$name]=$folder command_of[$name]=$command
done <"$scratch/commands"
((${#names[@]} > 0)) || refuse "$commands names no file of $root/ops"
if (($# > 0)); then names=("$@"); fi
for i in "${!names[@]}"; do
  name=${names[i]#ops/}
  names[i]=${name%.cpp}
  [[ -n ${command_of[${names[i]}]:-} ]] || refuse "$commands names no file ops/${names[i]}.cpp"
done

before=$(load)
broken=()
for name in "${names[@]}"; do
  if seconds=$(least_seconds "${folder_of[$name]}" "${command_of[$name]}"); then
    printf '%6.2f s  ops/%s.cpp\n' "$seconds" "$name" >>"$scratch/seconds"
  else
    broken+=("$name")
    cat -- "$scratch/messages" >&2
  fi
  if [[ -t 2 ]]; then printf '\r\033[K%s' "ops/$name.cpp" >&2; fi
done
if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi

touch -- "$scratch/seconds"
sort -rn -- "$scratch/seconds"
high=$(awk -v bar="$bar" '$1 > bar' "$scratch/seconds" | wc -l)
printf '%d files, %s CPU seconds; load of the machine, %d cores: %s before, %s after\n' "$(wc -l <"$scratch/seconds")" \
  "$(awk '{ sum += $1 } END { printf "%.0f", sum }' "$scratch/seconds")" "$(nproc)" "$before" "$(load)"
printf 'above the bar of %s CPU seconds: %d\n' "$bar" "$high"
for name in "${broken[@]}"; do printf 'does not compile: ops/%s.cpp\n' "$name"; done
((high + ${#broken[@]} == 0))
