#!/usr/bin/env bash
# Makes .venv/ from requirements.lock: `make install` calls this when the lock or pyproject.toml is newer than the last install.
set -euo pipefail
cd "$(dirname "$0")/.."

pip_version=26.3
torch_cpu_index=https://download.pytorch.org/whl/cpu

die() { printf 'make install: %s\n' "$*" >&2; exit 1; }

[ "$(uname -s)" = Linux ] || die "turnwise runs on Linux only; this is $(uname -s)."

bash tools/system_parts.sh install

python=${PYTHON:-}
if [ -z "$python" ]; then
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; break; fi
    done
fi
[ -n "$python" ] || die "no Python 3.11 or later found (python3 is $(python3 --version 2>&1)). Install one, or name it: make install PYTHON=/path/to/python3.12"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$python is $("$python" --version 2>&1); turnwise needs 3.11 or later."

free_kib=$(df -Pk . | awk 'NR == 2 {print $4}')
[ "$free_kib" -gt 4000000 ] || die "the environment takes about 4 GB to install; this disk has $((free_kib / 1024)) MB free."

echo "==> 1/4 an environment in .venv ($("$python" --version))"
[ -x .venv/bin/python ] && .venv/bin/python -c '' 2>/dev/null || "$python" -m venv --clear .venv ||
    die "python could not make a virtual environment; Debian has it in a separate package: apt-get install python3-venv"
.venv/bin/python -m pip install --quiet --disable-pip-version-check "pip==$pip_version" ||
    die "pip $pip_version could not be installed (see above); is a package index reachable?"

log=.venv/install.log
: >"$log"

# Runs pip with its output in the log, a line now and then here, and the end of the log where it fails.
quiet_pip() {
    .venv/bin/python -m pip --disable-pip-version-check --no-input "$@" 2>&1 | tee -a "$log" | awk -v total="$total" '
        /^Collecting /           { if (++n % 25 == 0) { printf "    %d of %d found\n", n, total; fflush() } }
        /^ *Downloading .*[0-9][0-9][0-9]\.[0-9] MB/ { print "    " $0; fflush() }
        /^Installing collected / { print "    unpacking: a minute or two"; fflush() }
        /^ERROR|^error/          { print "    " $0; fflush() }'
}

torch=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements.lock)
install_torch() {
    quiet_pip install --no-deps --no-compile "$torch" && return
    echo "    not where pip is set up to look; asking PyTorch's own CPU index"
    quiet_pip install --no-deps --no-compile --extra-index-url "$torch_cpu_index" "$torch"
}

# Installs every second package of the lock but torch: pip unpacks with one core. $1 is 0 or 1.
install_half() {
    local half=.venv/requirements.$1 total
    grep -v '^torch==' requirements.lock | awk -v half="$1" '/^[A-Za-z]/ { n++ } n % 2 == half' >"$half"
    total=$(grep -c '^[A-Za-z]' "$half")
    quiet_pip install --no-deps --no-compile --require-hashes -r "$half"
}

total=1
echo "==> 2/4 $torch, and meanwhile the other packages of requirements.lock, in two halves"
set -m # process groups of their own, which end with this script
install_torch &
torch_install=$!
install_half 1 &
half_install=$!
set +m
trap 'kill -- "-$torch_install" "-$half_install" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
{ install_half 0 && wait "$half_install"; } ||
    die "a package of requirements.lock could not be installed (see above). The log is $log."
wait "$torch_install" ||
    die "$torch was found neither where pip looks nor on PyTorch's own CPU index. The log is $log."
trap - EXIT INT TERM

echo "==> 3/4 bytecode"
# pip compiles one file at a time; this uses every core. Some packages ship templates that are not valid Python. Folders of
# which a run imports few files or none are left out: Python compiles such a file when it is imported.
unused='tests?|testing|benchmarks|models|rllib|tune|serve|llm|data|mypyc?|numba|anthropic|openai|fontTools|sentry_sdk|dns'
unused+='|lexers|orm|physics|combinatorics|stats|cli|kv_transfer|f2py|distutils'
.venv/bin/python -m compileall -q -j 0 -x "/($unused)/" .venv/lib/python*/site-packages >>"$log" 2>&1 || true

echo "==> 4/4 turnwise itself"
quiet_pip install --no-deps --no-build-isolation --editable . || die "turnwise itself could not be installed. The log is $log."
.venv/bin/turnwise --version >/dev/null || die "the program does not start (see above)."
touch .venv/installed
echo "==> done: .venv/bin/turnwise"
