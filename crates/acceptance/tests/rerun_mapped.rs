//! `reenact rerun` of programs that map files, and change them by calls and by their maps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use acceptance::place::{self, Outcome, Place, Who};
use acceptance::program::Need;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, tier, trials};

const FAILED: i32 = 1;
const DIFFERENT: i32 = 4;

/// Transactions of a database that is read by a map, and grows under it.
const SQLITE: &str = "import os, sqlite3
for life in range(2):
  c = sqlite3.connect('x.db')
  c.execute('pragma mmap_size=268435456')
  c.execute('create table if not exists t(k integer primary key, v blob)')
  for part in range(5):
    with c: c.executemany('insert into t(v) values(?)', [(os.urandom(500),) for i in range(200)])
    print(c.execute('select count(*), sum(length(v)), max(v), min(v) from t').fetchone())
  with c: c.execute('update t set v = zeroblob(300) where k % 7 = 0')
  print(c.execute('select sum(length(v)) from t').fetchone())
  c.close()";

/// A log written ahead, with its index in memory that two processes share.
const AHEAD: &str = "import os, sqlite3
c = sqlite3.connect('w.db')
c.execute('pragma journal_mode=wal'); c.execute('pragma mmap_size=268435456')
c.execute('create table t(k integer primary key, v blob)'); c.commit()
there, back = os.pipe(), os.pipe()
if os.fork() == 0:
  d = sqlite3.connect('w.db'); d.execute('pragma mmap_size=268435456')
  for i in range(20):
    os.read(there[0], 1)
    with d: d.execute('insert into t(v) values(?)', (os.urandom(2000),))
    os.write(back[1], b'x')
  os._exit(0)
for i in range(20):
  with c: c.execute('insert into t(v) values(?)', (os.urandom(1000),))
  os.write(there[1], b'x'); os.read(back[0], 1)
  print(c.execute('select count(*), sum(length(v)), max(v) from t').fetchone())
os.wait()
c.execute('pragma wal_checkpoint(truncate)')
print(c.execute('select count(*), min(v) from t').fetchone())";

/// A file of zeros, and stores all over it.
const STORES: &str = "import mmap, os
f = open('f', 'w+b'); f.truncate(16 << 20)
m = mmap.mmap(f.fileno(), 0)
for at in range(0, 16 << 20, 4096): m[at] = 1
print(os.getpid(), sum(m[at] for at in range(0, 16 << 20, 4096)))";

/// A large file that is mapped, and then written to.
const LARGE: &str = "import mmap, os, sys
f = open('big', sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
print(m[100], m[66 << 19])
g = open('big', 'r+b'); os.pwrite(g.fileno(), os.urandom(8), 100)
print(sum(m[at] << 8 * at - 800 for at in range(100, 108)))";

/// A file that is mapped with all its bytes.
const FILLED: &str = "import mmap, os
f = open('f', 'w+b'); f.write(os.urandom(8 << 20)); f.flush()
print(sum(mmap.mmap(f.fileno(), 0)[:]))";

/// A file whose bytes only maps show: one of a part of it, and one of all.
const ONLY_MAPPED: &str = "import mmap, os
f = open('there', 'r+b')
m = mmap.mmap(f.fileno(), 8192, prot=mmap.PROT_READ, offset=65536)
print(sum(m[:]))
os.pwrite(f.fileno(), b'written', 65536 + 100)
print(m[95:110], sum(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:]))";

/// A call that fills a mapped file with what comes out of a pipe, which another one fills later.
const WAITS: &str = "import mmap, os, time
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.write(fd, bytes(4096))
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
r, w = os.pipe()
if os.fork() == 0:
  os.splice(r, fd, 5, offset_dst=100); os._exit(0)
time.sleep(0.3)
os.write(w, b'later'); os.wait()
print(m[98:107])";

/// A process that writes to a mapped file by its last call, and is killed.
const KILLED: &str = "import mmap, os
fd = os.open('f', os.O_RDWR | os.O_CREAT); os.write(fd, bytes(5000))
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
child = os.fork()
if child == 0:
  os.pwrite(fd, b'killed', 4500)
  while True: pass
while m[4505] == 0: pass
os.kill(child, 9); os.wait()
print(m[4499:4507], mmap.mmap(fd, 0, prot=mmap.PROT_READ)[4499:4507])";

/// Files of the same length that take each other's name, and are mapped.
const NAMES: &str = "import mmap, os
def put(name, byte):
  fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
  os.write(fd, bytes([byte]) * 5000); os.close(fd)
def look(name):
  with open(name, 'rb') as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m: return m[0], m[4999]
put('f', 1)
for i in range(2, 40):
  if i % 4 == 0: put('t', i); os.rename('t', 'f')
  elif i % 4 == 1: put('f', i)
  elif i % 4 == 2: os.unlink('f'); put('f', i)
  else: put('t', i); os.unlink('f'); os.link('t', 'f'); os.unlink('t')
  print(i, look('f'))
  if i % 5 == 0:
    if os.fork() == 0: put('g', i); os.rename('g', 'f'); os._exit(0)
    os.wait(); print(look('f'))
os.mkdir('d'); put('d/f', 77); print(look('d/f')); os.rename('d', 'e'); os.mkdir('d'); put('d/f', 78)
print(look('d/f'), look('e/f'))";

/// A file that is mapped, and a long time in which no call is made.
const LONG: &str = "import mmap
f = open('f', 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 0)
for i in range(100000000): m[i % 4096] = i % 255";

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_lmdb = (!Path::new("/usr/include/lmdb.h").exists()).then_some("liblmdb-dev");
        let no_python = trials::missing(&["python3"]);
        trials.add_for_both("mapped_files", None, |stage: &Stage, who| {
            again(stage, who, &[], &[&built(stage, "mapped_files")?])
        });
        trials.add_for_both("mapped_threads", None, |stage: &Stage, who| {
            again(stage, who, &["--serialize"], &[&built(stage, "mapped_threads")?])
        });
        trials.add_for_both("sqlite_reads_by_a_map", no_python, |stage: &Stage, who| {
            again(stage, who, &[], &["python3", "-c", SQLITE])
        });
        trials.add_for_both("sqlite_shares_an_index", no_python, |stage: &Stage, who| {
            again(stage, who, &[], &["python3", "-c", AHEAD])
        });
        for (name, how) in [("lmdb_writes_by_calls", "calls"), ("lmdb_writes_by_the_map", "map")] {
            trials.add_for_both(name, no_lmdb, move |stage: &Stage, who| {
                again(stage, who, &[], &[&built(stage, "keys")?, how])
            });
        }
        trials.add_for_both("with_files_as_well", None, |stage: &Stage, who| {
            on_files(stage, who, &[&built(stage, "mapped_files")?])
        });
        for (name, script) in [("sqlite_on_files", SQLITE), ("sqlite_shares_on_files", AHEAD)] {
            trials.add_for_both(name, no_python, move |stage: &Stage, who| {
                on_files(stage, who, &["python3", "-c", script])
            });
        }
        for (name, how) in [("lmdb_on_files", "calls"), ("lmdb_stores_on_files", "map")] {
            trials.add_for_both(name, no_lmdb, move |stage: &Stage, who| {
                on_files(stage, who, &[&built(stage, "keys")?, how])
            });
        }
        trials.add_for_both("what_the_kernel_copied_is_in_the_file", None, |stage: &Stage, who| {
            on_files(stage, who, &[&built(stage, "mapped_copies")?])?;
            on_files(stage, who, &[&built(stage, "mapped_copies")?, "further"])
        });
        trials.add_for_both("bytes_that_only_a_map_shows", no_python, only_mapped);
        trials.add_for_both(
            "a_call_that_waits_for_a_later_one",
            no_python,
            |stage: &Stage, who| on_files(stage, who, &["python3", "-c", WAITS]),
        );
        trials.add_for_both("who_is_killed_has_written", no_python, |stage: &Stage, who| {
            on_files(stage, who, &["python3", "-c", KILLED])?;
            again(stage, who, &[], &["python3", "-c", KILLED])
        });
        trials.add_for_both("names_lead_to_other_files", no_python, |stage: &Stage, who| {
            on_files(stage, who, &["python3", "-c", NAMES])
        });
        trials.add_for_both("threads_on_files", None, |stage: &Stage, who| {
            let command = built(stage, "mapped_threads")?;
            let recording = Recording::new(stage, who, &["--serialize"], &[&command])?;
            on_its_files(stage, &recording)
        });
        trials.add_for_both("what_the_kernel_copied_is_told", None, copies);
        trials.add_for_both("large_files_are_copied_or_told", no_python, large);
        trials.add_for_both("code_in_memory", no_python, code_in_memory);
        let missing = trials::missing(&["gcc"]);
        trials.add_for_both("libraries_are_looked_at_once", missing, libraries);
        let missing = trials::missing(&["gdb"]);
        trials.add_for_both("gdb_goes_back_before_a_store", missing, gdb);
        trials.add_for_both("where_shadows_lie", no_python, where_they_lie);
        let spaces = !trials::has(Need::UserNamespaces, Who::User);
        let missing = no_python.or(spaces.then_some("user namespaces"));
        trials.add("a_full_disk_is_told", Who::User, missing, full);
        trials.add("a_full_disk_is_told", Who::Root, no_python, full);
        Ok(())
    })
}

/// Builds a program of tests/rerun.
fn built(stage: &Stage, name: &str) -> Result<String, Complaint> {
    Ok(program::named_in("tests/rerun", name)?.build(stage)?.display().to_string())
}

/// A recording, what its program wrote, and a directory for the shadows of its files.
struct Recording {
    place: Place,
    trace: PathBuf,
    output: String,
    shadows: PathBuf,
}

impl Recording {
    /// Records a command. Its files are gone afterwards.
    fn new(stage: &Stage, who: Who, options: &[&str], command: &[&str]) -> Result<Self, Complaint> {
        Recording::of(stage, Place::new(stage, who)?, options, command)
    }

    /// The same in a place that has files.
    fn of(
        stage: &Stage,
        place: Place,
        options: &[&str],
        command: &[&str],
    ) -> Result<Self, Complaint> {
        let trace = place.trace("mapped.rnt");
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--rerunnable"]).args(options);
        let record = record.arg("--output").arg(&trace).arg("--").args(command);
        let output = place.run(record)?.success("record")?.text();
        place.clear()?;
        let shadows = place.path("shadows");
        fs::create_dir(&shadows).map_err(|error| error.to_string())?;
        place.give(&shadows)?;
        Ok(Recording { place, trace, output, shadows })
    }

    fn rerun(&self, stage: &Stage, options: &[&str]) -> Result<Outcome, Complaint> {
        let mut rerun = self.place.command(&stage.reenact);
        rerun.arg("rerun").args(options).arg(&self.trace).env("TMPDIR", &self.shadows);
        let outcome = self.place.run(&mut rerun)?;
        self.is_clean()?;
        Ok(outcome)
    }

    /// The names in the directory of the shadows.
    fn left(&self) -> Result<Vec<String>, Complaint> {
        let all = fs::read_dir(&self.shadows).map_err(|error| error.to_string())?;
        Ok(all.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    fn is_clean(&self) -> Result<(), Complaint> {
        let (left, files) = (self.left()?, self.place.files()?);
        ensure!(left.is_empty() && files.is_empty(), "it left {left:?} {files:?}");
        Ok(())
    }

    fn is_told(&self, outcome: &Outcome, code: i32, words: &[&str]) -> Result<(), Complaint> {
        let told = outcome.errors();
        ensure!(outcome.status.code() == Some(code), "{:?}: {told}", outcome.status);
        for word in words {
            ensure!(told.contains(word), "no {word:?} in {told}");
        }
        Ok(())
    }
}

/// Records a command, and executes it again some times, with the same output.
fn again(stage: &Stage, who: Who, options: &[&str], command: &[&str]) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, options, command)?;
    for round in 0..tier::rounds(3, 100) {
        let outcome = recording.rerun(stage, &[])?.success(&format!("round {round}"))?;
        let (found, expected) = (outcome.text(), &recording.output);
        ensure!(found == *expected, "round {round}: {found}, not {expected}");
    }
    Ok(())
}

/// The program finds the same where its calls on files are made beside it.
fn on_files(stage: &Stage, who: Who, command: &[&str]) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[], command)?;
    on_its_files(stage, &recording)
}

fn on_its_files(stage: &Stage, recording: &Recording) -> Result<(), Complaint> {
    for round in 0..tier::rounds(2, 20) {
        let outcome = recording.rerun(stage, &["--files", "real"])?;
        let outcome = outcome.success(&format!("round {round}"))?;
        ensure!(outcome.text() == recording.output, "round {round}: {}", outcome.text());
    }
    Ok(())
}

/// A file that was there, and that no call reads: it is rebuilt from what was mapped.
fn only_mapped(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let bytes: Vec<u8> = (0..300_000u64).map(|at| ((at * at) >> 7) as u8).collect();
    place.write("there", &bytes)?;
    let recording = Recording::of(stage, place, &[], &["python3", "-c", ONLY_MAPPED])?;
    on_its_files(stage, &recording)
}

fn copies(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[], &[&built(stage, "mapped_copies")?])?;
    let outcome = recording.rerun(stage, &[])?;
    let words = ["differs at call", "write: ", "likely reason: the kernel copied", "/to,"];
    recording.is_told(&outcome, DIFFERENT, &words)?;
    let recording = Recording::new(stage, who, &[], &[&built(stage, "mapped_copies")?, "further"])?;
    let outcome = recording.rerun(stage, &[])?;
    recording.is_told(&outcome, DIFFERENT, &["likely reason: mremap shows bytes", "/to "])
}

/// A file whose bytes are too many for a trace is copied, if it is there as it was and may be written to where
/// it is mapped; else what is written to it is not seen, and that is told.
fn large(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let bytes: Vec<u8> = (0..66u32 << 20).map(|at| (at >> 3) as u8).collect();
    for (mode, code) in [("r+b", 0), ("rb", DIFFERENT)] {
        let place = Place::new(stage, who)?;
        place.write("big", &bytes)?;
        let recording = Recording::of(stage, place, &[], &["python3", "-c", LARGE, mode])?;
        let gone = recording.rerun(stage, &[])?;
        recording.is_told(&gone, FAILED, &["have changed since", "/big"])?;
        recording.place.write("big", &bytes)?;
        let mut rerun = recording.place.command(&stage.reenact);
        rerun.arg("rerun").arg(&recording.trace).env("TMPDIR", &recording.shadows);
        let outcome = recording.place.run(&mut rerun)?;
        let words = if code == 0 { "all as recorded" } else { "too large for its bytes" };
        recording.is_told(&outcome, code, &[words])?;
        ensure!(code != 0 || outcome.text() == recording.output, "{}", outcome.text());
        recording.place.clear()?;
        recording.is_clean()?;
    }
    Ok(())
}

/// Code that a program maps from a file in memory comes from no file system.
fn code_in_memory(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let script = "\
import mmap, os
fd = os.memfd_create('made')
os.write(fd, b'\\xc3' * 4096)
mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)";
    let recording = Recording::new(stage, who, &[], &["python3", "-c", script])?;
    let outcome = recording.rerun(stage, &[])?;
    recording.is_told(&outcome, FAILED, &["code from a file in memory", "/memfd:made"])
}

/// What a file held before a call is there once more when gdb goes back.
/// A library that several processes load is told once, and again when it has changed.
fn libraries(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    // What lies beside the trace stays there.
    let library = place.trace("own.so").display().to_string();
    let make = format!("echo 'int x = 1;' | gcc -shared -fPIC -o {library} -x c -");
    place.run(place.command("sh").args(["-c", &make]))?.success("gcc")?;
    let twice = format!("for i in 1 2; do LD_PRELOAD={library} ls -d .; done");
    let script = format!("{twice}; cat {library} > new; cat new > {library}; {twice}");
    let recording = Recording::of(stage, place, &[], &["sh", "-c", &script])?;
    let mut show = recording.place.command(&stage.reenact);
    show.args(["show", "--json", "--event", "loaded_file"]).arg(&recording.trace);
    let shown = recording.place.run(&mut show)?.success("show")?.text();
    let times = shown.lines().filter(|line| line.contains("/own.so\"")).count();
    ensure!(times == 2, "it is told {times} times: {shown}");
    let outcome = recording.rerun(stage, &[])?;
    ensure!(outcome.status.success() && outcome.text() == recording.output, "{}", outcome.errors());
    Ok(())
}

fn gdb(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[], &[&built(stage, "mapped_files")?])?;
    let mut show = recording.place.command(&stage.reenact);
    show.args(["show", "--seq", "--call", "pwritev"]).arg(&recording.trace);
    let shown = recording.place.run(&mut show)?.success("show")?.text();
    let seq: u64 = shown.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    ensure!(seq > 0, "no call in {shown}");
    let (before, after) = (format!("reenact goto {seq}"), format!("reenact goto {}", seq + 1));
    let look = "python print('has', hash(bytes(gdb.selected_inferior().read_memory(mapped, 300))))";
    let find = "python mapped = int([line for line in open('/proc/%d/maps' % \
                gdb.selected_inferior().pid) if 'reenact-rerun-' in line][0].split('-')[0], 16)";
    let mut rerun = recording.place.command(&stage.reenact);
    rerun.arg("rerun").arg("--gdb").arg(&recording.trace).args(["--", "-nx", "-batch"]);
    rerun.env("TMPDIR", &recording.shadows).env("PYTHONHASHSEED", "0");
    for command in [&before, find, look, &after, look, &before, look, &after, look] {
        rerun.args(["-ex", command]);
    }
    let outcome = recording.place.run(&mut rerun)?.success("gdb")?;
    recording.is_clean()?;
    let text = outcome.text();
    let found: Vec<&str> = text.lines().filter(|line| line.starts_with("has ")).collect();
    let [a, b, c, d] = found[..] else {
        return Err(format!("not four sights in {text} {}", outcome.errors()));
    };
    ensure!(a == c && b == d && a != b, "{found:?}");
    Ok(())
}

/// Without a directory for them it ends, and says so; one that is there is left as it was, also if the
/// re-execution is told to end.
fn where_they_lie(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[], &["python3", "-c", LONG])?;
    let start = |directory: &Path| {
        let mut rerun = recording.place.command(&stage.reenact);
        rerun.arg("rerun").arg(&recording.trace).env("TMPDIR", directory);
        rerun
    };
    let nowhere = recording.place.path("nowhere");
    let outcome = recording.place.run(&mut start(&nowhere))?;
    recording.is_told(
        &outcome,
        FAILED,
        &["no directory for files", &nowhere.display().to_string()],
    )?;
    // Ended by the signal, without its files.
    let ended = |signal: i32, others: &[String]| {
        let child = start(&recording.shadows).spawn().map_err(|error| error.to_string())?;
        let since = Instant::now();
        let is_there =
            |name: &String| recording.shadows.join(name).read_dir().is_ok_and(|d| d.count() > 0);
        let is_new = |name: &String| !others.contains(name);
        while !recording.left()?.iter().any(|name| is_new(name) && is_there(name)) {
            ensure!(since.elapsed() < place::PATIENCE, "nothing is mapped");
            std::thread::sleep(Duration::from_millis(5));
        }
        place::signal(&child, signal)?;
        let status = place::wait(child, place::PATIENCE, "rerun")?;
        ensure!(!status.success(), "{status}");
        recording.left()
    };
    ended(libc::SIGTERM, &[])?;
    recording.is_clean()?;
    // Who is killed cannot remove it: the next one does. What only looks like it stays.
    let killed = ended(libc::SIGKILL, &[])?;
    ensure!(killed.len() == 1, "it left {killed:?}");
    let other = recording.shadows.join("reenact-rerun-other");
    fs::write(&other, "").map_err(|error| error.to_string())?;
    let left = ended(libc::SIGTERM, &killed)?;
    ensure!(left == ["reenact-rerun-other"], "it left {left:?}");
    fs::remove_file(&other).map_err(|error| error.to_string())?;
    recording.is_clean()
}

/// A program whose stores find no room is told to have found none.
fn full(stage: &Stage, who: Who) -> Result<(), Complaint> {
    for (command, code) in [(STORES, DIFFERENT), (FILLED, FAILED)] {
        let recording = Recording::new(stage, who, &[], &["python3", "-c", command])?;
        let script = "mount -t tmpfs -o size=2m none \"$TMPDIR\" && exec \"$@\"";
        let spaces = if who == Who::Root { "-m" } else { "-Urm" };
        let mut rerun = recording.place.command("unshare");
        rerun.args([spaces, "sh", "-c", script, "sh"]).arg(&stage.reenact).arg("rerun");
        rerun.arg(&recording.trace).env("TMPDIR", &recording.shadows);
        let outcome = recording.place.run(&mut rerun)?;
        recording.is_told(&outcome, code, &["too little room", "TMPDIR"])?;
    }
    Ok(())
}
