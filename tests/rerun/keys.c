// Keys and values of LMDB, some by chance, in several transactions: with the argument "map" stored by the
// map, else written by calls and read by it. Twice, so that the second time maps what is there.
// flags: -llmdb
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

static void must(int result) {
    if (result == 0) return;
    fprintf(stderr, "lmdb: %s\n", mdb_strerror(result));
    exit(1);
}

static void use(unsigned flags) {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;
    MDB_val key, value;
    must(mdb_env_create(&env));
    must(mdb_env_set_mapsize(env, 80UL << 20));
    must(mdb_env_open(env, "lmdb.data", flags, 0644));
    for (int part = 0; part < 5; part++) {
        must(mdb_txn_begin(env, NULL, 0, &txn));
        must(mdb_dbi_open(txn, NULL, 0, &dbi));
        for (int i = 0; i < 200; i++) {
            char bytes[1500];
            memset(bytes, i, sizeof bytes);
            if (getrandom(bytes, 16, 0) != 16) exit(1);
            key = (MDB_val){8, bytes}, value = (MDB_val){sizeof bytes, bytes};
            must(mdb_put(txn, dbi, &key, &value, 0));
        }
        must(mdb_txn_commit(txn));
        unsigned long sum = 0, count = 0;
        must(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
        must(mdb_cursor_open(txn, dbi, &cursor));
        while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
            for (size_t i = 0; i < value.mv_size; i++) sum = sum * 31 + ((unsigned char *)value.mv_data)[i];
            count++;
        }
        mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
        printf("%lu values: %lx\n", count, sum);
    }
    mdb_env_close(env);
}

int main(int argc, char **argv) {
    unsigned flags = argc > 1 && strcmp(argv[1], "map") == 0 ? MDB_WRITEMAP : 0;
    mkdir("lmdb.data", 0755);
    use(flags);
    use(flags);
    return 0;
}
