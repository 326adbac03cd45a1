//! Real work to be recorded and replayed: shell scripts, each run in an empty directory.
//!
//! `$1` is the size. The files in `../given` are made before the recording, so that a replay knows
//! only what the recording has of them.

use std::path::Path;

use crate::{tier, trials};

/// A script and its requirements.
#[derive(Debug)]
pub struct Work {
    /// Name of the work.
    pub name: &'static str,
    /// Programs, or files of packages, that it needs.
    pub needs: &'static [&'static str],
    /// True if its programs are installed for the long tier only.
    pub long: bool,
    /// Sizes in the short and the long tier.
    pub sizes: (u32, u32),
    /// Script that makes `../given`.
    pub given: &'static str,
    /// Script to be recorded.
    pub script: &'static str,
    /// Options of `record`.
    pub options: &'static [&'static str],
    /// Script that prints what is the same whenever it is done, and leaves out times and rates. What the
    /// work has printed is in `../said`.
    pub output: &'static str,
    /// It moves data that no trace has: of files that are mapped to be read, or removed after a copy.
    pub moves_unseen: bool,
}

/// Defaults of a work.
const PLAIN: Work = Work {
    name: "",
    needs: &[],
    long: false,
    sizes: (1, 1),
    given: "",
    script: "",
    options: &[],
    output: "",
    moves_unseen: false,
};

impl Work {
    /// Returns what is missing to run it, if anything.
    pub fn missing(&self) -> Option<&'static str> {
        let absent = |need: &&&str| match need.starts_with('/') {
            true => !Path::new(**need).exists(),
            false => trials::missing(&[**need]).is_some(),
        };
        match self.long && !tier::is_long() {
            true => Some("the long tier"),
            false => self.needs.iter().find(absent).copied(),
        }
    }

    /// Returns the size in this tier.
    pub fn size(&self) -> u32 {
        tier::rounds(self.sizes.0, self.sizes.1)
    }

    /// Returns the smallest size.
    pub fn least(&self) -> u32 {
        self.sizes.0
    }
}

/// What mapped files are read is recorded as well.
const MAPPED: &[&str] = &["--mmap", "all"];

/// Of fio's report: errors and numbers of reads and writes of each job. Process id and date are left out, all times
/// and rates, and how often it synced: that depends on what is in flight.
const FIO_COUNTS: &str = r"
    sed -n 's/ pid=.*//; s/\(total=[0-9]*,[0-9]*\),[0-9,]*/\1/; /err=/p; /issued rwts/p' result
    wc -c work.*
";

/// Of db_bench's report: numbers of operations and of keys that were found. What is read while others write is
/// found by chance.
const DB_BENCH_COUNTS: &str =
    "grep -v readwhilewriting ../said | grep -oE '^[a-z]+ |[0-9]+ operations|[(].* found[)]'";

/// Sets the author of commits.
const COMMITTER: &str = "\
    export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org HOME=$PWD\n\
    export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org\n";

/// All works.
pub const WORKS: &[Work] = &[
    Work {
        name: "copies",
        needs: &["python3"],
        long: false,
        sizes: (40, 400),
        given: r#"
            mkdir -p tree/sub
            i=0
            while [ $i -lt $1 ]; do
                seq $i $((i + 2000)) > tree/$i
                i=$((i + 1))
            done
            head -c 3000000 /dev/urandom > tree/sub/large
            truncate -s 200000 tree/sub/holes
            sleep 0.1
        "#,
        script: r#"
            cp -a ../given/tree copy
            cp ../given/tree/1 changed && echo more >> ../given/tree/1
            cp ../given/tree/2 moved && mv moved again
            cp ../given/tree/3 gone && rm ../given/tree/3
            mv ../given/tree/4 here && cp here there
            cp copy/5 once && cp once twice && rm once
            install -m 755 ../given/tree/6 installed
            cat > copies.py <<END
import os
source = os.open('../given/tree/sub/large', os.O_RDONLY)
target = os.open('parts', os.O_RDWR | os.O_CREAT, 0o600)
os.sendfile(target, source, 0, 1000000)
os.copy_file_range(source, target, 500000, 1000, 7)
os.copy_file_range(source, target, 3000)
out, into = os.pipe()
for part in range(20):
    os.splice(source, into, 60000, 4096 + part * 100000)
    os.splice(out, target, 60000)
os.lseek(source, 2000000, os.SEEK_SET)
os.sendfile(target, source, None, 100000)
END
            python3 -S copies.py
        "#,
        ..PLAIN
    },
    Work {
        name: "sqlite3",
        needs: &["sqlite3"],
        long: false,
        sizes: (2000, 50_000),
        script: r#"
            cat > make.sql <<END
            CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, n INT);
            WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < $1)
                INSERT INTO t SELECT i, 'name' || i, i * 7919 % 1000 FROM c;
            CREATE INDEX by_n ON t(n);
            UPDATE t SET name = name || 'x' WHERE n < 300;
            DELETE FROM t WHERE n > 900;
            VACUUM;
            SELECT count(*), sum(n) FROM t;
END
            sqlite3 first.db < make.sql
            (echo 'PRAGMA journal_mode = wal;'; cat make.sql) | sqlite3 second.db
            sqlite3 first.db .dump > dump.sql
            sqlite3 third.db < dump.sql
        "#,
        output: "cat ../said dump.sql",
        ..PLAIN
    },
    Work {
        name: "fio",
        needs: &["fio"],
        long: true,
        sizes: (4, 32),
        script: "
            fio --name=work --ioengine=psync --rw=randrw --bs=4k --size=${1}m --numjobs=2 \
                --directory=. --verify=crc32c --fsync=64 --output=result
        ",
        output: FIO_COUNTS,
        ..PLAIN
    },
    Work {
        name: "tar",
        needs: &["/usr/include/linux"],
        long: false,
        sizes: (1, 8),
        given: "
            mkdir -p in/empty; cp -r /usr/include/linux in; ln in/linux/fs.h in/hard; ln -s linux/fs.h in/soft
            tar -cf in.tar in; gzip -k in.tar; rm -r in
        ",
        script: "
            tar -xf ../given/in.tar
            for i in $(seq $1); do mkdir $i; tar -C $i -xzf ../given/in.tar.gz; done
            rm -r in
        ",
        ..PLAIN
    },
    Work {
        name: "git",
        needs: &["git"],
        long: false,
        sizes: (5, 60),
        given: r#"
            git init -q -b main source; cd source
            for i in $(seq $1); do
                mkdir d$i; for j in 1 2 3; do seq $i $((i * j * 100)) > d$i/f$j; done
                git add .; git commit -q -m $i
            done
        "#,
        script: "
            git clone -q ../given/source copy; cd copy
            echo more >> d1/f1; git mv d2/f2 d2/moved; git rm -q d3/f3; echo new > new
            git add -A; git commit -q -m changed
            git checkout -q -b other HEAD~2; echo x > x; git add x; git commit -q -m other
            git checkout -q main; git merge -q -m merged other
            git gc -q; git status; git log --stat; git fsck --strict
        ",
        moves_unseen: true,
        ..PLAIN
    },
    Work {
        name: "make",
        needs: &["gcc", "make"],
        long: false,
        sizes: (6, 40),
        given: r#"
            for i in $(seq $1); do
                printf '#include <stdio.h>\nint f%d(int x) { return printf("%%d\\n", x * %d); }' \
                    $i $i > f$i.c
            done
            (echo 'int main(void) {'; for i in $(seq $1); do echo "int f$i(int); f$i($i);"; done
             echo 'return 0; }') > main.c
            cat > Makefile <<'END'
OBJECTS = $(patsubst %.c, %.o, $(wildcard f*.c))
program: main.o libf.a
	gcc -o $@ $^
libf.a: $(OBJECTS)
	ar rcs $@ $^
%.o: %.c
	gcc -O2 -g -MMD -c -o $@ $<
END
        "#,
        script: "cp -r ../given/. .; make -j2; ./program > printed; touch f1.c; make -j2",
        output: "cat printed",
        ..PLAIN
    },
    Work {
        name: "python",
        needs: &["/usr/lib/python3.11/test/test_shutil.py"],
        long: false,
        sizes: (1, 1),
        script: "TMPDIR=$PWD /usr/bin/python3 -m unittest -q test.test_shutil test.test_tempfile",
        moves_unseen: true,
        ..PLAIN
    },
    Work {
        name: "postgresql",
        needs: &["/usr/lib/postgresql"],
        long: true,
        sizes: (100, 1000),
        // The server refuses to run as root, and has a user of its own.
        script: r#"
            cat > database.sh <<'END'
            bin=$(echo /usr/lib/postgresql/*/bin)
            $bin/initdb -D data -A trust > initdb.log
            $bin/pg_ctl -w -D data -l log -o "-k $PWD -h ''" start
            $bin/createdb -h "$PWD" bench
            $bin/pgbench -h "$PWD" -i -s 1 -q bench
            $bin/pgbench -h "$PWD" -c 4 -j 2 -t $1 bench
            $bin/pg_ctl -w -D data stop
END
            if test $(id -u) != 0; then exec sh -e database.sh $1; fi
            chown postgres:postgres .
            exec setpriv --reuid=postgres --regid=postgres --clear-groups sh -e database.sh $1
        "#,
        ..PLAIN
    },
    Work {
        name: "rocksdb",
        needs: &["db_bench"],
        long: true,
        sizes: (20_000, 200_000),
        script: "
            db_bench --db=$PWD/db --num=$1 --threads=4 --value_size=100 --seed=1 \
                --benchmarks=fillrandom,readrandom,overwrite,compact,readwhilewriting
        ",
        output: DB_BENCH_COUNTS,
        ..PLAIN
    },
    Work {
        name: "lmdb",
        needs: &["gcc", "/usr/include/lmdb.h"],
        long: true,
        sizes: (2_000, 20_000),
        given: r#"
            cat > lmdb.c <<'END'
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(made) do { int rc = (made); if (rc) { fprintf(stderr, "%s: %s\n", #made, mdb_strerror(rc)); exit(1); } } while (0)

static MDB_dbi dbi;

static MDB_env *opened(const char *path, unsigned flags) {
    MDB_env *env;
    mkdir(path, 0700);
    MUST(mdb_env_create(&env));
    MUST(mdb_env_set_mapsize(env, 64 << 20));
    MUST(mdb_env_open(env, path, flags, 0600));
    return env;
}

static void put(MDB_env *env, int first, int count, char fill) {
    MDB_txn *txn;
    MUST(mdb_txn_begin(env, NULL, 0, &txn));
    MUST(mdb_dbi_open(txn, NULL, 0, &dbi));
    for (int i = first; i < first + count; i++) {
        char key[16], value[300];
        for (size_t at = 0; at < sizeof value; at++) value[at] = fill + i % 17;
        MDB_val k = {sprintf(key, "%08d", i * 7919 % 100000), key}, v = {100 + i % 200, value};
        MUST(mdb_put(txn, dbi, &k, &v, 0));
    }
    MUST(mdb_txn_commit(txn));
}

static void look(MDB_env *env) {
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val k, v;
    unsigned long sum = 0;
    MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
    MUST(mdb_cursor_open(txn, dbi, &cursor));
    while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) sum += v.mv_size + *(char *)v.mv_data;
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    printf("%lu\n", sum);
}

int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    const char *paths[] = {"mapped", "written", "lazy"};
    unsigned flags[] = {MDB_WRITEMAP, 0, MDB_WRITEMAP | MDB_MAPASYNC};
    for (int which = 0; which < 3; which++) {
        MDB_env *env = opened(paths[which], flags[which]);
        for (int i = 0; i < n; i += 20) put(env, i, 20, 'a');
        put(env, n / 2, n / 10, 'A');
        look(env);
        mdb_env_close(env);
        fflush(stdout);
        // A child opens it again.
        if (fork() == 0) {
            env = opened(paths[which], flags[which]);
            put(env, n, 30, '0');
            look(env);
            mdb_env_close(env);
            fflush(stdout);
            _exit(0);
        }
        int status;
        if (wait(&status) < 0 || status != 0) return 1;
    }
    return 0;
}
END
            gcc -O1 -o lmdb lmdb.c -llmdb
        "#,
        script: "../given/lmdb $1 > result",
        options: MAPPED,
        output: "cat result",
        moves_unseen: false,
    },
    Work {
        name: "sqlite3-mmap",
        needs: &["sqlite3"],
        long: false,
        sizes: (2000, 50_000),
        script: r#"
            cat > make.sql <<END
            PRAGMA mmap_size = 268435456;
            CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, n INT);
            WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < $1)
                INSERT INTO t SELECT i, 'name' || i, i * 7919 % 1000 FROM c;
            CREATE INDEX by_n ON t(n);
            UPDATE t SET name = name || 'x' WHERE n < 300;
            DELETE FROM t WHERE n > 900;
            SELECT count(*), sum(n) FROM t;
END
            printf '.timeout 60000\nPRAGMA mmap_size = 268435456; SELECT count(*), max(name) FROM t;\n' > look.sql
            sqlite3 first.db < make.sql
            (echo 'PRAGMA journal_mode = wal;'; cat make.sql) | sqlite3 second.db
            sqlite3 first.db < look.sql
            sqlite3 second.db < look.sql & sqlite3 second.db < look.sql
            wait
        "#,
        options: MAPPED,
        output: "cat ../said",
        ..PLAIN
    },
    Work {
        name: "rocksdb-mmap",
        needs: &["db_bench"],
        long: true,
        sizes: (20_000, 200_000),
        script: "
            db_bench --db=$PWD/db --num=$1 --threads=4 --value_size=100 --seed=1 --mmap_read=1 \
                --mmap_write=1 --benchmarks=fillrandom,readrandom,overwrite,compact,readrandom
        ",
        options: MAPPED,
        output: DB_BENCH_COUNTS,
        ..PLAIN
    },
    Work {
        name: "fio-mmap",
        needs: &["fio"],
        long: true,
        sizes: (4, 32),
        script: "
            fio --name=work --ioengine=mmap --rw=randrw --bs=4k --size=${1}m --numjobs=2 \
                --directory=. --verify=crc32c --fsync=64 --output=result
        ",
        options: MAPPED,
        output: FIO_COUNTS,
        ..PLAIN
    },
    Work {
        name: "fio-sync",
        needs: &["fio"],
        long: true,
        sizes: (4, 32),
        script: "
            fio --name=work --ioengine=sync --rw=randrw --bs=4k --size=${1}m --numjobs=2 \
                --directory=. --verify=crc32c --fsync=64 --output=result
        ",
        output: FIO_COUNTS,
        ..PLAIN
    },
    Work {
        name: "fio-pvsync2",
        needs: &["fio"],
        long: true,
        sizes: (4, 32),
        script: "
            fio --name=work --ioengine=pvsync2 --rw=randrw --bs=4k --size=${1}m --numjobs=2 \
                --directory=. --verify=crc32c --fsync=64 --output=result
        ",
        output: FIO_COUNTS,
        ..PLAIN
    },
    Work {
        name: "fio-libaio",
        needs: &["fio"],
        long: true,
        sizes: (4, 32),
        script: "
            fio --name=work --ioengine=libaio --iodepth=16 --rw=randrw --bs=4k --size=${1}m \
                --numjobs=2 --directory=. --verify=crc32c --fsync=64 --output=result
        ",
        output: FIO_COUNTS,
        ..PLAIN
    },
    Work {
        name: "fio-io_uring",
        needs: &["fio"],
        long: true,
        sizes: (4, 32),
        script: "
            fio --name=work --ioengine=io_uring --iodepth=16 --rw=randrw --bs=4k --size=${1}m \
                --numjobs=2 --directory=. --verify=crc32c --fsync=64 --output=result
        ",
        output: FIO_COUNTS,
        ..PLAIN
    },
    Work {
        name: "node",
        needs: &["node"],
        long: true,
        sizes: (20, 200),
        given: r#"
            mkdir in; for i in $(seq $1); do seq $i $((i * 50)) > in/$i; done
            cat > work.js <<'END'
const { promises: fs, createReadStream, createWriteStream } = require('fs');
const { pipeline } = require('stream/promises');
const { createHash } = require('crypto');
async function one(name) {
    const from = `../given/in/${name}`, to = `out/${name}`;
    const text = await fs.readFile(from);
    await fs.writeFile(to, text);
    await fs.appendFile(to, `more of ${name}\n`);
    const handle = await fs.open(to, 'r+');
    await handle.write('changed', 3);
    const { bytesRead } = await handle.read(Buffer.alloc(100), 0, 100, 1);
    await handle.datasync();
    await handle.sync();
    await handle.close();
    await pipeline(createReadStream(to), createWriteStream(`${to}.copy`));
    await fs.rename(`${to}.copy`, `${to}.moved`);
    await fs.mkdir(`${to}.d`);
    await fs.symlink(`../${name}`, `${to}.d/link`);
    await fs.link(to, `${to}.d/hard`);
    if (name % 2) await fs.unlink(`${to}.moved`);
    const { size } = await fs.stat(to);
    return `${name} ${size} ${bytesRead} ${createHash('sha1').update(await fs.readFile(to)).digest('hex')}`;
}
(async () => {
    await fs.mkdir('out');
    const names = await fs.readdir('../given/in');
    const lines = await Promise.all(names.map(one));
    await fs.writeFile('result', lines.sort().join('\n'));
})();
END
        "#,
        script: "UV_USE_IO_URING=1 node ../given/work.js",
        output: "cat result",
        ..PLAIN
    },
    // Linked and fixed reads and writes, by descriptors of the ring.
    Work {
        name: "liburing",
        needs: &["gcc", "/usr/include/liburing.h"],
        long: true,
        sizes: (20, 200),
        given: r#"
            head -c ${1}00000 /dev/urandom > source
            cat > copies.c <<'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUST(it) do { long got = (it); if (got < 0) { fprintf(stderr, "%s: %ld\n", #it, got); exit(1); } } while (0)
enum { DEPTH = 16, BLOCK = 32768 };

static struct io_uring ring;
static char *buffers[DEPTH];

static int done(void) {
    struct io_uring_cqe *cqe;
    MUST(io_uring_wait_cqe(&ring, &cqe));
    int res = cqe->res;
    io_uring_cqe_seen(&ring, cqe);
    return res;
}

static int one(void) { MUST(io_uring_submit(&ring)); return done(); }

static struct io_uring_sqe *next(void) { return io_uring_get_sqe(&ring); }

int main(void) {
    struct iovec vectors[DEPTH];
    struct stat about;
    MUST(io_uring_queue_init(64, &ring, 0));
    for (int i = 0; i < DEPTH; i++) {
        buffers[i] = aligned_alloc(4096, BLOCK);
        vectors[i] = (struct iovec){buffers[i], BLOCK};
    }
    MUST(io_uring_register_buffers(&ring, vectors, DEPTH));
    io_uring_prep_mkdirat(next(), AT_FDCWD, "copies", 0755);
    MUST(one());
    io_uring_prep_openat(next(), AT_FDCWD, "../given/source", O_RDONLY, 0);
    int from = one();
    MUST(from);
    io_uring_prep_openat(next(), AT_FDCWD, "copies/first", O_RDWR | O_CREAT, 0644);
    int to = one();
    MUST(to);
    int files[2] = {from, to};
    MUST(io_uring_register_files(&ring, files, 2));
    MUST(fstat(from, &about));
    for (long at = 0; at < about.st_size;) {
        int pairs = 0;
        for (; pairs < DEPTH && at < about.st_size; pairs++, at += BLOCK) {
            unsigned length = about.st_size - at < BLOCK ? about.st_size - at : BLOCK;
            struct io_uring_sqe *sqe = next();
            io_uring_prep_read_fixed(sqe, 0, buffers[pairs], length, at, pairs);
            sqe->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK;
            sqe = next();
            io_uring_prep_write_fixed(sqe, 1, buffers[pairs], length, at, pairs);
            sqe->flags |= IOSQE_FIXED_FILE;
        }
        MUST(io_uring_submit(&ring));
        for (int i = 0; i < 2 * pairs; i++) MUST(done());
    }
    io_uring_prep_fsync(next(), to, 0);
    MUST(one());
    io_uring_prep_fallocate(next(), to, 0, about.st_size, 5000);
    MUST(one());
    io_uring_prep_linkat(next(), AT_FDCWD, "copies/first", AT_FDCWD, "copies/second", 0);
    MUST(one());
    io_uring_prep_renameat(next(), AT_FDCWD, "copies/first", AT_FDCWD, "copies/third", 0);
    MUST(one());
    io_uring_prep_symlinkat(next(), "third", AT_FDCWD, "copies/link");
    MUST(one());
    struct statx told;
    io_uring_prep_statx(next(), AT_FDCWD, "copies/third", 0, STATX_SIZE | STATX_NLINK, &told);
    MUST(one());
    printf("%llu bytes, %u names\n", (unsigned long long)told.stx_size, told.stx_nlink);
    io_uring_prep_unlinkat(next(), AT_FDCWD, "copies/second", 0);
    MUST(one());
    MUST(io_uring_unregister_files(&ring));
    io_uring_prep_close(next(), to);
    MUST(one());
    io_uring_prep_close(next(), from);
    MUST(one());
    io_uring_queue_exit(&ring);
    return 0;
}
END
            gcc -O1 -o copies copies.c -luring
        "#,
        script: "../given/copies > result; cmp -n ${1}00000 copies/third ../given/source",
        output: "cat result; cksum copies/third",
        ..PLAIN
    },
    // The server as Debian configures it, which uses io_uring.
    Work {
        name: "mariadb",
        needs: &["mariadbd", "mariadb-install-db", "mariadb", "sysbench"],
        long: true,
        sizes: (100, 1000),
        script: r#"
            cat > database.sh <<'END'
            mkdir tmp
            set -- $1 --datadir=$PWD/data --tmpdir=$PWD/tmp --socket=$PWD/socket --pid-file=$PWD/pid
            events=$1; shift
            mariadb-install-db "$@" --auth-root-authentication-method=normal --skip-test-db > installed
            mariadbd "$@" --skip-networking > said 2>&1 &
            ask() { mariadb --no-defaults --socket=$PWD/socket --user=root "$@"; }
            until ask -e 'SELECT 1' > asked 2>&1; do sleep 0.1; kill -0 $!; done
            ask -e 'CREATE DATABASE bench'
            run() { sysbench oltp_read_write --mysql-socket=$PWD/socket --mysql-user=root \
                --mysql-db=bench --db-driver=mysql --tables=2 --table-size=1000 --rand-seed=7 "$@"; }
            run prepare > prepared
            run --threads=4 --events=$events --time=0 run > ran
            run --threads=1 --events=$events --time=0 run >> ran
            ask bench -e 'CHECK TABLE sbtest1, sbtest2; SELECT count(*) FROM sbtest1' > result
            mariadb-admin --no-defaults --socket=$PWD/socket --user=root shutdown
            wait
            rm -f tmp/* socket
END
            if test $(id -u) != 0; then exec sh -e database.sh $1; fi
            chown mysql:mysql .
            exec setpriv --reuid=mysql --regid=mysql --clear-groups sh -e database.sh $1
        "#,
        output: r#"cat result; sed -n 's/ *(.*//; /transactions:/p' ran"#,
        ..PLAIN
    },
    Work {
        name: "pipeline",
        needs: &[],
        long: false,
        sizes: (20_000, 1_000_000),
        script: r#"
            seq $1 | awk '{ print $1 * 7919 % 10007 }' | sort -n -T . | uniq -c | sed 's/^ *//' | tee counts
            mkfifo queue; (seq $1 > queue) & tac queue | gzip > backwards.gz; wait
        "#,
        output: "cat ../said counts; gzip -cd backwards.gz",
        ..PLAIN
    },
];

/// Returns a script with its common settings.
pub fn whole(script: &str) -> String {
    format!("set -e\numask 022\n{COMMITTER}{script}")
}
