//! Runs tests that fork: in one thread, as root and as an ordinary user.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An ordinary user for tests started by root.
const NOBODY: u32 = 65534;

/// Runs all tests as every available user. `run_all` gets the name of the user, and returns the
/// number of failures.
pub fn main(run_all: impl Fn(&str) -> usize) {
    // SAFETY: geteuid takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let mut failures = run_all(if root { "root" } else { "user" });
    if root {
        failures += as_nobody(|| run_all("user"));
    }
    if failures > 0 {
        println!("{failures} failures");
        std::process::exit(101);
    }
}

/// Runs a test with assertions; the panic hook prints the message if one fails.
pub fn catch<T>(test: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(test)).map_err(|_| "see above".into())
}

/// Whether a test was asked for: the first word of the command line is its name, or a part of it.
pub fn is_wanted(user: &str, name: &str) -> bool {
    let is_option = |word: &String| word.starts_with('-');
    let (options, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(is_option);
    let (name, exact) = (format!("{user}/{name}"), options.iter().any(|word| word == "--exact"));
    words.first().is_none_or(|word| if exact { name == *word } else { name.contains(word) })
}

/// Prints a result as other tests do; returns 1 for a failure.
pub fn report(user: &str, name: &str, result: Result<(), String>) -> usize {
    match result {
        Ok(()) => println!("test {user}/{name} ... ok"),
        Err(ref why) => println!("test {user}/{name} ... FAILED\n    {why}"),
    }
    result.is_err().into()
}

/// Runs tests in a child as an ordinary user; returns the number of failures.
fn as_nobody(run: impl FnOnce() -> usize) -> usize {
    in_child(|| {
        // SAFETY: the calls take numbers, and an empty list of groups.
        let became = unsafe {
            libc::setgroups(0, std::ptr::null()) == 0
                && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
                && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
                // Without this, files in /proc belong to root after such a change.
                && libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0
        };
        assert!(became, "cannot become an ordinary user");
        run()
    })
}

/// Runs tests in a child; returns the number of failures.
pub fn in_child(run: impl FnOnce() -> usize) -> usize {
    wait(start(run))
}

/// Starts a child that runs tests.
pub fn start(run: impl FnOnce() -> usize) -> libc::pid_t {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => {
            let failures = catch_unwind(AssertUnwindSafe(run)).unwrap_or(1);
            std::process::exit(failures.min(100) as i32)
        }
        child => child,
    }
}

/// Waits for a child; returns its number of failures.
pub fn wait(child: libc::pid_t) -> usize {
    let mut status = 0;
    // SAFETY: `status` is valid for writes.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) as usize } else { 1 }
}
