//! Places to run programs in: an empty directory, a user, a fixed environment, a time limit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::expectation::fnv;
use crate::stage::{Stage, open_to_all};
use crate::{Complaint, ensure};

/// Longer than any command takes, even on a slow and busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// How much of what a command printed a complaint repeats, in characters.
const PRINTED_MAX: usize = 4000;

/// User and group id of Debian's nobody and nogroup.
const NOBODY: u32 = 65534;

/// The user to run a program as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// Root; the tests must run as root.
    Root,
    /// An ordinary user: nobody if the tests run as root, otherwise the current user.
    User,
}

/// Returns whether the tests run as root.
pub fn are_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

impl Who {
    /// Returns the name used in trials.
    pub fn name(self) -> &'static str {
        match self {
            Who::Root => "root",
            Who::User => "user",
        }
    }

    fn dress(self, command: &mut Command) {
        if self == Who::User && are_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
    }
}

/// Exit status and output of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Outcome {
    /// Fails unless the exit status is 0.
    pub fn success(self, what: &str) -> Result<Outcome, Complaint> {
        if self.status.success() {
            return Ok(self);
        }
        let printed: String = self.text().chars().take(PRINTED_MAX).collect();
        Err(format!(
            "{what}: {}; it said:\n{}\nand printed:\n{printed}",
            self.status,
            self.errors()
        ))
    }

    /// Returns standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// An empty directory with a user.
pub struct Place {
    root: TempDir,
    who: Who,
}

impl Place {
    /// Makes a place on the stage.
    pub fn new(stage: &Stage, who: Who) -> Result<Place, Complaint> {
        Place::new_in(&stage.places(), who)
    }

    /// Makes a place in a directory that every user can reach.
    pub fn new_in(dir: &Path, who: Who) -> Result<Place, Complaint> {
        let root = tempfile::Builder::new()
            .tempdir_in(dir)
            .map_err(|error| format!("no place to run in: {error}"))?;
        open_to_all(root.path())?;
        let place = Place { root, who };
        fs::create_dir(place.path("traces")).map_err(|error| error.to_string())?;
        place.give(&place.path("traces"))?;
        place.clear()?;
        Ok(place)
    }

    /// Returns a path next to the working directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Returns the working directory of programs.
    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Returns a path for a trace.
    pub fn trace(&self, name: &str) -> PathBuf {
        self.path("traces").join(name)
    }

    /// Changes the owner of a file to this place's user.
    pub fn give(&self, path: &Path) -> Result<(), Complaint> {
        if self.who == Who::User && are_root() {
            chown(path, Some(NOBODY), Some(NOBODY))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Writes a file into the working directory.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), Complaint> {
        let path = self.work().join(name);
        fs::write(&path, content).map_err(|error| format!("{}: {error}", path.display()))?;
        self.give(&path)
    }

    /// Empties the working directory.
    pub fn clear(&self) -> Result<(), Complaint> {
        let work = self.work();
        if work.exists() {
            fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        }
        fs::create_dir(&work).map_err(|error| format!("{}: {error}", work.display()))?;
        open_to_all(&work)?;
        self.give(&work)
    }

    /// Returns a command for this place's user, working directory and a process group of its own.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work()).env_clear();
        for (name, value) in [("PATH", SEARCH_PATH), ("LC_ALL", "C.UTF-8"), ("HOME", "/")] {
            command.env(name, value);
        }
        command.stdin(Stdio::null()).process_group(0);
        self.who.dress(&mut command);
        command
    }

    /// Runs a command to its end. Its output goes to files, so that no pipe can fill up.
    pub fn run(&self, command: &mut Command) -> Result<Outcome, Complaint> {
        let (out_path, err_path) = (self.path("stdout"), self.path("stderr"));
        let create = |path: &Path| {
            File::create(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        command.stdout(create(&out_path)?).stderr(create(&err_path)?);
        let child = spawn(command).map_err(|error| format!("cannot run {command:?}: {error}"))?;
        let status = wait(child, PATIENCE, &format!("{command:?}"));
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let (stdout, stderr) = (read(&out_path)?, read(&err_path)?);
        match status {
            Ok(status) => Ok(Outcome { status, stdout, stderr }),
            Err(complaint) => {
                Err(format!("{complaint}; it said:\n{}", String::from_utf8_lossy(&stderr)))
            }
        }
    }

    /// Describes all files of the working directory.
    pub fn files(&self) -> Result<BTreeMap<PathBuf, String>, Complaint> {
        let mut found = BTreeMap::new();
        let work = self.work();
        gather(&work, &work, &mut found).map_err(|error| format!("{}: {error}", work.display()))?;
        Ok(found)
    }
}

/// The value of `PATH`.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

fn gather(top: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = fs::symlink_metadata(&path)?;
        let kind = meta.file_type();
        let content = if kind.is_symlink() {
            format!("link to {}", fs::read_link(&path)?.display())
        } else if kind.is_dir() {
            gather(top, &path, found)?;
            "directory".into()
        } else if kind.is_file() {
            let content = fs::read(&path)?;
            format!("{} bytes, hash {:016x}", content.len(), fnv(&content))
        } else {
            format!("special, fifo {} socket {}", kind.is_fifo(), kind.is_socket())
        };
        let mode = meta.permissions().mode() & 0o7777;
        let line = format!("{content}, mode {mode:o}, owner {}:{}", meta.uid(), meta.gid());
        found.insert(path.strip_prefix(top).unwrap_or(&path).to_path_buf(), line);
    }
    Ok(())
}

/// Starts a program, which may just have been copied: a child of another test has the copy open for
/// writing until it executes its own program.
fn spawn(command: &mut Command) -> io::Result<Child> {
    let begun = Instant::now();
    loop {
        match command.spawn() {
            Err(error) if is_busy(&error) && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            started => return started,
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ExecutableFileBusy
}

/// Waits for a child to end; kills its whole process group after the limit.
pub fn wait(mut child: Child, limit: Duration, what: &str) -> Result<ExitStatus, Complaint> {
    let ended = ends_within(&child, limit)?;
    if !ended {
        kill_group(&child);
    }
    let status = child.wait().map_err(|error| format!("{what}: {error}"))?;
    if ended {
        return Ok(status);
    }
    let signal = status.signal().map_or(String::new(), |signal| format!(" (then signal {signal})"));
    Err(format!("{what}: no end after {} s{signal}", limit.as_secs()))
}

/// Returns whether a child ends within the limit. Does not reap it.
pub fn ends_within(child: &Child, limit: Duration) -> Result<bool, Complaint> {
    let fd = pidfd(child).map_err(|error| format!("pidfd_open: {error}"))?;
    let mut watched = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: `watched` is one valid pollfd.
        let ready = unsafe { libc::poll(&mut watched, 1, limit.as_millis() as i32) };
        if ready >= 0 {
            return Ok(ready > 0);
        }
        let error = io::Error::last_os_error();
        ensure!(error.kind() == io::ErrorKind::Interrupted, "poll: {error}");
    }
}

fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two numbers. The child is not reaped, so its pid is not reused.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Kills the process group that a child leads.
pub fn kill_group(child: &Child) {
    // SAFETY: kill takes two numbers. The child is not reaped, so its pid is not reused.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
}

/// Sends a signal to one child.
pub fn signal(child: &Child, number: i32) -> Result<(), Complaint> {
    // SAFETY: kill takes two numbers. The child is not reaped, so its pid is not reused.
    let sent = unsafe { libc::kill(child.id() as i32, number) };
    ensure!(sent == 0, "kill: {}", io::Error::last_os_error());
    Ok(())
}

/// Returns a `reenact record` of this command.
pub fn record(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    trace: &Path,
    command: &[&str],
) -> Command {
    let mut record = place.command(&stage.reenact);
    record.arg("record").args(options).arg("--output").arg(trace).arg("--").args(command);
    record
}
