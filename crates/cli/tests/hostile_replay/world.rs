//! The surroundings of a replay, and checks that they are unharmed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command;

/// Contents of the files outside, which no file in the root may have.
pub const CANARY: &str = "what-only-the-outside-has";

/// Most bytes of disk in the root: the command's limit, overhead of the file system, and space that
/// other programs free meanwhile.
const DISK_MAX: u64 = command::DISK_MAX + (256 << 20);

/// The surroundings of one replay.
pub struct World {
    pub root: PathBuf,
    pub outside: PathBuf,
    /// Bound into the root as [`SHARED`].
    pub shared: PathBuf,
    pub trace: PathBuf,
    victim: Child,
    /// Receives on a socket in the bound directory.
    listener: UnixDatagram,
    /// Text that the command must print.
    says: Cell<Option<&'static str>>,
}

/// Paths of the bound directory and the socket in it, as seen in the root.
pub const SHARED: &str = "/shared";
pub const SOCKET: &str = "/shared/socket";

impl World {
    pub fn new(dir: &Path) -> World {
        let path = |name: &str| dir.join(name);
        for name in ["root", "outside", "outside/directory", "shared"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::fs::write(path("outside/secret"), CANARY).unwrap();
        std::fs::write(path("outside/directory/file"), CANARY).unwrap();
        // The process reads from a pipe of ours, so that it ends with us.
        let victim =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let listener = UnixDatagram::bind(path("shared/socket")).unwrap();
        listener.set_nonblocking(true).unwrap();
        World {
            root: path("root"),
            outside: path("outside"),
            shared: path("shared"),
            trace: path("trace.rnt"),
            victim,
            listener,
            says: Cell::new(None),
        }
    }

    /// Sets the text that the command must print.
    pub fn expect(&self, words: &'static str) {
        self.says.set(Some(words));
    }

    /// Returns the text that the command must print.
    pub fn expected(&self) -> Option<&'static str> {
        self.says.get()
    }

    /// Returns the path of a file outside.
    pub fn secret(&self) -> String {
        self.outside.join("secret").display().to_string()
    }

    /// Returns the id of a process outside.
    pub fn victim(&self) -> u64 {
        self.victim.id().into()
    }

    /// Returns mode, owner, links and content of every path outside.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, (u32, u32, u64, Vec<u8>)> {
        let mut all = BTreeMap::new();
        each(&self.outside, &mut |path, metadata| {
            let content = if metadata.is_file() { std::fs::read(path).unwrap() } else { vec![] };
            let facts = (metadata.mode(), metadata.uid(), metadata.nlink(), content);
            all.insert(path.to_path_buf(), facts);
        });
        all
    }

    /// Fails if a process outside was killed, or a socket outside got a message.
    pub fn still_alive(&mut self) -> Result<(), String> {
        match self.victim.try_wait().unwrap() {
            None => {}
            Some(status) => return Err(format!("a process outside was killed: {status}")),
        }
        match self.listener.recv(&mut [0; 64]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            came => Err(format!("a process outside was spoken to: {came:?}")),
        }
    }

    /// Fails if the root holds anything dangerous, or anything from outside.
    pub fn harmless_root(&self) -> Result<(), String> {
        let (mut harm, mut bytes) = (Vec::new(), 0);
        open_up(&self.root);
        let mut look = |path: &Path, metadata: &std::fs::Metadata| {
            let kind = metadata.file_type();
            if kind.is_block_device() || kind.is_char_device() && metadata.rdev() != 0 {
                harm.push(format!("{}: a device", path.display()));
            }
            if kind.is_file() && metadata.mode() & 0o6000 != 0 {
                harm.push(format!("{}: mode {:o}", path.display(), metadata.mode()));
            }
            bytes += metadata.blocks() * 512;
            harm.extend(dangerous_attribute(path));
            if kind.is_file() && metadata.len() < 1 << 20 {
                let content = std::fs::read(path).unwrap_or_default();
                if content.windows(CANARY.len()).any(|part| part == CANARY.as_bytes()) {
                    harm.push(format!("{}: holds the secret", path.display()));
                }
            }
        };
        each(&self.root, &mut look);
        each(&self.shared, &mut look);
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

/// Returns an attribute that only a privileged user can set, if the file has one.
fn dangerous_attribute(path: &Path) -> Option<String> {
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut list = [0u8; 4096];
    // SAFETY: the path is NUL-terminated, and the list is as long as stated.
    let len = unsafe { libc::llistxattr(name.as_ptr(), list.as_mut_ptr().cast(), list.len()) };
    let names = list[..usize::try_from(len).ok()?].split(|&c| c == 0);
    let mut bad = names.filter(|n| n.starts_with(b"security.") || n.starts_with(b"trusted."));
    bad.next().map(|name| format!("{}: has {}", path.display(), name.escape_ascii()))
}

/// Makes directories readable that a trace has closed.
fn open_up(dir: &Path) {
    let metadata = dir.symlink_metadata().unwrap();
    let _ = std::fs::set_permissions(dir, PermissionsExt::from_mode(metadata.mode() | 0o700));
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Calls `see` for everything below a directory, without following links.
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
