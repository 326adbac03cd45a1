//! The jail, tried from inside: every attempt to reach something outside must fail, as root and as
//! an ordinary user. Nothing here can do harm if it should succeed: what is reached for was put
//! there by this test, and calls that concern the whole system are made with arguments that change
//! nothing.

mod attempts;
mod kernel;
mod life;
mod outside;

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use outside::Outside;

/// A test: its name, and what it does.
type Test = (&'static str, fn(&Outside));

/// An ordinary user, when this runs as root.
const NOBODY: u32 = 65534;

fn main() {
    // SAFETY: takes nothing.
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

/// Runs every test, and returns how many failed.
fn run_all(user: &str) -> usize {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Its directory may be another user's.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let outside = Outside::new(dir.path());
    if let Err(error) = outside.jail(|_| 0).map(|inmate| inmate.wait()) {
        if user == "root" || !error.remedy.is_empty() && !life::namespaces_work() {
            println!("left out as {user}: {error}");
            return 0;
        }
        println!("no jail as {user}: {error}");
        return 1;
    }
    let mut failures = 0;
    for (name, test) in life::TESTS {
        failures += report(user, name, catch(|| test(&outside)));
    }
    for (name, result) in attempts::make_all(&outside) {
        failures += report(user, &name, result);
    }
    failures
}

fn catch(test: impl FnOnce()) -> Result<(), String> {
    // The hook has printed the message.
    catch_unwind(AssertUnwindSafe(test)).map_err(|_| "see above".into())
}

fn report(user: &str, name: &str, result: Result<(), String>) -> usize {
    match result {
        Ok(()) => println!("as {user}: {name} ... ok"),
        Err(ref why) => println!("as {user}: {name} ... FAILED: {why}"),
    }
    result.is_err().into()
}

/// Runs it in a child that is an ordinary user; how many failed.
fn as_nobody(run: impl FnOnce() -> usize) -> usize {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => {
            // SAFETY: plain numbers; no groups.
            let became = unsafe {
                libc::setgroups(0, std::ptr::null()) == 0
                    && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
                    && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
                    // Files in /proc are root's after such a change, until this.
                    && libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0
            };
            assert!(became, "cannot become an ordinary user");
            let failures = catch_unwind(AssertUnwindSafe(run)).unwrap_or(1);
            std::process::exit(failures.min(100) as i32)
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is writable.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) as usize } else { 1 }
        }
    }
}
