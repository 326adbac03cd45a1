//! `record --repeat`: several recordings of a program, one after the other, and how long each took.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

use model::Conditions;
use render::amounts::show_time;
use stats::activity::Activities;
use stats::calls::Calls;
use stats::pass;

use super::args::Args;
use super::destination;
use crate::failure::Failure;
use crate::{message, source};

/// Limit for the recordings.
pub const REPEATS_MAX: u32 = 1000;
/// Recordings that a hint names one by one; `diff` takes so many of a side.
const NAMED_MAX: usize = 32;
/// Exit codes from here on are of `record` itself as a rule, and end it.
const OWN_CODES: i32 = 125;

/// The recording that is made, for the handler of signals, and the last signal that came.
static CHILD: AtomicI32 = AtomicI32::new(0);
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Notes a signal, and passes it on if it came to this process alone.
extern "C" fn pass_on(signal: i32, info: *const libc::siginfo_t, _: *const libc::c_void) {
    ASKED.store(signal, Ordering::Relaxed);
    let child = CHILD.load(Ordering::Relaxed);
    // SAFETY: the kernel gives the handler a valid siginfo.
    let came_from_a_process = unsafe { (*info).si_code } <= 0;
    // Ctrl-C and its like come from the kernel, and to the recording as well.
    if came_from_a_process && child > 0 {
        // SAFETY: kill has no memory to access, and may be called in a handler.
        unsafe { libc::kill(child, signal) };
    }
}

/// Has signals that end programs come to the handler.
fn handle_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: an all-zero sigaction is a valid value, and the handler uses atomics and kill alone.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Makes the recordings. Each is made by a process of its own, as if it were the only one. Returns how
/// the last one ended.
pub fn run(args: &Args, times: u32) -> Result<(ExitCode, Option<i32>), Failure> {
    let Some(program) = args.command.first() else {
        return Err(Failure::Recorder("--repeat is about a PROGRAM, and none is named".into()));
    };
    let base = destination::path(args, program);
    if base.as_os_str() == "-" {
        return Err(Failure::Recorder("--repeat writes several files: it goes with no `-`".into()));
    }
    handle_signals();
    let mut made = Vec::new();
    let mut last = ExitStatus::default();
    for number in 1..=times {
        let path = numbered(&base, number);
        let mut command = Command::new("/proc/self/exe");
        command.arg("record").args(options(args)).args(["--repeat", "1", "--output"]).arg(&path);
        command.arg("--").args(&args.command);
        let fail = |error| Failure::Recorder(format!("run {number} cannot be started: {error}"));
        let mut child = command.spawn().map_err(fail)?;
        CHILD.store(child.id() as i32, Ordering::Relaxed);
        last = child.wait().map_err(fail)?;
        CHILD.store(0, Ordering::Relaxed);
        if last.code().is_some_and(|code| code >= OWN_CODES) {
            break;
        }
        made.push(path);
        if last.signal().is_some() || ASKED.load(Ordering::Relaxed) != 0 {
            message::note(&format!("a signal came in run {number}: no more follow"));
            break;
        }
    }
    if !args.quiet && !made.is_empty() {
        message::notes(&summary(&made));
    }
    let code = last.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok((ExitCode::from(code), last.signal()))
}

/// Returns the options of the command line, without PROGRAM and what comes after it.
fn options(args: &Args) -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().skip(2).collect();
    words.truncate(words.len().saturating_sub(args.command.len()));
    if words.last().is_some_and(|word| word == "--") {
        words.pop();
    }
    words
}

/// Returns the name of a recording: `NAME.2.rnt`.
fn numbered(base: &Path, number: u32) -> PathBuf {
    let plain = base.extension().is_some_and(|extension| extension == "rnt");
    let stem = if plain { base.with_extension("") } else { base.to_path_buf() };
    stem.with_added_extension(format!("{number}.rnt"))
}

/// Returns how long the runs took, and what to do with them.
fn summary(made: &[PathBuf]) -> Vec<String> {
    let mut times: Vec<u64> = made.iter().filter_map(|path| run_ns(path)).collect();
    times.sort_unstable();
    let mut notes = Vec::new();
    if let (Some(least), Some(most)) = (times.first(), times.last()) {
        let median = show_time(times[times.len() / 2]);
        let (least, most) = (show_time(*least), show_time(*most));
        notes.push(match times.len() {
            1 => format!("1 run took {median}"),
            runs => format!("{runs} runs took {least} to {most}, median {median}"),
        });
    }
    let names: Vec<String> =
        made.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
    let names = names.join(" ");
    notes.push(format!(
        "`reenact diff {names} -- OTHERS...` compares them with those of another version"
    ));
    notes
}

/// Returns the time of a run.
fn run_ns(path: &Path) -> Option<u64> {
    let trace = source::open(path).ok()?;
    let mut activities = Activities::default();
    pass::fold_and_watch(&trace, &Conditions::default(), Calls::default(), &mut activities);
    Some(activities.finish().run_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_numbered() {
        for (base, expected) in
            [("sort.rnt", "sort.2.rnt"), ("a/b.1", "a/b.1.2.rnt"), ("x.tar.rnt", "x.tar.2.rnt")]
        {
            assert_eq!(numbered(Path::new(base), 2), Path::new(expected));
        }
    }
}
