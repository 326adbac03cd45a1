//! Runs commands on a trace, with resource limits.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Address space of a command in bytes, including threads and stacks.
const ADDRESS_SPACE: u64 = 3 << 30;
/// Most bytes of resident memory.
const MEMORY_MAX: u64 = 768 << 20;
/// Limit of CPU time in seconds.
const PROCESSOR_S: u64 = 300;

/// Exit codes allowed: success, or an explained failure.
const DOCUMENTED: &[i32] = &[0, 1, 3, 4, 5];

/// A command; `<TRACE>`, `<OTHER>` (another trace) and `<OUT>` (a path) are replaced.
pub struct Words {
    words: &'static [&'static str],
    /// True if it runs in short tests too. The other commands use the same code.
    is_telling: bool,
}

const fn telling(words: &'static [&'static str]) -> Words {
    Words { words, is_telling: true }
}

const fn other(words: &'static [&'static str]) -> Words {
    Words { words, is_telling: false }
}

#[rustfmt::skip]
pub const COMMANDS: &[Words] = &[
    telling(&["info", "--verify", "<TRACE>"]), other(&["info", "--json", "<TRACE>"]),
    other(&["show", "<TRACE>"]), telling(&["show", "--json", "<TRACE>"]),
    other(&["stat", "calls", "<TRACE>"]), telling(&["stat", "files", "<TRACE>"]),
    other(&["stat", "sizes", "<TRACE>"]), other(&["stat", "latency", "<TRACE>"]),
    other(&["stat", "time", "<TRACE>"]), other(&["stat", "processes", "<TRACE>"]),
    other(&["stat", "threads", "<TRACE>"]), other(&["stat", "durability", "<TRACE>"]),
    telling(&["stat", "patterns", "<TRACE>"]), other(&["stat", "cache", "<TRACE>"]),
    other(&["stat", "events", "<TRACE>"]), other(&["stat", "cpu", "<TRACE>"]),
    other(&["stat", "where", "<TRACE>"]), other(&["stat", "sites", "<TRACE>"]), other(&["stat", "waits", "<TRACE>"]),
    other(&["stat", "irq", "<TRACE>"]), other(&["stat", "block", "<TRACE>"]),
    other(&["stat", "pages", "<TRACE>"]),
    telling(&["diff", "<TRACE>", "<OTHER>"]), other(&["diff", "<TRACE>", "<TRACE>", "--json"]),
    other(&["diff", "--by", "site", "<TRACE>", "<OTHER>"]),
    telling(&["cut", "<TRACE>", "--since", "1us", "-o", "<OUT>"]),
    other(&["cut", "<TRACE>", "--call", "%file", "--context", "-o", "<OUT>"]),
    other(&["export", "<TRACE>", "--to", "dataseries", "-o", "<OUT>"]),
    other(&["export", "<TRACE>", "--to", "jsonl", "-o", "<OUT>"]),
    telling(&["export", "<TRACE>", "--to", "perfetto", "-o", "<OUT>"]),
    other(&["export", "<TRACE>", "--to", "fio", "-o", "<OUT>"]),
    telling(&["export", "<TRACE>", "--to", "parquet", "-o", "<OUT>"]),
    telling(&["export", "<TRACE>", "--to", "strace", "-o", "<OUT>"]),
    other(&["image", "<TRACE>", "<OUT>"]), other(&["report", "<TRACE>", "-o", "<OUT>"]),
    other(&["compare", "<TRACE>", "/nowhere-to-be-found"]),
    other(&["merge", "<TRACE>", "<OTHER>", "-o", "<OUT>"]),
    other(&["repair", "<TRACE>", "-o", "<OUT>"]),
    telling(&["replay", "<TRACE>", "--json", "--max-size", "256M"]),
];

impl Words {
    pub fn name(&self) -> String {
        self.words.join(" ")
    }

    pub fn is_telling(&self) -> bool {
        self.is_telling
    }
}

/// The result of a command.
pub struct Run {
    status: ExitStatus,
    said: String,
    memory: u64,
    /// CPU time of the command and its children.
    pub seconds: f64,
}

impl Run {
    pub fn of(words: &Words, trace: &Path, other: &Path, out: &Path) -> Result<Run, String> {
        let said = out.with_extension("said");
        let built = std::env::var_os("REENACT_BIN").filter(|path| !path.is_empty());
        let built = built.unwrap_or_else(|| env!("CARGO_BIN_EXE_reenact").into());
        let mut command = Command::new(built);
        for word in words.words {
            match *word {
                "<TRACE>" => command.arg(trace),
                "<OTHER>" => command.arg(other),
                "<OUT>" => command.arg(out),
                word => command.arg(word),
            };
        }
        let errors = File::create(&said).map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).process_group(0);
        // SAFETY: `limit` only calls setrlimit, which is allowed between fork and exec.
        unsafe { command.pre_exec(limit) };
        let child = command.spawn().map_err(|error| error.to_string())?;
        let (status, usage) = wait(&child)?;
        let said = fs::read(&said).map_err(|error| error.to_string())?;
        remove(out);
        Ok(Run {
            status,
            said: String::from_utf8_lossy(&said).into_owned(),
            memory: usage.ru_maxrss as u64 * 1024,
            seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        })
    }

    /// Fails unless the command ended properly, within limits.
    pub fn check(&self, seconds_max: f64) -> Result<(), String> {
        let Run { status, said, memory, seconds } = self;
        let documented = status.code().is_some_and(|code| DOCUMENTED.contains(&code));
        if !documented || said.contains("panicked") || (!status.success() && said.is_empty()) {
            return Err(format!("it ended with {status} after {seconds:.1} s: {said}"));
        }
        if *memory > MEMORY_MAX {
            return Err(format!("it took {} MiB of memory", memory >> 20));
        }
        if *seconds > seconds_max {
            return Err(format!("it took {seconds:.1} s, and {seconds_max:.1} s are plenty"));
        }
        Ok(())
    }
}

fn limit() -> std::io::Result<()> {
    let set = |what, most| {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the pointer is to a local struct that outlives the call.
        match unsafe { libc::setrlimit(what, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    set(libc::RLIMIT_AS, ADDRESS_SPACE)?;
    set(libc::RLIMIT_CPU, PROCESSOR_S)
}

fn wait(child: &Child) -> Result<(ExitStatus, libc::rusage), String> {
    let mut status = 0;
    // SAFETY: zero is a valid rusage; both pointers are writable; the child is not reaped yet.
    let (ended, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage), usage)
    };
    match ended {
        -1 => Err(std::io::Error::last_os_error().to_string()),
        _ => Ok((ExitStatus::from_raw(status), usage)),
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// Removes what a command made, however deep.
fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}
