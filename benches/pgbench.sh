#!/bin/sh
# Starts a PostgreSQL server on the data directory $1, runs pgbench with 2 clients against it, stops
# it; for `cargo xtask bench record`. Programs are in $2; the socket is in the data directory.
set -eu
data=$1
bin=$2
"$bin/postgres" -D "$data" -k "$data" -c listen_addresses= > "$data/server.log" 2>&1 &
server=$!
until "$bin/pg_isready" -q -h "$data"; do :; done
"$bin/pgbench" -n -h "$data" -c 2 -j 2 -t 2000 postgres
kill -INT "$server"
wait "$server" || true
