//! What is around a replay, and what must hold when it is over.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command;

/// What no file in the root may hold.
pub const CANARY: &str = "what-only-the-outside-has";

/// Bytes of disk that the root may take: what the command was told, and what a file system needs
/// for names and sizes.
const DISK_MAX: u64 = command::DISK_MAX + (32 << 20);

/// The surroundings of one replay.
pub struct World {
    pub root: PathBuf,
    pub outside: PathBuf,
    pub trace: PathBuf,
    victim: Child,
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
