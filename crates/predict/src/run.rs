//! One run on one configuration: lays out the file system, starts the replay (or the program), lets it
//! build its files, sets the limits, and measures.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Error;
use crate::configuration::{Configuration, Limits, Place};
use crate::ground::Ground;
use crate::group::{self, Controllers, Group};
use crate::measured::Measured;
use crate::pinned::{self, Pinned};

/// How often the memory that a run has for itself is looked at: by the group's own numbers, and process by
/// process.
const LOOK: Duration = Duration::from_millis(5);
const LOOK_AT_EACH: Duration = Duration::from_millis(10);
/// Changes of it below this are not followed.
const STEP_BYTES: u64 = 128 << 10;
/// Exit code of `replay` and `rerun` for results that came out otherwise.
const DIFFERENT: i32 = 4;

/// What is common to all runs.
pub struct Job {
    /// The program `reenact`.
    pub reenact: PathBuf,
    /// The trace, absolute.
    pub trace: PathBuf,
    /// Where disk images are made.
    pub images: PathBuf,
    /// Their size.
    pub image_bytes: u64,
    /// Begin with an empty page cache.
    pub cold: bool,
    /// Memory that the recorded program had for itself, which a replay does not use.
    pub program_bytes: u64,
    /// Directories of the recording whose files lie there; if there are none, all files do.
    pub paths: Vec<PathBuf>,
    /// Runs wait for the outside as long as the recorded program did.
    pub outside: bool,
    /// Is told the process that runs, so that it can be ended from elsewhere, and 0 when it has ended.
    pub tells: fn(libc::pid_t),
    /// What this machine's control groups can do.
    pub controllers: Controllers,
    /// Keeps the trace in memory, and our program.
    pinned: Vec<Pinned>,
}

impl Job {
    /// Begins with defaults.
    pub fn new(reenact: PathBuf, trace: PathBuf, images: PathBuf) -> Job {
        Job {
            reenact,
            trace,
            images,
            image_bytes: 16 << 30,
            cold: false,
            program_bytes: 0,
            paths: Vec::new(),
            outside: false,
            tells: |_| {},
            controllers: Controllers::here(),
            pinned: Vec::new(),
        }
    }

    fn stimuli(&self) -> &'static str {
        if self.outside { "recorded" } else { "asap" }
    }

    /// Reads the trace and our program into memory and keeps them there. Returns false if that cannot be
    /// for the trace.
    pub fn hold_trace(&mut self) -> Result<bool, Error> {
        let trace = Pinned::hold(&self.trace).map_err(Error::of(self.trace.display()))?;
        let held = trace.is_some();
        self.pinned = trace.into_iter().chain(pinned::hold_program()).collect();
        Ok(held)
    }
}

/// By what limits of speed are set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// There are none.
    None,
    /// By the block controller of control groups.
    Blocks,
    /// By a file system of our own.
    Fuse,
}

impl Means {
    /// Returns the means for a configuration on this machine.
    pub fn of(configuration: &Configuration, controllers: &Controllers) -> Means {
        let limits = &configuration.limits;
        match limits.any() {
            false => Means::None,
            true if configuration.place.has_device() && controllers.see(limits) => Means::Blocks,
            true => Means::Fuse,
        }
    }

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Means::None => "-",
            Means::Blocks => "block controller",
            Means::Fuse => "FUSE",
        }
    }
}

/// A configuration, made and ready for one run.
struct Stand<'a> {
    ground: Ground,
    group: Group,
    configuration: &'a Configuration,
    job: &'a Job,
    /// What the kernel keeps for our processes, when the run begins.
    kernel_bytes: Cell<u64>,
    /// What the disk had read and written when the run began.
    moved_before: RefCell<Option<(u64, u64)>>,
}

impl<'a> Stand<'a> {
    fn new(job: &'a Job, configuration: &'a Configuration) -> Result<Stand<'a>, Error> {
        let means = Means::of(configuration, &job.controllers);
        let slowed: Option<&Limits> = (means == Means::Fuse).then_some(&configuration.limits);
        let ground =
            Ground::lay(configuration, (&job.images, job.image_bytes), slowed, &job.paths)?;
        let memory = configuration.memory.is_some();
        let group = Group::new(&job.controllers, memory, means == Means::Blocks)?;
        Ok(Stand {
            ground,
            group,
            configuration,
            job,
            kernel_bytes: Cell::default(),
            moved_before: RefCell::default(),
        })
    }

    /// The command, in the groups.
    fn enters(&self, command: &mut Command) -> Result<(), Error> {
        let doors: Vec<OwnedFd> = self.group.doors()?;
        // SAFETY: what is called between fork and exec writes to descriptors alone.
        unsafe { command.pre_exec(move || group::enter(&doors)) };
        Ok(())
    }

    /// The files are there: from now on it is measured, so limits begin. `runs`: what a run of ours makes.
    fn begins(&self, runs: Option<Runs>) -> Result<(), Error> {
        self.ground.settle(self.job.cold)?;
        if let Some(bytes) = self.configuration.memory {
            if self.job.cold {
                // What it keeps for files is gone then, which a limit below that needs as well.
                let kept = self.group.kernel_bytes();
                self.kernel_bytes.set(runs.map_or(0, |_| kept));
            }
            let bytes = bytes + runs.map_or(0, |runs| self.beside(runs));
            self.group.limit_memory(Some(bytes)).map_err(|error| self.too_small(&error))?;
        }
        if let Some(device) = self.ground.device() {
            self.group.limit_blocks(device, &self.configuration.limits)?;
        }
        self.ground.limit(true);
        *self.moved_before.borrow_mut() = self.ground.moved();
        Ok(())
    }

    /// The run is over: adds what it left, and what its disk had to do.
    fn ended(&self, measured: &mut Measured) {
        self.ground.limit(false);
        let before = self.moved_before.borrow().zip(self.ground.moved());
        measured.moved = before.map(|(before, after)| [after.0 - before.0, after.1 - before.1]);
        measured.allocated_bytes = self.ground.allocated();
    }

    fn too_small(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Failed(format!("the memory is too small to begin with: {error}"))
    }

    /// What a run has for itself, which is added to the limit.
    fn beside(&self, runs: Runs) -> u64 {
        self.kernel_bytes.get()
            + match runs {
                Runs::Calls => self.group.own_bytes().saturating_sub(self.job.program_bytes),
                Runs::Program(reenact) => self.group.bytes_of(reenact),
            }
    }

    /// Waits for a run, and lets its limit follow what it has for itself, until the run says that all calls were
    /// made: what is compared then is not measured.
    fn follow(
        &self,
        child: &mut Child,
        runs: Runs,
        says: &UnixStream,
    ) -> Result<ExitStatus, Error> {
        let waited = |error| Error::Failed(format!("waiting for the run: {error}"));
        let Some(bytes) = self.configuration.memory else { return child.wait().map_err(waited) };
        let mut beside = self.beside(runs);
        says.set_nonblocking(true).map_err(waited)?;
        loop {
            if let Some(status) = child.try_wait().map_err(waited)? {
                return Ok(status);
            }
            std::thread::sleep(match runs {
                Runs::Calls => LOOK,
                Runs::Program(_) => LOOK_AT_EACH,
            });
            if { says }.read(&mut [0]).is_ok_and(|said| said > 0) {
                self.group.limit_memory(None)?;
                return child.wait().map_err(waited);
            }
            let now = self.beside(runs);
            if now.abs_diff(beside) >= STEP_BYTES
                && self.group.limit_memory(Some(bytes + now)).is_ok()
            {
                beside = now;
            }
        }
    }

    /// Runs a command of ours on the trace, which waits at a gate when its files are there. Returns what it
    /// printed.
    fn led(&self, words: &[&str], runs: Runs) -> Result<String, Error> {
        let job = self.job;
        let (mut ours, theirs) = UnixStream::pair().map_err(Error::of("a socket"))?;
        let (out, told) = (scratch()?, scratch()?);
        // A run that is killed leaves what it has there.
        let temporary = tempfile::Builder::new().prefix("reenact-predict-").tempdir();
        let temporary = temporary.map_err(Error::of("a temporary directory"))?;
        let mut command = Command::new(&job.reenact);
        command.env("TMPDIR", temporary.path());
        command.args(words).args(["--gate", &theirs.as_raw_fd().to_string()]);
        command.arg("--root").arg(self.ground.root()).arg(&job.trace);
        if self.ground.is_bound() {
            command.arg("--overwrite");
        }
        command.stdin(Stdio::null()).stdout(again(&out)?).stderr(again(&told)?);
        self.enters(&mut command)?;
        let passed = theirs.as_raw_fd();
        // SAFETY: fcntl changes a flag of a descriptor of the child alone.
        unsafe {
            command.pre_exec(move || match libc::fcntl(passed, libc::F_SETFD, 0) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let mut child = command.spawn().map_err(Error::of(job.reenact.display()))?;
        let _told = Told::of(job, &child);
        drop(theirs);
        // Without an announcement it failed, which its messages tell.
        if ours.read_exact(&mut [0]).is_ok() {
            if let Err(error) = self.begins(Some(runs)) {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
            let _ = ours.write_all(b"!");
        }
        let status = self.follow(&mut child, runs, &ours)?;
        match status.code() {
            Some(0 | DIFFERENT) => Ok(text(out)),
            _ => Err(died(self, words[0], status, &told)),
        }
    }
}

/// Replays the trace, with the time that threads computed.
pub fn replayed(job: &Job, configuration: &Configuration) -> Result<Measured, Error> {
    let stand = Stand::new(job, configuration)?;
    let words = ["replay", "--json", "--pace", "think", "--stimuli", job.stimuli()];
    let out = stand.led(&words, Runs::Calls)?;
    let mut measured = Measured::of_replay(&out).map_err(Error::Failed)?;
    stand.ended(&mut measured);
    Ok(measured)
}

/// Executes the program again, its calls on files made for real.
pub fn executed_again(job: &Job, configuration: &Configuration) -> Result<Measured, Error> {
    let stand = Stand::new(job, configuration)?;
    let words = ["rerun", "--json", "--files", "real", "--stimuli", job.stimuli()];
    let reenact = job.reenact.metadata().map_err(Error::of(job.reenact.display()))?;
    let out = stand.led(&words, Runs::Program((reenact.dev(), reenact.ino())))?;
    let mut measured = Measured::of_rerun(&out).map_err(Error::Failed)?;
    stand.ended(&mut measured);
    Ok(measured)
}

/// What a run makes. All memory beside that is added to its limit.
#[derive(Clone, Copy)]
enum Runs {
    /// Recorded calls: no process has memory but for us.
    Calls,
    /// The program, which has memory of its own. Device and inode of our program tell the others.
    Program((u64, u64)),
}

/// Runs a command on the files that the recording began with; `REENACT_ROOT` says where they are.
pub fn actual(job: &Job, configuration: &Configuration, line: &str) -> Result<Measured, Error> {
    let stand = Stand::new(job, configuration)?;
    image(&stand)?;
    stand.ground.let_pass()?;
    let told = scratch()?;
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("REENACT_ROOT", stand.ground.root());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(again(&told)?);
    stand.enters(&mut command)?;
    stand.begins(None)?;
    let before = children_cpu();
    let began = Instant::now();
    let mut child = command.process_group(0).spawn().map_err(Error::of("sh"))?;
    let told_of = Told::of(job, &child);
    let status = child.wait().map_err(Error::of("waiting for the command of --actual"))?;
    drop(told_of);
    let seconds = began.elapsed().as_secs_f64();
    // What it has left running would use files that go now.
    // SAFETY: kill takes plain numbers; the group is that of the command.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    let after = children_cpu();
    if !status.success() {
        return Err(died(&stand, "the command of --actual", status, &told));
    }
    let mut measured = Measured {
        seconds,
        user_s: after.0 - before.0,
        system_s: after.1 - before.1,
        ..Measured::default()
    };
    stand.ended(&mut measured);
    Ok(measured)
}

/// Somebody knows which process runs, until this is dropped.
struct Told(fn(libc::pid_t));

impl Told {
    fn of(job: &Job, child: &Child) -> Told {
        (job.tells)(child.id() as libc::pid_t);
        Told(job.tells)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        (self.0)(0);
    }
}

/// Builds the files that were there before.
fn image(stand: &Stand<'_>) -> Result<(), Error> {
    let told = scratch()?;
    let mut command = Command::new(&stand.job.reenact);
    command.arg("image").arg(&stand.job.trace).arg(stand.ground.root());
    if stand.ground.is_bound() {
        command.arg("--overwrite");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(again(&told)?);
    // Pages of files belong to who reads them first.
    stand.enters(&mut command)?;
    let failed = || Error::of(stand.job.reenact.display());
    let mut child = command.spawn().map_err(failed())?;
    let _told = Told::of(stand.job, &child);
    let status = child.wait().map_err(failed())?;
    match status.success() {
        true => Ok(()),
        false => Err(died(stand, "the image", status, &told)),
    }
}

fn died(stand: &Stand<'_>, what: &str, status: ExitStatus, told: &File) -> Error {
    if stand.group.was_killed() {
        let bytes = stand.configuration.memory.unwrap_or_default();
        return Error::Failed(format!("{what} was killed: {bytes} bytes of memory are too little"));
    }
    let said = told.try_clone().map(text).unwrap_or_default();
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(3)..];
    let said = if last.is_empty() { "it said nothing".into() } else { last.join("; ") };
    let place = match &stand.configuration.place {
        Place::Fresh(_) => format!(" on a disk image of {} bytes", stand.job.image_bytes),
        Place::Tmpfs | Place::Directory(_) | Place::Image(_) => String::new(),
    };
    Error::Failed(format!("{what} failed{place} ({status}): {said}"))
}

/// A file without a name, for what a run prints: it never waits for a reader.
fn scratch() -> Result<File, Error> {
    tempfile::tempfile().map_err(Error::of("a temporary file"))
}

fn again(file: &File) -> Result<Stdio, Error> {
    Ok(file.try_clone().map_err(Error::of("a temporary file"))?.into())
}

fn text(mut file: File) -> String {
    use std::io::Seek;
    let mut bytes = Vec::new();
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// User and system seconds of all children that have ended.
fn children_cpu() -> (f64, f64) {
    // SAFETY: an all-zero rusage is valid, and the pointer is to it.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut used);
        used
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(used.ru_utime), seconds(used.ru_stime))
}

/// Returns why a user without root cannot have a configuration, and what to do.
pub fn refused_without_root(configuration: &Configuration, job: &Job) -> Option<String> {
    let place = &configuration.place;
    if !place.is_for_anybody() {
        let instead =
            "--on DIR works without: a directory of that file system, such as /dev/shm for tmpfs";
        return Some(format!("--on {place} mounts a file system, which needs root; {instead}"));
    }
    if configuration.memory.is_some() {
        return Some(
            "--memory sets a limit of a control group, which needs root; without, `systemd-run --user \
             --scope -p MemoryMax=SIZE reenact predict ...` limits all of it, reenact included"
                .into(),
        );
    }
    if configuration.limits.any() {
        return Some(
            "--limit mounts a FUSE file system or sets a limit of a control group, which needs root; \
             without, name a directory that is as slow (--on DIR)"
                .into(),
        );
    }
    if !job.paths.is_empty() {
        return Some("--path mounts directories into others, which needs root".into());
    }
    job.cold.then(|| {
        "--cache cold empties the page cache of the machine, which needs root; --cache warm does not"
            .to_string()
    })
}

/// Makes a path absolute, as runs may have other working directories.
pub fn absolute(path: &Path) -> Result<PathBuf, Error> {
    fs::canonicalize(path).map_err(Error::of(path.display()))
}
