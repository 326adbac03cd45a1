//! Runs `reenact replay` on a world's trace, and checks how it ended.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::world::{SHARED, World};

/// Most bytes of memory for a replay of any trace, including the overhead of debug builds.
const MEMORY_MAX: i64 = 768 << 20;
/// Disk limit in bytes that is passed to the command.
pub const DISK_MAX: u64 = 64 << 20;
/// Time limit in seconds for a replay; far more than any needs, including blocked calls.
const PATIENCE_S: i32 = 120;

/// Exit codes allowed for a trace: success, failure, differences, a call that never ends.
const DOCUMENTED: &[i32] = &[0, 1, 4, 5];

/// The end of a replay.
#[derive(Debug)]
pub struct End {
    status: ExitStatus,
    said: String,
    memory_max: i64,
}

/// Replays the world's trace into its root.
pub fn replay(world: &World, reenact: &Path) -> Result<End, String> {
    let said = world.root.with_file_name("said");
    let file = || File::create(&said).map_err(|error| error.to_string());
    let mut command = Command::new(reenact);
    command.arg("replay").arg(&world.trace).args(["--json", "--root"]).arg(&world.root);
    command.arg("--max-size").arg(DISK_MAX.to_string());
    command.arg("--bind").arg(format!("{}={SHARED}", world.shared.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file()?).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    if !ends(&child) {
        // SAFETY: kill takes plain numbers. The child leads this group and is not reaped.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        let _ = child.wait();
        return Err("the replay does not end".into());
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let said = std::fs::read(&said).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok(End { status, said, memory_max: memory_of_children() })
}

impl End {
    /// Returns whether nothing was replayed because this machine allows no jail.
    pub fn no_jail(&self) -> bool {
        self.status.code() == Some(1) && self.said.contains("namespace")
    }

    /// Fails unless the command printed this.
    pub fn says(&self, words: &str) -> Result<(), String> {
        if self.said.contains(words) {
            return Ok(());
        }
        Err(format!("it did not say '{words}' but {}: {}", self.status, self.said))
    }

    /// Fails unless the exit code is documented, memory is bounded, and a failure is explained.
    pub fn within_bounds(&self) -> Result<(), String> {
        let documented = self.status.code().is_some_and(|code| DOCUMENTED.contains(&code));
        let explained = self.status.success() || !self.said.is_empty();
        if !documented || !explained || self.said.contains("panicked") {
            return Err(format!("it ended with {}: {}", self.status, self.said));
        }
        if self.memory_max > MEMORY_MAX {
            return Err(format!("{} bytes of memory", self.memory_max));
        }
        Ok(())
    }
}

fn ends(child: &Child) -> bool {
    // SAFETY: plain numbers and one valid pollfd are passed; nothing else owns the new descriptor.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32;
        assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
        let fd = OwnedFd::from_raw_fd(fd);
        let mut ended = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        libc::poll(&raw mut ended, 1, PATIENCE_S * 1000) > 0
    }
}

/// Returns the peak memory of any process that was reaped here or in a descendant.
fn memory_of_children() -> i64 {
    // SAFETY: rusage consists of integers, for which zero is valid, and is writable.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage.ru_maxrss * 1024
    }
}
