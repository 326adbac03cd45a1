//! What is around a replay, and what must hold when it is over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use replay::jail::{self, Exit, Options as JailOptions, Powers};
use replay::session::{Findings, Image, Session};
use replay::{Fill, Options, Verify};
use trace::Trace;

/// What no file in the root may hold.
pub const CANARY: &str = "what-only-the-outside-has";

/// Bytes of memory that a replay of anything may take, with room for what Rust's debug builds take.
const MEMORY_MAX: i64 = 768 << 20;
/// Bytes of disk that the root may take: traces here hold far less.
const DISK_MAX: u64 = 256 << 20;
/// Seconds that a replay of these traces may take; far more than any needs, hung waits included.
const PATIENCE_S: i32 = 120;

/// The surroundings of one replay.
pub struct World {
    pub root: PathBuf,
    pub outside: PathBuf,
    pub trace: PathBuf,
    victim: Child,
}

/// How a replay ended.
pub struct End {
    text: String,
    exit: Exit,
    memory_max: i64,
}

impl World {
    pub fn new(dir: &Path) -> World {
        let path = |name: &str| dir.join(name);
        for name in ["root", "outside", "outside/directory"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("outside/secret"), CANARY).unwrap();
        std::fs::write(path("outside/directory/file"), CANARY).unwrap();
        // Waits on a pipe of ours, so that it ends with us.
        let victim =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        World { root: path("root"), outside: path("outside"), trace: path("trace.rnt"), victim }
    }

    /// A path outside.
    pub fn secret(&self) -> String {
        self.outside.join("secret").display().to_string()
    }

    /// A process outside.
    pub fn victim(&self) -> u64 {
        self.victim.id().into()
    }

    /// All that is outside: mode, owner, links and content of every path.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, (u32, u32, u64, Vec<u8>)> {
        let mut all = BTreeMap::new();
        each(&self.outside, &mut |path, metadata| {
            let content = if metadata.is_file() { std::fs::read(path).unwrap() } else { vec![] };
            let facts = (metadata.mode(), metadata.uid(), metadata.nlink(), content);
            all.insert(path.to_path_buf(), facts);
        });
        all
    }

    /// Nobody outside was killed.
    pub fn still_alive(&mut self) -> Result<(), String> {
        match self.victim.try_wait().unwrap() {
            None => Ok(()),
            Some(status) => Err(format!("a process outside was killed: {status}")),
        }
    }

    /// What is left in the root harms nobody who finds it, and holds nothing from outside.
    pub fn harmless_root(&self) -> Result<(), String> {
        let (mut harm, mut bytes) = (Vec::new(), 0);
        open_up(&self.root);
        each(&self.root, &mut |path, metadata| {
            let kind = metadata.file_type();
            if kind.is_block_device() || kind.is_char_device() && metadata.rdev() != 0 {
                harm.push(format!("{}: a device", path.display()));
            }
            if kind.is_file() && metadata.mode() & 0o6000 != 0 {
                harm.push(format!("{}: mode {:o}", path.display(), metadata.mode()));
            }
            bytes += metadata.blocks() * 512;
            if kind.is_file() && metadata.len() < 1 << 20 {
                let content = std::fs::read(path).unwrap_or_default();
                if content.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()) {
                    harm.push(format!("{}: holds the secret", path.display()));
                }
            }
        });
        if bytes > DISK_MAX {
            harm.push(format!("{bytes} bytes of disk"));
        }
        if harm.is_empty() { Ok(()) } else { Err(harm.join("; ")) }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

impl End {
    /// The replay itself came to its end, with or without mismatches, in bounded memory.
    pub fn within_bounds(&self) -> Result<(), String> {
        if self.exit != Exit::Code(0) {
            return Err(format!("it ended with {:?}: {}", self.exit, self.text));
        }
        if self.memory_max > MEMORY_MAX {
            return Err(format!("{} bytes of memory", self.memory_max));
        }
        Ok(())
    }
}

/// Lets us look into directories that a trace has closed.
fn open_up(dir: &Path) {
    let metadata = dir.symlink_metadata().unwrap();
    let _ = std::fs::set_permissions(dir, PermissionsExt::from_mode(metadata.mode() | 0o700));
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Calls `see` for everything below a directory, links not followed.
fn each(dir: &Path, see: &mut impl FnMut(&Path, &std::fs::Metadata)) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(metadata) = path.symlink_metadata() else { continue };
        see(&path, &metadata);
        if metadata.is_dir() {
            each(&path, see);
        }
    }
}

/// Replays the world's trace onto an image of its own, in a jail.
pub fn replay_in(world: &World) -> Result<End, String> {
    let trace = match Trace::open(&world.trace) {
        Ok(trace) => trace,
        Err(error) => {
            let text = format!("refused: {error}");
            return Ok(End { text, exit: Exit::Code(0), memory_max: 0 });
        }
    };
    let (mut told, tell) = pipe();
    let jail =
        JailOptions { root: &world.root, binds: &[], identity: Some((0, 0)), readable: None };
    // SAFETY: takes nothing.
    let privileged = unsafe { libc::geteuid() } == 0;
    let root_inode = world.root.metadata().unwrap().ino();
    let inmate = jail::spawn(&jail, |_| {
        let mut tell = File::from(tell);
        if !is_confined(world, root_inode) {
            return NOT_CONFINED;
        }
        let text = whole_replay(&trace, privileged).to_bytes();
        let _ = tell.write_all(&text);
        0
    });
    let inmate = inmate.map_err(|error| error.to_string())?;
    let mut ready = libc::pollfd { fd: told.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd.
    let in_time = unsafe { libc::poll(&raw mut ready, 1, PATIENCE_S * 1000) };
    if in_time == 0 {
        let _ = inmate.kill();
        return Err("the replay does not end".into());
    }
    let mut text = String::new();
    told.read_to_string(&mut text).map_err(|error| error.to_string())?;
    let exit = inmate.wait().map_err(|error| error.to_string())?;
    if std::env::var_os("REENACT_SHOW").is_some() {
        println!("{text}");
    }
    Ok(End { text, exit, memory_max: memory_of_children() })
}

/// Exit code where the jail is not what it should be.
const NOT_CONFINED: u8 = 99;

/// Whether the jail holds, as far as these traces could do harm to the machine if it did not: they
/// are not replayed then.
fn is_confined(world: &World, root_inode: u64) -> bool {
    let mut devices = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with zero, and there is room for the answer.
    let fixed = unsafe {
        libc::statvfs(c"/dev/null".as_ptr(), devices.as_mut_ptr()) == 0
            && devices.assume_init().f_flag & libc::ST_RDONLY != 0
    };
    let inode = Path::new("/").metadata().map(|root| root.ino());
    fixed
        && std::process::id() == 1
        && inode.is_ok_and(|i| i == root_inode)
        && !world.outside.exists()
}

/// All that the command does in the jail.
fn whole_replay(trace: &Trace, privileged: bool) -> Findings {
    let options = Options {
        overlap: true,
        speed: None,
        verify: Verify::Warn,
        fill: Fill::Zeros,
        until: None,
        privileged,
        powers: Powers::Files,
    };
    let image = Image::Trace;
    Session { trace, image, places: &[], options, ready: None, compare: true }.run()
}

/// The most memory that any process has taken that this one has waited for, directly or not.
fn memory_of_children() -> i64 {
    // SAFETY: all zeros is a usage, which is writable.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage.ru_maxrss * 1024
    }
}

fn pipe() -> (File, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two numbers, which are new descriptors.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}
