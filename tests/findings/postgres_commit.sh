# Inserts, a transaction each, into PostgreSQL: so many that its start is little beside them on a fast disk.
# first: syncs
# may: unsafe_renames
# never: computes
# needs: postgresql

prepare() {
    $(ls -d /usr/lib/postgresql/*/bin)/initdb -D data > initdb.log
    for n in $(seq 1500); do echo "insert into t values ($n);"; done > load.sql
    echo 'create table t (a int);' | $(ls -d /usr/lib/postgresql/*/bin)/postgres --single -D data postgres > create.log
}

run() {
    $(ls -d /usr/lib/postgresql/*/bin)/postgres --single -D data postgres < load.sql > load.log
}

"$1"
