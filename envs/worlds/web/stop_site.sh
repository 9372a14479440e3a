#!/bin/sh
# stop_site.sh FOLDER: kill the server of a site with all its processes, wait until the port is free, and empty the
# site's folder, FOLDER/files.
umask 077
mkdir -p "$1" && cd "$1" || exit 1
if [ -s pid ]; then
  served=$(cat pid)
  kill -9 "-$served" 2>/dev/null
  for _ in $(seq 200); do kill -0 "-$served" 2>/dev/null || break; sleep 0.02; done
fi
rm -rf files pid && mkdir files
