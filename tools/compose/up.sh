#!/usr/bin/env bash
# `make up`: secrets, images, and everything of compose.yaml, until all of it answers.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TURNWISE_BASE DOCKER_BUILDKIT=0

die() { printf 'make up: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" -eq 0 ] || die "run it as root: the containers' secrets and the folder of sockets are root's."

# A port is that of the environment, else that of the last call. One that a container of this folder publishes is free.
free_port() { # VARIABLE DEFAULT SERVICE INNER
    local port=${!1:-$(sed -n "s/^$1=//p" .env 2>/dev/null || true)}
    export "$1=${port:-$2}"
    ! (: <>"/dev/tcp/127.0.0.1/${!1}") 2>/dev/null || [ "$(docker-compose port "$3" "$4" 2>/dev/null)" = "127.0.0.1:${!1}" ] ||
        die "port ${!1} of 127.0.0.1, for the $3, is taken: name another one, $1=PORT make up"
}
free_port TURNWISE_DATABASE_PORT 5432 database 5432
free_port TURNWISE_VIEWER_PORT 8600 viewer 8600
bash tools/system_parts.sh up
mkdir -p /var/lib/turnwise/sockets

echo "==> 1/4 secrets, in secrets/"
umask 077
mkdir -p secrets
fresh() { [ -s "$1" ] || head -c 32 /dev/urandom | base64 | tr -d '/+=\n' >"$1"; }
fresh secrets/ray_token
fresh secrets/database_password
printf '%s:*:*:turnwise:%s\n' database "$(cat secrets/database_password)" 127.0.0.1 "$(cat secrets/database_password)" >secrets/pgpass
# Nobody else enters the folder; in its container the database's own user must read it.
chmod 644 secrets/database_password
umask 022

echo "==> 2/4 the sandboxes' image, and what to build on"
.venv/bin/turnwise sandbox build code
for TURNWISE_BASE in debian:bookworm-slim turnwise/base:bookworm; do
    docker image inspect "$TURNWISE_BASE" >/dev/null 2>&1 && break
done
# For later calls of docker-compose: with another base or port they would recreate every container.
printf '%s\n' "TURNWISE_BASE=$TURNWISE_BASE" "TURNWISE_DATABASE_PORT=$TURNWISE_DATABASE_PORT" \
    "TURNWISE_VIEWER_PORT=$TURNWISE_VIEWER_PORT" >.env

# A build inside a container may not reach the package index that this machine's pip reaches.
echo "==> 3/4 the nodes' packages, in build/wheels"
mkdir -p build/wheels
torch=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements.lock)
pip=$(sed -n 's/^pip_version=/pip==/p' tools/install.sh)
index=$(sed -n 's/^torch_cpu_index=//p' tools/install.sh)
download() { .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation --dest build/wheels "$@"; }
ls build/wheels/"${torch/==/-}"-*.whl >/dev/null 2>&1 || download "$torch" || download --extra-index-url "$index" "$torch"
download "$pip" # neither pip nor torch has a hash, so each is apart from the lock
grep -v '^torch==' requirements.lock >build/without_torch.lock
download --require-hashes --find-links build/wheels -r build/without_torch.lock

echo "==> 4/4 images and containers"
docker-compose build --quiet database head
docker-compose up -d --no-build "$@"
for _ in $(seq 60); do
    if docker-compose exec -T head ray status >/dev/null 2>&1 && docker-compose exec -T head turnwise db upgrade; then
        echo "==> up: docker-compose exec head turnwise train examples/tiny_code.toml"
        echo "    the store, from here: PGPASSFILE=secrets/pgpass, postgresql://turnwise@127.0.0.1:$TURNWISE_DATABASE_PORT/turnwise"
        echo "    the viewer: docker-compose logs viewer has its address, with the token"
        exit 0
    fi
    sleep 2
done
docker-compose ps
die "not everything answers after two minutes; docker-compose logs says why"
