# The programs for ring8 in RCCL of ROCm 6.1 to 7.12. To be read by a shell: . FOLDER/environment.sh
# Where a shell cannot tell its place, set HETESYNTH_DEPLOYMENT to the folder before.
_hetesynth_place() {
  _hetesynth_file=
  if [ -n "${BASH_VERSION:-}" ]; then
    eval '_hetesynth_file=${BASH_SOURCE[0]}'
  elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_hetesynth_file=${(%):-%x}'
  elif read -r _hetesynth_pid _hetesynth_rest </proc/self/stat; then
    for _hetesynth_open in "/proc/$_hetesynth_pid/fd/"*; do
      _hetesynth_link=$(readlink "$_hetesynth_open") || continue
      case $_hetesynth_link in */environment.sh) _hetesynth_file=$_hetesynth_link ;; esac
    done
  fi 2>/dev/null
  _hetesynth_file=${_hetesynth_file:-${HETESYNTH_DEPLOYMENT:-.}/environment.sh}
  _hetesynth_folder=$(CDPATH= cd -- "$(dirname -- "$_hetesynth_file")" 2>/dev/null && pwd) || _hetesynth_folder=
  if [ -f "$_hetesynth_folder/index.json" ] && [ -d "$_hetesynth_folder/algorithms" ]; then
    export HETESYNTH_DEPLOYMENT="$_hetesynth_folder"
  else
    echo "environment.sh: set HETESYNTH_DEPLOYMENT to the folder that environment.sh is in" >&2
    return 1
  fi
  unset _hetesynth_file _hetesynth_folder _hetesynth_pid _hetesynth_rest _hetesynth_open _hetesynth_link
}
_hetesynth_place || return 1
export MSCCL_ALGO_DIR="$HETESYNTH_DEPLOYMENT/algorithms"
export RCCL_MSCCL_ENABLE="1"
export RCCL_MSCCL_FORCE_ENABLE="1"
# Otherwise RCCL's own MSCCL++ takes allreduce and allgather up to 1 MiB in captured graphs.
export RCCL_MSCCLPP_ENABLE="0"
# The programs use 2 channels at most; NCCL_MAX_NCHANNELS must not be less.
export NCCL_MIN_NCHANNELS="2"
