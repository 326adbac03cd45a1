//! The directory in which a replay happens.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::Args;
use crate::failure::Failure;

/// A directory that stands for `/`.
pub enum Root {
    /// Made for this replay, in a directory that only we may enter: whatever mode a trace gives the
    /// root, nobody finds what is left in it.
    Fresh(TempDir, PathBuf),
    /// The user's.
    Given(PathBuf),
}

fn fail(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

impl Root {
    /// For one of several replays. A directory of the user's is emptied before all but the first.
    pub fn new(args: &Args, number: u32) -> Result<Root, Failure> {
        let Some(path) = &args.root else {
            let private = fs::Permissions::from_mode(0o700);
            let mut named = tempfile::Builder::new();
            let around = named.prefix("reenact-replay-").permissions(private).tempdir();
            let around = around.map_err(|error| fail(&std::env::temp_dir(), &error))?;
            let path = around.path().join("root");
            fs::create_dir(&path).map_err(|error| fail(&path, &error))?;
            return Ok(Root::Fresh(around, path));
        };
        fs::create_dir_all(path).map_err(|error| fail(path, &error))?;
        let path = path.canonicalize().map_err(|error| fail(path, &error))?;
        if args.image != "none" {
            let empty = fs::read_dir(&path).map_err(|error| fail(&path, &error))?.next().is_none();
            if !empty && number == 0 && !args.overwrite {
                return Err(Failure::Usage(format!(
                    "{} is not empty; --overwrite replays into it all the same, --image none \
                     takes what is there as it is",
                    path.display()
                )));
            }
            if number > 0 {
                clear(&path)?;
            }
        }
        Ok(Root::Given(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Root::Fresh(_, path) | Root::Given(path) => path,
        }
    }

    /// Lets go of it. Where it is kept, if it is.
    pub fn keep_if(self, keep: bool) -> Result<Option<PathBuf>, Failure> {
        match self {
            Root::Given(path) => Ok(Some(path)),
            Root::Fresh(around, path) if keep => {
                let _ = around.keep();
                Ok(Some(path))
            }
            Root::Fresh(around, path) => {
                unlock(&path);
                around.close().map_err(|error| fail(&path, &error))?;
                Ok(None)
            }
        }
    }
}

/// Removes what is in a directory.
fn clear(path: &Path) -> Result<(), Failure> {
    unlock(path);
    for entry in fs::read_dir(path).map_err(|error| fail(path, &error))? {
        let entry = entry.map_err(|error| fail(path, &error))?;
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = match is_directory {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        removed.map_err(|error| fail(&entry.path(), &error))?;
    }
    Ok(())
}

/// Replayed modes may forbid us to remove what is in a directory.
fn unlock(path: &Path) {
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock(&entry.path());
        }
    }
}

/// Writes everything back, and drops the caches where that is allowed.
pub fn make_cold() {
    // SAFETY: takes nothing.
    unsafe { libc::sync() };
    if let Err(error) = fs::write("/proc/sys/vm/drop_caches", "3") {
        super::note(&format!("the caches could not be dropped: {error}"));
    }
}
