#!/bin/sh
# Makes the database where there is none, and serves it. Its password is a secret's file, and never in the environment.
set -eu
data=/var/lib/postgresql/data

if [ ! -s "$data/PG_VERSION" ]; then
    initdb --pgdata="$data" --username=turnwise --pwfile=/run/secrets/database_password --auth=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8
    echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
    echo 'create database turnwise' | postgres --single -D "$data" postgres
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=''
