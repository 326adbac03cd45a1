//! Workloads that move data beside calls (mapped files, io_uring, Linux AIO), with what they are
//! compared with; and the sizes of the buffer.

use std::fs;
use std::process::{Command, Stdio};

use super::measure;
use super::workloads::{Bench, FIO, Mark, PLAIN, Workload, build_loops, fio, must_succeed, words};
use crate::{Complaint, repository};

/// Memory of a workload whose data is twice as large.
const LIMIT_BYTES: &str = "536870912";

/// All of them, in the order of the table.
pub const ALL: &[Workload] = &[
    Workload { name: "fio-io_uring-randread", command: |_| deep("io_uring", "randread"), ..FIO },
    Workload { name: "fio-io_uring-randwrite", command: |_| deep("io_uring", "randwrite"), ..FIO },
    Workload { name: "fio-libaio-randread", command: |_| deep("libaio", "randread"), ..FIO },
    Workload { name: "fio-libaio-randwrite", command: |_| deep("libaio", "randwrite"), ..FIO },
    Workload { name: "fio-mmap-randread", command: |_| mapped("randread"), ..FIO_MAPPED },
    Workload { name: "fio-mmap-randwrite", command: |_| mapped("randwrite"), ..FIO_MAPPED },
    Workload { name: "fio-psync-1-thread", command: |_| threads(1), ..FIO_THREADS },
    Workload { name: "fio-psync-2-threads", command: |_| threads(2), ..FIO_THREADS },
    Workload { name: "fio-psync-4-threads", command: |_| threads(4), ..FIO_THREADS },
    Workload { name: "fio-psync-8-threads", command: |_| threads(8), ..FIO_THREADS },
    Workload {
        name: "fio-psync-4-threads-serialized",
        options: &["--rerunnable", "--serialize"],
        command: |_| threads(4),
        ..FIO_THREADS
    },
    Workload {
        name: "lmdb-write",
        command: |bench| bench.lmdb(&["write"]),
        before_each: |bench| bench.remove(&["lmdb.data"]),
        ..LMDB
    },
    Workload {
        name: "lmdb-read",
        command: |bench| bench.lmdb(&["read"]),
        before_each: written,
        ..LMDB
    },
    Workload {
        name: "lmdb-map-write",
        command: |bench| bench.lmdb(&["write", "map"]),
        before_each: |bench| bench.remove(&["lmdb.data"]),
        ..LMDB
    },
    Workload {
        name: "lmdb-map-read",
        command: |bench| bench.lmdb(&["read", "map"]),
        before_each: written,
        ..LMDB
    },
    Workload {
        name: "lmdb-limited-write",
        mark: Mark::None,
        command: |bench| limited(bench.lmdb(&["write", "map"])),
        before_each: |bench| bench.remove(&["lmdb.data"]),
        ..LMDB
    },
    Workload {
        name: "lmdb-limited-read",
        mark: Mark::None,
        command: |bench| limited(bench.lmdb(&["read"])),
        before_each: written,
        ..LMDB
    },
    Workload {
        name: "mariadb",
        needs: &["mariadbd", "sysbench"],
        mark: Mark::Ratio(1.25),
        user: Some("mysql"),
        prepare: make_tables,
        command: |bench| {
            let data = bench.dir.join("mariadb").display().to_string();
            let script = bench.dir.join("mariadb.sh").display().to_string();
            words(&["sh", &script, &data, "2000"])
        },
        cost: seconds_per_transaction,
        ..PLAIN
    },
    Workload { name: "distinct-4k-buffer-1M", options: &["--buffer", "1M"], ..BUFFER },
    Workload { name: "distinct-4k-buffer-4M", options: &["--buffer", "4M"], ..BUFFER },
    Workload { name: "distinct-4k-buffer-16M", options: &["--buffer", "16M"], ..BUFFER },
    Workload { name: "distinct-4k-buffer-64M", options: &["--buffer", "64M"], ..BUFFER },
];

/// A gigabyte in values of 4,000 bytes.
const LMDB: Workload = Workload {
    needs: &["gcc", "liblmdb-dev"],
    mark: Mark::Ratio(1.5),
    prepare: build_lmdb,
    ..PLAIN
};

const FIO_MAPPED: Workload = Workload { mark: Mark::Ratio(1.5), ..FIO };

const FIO_THREADS: Workload = Workload { mark: Mark::None, ..FIO };

const BUFFER: Workload = Workload {
    prepare: build_loops,
    command: |bench| bench.loops(&["distinct", "100000", "loop.data"]),
    ..PLAIN
};

/// Operations that are submitted, 32 at a time.
fn deep(engine: &str, pattern: &str) -> Vec<String> {
    let mut command = fio(pattern, 1);
    let depth = ["--iodepth=32", "--iodepth_batch=8", "--iodepth_batch_complete_max=32"];
    command.extend(words(&depth));
    // The last of two options counts.
    command.push(format!("--ioengine={engine}"));
    command
}

fn mapped(pattern: &str) -> Vec<String> {
    let mut command = fio(pattern, 1);
    command.push("--ioengine=mmap".into());
    command
}

/// Threads that share 1 GiB of work.
fn threads(count: u32) -> Vec<String> {
    let mut command = fio("randrw", count);
    let (size, each) = (256 / count, 1024 / count);
    command.extend([format!("--size={size}m"), format!("--io_size={each}m")]);
    command.extend(words(&["--thread"]));
    command
}

fn limited(command: Vec<String>) -> Vec<String> {
    let script = repository().join("benches/limited.sh").display().to_string();
    let mut all = words(&["sh", &script, LIMIT_BYTES]);
    all.extend(command);
    all
}

/// Writes what is to be read.
fn written(bench: &Bench) -> Result<(), Complaint> {
    let write = bench.lmdb(&["write"]);
    match bench.dir.join("lmdb.data").exists() {
        true => Ok(()),
        false => measure::run(&write, &bench.dir, None, &bench.output(), None).map(drop),
    }
}

impl Bench {
    fn lmdb(&self, what: &[&str]) -> Vec<String> {
        let mut command = vec![self.dir.join("lmdb").display().to_string()];
        command.extend(words(what));
        command
    }
}

fn build_lmdb(bench: &Bench) -> Result<(), Complaint> {
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(bench.dir.join("lmdb")).arg(repository().join("benches/lmdb.c"));
    cc.arg("-llmdb");
    must_succeed(cc)
}

/// Makes a data directory of MariaDB with the tables of sysbench, owned by mysql.
fn make_tables(bench: &Bench) -> Result<(), Complaint> {
    bench.remove(&["mariadb"])?;
    let script = bench.dir.join("mariadb.sh");
    fs::copy(repository().join("benches/mariadb.sh"), &script)
        .map_err(|error| error.to_string())?;
    let data = bench.dir.join("mariadb");
    let data = data.display();
    let (uid, gid) = measure::ids("mysql")?;
    let steps = format!(
        "set -e; mariadb-install-db --no-defaults --datadir={data} --auth-root-authentication-method=normal\n\
         /usr/sbin/mariadbd --no-defaults --datadir={data} --socket={data}/s --skip-networking \
             --pid-file={data}/pid 2> {data}.log & server=$!\n\
         until mariadb-admin --no-defaults --socket={data}/s --user=mysql ping; do sleep 0.1; done\n\
         mariadb --no-defaults --socket={data}/s --user=mysql -e 'create database if not exists test'\n\
         sysbench oltp_read_write --db-driver=mysql --mysql-socket={data}/s --mysql-user=mysql \
             --mysql-db=test --tables=2 --table-size=20000 prepare\n\
         kill $server; wait $server || true"
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &steps]).current_dir(&bench.dir).stderr(Stdio::null());
    std::os::unix::process::CommandExt::uid(&mut shell, uid);
    std::os::unix::process::CommandExt::gid(&mut shell, gid);
    must_succeed(shell)
}

/// Parses sysbench's `transactions:  2000   (123.45 per sec.)`.
fn seconds_per_transaction(measured: &measure::Measured) -> Result<f64, Complaint> {
    let rate = measured.stdout.lines().find_map(|line| {
        let rate = line.trim().strip_prefix("transactions:")?.split_once('(')?.1;
        rate.split_whitespace().next()?.parse::<f64>().ok()
    });
    match rate {
        Some(rate) if rate > 0.0 => Ok(1.0 / rate),
        _ => Err(format!("sysbench told no throughput:\n{}", measured.stdout)),
    }
}
