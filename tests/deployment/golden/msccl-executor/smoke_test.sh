#!/bin/sh
# Runs the programs for ring8 in Azure's MSCCL executor for NCCL and says what to expect of them.
#   sh smoke_test.sh            all of them
#   sh smoke_test.sh allreduce  those whose name has this word in it
# TESTS: the folder with all_reduce_perf and so on, where they are not on PATH.
# LAUNCH: what starts the ranks in place of mpirun, as "srun --distribution=arbitrary".
# The folder has to have the same path on all hosts.
set -eu
folder=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if [ "${1:-}" = --rank ]; then # what the ranks run: the host's visible devices, then the test
  shift
  host=$(hostname)
  alone=1 # 1: all ranks run here, whatever the machine is called
  [ -f "$folder/devices" ] && while read -r machine setting; do
    if [ -n "$alone" ]; then machine=$host; fi
    if [ "$machine" = "$host" ] || [ "$machine" = "${host%%.*}" ] || [ "${machine%%.*}" = "$host" ]; then
      export "$setting"
    fi
  done <"$folder/devices"
  exec "$@"
fi
only=${1:-}
HETESYNTH_DEPLOYMENT=$folder
export HETESYNTH_DEPLOYMENT
launch() {
  if [ -n "${LAUNCH:-}" ]; then
    $LAUNCH sh "$folder/smoke_test.sh" --rank "$@"
  else
    mpirun -np 8 -x HETESYNTH_DEPLOYMENT -x MSCCL_ALGO_DIR -x NCCL_MSCCL_ENABLE -x NCCL_MIN_NCHANNELS -x NCCL_DEBUG -x NCCL_DEBUG_SUBSYS \
      sh "$folder/smoke_test.sh" --rank "$@"
  fi
}
. "$folder/environment.sh"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad=0
chosen=0
skip() {
  case $1 in *"$only"*) ;; *) return 0 ;; esac
  chosen=$((chosen + 1))
  echo "$1: not tested: $2"
}
run() { # cell, what to expect, the collective in logs, whether both forms have programs, command
  case $1 in *"$only"*) ;; *) return 0 ;; esac
  chosen=$((chosen + 1))
  echo "$1"
  echo "  expected, simulated: $2"
  line="MSCCL: Setup Kernel finished"
  other="NCCL INFO [A-Z][A-Za-z]*: opCount"
  forms=$4
  shift 4
  program=${TESTS:+$TESTS/}$1
  shift
  echo "  $program $*"
  export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,COLL
  if ! launch "$program" "$@" -n 1 -w 0 >"$log" 2>&1; then
    tail -n 20 "$log"
    echo "  FAILED: it did not run, or gave wrong data"
    bad=$((bad + 1))
    return 0
  fi
  if [ "$forms" = both ] && [ -n "$other" ] && grep -q "$line" "$log" && grep -q "$other" "$log"; then
    echo "  FAILED: a built-in algorithm ran some of the calls"
    bad=$((bad + 1))
  elif grep -q "$line" "$log"; then
    echo "  the runtime has it: $(grep -c "$line" "$log") lines with \"$line\""
  elif [ "$forms" = sends ]; then
    echo "  not tested: no line with \"$line\": tests built before NCCL 2.28 send and receive here"
    return 0
  else
    echo "  FAILED: no line with \"$line\": a built-in algorithm ran"
    bad=$((bad + 1))
  fi
  NCCL_DEBUG=WARN
  if launch "$program" "$@" >"$log" 2>&1; then
    grep -E '^ *[0-9]' "$log" || true
  else
    tail -n 20 "$log"
    echo "  FAILED: it did not run, or gave wrong data"
    bad=$((bad + 1))
  fi
}
run ring8/msccl-executor/allgather/64000..999999 '12.5 us, algbw 5.12 GB/s' AllGather both all_gather_perf -b 64000 -e 64000 -g 1 -d float -c 1
run ring8/msccl-executor/allgather/64000..999999 '800.2 us, algbw 1.25 GB/s' AllGather both all_gather_perf -b 999936 -e 999936 -g 1 -d float -c 1
run ring8/msccl-executor/allgather/1000000..0 '12.5 us, algbw 80 GB/s' AllGather both all_gather_perf -b 1000192 -e 1000192 -g 1 -d float -c 1
run ring8/msccl-executor/allgather/1000000..0 '800.2 us, algbw 9.997 GB/s' AllGather both all_gather_perf -b 8000000 -e 8000000 -g 1 -d float -c 1
if [ "$chosen" -eq 0 ]; then
  echo "no cell has $only in its name"
  exit 1
fi
if [ "$bad" -gt 0 ]; then
  echo "$bad tests failed"
  exit 1
fi
echo "all ran"
