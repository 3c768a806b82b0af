#!/bin/sh
# Runs the programs for ring8 in MSCCL++ and says what to expect of them.
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
    mpirun -np 8 -x HETESYNTH_DEPLOYMENT \
      sh "$folder/smoke_test.sh" --rank "$@"
  fi
}
launch "${PYTHON:-python3}" "$folder/load_plans.py" --check ${only:+--only "$only"}
