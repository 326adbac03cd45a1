# A load of rows, each of which is a transaction of its own.
# first: syncs
# may: remade_file
# never: computes small_reads duplicate_content
# needs: sqlite3

prepare() {
    sqlite3 db 'create table t (a, b)'
    for n in $(seq 300); do echo "insert into t values ($n, 'value $n');"; done > load.sql
}

run() {
    sqlite3 db < load.sql
}

"$1"
