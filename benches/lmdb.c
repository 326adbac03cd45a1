// Writes or reads a gigabyte of LMDB, in values of 4,000 bytes: lmdb write|read [map]. With "map" the
// memory map is writable, so values are stored to it; else they are written by calls.
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { VALUES = 1 << 18, TRANSACTION = 1 << 12, LENGTH = 4000 };

static void must(int result) {
    if (result == 0) return;
    fprintf(stderr, "lmdb: %s\n", mdb_strerror(result));
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    mkdir("lmdb.data", 0755);
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    must(mdb_env_create(&env));
    must(mdb_env_set_mapsize(env, 4UL << 30));
    must(mdb_env_open(env, "lmdb.data", argc > 2 ? MDB_WRITEMAP : 0, 0644));
    unsigned long sum = 0;
    if (strcmp(argv[1], "write") == 0) {
        static char bytes[LENGTH];
        for (unsigned first = 0; first < VALUES; first += TRANSACTION) {
            must(mdb_txn_begin(env, NULL, 0, &txn));
            must(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi));
            for (unsigned key = first; key < first + TRANSACTION; key++) {
                memset(bytes, (int)key, LENGTH);
                memcpy(bytes, &key, sizeof key);
                MDB_val k = {sizeof key, &key}, v = {LENGTH, bytes};
                must(mdb_put(txn, dbi, &k, &v, 0));
            }
            must(mdb_txn_commit(txn));
        }
    } else {
        must(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
        must(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &dbi));
        unsigned key = 1;
        for (unsigned i = 0; i < VALUES; i++) {
            MDB_val k = {sizeof key, &key}, v;
            must(mdb_get(txn, dbi, &k, &v));
            for (size_t at = 0; at < v.mv_size; at += 64) sum += ((unsigned char *)v.mv_data)[at];
            key = (key * 5 + 1) % VALUES;
        }
        mdb_txn_abort(txn);
    }
    printf("%lu\n", sum);
    mdb_env_close(env);
    return 0;
}
