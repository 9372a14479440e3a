#!/bin/sh
# Makes the database where there is none, and serves it. Its password is a secret's file, and stays out of the environment.
set -eu
data=/var/lib/postgresql/data
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }

if [ ! -s "$data/PG_VERSION" ]; then
    install -d -o postgres -g postgres -m 700 "$data" /run/database
    install -o postgres -g postgres -m 600 /run/secrets/database_password /run/database/password
    as initdb --pgdata="$data" --username=turnwise --pwfile=/run/database/password --auth=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8
    rm /run/database/password
    echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
    as sh -c "echo 'create database turnwise' | postgres --single -D '$data' postgres"
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups --no-new-privs \
    postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=''
