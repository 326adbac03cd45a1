//! What is around a replay, and what must hold when it is over.

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

/// What no file in the root may hold.
pub const CANARY: &str = "what-only-the-outside-has";

/// Bytes of disk that the root may take: what the command was told, what a file system needs for names
/// and sizes, and what others on the same disk give free meanwhile.
const DISK_MAX: u64 = command::DISK_MAX + (256 << 20);

/// The surroundings of one replay.
pub struct World {
    pub root: PathBuf,
    pub outside: PathBuf,
    /// Is bound into the root, as [`SHARED`].
    pub shared: PathBuf,
    pub trace: PathBuf,
    victim: Child,
    /// Listens in the bound directory.
    listener: UnixDatagram,
    /// What the command must say.
    says: Cell<Option<&'static str>>,
}

/// Where the bound directory appears, and the socket in it.
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
        // Waits on a pipe of ours, so that it ends with us.
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

    /// The command is to say this.
    pub fn expect(&self, words: &'static str) {
        self.says.set(Some(words));
    }

    /// What the command must say.
    pub fn expected(&self) -> Option<&'static str> {
        self.says.get()
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

    /// Nobody outside was killed, or spoken to.
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

    /// What is left in the root harms nobody who finds it, and holds nothing from outside.
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

/// An attribute that only an all-powerful root may give.
fn dangerous_attribute(path: &Path) -> Option<String> {
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut list = [0u8; 4096];
    // SAFETY: the path ends with a NUL, and the list is as long as is said.
    let len = unsafe { libc::llistxattr(name.as_ptr(), list.as_mut_ptr().cast(), list.len()) };
    let names = list[..usize::try_from(len).ok()?].split(|&c| c == 0);
    let mut bad = names.filter(|n| n.starts_with(b"security.") || n.starts_with(b"trusted."));
    bad.next().map(|name| format!("{}: has {}", path.display(), name.escape_ascii()))
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
