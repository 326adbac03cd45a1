#!/bin/sh
# Starts a MariaDB server with its defaults on the data directory $1, has sysbench do $2 transactions
# with 2 clients, stops it; for `cargo xtask bench record`. The socket is in the data directory.
set -eu
data=$1
count=$2
/usr/sbin/mariadbd --no-defaults --datadir="$data" --socket="$data/s" --skip-networking \
    --pid-file="$data/pid" > "$data/server.log" 2>&1 &
server=$!
until mariadb-admin --no-defaults --socket="$data/s" --user=mysql ping > "$data/ping" 2>&1; do
    sleep 0.05
done
sysbench oltp_read_write --db-driver=mysql --mysql-socket="$data/s" --mysql-user=mysql \
    --mysql-db=test --tables=2 --table-size=20000 --threads=2 --events="$count" --time=0 run
kill "$server"
wait "$server" || true
