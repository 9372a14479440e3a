#!/bin/sh
# A Ray node in a container, until the container is stopped. The address is the container's own, on the inner network.
set -eu
exec ray start --block --disable-usage-stats --object-store-memory=100000000 \
    --node-ip-address="$(hostname --ip-address | cut -d' ' -f1)" "$@"
