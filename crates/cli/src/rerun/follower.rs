//! `--files real`: a replay makes the program's calls on files, each when the program has come to it.
//!
//! ```text
//! rerun: supervisor, driver ---- Gate (shared memory) ---- tasks of the replay
//!   forks warden ---------> makes the jail, waits for it, passes on what was found
//! ```
//!
//! The jail's maker must have one thread and waits for it; the supervisor waits for all children. So
//! the jail has a process of its own between.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use replay::jail::{self, Exit, Powers};
use replay::session::{Findings, Image, Session};
use replay::space::available_memory;
use replay::{Came, Gate, Options};
use rerun::{Files, RealFiles};
use trace::Trace;

use super::args::Args;
use crate::failure::Failure;
use crate::message;
use crate::replay::root::{Filling, Leader, Root, make_cold};
use crate::replay::{calls, first_user, heard, interrupt, is_root};

/// What the warden says: the files are there; what follows is text; what follows are findings.
const READY: u8 = b'r';
const FAILED: u8 = b'e';
const FOUND: u8 = b'f';
/// The replay itself finds out when it is stuck, and a slow disk takes long: waited for in any case.
const CALL_MAX: Duration = Duration::from_secs(15 * 60);
/// How long to wait at a time for the end of a call.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A replay that follows the program.
pub struct Follower {
    gate: Arc<Gate>,
    warden: Warden,
    said: File,
    root: Root,
    keep: bool,
    patience: Duration,
}

/// What a follower has found.
pub struct Found {
    /// How calls came out, and the final state.
    pub findings: Findings,
    /// Where the files are, if they stay.
    pub kept: Option<PathBuf>,
    /// Who waits for what, if nothing moves any more.
    pub waits: Vec<String>,
}

impl Follower {
    /// Starts it, and waits until the files are there.
    pub fn start(args: &Args, trace: &Trace, calls: u64) -> Result<Follower, Failure> {
        let fail = |error: &dyn std::fmt::Display| Failure::Failed(format!("rerun: {error}"));
        let gate = Arc::new(Gate::new(calls).map_err(|error| fail(&error))?);
        let filling = match args.overwrite {
            true => Filling::Over,
            false => Filling::Empty("--overwrite puts the files into it all the same"),
        };
        let root = Root::open(args.root.as_deref(), filling, 0)?;
        let (mut said, mut says) = io::pipe().map_err(|error| fail(&error))?;
        let warden = match Warden::fork().map_err(|error| fail(&error))? {
            Some(warden) => warden,
            None => {
                drop(said);
                let found = guard(args, trace, &gate, &root, &mut says);
                let _ = says.write_all(&found.unwrap_or_else(|text| {
                    let mut bytes = vec![FAILED];
                    bytes.extend(text.into_bytes());
                    bytes
                }));
                drop(says);
                // SAFETY: _exit takes a number and does not return.
                unsafe { libc::_exit(0) }
            }
        };
        drop(says);
        // Without it there will be no files.
        let ends = interrupt::ends(warden.pid);
        let mut word = [0];
        let heard = said.read_exact(&mut word);
        drop(ends);
        let said = File::from(OwnedFd::from(said));
        let follower =
            Follower { gate, warden, said, root, keep: args.keep, patience: args.stuck_after };
        match (heard, word) {
            (Ok(()), [READY]) => Ok(follower),
            (Ok(()), _) => Err(follower.failure()),
            (Err(error), _) => {
                let _ = follower.root.keep_if(false);
                Err(fail(&error))
            }
        }
    }

    /// The failure that the warden tells about.
    fn failure(mut self) -> Failure {
        let mut text = Vec::new();
        let _ = self.said.read_to_end(&mut text);
        drop(self.warden);
        let _ = self.root.keep_if(false);
        Failure::Failed(format!("rerun: {}", String::from_utf8_lossy(&text)))
    }

    /// Ends it, and removes its files.
    pub fn abandon(self) {
        drop(self.warden);
        let _ = self.root.keep_if(false);
    }

    /// What the driver sees of it.
    pub fn files(&self) -> Led {
        let warden = self.warden.process.try_clone().ok();
        let gate = Arc::clone(&self.gate);
        Led { gate, warden, patience: self.patience, begun: 0, opened: 0 }
    }

    /// The files that the program maps as they are.
    pub fn real_files(&self) -> Option<RealFiles> {
        self.root.directory().to_read().ok().map(RealFiles::below)
    }

    /// CPU time that calls have taken.
    pub fn cpu_ns(&self) -> u64 {
        self.gate.cpu_ns()
    }

    /// Waits until it has ended. If the program has gone its recorded way to the end, so may the replay.
    pub fn finish(mut self, trace: &Trace, is_whole: bool) -> Result<Found, Failure> {
        // While the program ran, signals were for the supervisor.
        interrupt::listen();
        let _ends = interrupt::ends(self.warden.pid);
        if is_whole {
            self.gate.open_all();
        } else {
            self.gate.abandon();
        }
        let mut word = [0];
        if self.said.read_exact(&mut word).is_err() || word != [FOUND] {
            return Err(self.failure());
        }
        let mut bytes = Vec::new();
        let read = self.said.read_to_end(&mut bytes);
        drop(self.warden);
        let kept = self.root.keep_if(self.keep)?;
        read.map_err(|error| Failure::Failed(error.to_string()))?;
        let mut findings = Findings::from_bytes(&bytes).map_err(Failure::Failed)?;
        let waits = calls::look_up(trace, &mut findings.outcome);
        Ok(Found { findings, kept, waits })
    }
}

/// The driver's side of it.
pub struct Led {
    gate: Arc<Gate>,
    warden: Option<OwnedFd>,
    patience: Duration,
    /// The last call that the program has come to, and how many were let go.
    begun: u64,
    opened: u64,
}

impl Files for Led {
    fn begin(&mut self, seq: u64) {
        self.begun = seq;
    }

    fn end(&mut self, seq: u64) -> Result<Option<u64>, String> {
        let since = Instant::now();
        if seq >= self.opened {
            self.opened = self.begun.saturating_add(1);
            self.gate.open(self.begun);
        }
        loop {
            match self.gate.came(seq, LOOK_EVERY) {
                Came::Made(ns) => return Ok(ns),
                Came::NotMade => return Ok(None),
                Came::Stopped => return Err("its calls on files could not be made again".into()),
                Came::Pending => {}
            }
            if self.warden.as_ref().is_none_or(has_ended) {
                return Err("what makes its calls on files has ended".into());
            }
            if since.elapsed() > self.patience.max(CALL_MAX) {
                let seconds = since.elapsed().as_secs();
                return Err(format!("call {seq}, on files, does not end; waited {seconds} s"));
            }
        }
    }
}

/// The process that has the jail. It ends with this value.
struct Warden {
    process: OwnedFd,
    pid: libc::pid_t,
}

impl Warden {
    /// Forks; returns `None` in the child.
    fn fork() -> io::Result<Option<Warden>> {
        // SAFETY: getpid has no arguments.
        let parent = unsafe { libc::getpid() };
        // SAFETY: nobody holds a lock: no other thread is there yet.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: numbers only.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() != parent {
                        libc::_exit(0);
                    }
                }
                return Ok(None);
            }
            pid => pid,
        };
        // SAFETY: takes numbers; a descriptor that is returned is ours.
        unsafe {
            match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
                fd if fd >= 0 => Ok(Some(Warden { process: OwnedFd::from_raw_fd(fd as i32), pid })),
                _ => {
                    let error = io::Error::last_os_error();
                    libc::kill(pid, libc::SIGKILL);
                    Err(error)
                }
            }
        }
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        let fd = self.process.as_raw_fd();
        // SAFETY: takes numbers; the descriptor is of the process that was forked.
        unsafe {
            let none = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, fd, libc::SIGKILL, none, 0);
            // The supervisor may have waited for it before.
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PIDFD, fd as u32, &raw mut info, libc::WEXITED);
        }
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one struct, which is ours.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

/// What the warden does. Returns what it says at the end.
fn guard(
    args: &Args,
    trace: &Trace,
    gate: &Arc<Gate>,
    root: &Root,
    says: &mut impl Write,
) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let user = first_user(trace);
    let privileged = is_root();
    let as_root = privileged || user.is_some_and(|(uid, _)| uid == 0);
    let options = Options {
        privileged,
        powers: if as_root { Powers::Files } else { Powers::None },
        gate: Some(Arc::clone(gate)),
        stuck_after: args.stuck_after,
        ..Options::default()
    };
    let pipe = || io::pipe().map_err(|error| text(&error));
    let ((reading, writing), (ready, readied), (going, go)) = (pipe()?, pipe()?, pipe()?);
    let jail_options = jail::Options {
        root: root.directory(),
        binds: &[],
        identity: user,
        readable: None,
        filter: true,
    };
    let memory = available_memory();
    let inmate = jail::spawn(&jail_options, |jail| {
        let session = Session {
            trace,
            progress: &|_| {},
            image: Image::Trace,
            places: &[],
            options,
            max_size: args.max_size,
            memory,
            ready: Some((OwnedFd::from(readied), OwnedFd::from(going))),
            compare: args.stop_at.is_none(),
            proc: jail.proc,
            log: None,
        };
        let found = session.run().to_bytes();
        u8::from(File::from(OwnedFd::from(writing)).write_all(&found).is_err())
    })
    .map_err(|error| text(&error))?;
    let mut ready = File::from(OwnedFd::from(ready));
    if let Ok(dangers) = heard(&mut ready)
        && !dangers.is_empty()
    {
        message::warn(&format!("the trace does not hold all data that moved: {dangers}"));
    }
    if args.cold {
        make_cold();
    }
    let begin = |gate| Leader::begin(gate).map_err(|error| format!("--gate {gate}: {error}"));
    let leader = args.gate.map(begin).transpose()?;
    let said = says.write_all(&[READY]);
    let _ = File::from(OwnedFd::from(go)).write_all(b"!");
    if let Some(leader) = leader {
        leader.end(&mut ready);
    }
    let mut bytes = vec![FOUND];
    let read = File::from(OwnedFd::from(reading)).read_to_end(&mut bytes);
    let exit = inmate.wait().map_err(|error| text(&error))?;
    said.and(read.map(drop)).map_err(|error| text(&error))?;
    match exit {
        Exit::Code(0) => Ok(bytes),
        Exit::Code(code) => Err(format!("what ran in the jail ended with code {code}")),
        Exit::Signal(signal) => Err(format!("what ran in the jail was killed by signal {signal}")),
    }
}
