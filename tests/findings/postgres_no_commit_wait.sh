# Inserts into PostgreSQL that do not wait for the disk.
# first: computes
# may: syncs writing small_writes duplicate_content unsafe_renames
# never: network_waits metadata missing_files
# needs: postgresql

prepare() {
    $(ls -d /usr/lib/postgresql/*/bin)/initdb -D data > initdb.log
    for n in $(seq 20000); do echo "insert into t values ($n);"; done > load.sql
    echo 'create table t (a int);' | $(ls -d /usr/lib/postgresql/*/bin)/postgres --single -D data postgres > create.log
}

run() {
    $(ls -d /usr/lib/postgresql/*/bin)/postgres --single -c synchronous_commit=off -D data postgres < load.sql > load.log
}

"$1"
