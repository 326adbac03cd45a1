//! The root directory of a replay.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use replay::jail::{Directory, refuse_whole_system};
use tempfile::TempDir;

use super::args::Args;
use crate::failure::Failure;

/// Name of a temporary root.
const NAME: &str = "root";

/// A directory that stands for `/`. It is opened once; later, its path is only printed.
pub enum Root {
    /// A temporary directory inside a private one, so that no other user can access it, whatever
    /// mode the trace sets on the root.
    Fresh {
        /// Path of the private directory.
        around: TempDir,
        /// The private directory, open.
        above: Directory,
        /// The root.
        root: Directory,
    },
    /// Directory named by the user.
    Given(Directory, PathBuf),
}

/// How files come into a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
    /// They are put into an empty directory. If it is not, options do this.
    Empty(&'static str),
    /// They are put beside what is there.
    Over,
    /// They are there.
    AsItIs,
}

fn fail(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

impl Root {
    /// Opens the root for a replay. A user's directory is cleared before all but the first one.
    pub fn new(args: &Args, number: u32) -> Result<Root, Failure> {
        let filling = match (args.image.as_str(), args.overwrite) {
            ("none", _) => Filling::AsItIs,
            (_, true) => Filling::Over,
            (_, false) => Filling::Empty(
                "--overwrite replays into it all the same, --image none takes what is there as it is",
            ),
        };
        Root::open(args.root.as_deref(), filling, number)
    }

    /// Opens the root for a replay that fills it in this way.
    pub fn open(root: Option<&Path>, filling: Filling, number: u32) -> Result<Root, Failure> {
        let Some(path) = root else {
            let private = fs::Permissions::from_mode(0o700);
            let mut named = tempfile::Builder::new();
            let around = named.prefix("reenact-replay-").permissions(private).tempdir();
            let around = around.map_err(|error| fail(&std::env::temp_dir(), &error))?;
            let above = Directory::open_private(around.path()).map_err(failed)?;
            let root = above.make(NAME).map_err(failed)?;
            return Ok(Root::Fresh { around, above, root });
        };
        let root = Directory::open_or_make(path).map_err(failed)?;
        refuse_whole_system(&root).map_err(failed)?;
        let path = root.path().unwrap_or_else(|_| path.to_path_buf());
        if filling != Filling::AsItIs {
            let empty = root.is_empty().map_err(|error| fail(&path, &error))?;
            if let Filling::Empty(options) = filling
                && !empty
                && number == 0
            {
                return Err(Failure::Usage(format!("{} is not empty; {options}", path.display())));
            }
            if number > 0 {
                root.clear().map_err(|error| fail(&path, &error))?;
            }
        }
        Ok(Root::Given(root, path))
    }

    /// Returns the root.
    pub fn directory(&self) -> &Directory {
        match self {
            Root::Fresh { root, .. } | Root::Given(root, _) => root,
        }
    }

    /// Removes a temporary root unless `keep` is set. Returns the path if it remains.
    pub fn keep_if(self, keep: bool) -> Result<Option<PathBuf>, Failure> {
        match self {
            Root::Given(_, path) => Ok(Some(path)),
            Root::Fresh { around, .. } if keep => Ok(Some(around.keep().join(NAME))),
            Root::Fresh { around, above, root } => {
                let removed = root.clear().and_then(|()| above.remove(NAME));
                let around = around.keep();
                let removed = removed.and_then(|()| fs::remove_dir(&around));
                removed.map_err(|error| fail(&around.join(NAME), &error))?;
                Ok(None)
            }
        }
    }
}

/// Writes back all dirty data, and drops the caches if permitted.
pub fn make_cold() {
    // SAFETY: sync has no arguments and cannot fail.
    unsafe { libc::sync() };
    if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
        crate::message::warn(&format!("the caches could not be dropped: {error}"));
    }
}

/// Who has to know when the files are there, and when all calls were made.
pub struct Leader(UnixStream);

impl Leader {
    /// Tells on a descriptor that the files are there, and waits for an answer.
    pub fn begin(gate: RawFd) -> io::Result<Leader> {
        // SAFETY: who starts us names a socket that it gave us for this alone, and once.
        let mut gate = unsafe { UnixStream::from_raw_fd(gate) };
        gate.write_all(b"!")?;
        gate.read_exact(&mut [0])?;
        Ok(Leader(gate))
    }

    /// Waits until the jail says that all calls were made, or is gone, and tells so.
    pub fn end(mut self, ready: &mut File) {
        let _ = ready.read_exact(&mut [0]);
        // Nobody has to listen.
        let _ = self.0.write_all(b".");
    }
}
