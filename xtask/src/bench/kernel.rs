//! `cargo xtask bench kernel`: what events of the kernel cost, on the jobs of the Linux Trace Toolkit, beside
//! `perf record` and `trace-cmd record` with the same events. Runs are interleaved, with a second one
//! alone (A/A) that shows what is noise. `--short` is for some 25 minutes on two CPUs: shorter jobs, and all
//! rows but those of the marks three times. Then high rates, and the cost of chains of callers.

mod rates;

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::measure::{self, middle};
use super::{count, target_dir, verdict};
use crate::{Complaint, cargo, tools};

/// Pairs of runs, and runs of what has no mark in a short benchmark.
const RUNS: usize = 11;
const RUNS_BESIDE: usize = 3;
/// How much shorter jobs are that take long.
const SHORT: f64 = 0.15;
/// How long to wait until something beside a job has begun, and how long perf takes for that.
const PATIENCE: Duration = Duration::from_secs(20);
const UNSEEN: Duration = Duration::from_millis(1500);
/// Marks: the share of wall time that events may take, and bytes of an event in the trace.
const WALL_SHARE_MAX: f64 = 0.015;
const EVENT_BYTES_MAX: f64 = 12.0;
/// Student's t for 95% and one to ten degrees of freedom; for more it is hardly smaller.
const T95: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
/// Instances of tracefs that are ours: of events that nobody reads, and of `trace-cmd`.
const INSTANCES: &str = "/sys/kernel/tracing/instances";
const UNREAD: &str = "bench-reenact";
const OTHERS: &str = "bench-reenact-beside";
/// trace-cmd, with files that it writes to though nobody wants functions to be traced, and which some
/// kernels do not allow, laid aside.
const TRACE_CMD: &str = "
    echo 1 > traced
    instance=/sys/kernel/tracing/instances/bench-reenact-beside
    for file in /proc/sys/kernel/ftrace_enabled $instance/set_ftrace_filter \
        $instance/set_ftrace_notrace $instance/set_ftrace_pid $instance/set_ftrace_notrace_pid; do
        test ! -e $file || mount --bind traced $file
    done
    exec \"$0\" \"$@\"";
/// What the recorder takes without a program.
const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "task:task_newtask",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit",
    "irq_vectors:reschedule_entry",
    "irq_vectors:reschedule_exit",
    "irq_vectors:call_function_entry",
    "irq_vectors:call_function_exit",
    "irq_vectors:call_function_single_entry",
    "irq_vectors:call_function_single_exit",
    "irq_vectors:irq_work_entry",
    "irq_vectors:irq_work_exit",
    "exceptions:page_fault_user",
    "exceptions:page_fault_kernel",
    "block:block_rq_issue",
    "block:block_rq_complete",
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
];

/// What `--only` calls that which is no job, and its seconds.
const RATES: &str = "rates";
const RATE_SECONDS: f64 = 10.0;

/// The kernel does not let perf sample this one: its own work is done by it.
const NOT_FOR_PERF: &str = "irq_vectors:irq_work_exit";

/// A job of LTT's.
struct Job {
    name: &'static str,
    needs: &'static [&'static str],
    /// It takes long, and is made shorter in a short benchmark.
    is_long: bool,
    /// Makes what it works on; `scale` is 1 for jobs as long as LTT's.
    prepare: fn(&Path, f64) -> Result<(), Complaint>,
    script: &'static str,
}

const JOBS: [Job; 4] = [
    Job {
        name: "make",
        needs: &["gcc", "make"],
        is_long: true,
        prepare: prepare_make,
        script: "rm -f make/*.o && make -s -j2 -C make",
    },
    Job {
        name: "tar",
        needs: &[],
        is_long: false,
        prepare: prepare_tar,
        script: "rm -f tree.tar && tar cf tree.tar tree && sync -f tree.tar",
    },
    Job {
        name: "bzip2",
        needs: &["bzip2"],
        is_long: false,
        prepare: prepare_bzip2,
        script: "bzip2 -k -c text > text.bz2",
    },
    Job {
        name: "mix",
        needs: &["chromium", "pdftotext", "gnuplot"],
        is_long: true,
        prepare: prepare_mix,
        script: "for i in $(seq $ROUNDS); do \
                 chromium --headless --no-sandbox --disable-gpu --user-data-dir=profile \
                 --print-to-pdf=page.pdf file://$PWD/page.html 2>/dev/null; \
                 pdftotext page.pdf page.txt; gnuplot plot.gp; sleep 0.1; done",
    },
];

/// What runs beside a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    Nothing,
    Again,
    Unread,
    Dropped,
    Written,
    Brief,
    TraceCmd,
    Perf,
}

const BESIDE: [(Beside, &str, &str); 8] = [
    (Beside::Nothing, "alone", ""),
    (Beside::Again, "alone again", ""),
    (Beside::Unread, "on, unread", ""),
    (Beside::Dropped, "read, dropped", ""),
    (Beside::Written, "written", ""),
    (Beside::Brief, "no details", ""),
    (Beside::TraceCmd, "trace-cmd", "trace-cmd"),
    (Beside::Perf, "perf record", "perf"),
];

#[derive(Default)]
struct Figures {
    wall_s: Vec<f64>,
    /// Of what runs beside the job.
    cpu_s: Vec<f64>,
    bytes: u64,
    events: u64,
    lost: u64,
}

/// Runs the benchmark.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let (mut runs, mut scale, mut only) = (RUNS, 1.0f64, Vec::new());
    let mut is_short = false;
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match *word {
            "--runs" => runs = count(word, value()?)?,
            "--scale" => scale = value()?.parse().map_err(|_| "--scale: not a number")?,
            "--only" => only.push(value()?.to_string()),
            "--short" => is_short = true,
            _ => return Err(format!("unknown option {word}")),
        }
    }
    tools::provide(&[
        "gcc",
        "make",
        "bzip2",
        "trace-cmd",
        "perf",
        "chromium",
        "pdftotext",
        "gnuplot",
    ]);
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    let place = tempfile::Builder::new().prefix("reenact-bench-").tempdir();
    let place = place.map_err(|error| format!("no temporary directory: {error}"))?;
    let bench = Bench {
        dir: place.path().to_path_buf(),
        reenact: target_dir()?.join("release/reenact"),
        runs,
        runs_beside: if is_short { runs.min(RUNS_BESIDE) } else { runs },
    };
    let mut missed = Vec::new();
    for job in JOBS.iter().filter(|job| only.is_empty() || only.iter().any(|o| o == job.name)) {
        if let Some(absent) = job.needs.iter().find(|tool| !tools::is_there(tool)) {
            println!("{}: left out, {absent} is not installed", job.name);
            continue;
        }
        let scale = if is_short && job.is_long { SHORT * scale } else { scale };
        (job.prepare)(&bench.dir, scale)?;
        missed.extend(bench.compare(job, scale)?);
    }
    if only.is_empty() || only.iter().any(|only| only == RATES) {
        let seconds = ((RATE_SECONDS * scale).max(2.0)) as u32;
        missed.extend(rates::run(&bench.reenact, &bench.dir, seconds)?);
    }
    verdict(&missed)
}

struct Bench {
    dir: PathBuf,
    reenact: PathBuf,
    runs: usize,
    runs_beside: usize,
}

impl Bench {
    fn compare(&self, job: &Job, scale: f64) -> Result<Vec<String>, Complaint> {
        let rounds = (16.0 * scale).max(1.0) as u32;
        let beside: Vec<_> =
            BESIDE.iter().filter(|(_, _, tool)| tool.is_empty() || tools::is_there(tool)).collect();
        let mut figures: Vec<Figures> = beside.iter().map(|_| Figures::default()).collect();
        self.once(job, rounds, Beside::Nothing, &mut Figures::default())?;
        for run in 0..self.runs {
            for ((what, ..), figures) in beside.iter().zip(&mut figures) {
                let has_mark = matches!(what, Beside::Nothing | Beside::Again | Beside::Written);
                if run >= self.runs_beside && !has_mark {
                    continue;
                }
                // SAFETY: `sync` takes no arguments and touches no memory of ours.
                unsafe { libc::sync() };
                self.once(job, rounds, *what, figures)?;
            }
        }
        let (runs, fewer) = (self.runs, self.runs_beside);
        println!("\n{}: {runs} runs alone and written, {fewer} of the others", job.name);
        println!(
            "{:<14} {:>9} {:>20} {:>10} {:>10} {:>12} {:>8} {:>8}",
            "", "wall s", "more (95%)", "its CPU s", "MB", "events", "bytes", "lost"
        );
        let alone = figures[0].wall_s.clone();
        let mut missed = Vec::new();
        let cpu_of = |wanted: Beside| {
            let at = beside.iter().position(|(what, ..)| *what == wanted)?;
            Some(middle(figures[at].cpu_s.clone()))
        };
        for ((what, name, _), of_it) in beside.iter().zip(&figures) {
            let (mean, half) = difference(&alone, &of_it.wall_s);
            let each = of_it.bytes as f64 / of_it.events.max(1) as f64;
            let is_counted = |text: String| if of_it.events == 0 { "-".into() } else { text };
            println!(
                "{name:<14} {:>9.3} {:>+9.2}% +- {:>5.2}% {:>10.3} {:>10.2} {:>12} {:>8} {:>8}",
                middle(of_it.wall_s.clone()),
                100.0 * mean,
                100.0 * half,
                middle(of_it.cpu_s.clone()),
                of_it.bytes as f64 / 1e6,
                is_counted(of_it.events.to_string()),
                is_counted(format!("{each:.1}")),
                is_counted(of_it.lost.to_string()),
            );
            if *what != Beside::Written {
                continue;
            }
            if mean + half > WALL_SHARE_MAX && mean - half > 0.0 {
                missed.push(format!("{}: {:.2}% more wall time", job.name, 100.0 * mean));
            }
            if each > EVENT_BYTES_MAX {
                missed.push(format!("{}: {each:.1} bytes per event", job.name));
            }
            if of_it.lost > 0 {
                missed.push(format!("{}: {} events lost", job.name, of_it.lost));
            }
        }
        if let (Some(ours), Some(theirs)) = (cpu_of(Beside::Written), cpu_of(Beside::TraceCmd))
            && ours > theirs
        {
            missed.push(format!("{}: {ours:.3} CPU s, trace-cmd {theirs:.3}", job.name));
        }
        Ok(missed)
    }

    /// Runs a job with something beside it.
    fn once(
        &self,
        job: &Job,
        rounds: u32,
        what: Beside,
        figures: &mut Figures,
    ) -> Result<(), Complaint> {
        let trace = self.dir.join("beside.trace");
        let _ = fs::remove_file(&trace);
        if what == Beside::Unread {
            instance()?;
        }
        let mut child = self.begin(what, &trace)?;
        if let Some(child) = &child {
            wait_until_begun(child, what)?;
        }
        let script = format!("ROUNDS={rounds}; {}", job.script);
        let words = ["sh", "-c", &script].map(String::from);
        let measured = measure::run(&words, &self.dir, None, &self.dir.join("said"), None)?;
        figures.wall_s.push(measured.wall_s);
        if what == Beside::Unread {
            remove(UNREAD);
        }
        let Some(child) = &mut child else {
            figures.cpu_s.push(0.0);
            return Ok(());
        };
        let ended = end(child);
        remove(OTHERS);
        figures.cpu_s.push(ended.map_err(|why| format!("{what:?}: {why}"))?);
        figures.bytes = fs::metadata(&trace).map_or(0, |found| found.len());
        if matches!(what, Beside::Written | Beside::Brief) {
            (figures.events, figures.lost) = self.counted(&trace)?;
        }
        Ok(())
    }

    fn begin(&self, what: Beside, trace: &Path) -> Result<Option<Child>, Complaint> {
        let mut command = match what {
            Beside::Nothing | Beside::Again | Beside::Unread => return Ok(None),
            Beside::Dropped | Beside::Written | Beside::Brief => {
                let mut command = Command::new(&self.reenact);
                command.args(["record", "--quiet", "--kernel", "--output"]);
                command.arg(if what == Beside::Dropped { Path::new("-") } else { trace });
                if what == Beside::Brief {
                    command.args(["--kernel-details", "none"]);
                }
                command
            }
            Beside::TraceCmd => {
                let _ = fs::create_dir(format!("{INSTANCES}/{OTHERS}"));
                let mut command = Command::new("unshare");
                command.args(["--mount", "--propagation", "private", "sh", "-c", TRACE_CMD]);
                // In an instance of its own, which can be removed whatever becomes of it.
                command.args(["trace-cmd", "record", "-o"]).arg(trace).args(["-B", OTHERS]);
                command.args(["-C", "x86-tsc", "-b", "8192"]);
                EVENTS.iter().for_each(|event| _ = command.args(["-e", event]));
                command
            }
            Beside::Perf => {
                let mut command = Command::new("perf");
                command.args(["record", "-q", "-a", "-m", "8M", "-o"]).arg(trace);
                let events = EVENTS.iter().filter(|event| **event != NOT_FOR_PERF);
                events.for_each(|event| _ = command.args(["-e", event]));
                command
            }
        };
        let said = File::create(self.dir.join("beside.said")).map_err(|e| e.to_string())?;
        command.current_dir(&self.dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        // What it starts is ended with it.
        command.process_group(0);
        command.spawn().map(Some).map_err(|error| format!("{what:?}: {error}"))
    }

    /// How many events a trace has, and how many were lost.
    fn counted(&self, trace: &Path) -> Result<(u64, u64), Complaint> {
        let mut command = Command::new(&self.reenact);
        let said = command.args(["stat", "events", "--json"]).arg(trace).output();
        let said = said.map_err(|error| error.to_string())?;
        let found: serde_json::Value =
            serde_json::from_slice(&said.stdout).map_err(|error| error.to_string())?;
        let of = |key: &str| found[key].as_u64().unwrap_or(0);
        Ok((of("event_count"), of("event_lost")))
    }
}

/// Has events written into a buffer that nobody reads.
fn instance() -> Result<(), Complaint> {
    let instance = format!("{INSTANCES}/{UNREAD}");
    let failed = |error: std::io::Error| format!("{instance}: {error}");
    // One may be left of a benchmark that was ended.
    remove(UNREAD);
    fs::create_dir(&instance).map_err(failed)?;
    let set = |file: &str, value: &str| fs::write(format!("{instance}/{file}"), value);
    set("trace_clock", "x86-tsc").map_err(failed)?;
    set("buffer_size_kb", "8192").map_err(failed)?;
    for event in EVENTS {
        // Some kernels lack some.
        let _ = set(&format!("events/{}/enable", event.replace(':', "/")), "1");
    }
    Ok(())
}

/// Waits until something takes events.
fn wait_until_begun(child: &Child, what: Beside) -> Result<(), Complaint> {
    if what == Beside::Perf {
        thread::sleep(UNSEEN);
        return Ok(());
    }
    let ours = format!("reenact-{}-", child.id());
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let instances = fs::read_dir(INSTANCES).into_iter().flatten().flatten();
        let is_on = |instance: &fs::DirEntry| {
            let name = instance.file_name().into_string().unwrap_or_default();
            let is_it = name == OTHERS || name.starts_with(&ours);
            let on = || fs::read_to_string(instance.path().join("tracing_on")).unwrap_or_default();
            is_it && on().trim() == "1"
        };
        if instances.filter(is_on).count() > 0 {
            // Ours looks at who is there; trace-cmd's, which is made by us, is on before it is set up.
            thread::sleep(if what == Beside::TraceCmd {
                UNSEEN
            } else {
                Duration::from_millis(300)
            });
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(format!("{what:?} takes no events"))
}

fn remove(instance: &str) {
    let _ = fs::remove_dir(format!("{INSTANCES}/{instance}"));
}

/// Ends what runs beside a job. Returns its CPU time.
fn end(child: &mut Child) -> Result<f64, Complaint> {
    let pid = child.id() as i32;
    let begun = Instant::now();
    // SAFETY: the child is ours and is not reaped yet.
    unsafe { libc::kill(-pid, libc::SIGINT) };
    let mut status = 0;
    // SAFETY: rusage consists of integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for writes. Only this call reaps the child.
    let got = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
    if got != pid {
        return Err(format!("wait4 after {:?}", begun.elapsed()));
    }
    // perf ends by the signal itself.
    let was_ended = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGINT;
    if status != 0 && !was_ended {
        return Err(format!("it ended with the status {status:#x}"));
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

/// The mean of the shares by which runs took longer than those beside them, and half of its 95% interval.
fn difference(alone: &[f64], beside: &[f64]) -> (f64, f64) {
    let shares: Vec<f64> =
        alone.iter().zip(beside).map(|(alone, beside)| beside / alone - 1.0).collect();
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let square = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>();
    let freedom = shares.len().saturating_sub(1).clamp(1, T95.len());
    let half = T95[freedom - 1] * (square / (count - 1.0).max(1.0) / count).sqrt();
    (mean, half)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Complaint> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// A project in C that takes about a minute on two CPUs.
fn prepare_make(dir: &Path, scale: f64) -> Result<(), Complaint> {
    let place = dir.join("make");
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let files = (150.0 * scale).max(2.0) as u32;
    let mut objects = String::new();
    for file in 0..files {
        let mut text =
            String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
        for function in 0..60 {
            text.push_str(&format!(
                "int f{file}_{function}(int n, const char *s) {{ int a[64]; memset(a, n, sizeof a); \
                 for (int i = 0; i < n; i++) {{ a[i % 64] += s[i % 7] * {function} + i; \
                 if (a[i % 64] % {} == 0) printf(\"%d %s\\n\", a[i % 64], s); \
                 switch (i % 9) {{ case 1: a[1] ^= i; break; case 2: a[2] -= n; break; \
                 default: a[i % 5] *= 3; }} }} return a[n % 64]; }}\n",
                function + 2
            ));
        }
        write(&place.join(format!("f{file}.c")), text.as_bytes())?;
        objects.push_str(&format!(" f{file}.o"));
    }
    write(&place.join("Makefile"), format!("all:{objects}\n%.o: %.c\n\tgcc -O2 -c $<\n").as_bytes())
}

/// 800 MB in files of several sizes.
fn prepare_tar(dir: &Path, scale: f64) -> Result<(), Complaint> {
    let place = dir.join("tree");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let (mut left, mut file) = ((800e6 * scale) as usize, 0u32);
    while left > 0 {
        let size = (1usize << (10 + file % 13)).min(left);
        let bytes: Vec<u8> = (0..size).map(|at| (at * 31 + file as usize) as u8).collect();
        write(&place.join(format!("file{file}")), &bytes)?;
        (left, file) = (left - size, file + 1);
    }
    Ok(())
}

/// 50 MB of text.
fn prepare_bzip2(dir: &Path, scale: f64) -> Result<(), Complaint> {
    let words = ["the", "kernel", "wakes", "a", "thread", "that", "waits", "for", "its", "disk"];
    let mut text = Vec::new();
    let mut random = 12345u64;
    while text.len() < (50e6 * scale) as usize {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.extend_from_slice(words[(random >> 33) as usize % words.len()].as_bytes());
        text.push(if random >> 60 == 0 { b'\n' } else { b' ' });
    }
    write(&dir.join("text"), &text)
}

/// A page with a long table and pictures, and a plot.
fn prepare_mix(dir: &Path, scale: f64) -> Result<(), Complaint> {
    let rows = (3000.0 * scale).max(100.0) as u32;
    let mut page = String::from("<html><body><h1>A page</h1><table>\n");
    for row in 0..rows {
        let (width, shade) = (row % 300, row % 255);
        page.push_str(&format!(
            "<tr><td>{row}<td>{}<td><svg width=300 height=8><rect width={width} height=8 \
             fill='rgb({shade},99,150)'/></svg></tr>\n",
            row * 7919
        ));
    }
    page.push_str(
        "</table><script>let sum = 0; for (let i = 0; i < 2e7; i++) sum += i % 7; \
         document.title = sum;</script></body></html>\n",
    );
    write(&dir.join("page.html"), page.as_bytes())?;
    let plot = "set terminal svg\nset output 'plot.svg'\nset isosamples 120\nset samples 120\n\
                splot sin(x)*cos(y) with lines\n";
    write(&dir.join("plot.gp"), plot.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_equal_runs() {
        let (mean, half) = difference(&[1.0, 2.0, 4.0], &[1.1, 2.2, 4.4]);
        assert!((mean - 0.1).abs() < 1e-9 && half < 1e-9);
        let (mean, half) = difference(&[1.0, 1.0], &[1.1, 0.9]);
        assert!(mean.abs() < 1e-9 && half > 0.1);
    }
}
