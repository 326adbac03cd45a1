//! The workloads on which recording is measured.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::measure::{self, Measured, Sample};
use crate::{Complaint, repository};

/// Directories and binary of the benchmarks.
pub struct Bench {
    /// Directory for the workloads' files.
    pub dir: PathBuf,
    /// Directory for the traces.
    pub trace_dir: PathBuf,
    /// The binary, at a path where every user can run it.
    pub reenact: PathBuf,
}

/// Limits for the cost of recording.
pub enum Mark {
    /// A multiple of the untraced time.
    Ratio(f64),
    /// 1.3 times the untraced time, or the time to write the distinct bytes to the trace's disk if
    /// that is longer.
    Disk,
    /// No mark.
    None,
}

impl Mark {
    /// Returns the limit as a ratio, given the distinct bytes and the speed of the trace's disk.
    pub fn ratio(&self, alone: &Sample, distinct_bytes: f64, disk_bytes_per_s: f64) -> Option<f64> {
        match self {
            Mark::Ratio(ratio) => Some(*ratio),
            Mark::Disk => {
                let limit_s = alone.cost.max(distinct_bytes / disk_bytes_per_s);
                Some(1.3 * limit_s / alone.cost)
            }
            Mark::None => None,
        }
    }
}

/// A workload.
pub struct Workload {
    /// Name of the workload.
    pub name: &'static str,
    /// Tools that must be installed.
    pub needs: &'static [&'static str],
    /// Limit for the cost of recording.
    pub mark: Mark,
    /// Limit for the size of the trace relative to the data bytes.
    pub size_mark: Option<f64>,
    /// User to run it as, if not the current one.
    pub user: Option<&'static str>,
    /// Additional options of `reenact record`.
    pub options: &'static [&'static str],
    /// Called once before all runs.
    pub prepare: fn(&Bench) -> Result<(), Complaint>,
    /// Called before each run.
    pub before_each: fn(&Bench) -> Result<(), Complaint>,
    /// Returns the command to run.
    pub command: fn(&Bench) -> Vec<String>,
    /// Returns the cost to compare.
    pub cost: fn(&Measured) -> Result<f64, Complaint>,
}

/// Defaults of a workload.
pub const PLAIN: Workload = Workload {
    name: "",
    needs: &[],
    mark: Mark::None,
    size_mark: None,
    user: None,
    options: &[],
    prepare: |_| Ok(()),
    before_each: |_| Ok(()),
    command: |_| Vec::new(),
    cost: |measured| Ok(measured.wall_s),
};

/// All workloads, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    CALLS.iter().chain(super::beside_calls::ALL)
}

/// Workloads that move their data by calls.
const CALLS: &[Workload] = &[
    Workload {
        name: "getppid",
        mark: Mark::Ratio(1.6),
        prepare: build_loops,
        command: |bench| bench.loops(&["getppid", "5000000"]),
        ..PLAIN
    },
    Workload {
        name: "write-64",
        prepare: build_loops,
        command: |bench| bench.loops(&["write", "64", "2000000", "loop.data"]),
        ..PLAIN
    },
    Workload {
        name: "read-64",
        prepare: build_loops,
        command: |bench| bench.loops(&["read", "64", "2000000", "loop.data"]),
        ..PLAIN
    },
    Workload {
        name: "write-4k",
        mark: Mark::Ratio(2.0),
        prepare: build_loops,
        command: |bench| bench.loops(&["write", "4096", "800000", "loop.data"]),
        ..PLAIN
    },
    Workload {
        name: "read-4k",
        mark: Mark::Ratio(2.0),
        prepare: build_loops,
        command: |bench| bench.loops(&["read", "4096", "800000", "loop.data"]),
        ..PLAIN
    },
    Workload {
        name: "distinct-4k",
        mark: Mark::Disk,
        prepare: build_loops,
        command: |bench| bench.loops(&["distinct", "200000", "loop.data"]),
        ..PLAIN
    },
    Workload {
        name: "sqlite",
        needs: &["sqlite3"],
        mark: Mark::Ratio(1.25),
        prepare: write_sql,
        before_each: |bench| bench.remove(&["test.db", "test.db-journal"]),
        command: |_| words(&["sqlite3", "test.db", ".read load.sql"]),
        ..PLAIN
    },
    Workload { name: "fio-randread", command: |_| fio("randread", 1), ..FIO },
    Workload { name: "fio-randwrite", command: |_| fio("randwrite", 1), ..FIO },
    Workload {
        name: "sqlite-mmap",
        needs: &["sqlite3"],
        mark: Mark::Ratio(1.5),
        prepare: write_sql,
        before_each: |bench| bench.remove(&["test.db", "test.db-journal"]),
        command: |_| {
            let mapped = "pragma mmap_size=1073741824";
            words(&["sqlite3", "-cmd", mapped, "test.db", ".read load.sql"])
        },
        ..PLAIN
    },
    Workload {
        name: "python",
        needs: &["python3"],
        mark: Mark::Ratio(1.5),
        before_each: |bench| bench.set_aside("python"),
        command: |_| {
            let script = repository().join("benches/files.py").display().to_string();
            words(&["/usr/bin/python3", &script, "python"])
        },
        ..PLAIN
    },
    Workload {
        name: "tar",
        mark: Mark::Ratio(1.5),
        before_each: |bench| bench.remove(&["doc.tar"]),
        command: |_| words(&["tar", "-cf", "doc.tar", "-C", "/usr/share", "doc"]),
        ..PLAIN
    },
    Workload {
        name: "gcc",
        needs: &["gcc"],
        mark: Mark::Ratio(1.25),
        prepare: write_c,
        command: |_| words(&["gcc", "-O2", "-c", "large.c", "-o", "large.o"]),
        ..PLAIN
    },
    Workload {
        name: "shell",
        mark: Mark::Ratio(2.0),
        command: |_| {
            let script = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done";
            words(&["sh", "-c", script])
        },
        ..PLAIN
    },
    // The same again, so that the program can be executed again.
    Workload {
        name: "getppid-rerunnable",
        options: &["--rerunnable"],
        prepare: build_loops,
        command: |bench| bench.loops(&["getppid", "5000000"]),
        ..PLAIN
    },
    Workload {
        name: "gcc-rerunnable",
        needs: &["gcc"],
        options: &["--rerunnable"],
        prepare: write_c,
        command: |_| words(&["gcc", "-O2", "-c", "large.c", "-o", "large.o"]),
        ..PLAIN
    },
    Workload {
        name: "pgbench",
        needs: &["postgresql"],
        mark: Mark::Ratio(1.25),
        user: Some("postgres"),
        prepare: make_cluster,
        command: |bench| {
            let script = bench.dir.join("pgbench.sh").display().to_string();
            let data = bench.dir.join("cluster").display().to_string();
            words(&["sh", &script, &data, &postgres_bin()])
        },
        cost: seconds_per_transaction,
        ..PLAIN
    },
    Workload {
        name: "db_bench",
        needs: &["db_bench"],
        mark: Mark::Ratio(1.25),
        size_mark: Some(1.0 / 3.0),
        before_each: |bench| bench.remove(&["rocks"]),
        command: |_| {
            words(&[
                "db_bench",
                "--db=rocks",
                "--benchmarks=fillseq,overwrite,readrandom,readseq",
                "--num=300000",
                "--value_size=400",
                "--compression_type=none",
                "--cache_size=8388608",
                "--mmap_read=0",
                "--mmap_write=0",
            ])
        },
        ..PLAIN
    },
    Workload {
        name: "db_bench-mmap",
        needs: &["db_bench"],
        mark: Mark::Ratio(1.5),
        before_each: |bench| bench.remove(&["rocks"]),
        command: |_| {
            words(&[
                "db_bench",
                "--db=rocks",
                "--benchmarks=fillseq,overwrite,readrandom,readseq",
                "--num=300000",
                "--value_size=400",
                "--compression_type=none",
                "--cache_size=8388608",
                "--mmap_read=1",
                "--mmap_write=1",
            ])
        },
        ..PLAIN
    },
    Workload {
        name: "fio-randwrite-2-jobs",
        mark: Mark::None,
        command: |_| fio("randwrite", 2),
        ..FIO
    },
    Workload {
        name: "write-4k-data-none",
        prepare: build_loops,
        options: &["--data", "none"],
        command: |bench| bench.loops(&["write", "4096", "800000", "loop.data"]),
        ..PLAIN
    },
    Workload {
        name: "write-4k-data-hash",
        prepare: build_loops,
        options: &["--data", "hash"],
        command: |bench| bench.loops(&["write", "4096", "800000", "loop.data"]),
        ..PLAIN
    },
];

pub const FIO: Workload = Workload {
    name: "",
    needs: &["fio"],
    mark: Mark::Ratio(1.25),
    prepare: |bench| {
        // Laid out once, so that no measured run has to.
        let layout = fio("write", 2);
        measure::run(&layout, &bench.dir, None, &bench.output(), None).map(|_| ())
    },
    ..PLAIN
};

pub fn fio(pattern: &str, jobs: u32) -> Vec<String> {
    let (pattern, jobs) = (format!("--rw={pattern}"), format!("--numjobs={jobs}"));
    words(&[
        "fio",
        "--name=bench",
        "--ioengine=psync",
        "--bs=4k",
        &pattern,
        &jobs,
        "--size=256m",
        "--io_size=1g",
        "--direct=0",
        "--invalidate=0",
        "--dedupe_percentage=90",
        "--randrepeat=1",
        "--group_reporting",
    ])
}

pub fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| word.to_string()).collect()
}

/// Number of bytes written to measure the speed of the trace's disk.
const DISK_TEST_BYTES: usize = 768 << 20;

impl Bench {
    /// Copies the binary next to the workloads' files.
    pub fn new(dir: PathBuf, trace_dir: PathBuf, built: &Path) -> Result<Bench, Complaint> {
        let reenact = dir.join("reenact");
        fs::copy(built, &reenact).map_err(|error| format!("{}: {error}", reenact.display()))?;
        for path in [&dir, &trace_dir] {
            let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
            fs::set_permissions(path, open)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Bench { dir, trace_dir, reenact })
    }

    /// Returns the path of a run's standard output.
    pub fn output(&self) -> PathBuf {
        self.dir.join("output")
    }

    /// Returns the command that runs a loop.
    pub fn loops(&self, args: &[&str]) -> Vec<String> {
        let mut all = vec![self.dir.join("loops").display().to_string()];
        all.extend(words(args));
        all
    }

    /// Returns the command that records a command.
    pub fn recorded(&self, workload: &Workload, trace: &Path, command: &[String]) -> Vec<String> {
        let mut all = vec![self.reenact.display().to_string()];
        all.extend(words(&["record", "--quiet", "--force", "--output"]));
        all.push(trace.display().to_string());
        all.extend(words(workload.options));
        all.push("--".into());
        all.extend(command.iter().cloned());
        all
    }

    /// Removes files and directories.
    pub fn remove(&self, names: &[&str]) -> Result<(), Complaint> {
        for path in names.iter().map(|name| self.dir.join(name)) {
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if path.exists() => return Err(format!("{}: {error}", path.display())),
                _ => {}
            }
        }
        Ok(())
    }

    /// Renames a file or directory. If many files were removed instead, ext4 would check all of
    /// their inodes for each new one during the next minute.
    fn set_aside(&self, name: &str) -> Result<(), Complaint> {
        let path = self.dir.join(name);
        let number = (0..).find(|number| !self.dir.join(format!("{name}.{number}")).exists());
        match number {
            Some(number) if path.exists() => {
                fs::rename(&path, self.dir.join(format!("{name}.{number}")))
                    .map_err(|error| format!("{}: {error}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Measures how fast the traces' disk writes new bytes.
    pub fn trace_disk_bytes_per_s(&self) -> Result<f64, Complaint> {
        let path = self.trace_dir.join("speed");
        let chunk: Vec<u8> =
            (0..1u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let write = || -> std::io::Result<f64> {
            let mut file = File::create(&path)?;
            let begun = Instant::now();
            for _ in 0..DISK_TEST_BYTES / chunk.len() {
                file.write_all(&chunk)?;
            }
            // Without this, it would be the speed of the page cache.
            file.sync_data()?;
            Ok(DISK_TEST_BYTES as f64 / begun.elapsed().as_secs_f64())
        };
        let speed = write().map_err(|error| format!("{}: {error}", path.display()));
        let _ = fs::remove_file(&path);
        speed
    }

    fn put(&self, name: &str, content: &str) -> Result<(), Complaint> {
        let path = self.dir.join(name);
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Compiles the loop program.
pub fn build_loops(bench: &Bench) -> Result<(), Complaint> {
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(bench.dir.join("loops")).arg(repository().join("benches/loops.c"));
    must_succeed(cc)
}

pub fn must_succeed(mut command: Command) -> Result<(), Complaint> {
    command.stdout(Stdio::null());
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// Writes an SQL script: 100,000 rows in 2,000 transactions.
fn write_sql(bench: &Bench) -> Result<(), Complaint> {
    let mut sql = String::from("create table t(id integer primary key, name text, value real);\n");
    for transaction in 0..2000 {
        sql.push_str("begin;\n");
        for row in 0..50 {
            let id = transaction * 50 + row;
            let _ = writeln!(sql, "insert into t values({id}, 'name of row {id}', {id}.{row});");
        }
        sql.push_str("commit;\n");
    }
    sql.push_str("select count(*), sum(value) from t;\n");
    bench.put("load.sql", &sql)
}

/// Writes a C file that takes a second or two to compile.
fn write_c(bench: &Bench) -> Result<(), Complaint> {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
    for i in 0..400 {
        let _ = writeln!(
            text,
            "int f{i}(int n, const char *s) {{\n  int total = {i};\n  for (int k = 0; k < n; k++) {{\n    \
             if (s[k % 7] == {i} % 64) total += k * {i}; else total ^= (int)strlen(s + k % 3);\n    \
             switch (total % 5) {{ case 0: total += 3; break; case 1: total *= 5; break; \
             case 2: puts(s); break; default: total -= k; }}\n  }}\n  return total;\n}}"
        );
    }
    bench.put("large.c", &text)
}

/// Returns the directory of Debian's PostgreSQL programs.
fn postgres_bin() -> String {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path()).max().unwrap_or_default();
    newest.join("bin").display().to_string()
}

/// Makes a database cluster with pgbench's tables, owned by postgres.
fn make_cluster(bench: &Bench) -> Result<(), Complaint> {
    bench.remove(&["cluster"])?;
    let script = bench.dir.join("pgbench.sh");
    fs::copy(repository().join("benches/pgbench.sh"), &script)
        .map_err(|error| error.to_string())?;
    let data = bench.dir.join("cluster");
    let (data, bin) = (data.display(), postgres_bin());
    let (uid, gid) = measure::ids("postgres")?;
    let steps = format!(
        "set -e; {bin}/initdb -D {data} --auth=trust > /dev/null\n\
         {bin}/pg_ctl -D {data} -w -s -o '-k {data} -c listen_addresses=' -l {data}/log start\n\
         {bin}/pgbench -i -q -s 5 -h {data} postgres 2> /dev/null\n\
         {bin}/pg_ctl -D {data} -w -s stop"
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &steps]).current_dir(&bench.dir);
    std::os::unix::process::CommandExt::uid(&mut shell, uid);
    std::os::unix::process::CommandExt::gid(&mut shell, gid);
    must_succeed(shell)
}

/// Parses pgbench's `tps = 1234.5 (without initial connection time)`.
fn seconds_per_transaction(measured: &Measured) -> Result<f64, Complaint> {
    let rate = measured.stdout.lines().find_map(|line| {
        line.strip_prefix("tps = ")?.split_whitespace().next()?.parse::<f64>().ok()
    });
    match rate {
        Some(rate) if rate > 0.0 => Ok(1.0 / rate),
        _ => Err(format!("pgbench told no throughput:\n{}", measured.stdout)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_sets_the_mark_when_it_is_slower_than_the_work() {
        let alone = Sample { cost: 1.0, user_s: 0.5, system_s: 0.5 };
        let near = |got: Option<f64>, wanted: f64| (got.unwrap() - wanted).abs() < 1e-9;
        assert!(near(Mark::Disk.ratio(&alone, 2e9, 1e9), 2.6));
        assert!(near(Mark::Disk.ratio(&alone, 1e8, 1e9), 1.3));
        assert!(Mark::None.ratio(&alone, 1e8, 1e9).is_none());
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<&str> = all().map(|workload| workload.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }
}
