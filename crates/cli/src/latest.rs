//! The trace that a command reads: the one that is named, or the latest recording of this directory.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::failure::Failure;
use crate::message;

/// The trace as an argument of a command.
#[derive(clap::Args, Debug)]
pub struct Input {
    /// The trace, `-` for standard input [default: the latest recording in this directory]
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
}

impl Input {
    /// Returns true if a trace is named.
    pub fn is_given(&self) -> bool {
        self.trace.is_some()
    }

    /// Returns the path that is named, or that of the latest recording, and says which that is.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        self.trace.clone().map_or_else(latest, Ok)
    }
}

/// Returns the path of the latest recording in this directory, and says so.
pub fn latest() -> Result<PathBuf, Failure> {
    let none = |why: Cow<'static, str>| {
        Failure::Usage(format!("no TRACE was given, and {why}; `reenact record PROGRAM` makes one"))
    };
    match newest(Path::new(".")) {
        Ok(Some(path)) => {
            message::note(&format!("reading {}, the latest recording here", path.display()));
            Ok(path)
        }
        Ok(None) => Err(none("you have no recording (*.rnt) in this directory".into())),
        Err(error) => Err(none(format!("this directory cannot be read: {error}").into())),
    }
}

/// Returns the latest recording in this directory and the one that was made before it under the same
/// name, and says so.
pub fn latest_two() -> Result<[PathBuf; 2], Failure> {
    let none = |why: String| {
        Failure::Usage(format!(
            "no recordings were given, and {why}; `reenact diff A B` compares two"
        ))
    };
    let new = match newest(Path::new(".")) {
        Ok(Some(path)) => path,
        Ok(None) => return Err(none("you have no recording (*.rnt) in this directory".into())),
        Err(error) => return Err(none(format!("this directory cannot be read: {error}"))),
    };
    let old = new.with_added_extension("old");
    if !old.exists() {
        let (new, old) = (new.display(), old.display());
        return Err(none(format!("beside {new}, the latest, there is no {old}")));
    }
    message::note(&format!(
        "A is {}, B is {}, the latest recording here",
        old.display(),
        new.display()
    ));
    Ok([old, new])
}

/// Returns the name of the file `*.rnt` that was written last. Those of other users do not count: who
/// may write to the directory would choose what is read.
fn newest(directory: &Path) -> io::Result<Option<PathBuf>> {
    // SAFETY: geteuid has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let is_hidden = entry.file_name().as_bytes().starts_with(b".");
        if is_hidden || name.extension().is_none_or(|extension| extension != "rnt") {
            continue;
        }
        // What is gone meanwhile does not count either.
        let Ok(found) = entry.metadata() else { continue };
        if !found.is_file() || found.uid() != own {
            continue;
        }
        let candidate = (found.modified()?, name);
        if newest.as_ref().is_none_or(|best| candidate > *best) {
            newest = Some(candidate);
        }
    }
    Ok(newest.map(|(_, name)| name))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_file_that_was_written_last_is_the_latest() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(newest(place.path()).unwrap(), None);
        let write = |name: &str, after_s: u64| {
            let file = File::create(place.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(after_s)).unwrap();
        };
        write("b.rnt", 200);
        write("a.rnt", 100);
        write("c.html", 300);
        write(".hidden.rnt", 300);
        write("a.rnt.old", 300);
        symlink("c.html", place.path().join("link.rnt")).unwrap();
        fs::create_dir(place.path().join("directory.rnt")).unwrap();
        assert_eq!(newest(place.path()).unwrap(), Some("b.rnt".into()));
        write("a.rnt", 201);
        assert_eq!(newest(place.path()).unwrap(), Some("a.rnt".into()));
    }

    #[test]
    fn files_of_others_are_not_chosen() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("theirs.rnt");
        File::create(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(65534), None).is_ok() {
            assert_eq!(newest(place.path()).unwrap(), None);
        }
    }
}
