#!/usr/bin/env bash
# Runs every test of the `core` or of the `worlds` but the soak tests, in two phases: first, one after the other, the
# tests marked `alone`, which need the machine for themselves; then the others in LANES processes: 3 on two cores, because
# many tests wait. Both phases run even if the first fails. The last line is pytest's own if both pass.
# Durations are printed, and kept in build/tests-*.xml.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
export OMP_NUM_THREADS=1
# Empty, so that no test passes only because an earlier run has filled a cache of this machine.
export HF_HOME=$PWD/build/hub VLLM_CACHE_ROOT=$PWD/build/vllm
rm -rf "$HF_HOME" "$VLLM_CACHE_ROOT"

worlds=tests/envs/worlds
case ${1:-} in
    core) part=(tests "--ignore=$worlds") ;;
    worlds) part=("$worlds") ;;
    *) echo "run_tests.sh: name \`core\` or \`worlds\`"; exit 2 ;;
esac
failed=()
phase() { # phase NAME MARKERS OPTION...
    local name=$1 markers=$2
    shift 2
    echo "==> tests: $name"
    .venv/bin/python -m pytest -m "$markers and not soak" --durations=30 --durations-min=1 \
        --junitxml="build/tests-$name.xml" -o junit_family=xunit2 "$@" || failed+=("$name")
}

mapfile -t files < <(grep -rl 'pytest\.mark\.alone' "${part[0]}" --include='test_*.py' | grep -v "^$worlds" || true) # to collect all takes ten seconds
[ ${#files[@]} -eq 0 ] || phase "$1-alone" alone "${files[@]}"
phase "$1-lanes" "not alone" --numprocesses "${LANES:-3}" --dist loadfile --no-loadscope-reorder "${part[@]}"
[ ${#failed[@]} -eq 0 ] || { echo "tests failed in: ${failed[*]}"; exit 1; }
