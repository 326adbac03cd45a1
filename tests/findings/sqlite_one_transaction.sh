# The same load as a single transaction.
# first: computes
# may: syncs writing
# never: metadata remade_file small_writes duplicate_content
# needs: sqlite3

prepare() {
    sqlite3 db 'create table t (a, b)'
}

run() {
    sqlite3 db "insert into t with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500000)
        select i, hex(i * i) from n"
}

"$1"
