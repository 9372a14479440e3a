#!/usr/bin/env bash
# Builds the wheel and the source distribution. pip alone installs the wheel with its extra `cpu`, without the lock, and a
# separate folder works with it, without any cache: envs new, eval, replay, one update of a policy that reads text and one
# of a policy that sees. Then uses a clone of another name, which reads its dependencies from .venv.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HF_HOME="$work/no hub" VLLM_CACHE_ROOT="$work/no cäche"

environment() { # a virtual environment at $1 that sees the packages of .venv, but not its editable turnwise
    "$root/.venv/bin/python" -m venv --without-pip "$1"
    "$1/bin/python" - "$root" <<'PY'
import pathlib, sys, sysconfig
shared = pathlib.Path(sys.argv[1], ".venv/lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
pathlib.Path(sysconfig.get_path("purelib"), "shared.pth").write_text(f"{shared}\n")
PY
}

use() { # the first steps of a user, away from any checkout
    (cd "$work" && "$1/bin/turnwise" --version && "$1/bin/turnwise" --help >/dev/null &&
        "$1/bin/turnwise" db upgrade --store "sqlite:///$2/turnwise.db" &&
        "$1/bin/turnwise" runs list --json --store "sqlite:///$2/turnwise.db" | grep -qx '\[\]' &&
        "$1/bin/python" -c 'import turnwise, turnwise.envs, turnwise.store; print(turnwise.__file__)' | grep -F "$3")
}

work_on() { # a project of one's own in the environment $1: make an environment, check it, play, replay and train
    mkdir "$work/my pröject" && (
        cd "$work/my pröject"
        export PATH="$1/bin:$PATH" OMP_NUM_THREADS=1
        turnwise envs new colors >/dev/null
        python -m pip install --quiet --no-deps --no-build-isolation ./colors
        turnwise envs check colors/Colors-v0 | tail -1
        turnwise eval --policy random --env colors/Colors-v0 --tasks 8 >/dev/null
        turnwise trajectories list --limit 4 --ids | xargs turnwise trajectories replay | tail -1
        printf '%s\n' 'name = "colors"' 'preset = "tiny"' 'max_steps = 1' '[[environments]]' 'id = "colors/Colors-v0"' \
            '[horizon]' 'max_turns = 6' >colors.toml
        turnwise train colors.toml --set evaluation.tasks=0 --set sft_warmup.steps=100 | tail -1
        turnwise trajectories replay --run colors --sample 4 | tail -1
        printf '%s\n' 'import gymnasium, numpy' 'from turnwise.envs import FreeText, TurnEnv' 'class Shades(TurnEnv):' \
            '    observation_space = gymnasium.spaces.Dict(' \
            '        text=FreeText(), image=gymnasium.spaces.Box(0, 255, (56, 56, 3), numpy.uint8))' \
            '    action_space = FreeText()' \
            '    def reset(self, *, seed=None, options=None):' \
            '        super().reset(seed=seed)' \
            '        self.dark = bool(self.np_random.integers(2))' \
            '        return self.shown(), {}' \
            '    def step(self, action):' \
            '        right = action.strip() == ("dark" if self.dark else "light")' \
            '        return self.shown(), float(right), True, False, {"success": right}' \
            '    def shown(self):' \
            '        return {"text": "shade", "image": numpy.full((56, 56, 3), 40 if self.dark else 200, numpy.uint8)}' \
            '    def valid_actions(self): return [("dark", 1.0), ("light", 1.0)]' \
            '    def vocabulary(self): return ["shade", "dark", "light"]' \
            'gymnasium.register("Shades-v0", entry_point=Shades)' >shades.py
        sed 's/colors\/Colors/shades:Shades/; s/colors/shades/; s/= 6/= 1\nmax_context = 64/' colors.toml >shades.toml
        PYTHONPATH=. turnwise train shades.toml --set evaluation.tasks=0 --set sft_warmup.steps=20 | tail -1
    )
}

torch_cpu_index=$(sed -n 's/^torch_cpu_index=//p' "$root/tools/install.sh")
git clone --quiet "$root" "$work/another-name"
echo "==> the wheel, as pip resolves it"
"$root/.venv/bin/python" -m venv "$work/my vénv"
"$root/.venv/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/dist" "$work/another-name"
wheel=$(echo "$work"/dist/turnwise-*.whl)
"$work/my vénv/bin/python" -m pip install --quiet --no-compile "${wheel}[cpu]" ||
    "$work/my vénv/bin/python" -m pip install --quiet --no-compile --extra-index-url "$torch_cpu_index" "${wheel}[cpu]"
"$work/my vénv/bin/python" -P - "$work/another-name" <<'PY'
import subprocess
import sys
from importlib.metadata import distribution
wheel = distribution("turnwise")
shipped = {str(path) for path in wheel.files or ()}
for name in subprocess.check_output(["git", "ls-files", "envs/worlds"], cwd=sys.argv[1], text=True).split():
    assert f"turnwise/{name}" in shipped, f"the wheel ships no {name}: add it to package-data in pyproject.toml"
assert wheel.metadata["License-Expression"] == "Apache-2.0", wheel.metadata["License-Expression"]
text = wheel.read_text("licenses/LICENSE")
assert text and "Apache License" in text, "the wheel ships no LICENSE"
PY
use "$work/my vénv" "$work/runs-a" "$work/my vénv"
work_on "$work/my vénv"

echo "==> the wheel without extras, and the source distribution"
"$root/.venv/bin/python" -m venv "$work/bare"
"$work/bare/bin/python" -m pip install --quiet --no-compile "$wheel" twine
(cd "$work/another-name" && "$root/.venv/bin/python" -c 'import sys; from setuptools.build_meta import build_sdist
build_sdist(sys.argv[1])' "$work/dist" >/dev/null)
"$work/bare/bin/twine" check --strict "$work"/dist/*
use "$work/bare" "$work/runs-c" "$work/bare"
without_extras() { # the viewer answers, an environment is checked and played, and a policy on a server is asked
    cd "$work/my pröject"
    "$1/bin/python" -m pip install --quiet --no-deps --no-compile ./colors
    "$1/bin/turnwise" envs check colors/Colors-v0 | tail -1
    "$1/bin/turnwise" eval --policy random --env colors/Colors-v0 --tasks 2 >/dev/null
    "$1/bin/turnwise" eval --policy http://127.0.0.1:9/v1 --env colors/Colors-v0 --tasks 1 >error.txt 2>&1 || true
    grep -q 'http://127.0.0.1:9' error.txt
    "$1/bin/turnwise" view --port 0 >view.txt 2>&1 &
    local viewer=$!
    for _ in $(seq 100); do grep -q http view.txt && break; sleep .2; done
    "$1/bin/python" -c 'import re, urllib.request
url = re.search(r"http://\S+", open("view.txt").read()).group()
assert b"colors" in urllib.request.urlopen(url, timeout=30).read()'
    kill "$viewer"
}
(without_extras "$work/bare")

echo "==> a clone of another name"
environment "$work/venv-clone"
"$work/venv-clone/bin/python" -m pip install -qq --no-deps --no-build-isolation --editable "$work/another-name"
use "$work/venv-clone" "$work/runs-b" "$work/another-name"
(cd "$work/another-name" && "$work/venv-clone/bin/python" -m pytest -q tests/house/test_packages.py tests/house/test_floors.py)
