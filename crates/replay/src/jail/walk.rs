//! Follows a path like the kernel, except for other users' links: a user who can replace a
//! directory on the path by a link could lead us to files beyond that user's own access.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::JailError;

/// Most links followed: the kernel's limit.
const LINKS_MAX: usize = 40;

/// What to do about missing directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    Refused,
    Made,
}

/// Opens the directory at a path.
pub(super) fn walk(path: &Path, missing: Missing) -> Result<OwnedFd, JailError> {
    let failed = |error: io::Error| JailError::io(&path.display().to_string(), error);
    let start = |path: &Path| if path.is_absolute() { "/" } else { "." };
    let mut at = open(CWD, start(path)).map_err(|error| failed(error.into()))?;
    let mut left = names(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        let next = match (open(&at, &name), missing) {
            (Err(Errno::NOENT), Missing::Made) => {
                let all = Mode::RWXU | Mode::RWXG | Mode::RWXO;
                match rustix::fs::mkdirat(&at, &name, all) {
                    Ok(()) | Err(Errno::EXIST) => open(&at, &name),
                    Err(error) => Err(error),
                }
            }
            (opened, _) => opened,
        };
        let next = next.map_err(|error| failed(error.into()))?;
        let stat = rustix::fs::fstat(&next).map_err(|error| failed(error.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => at = next,
            FileType::Symlink => {
                if ![0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid) {
                    return Err(JailError::plain(format!(
                        "{}: {} is a link that user {} has made, who could lead it anywhere; name \
                         the directory itself",
                        path.display(),
                        name.display(),
                        stat.st_uid
                    )));
                }
                links += 1;
                if links > LINKS_MAX {
                    return Err(failed(Errno::LOOP.into()));
                }
                let target = rustix::fs::readlinkat(&next, c"", Vec::new());
                let target = target.map_err(|error| failed(error.into()))?;
                let target = OsString::from_vec(target.into_bytes());
                if Path::new(&target).is_absolute() {
                    at = open(CWD, "/").map_err(|error| failed(error.into()))?;
                }
                left.extend(names(Path::new(&target)));
            }
            _ => return Err(failed(Errno::NOTDIR.into())),
        }
    }
    Ok(at)
}

fn open(at: impl std::os::fd::AsFd, name: impl AsRef<OsStr>) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name.as_ref().as_bytes(), flags, Mode::empty())
}

/// Splits a path into names, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut all: Vec<OsString> = named.collect();
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, lchown, symlink};

    use super::*;

    fn number(fd: &OwnedFd) -> u64 {
        rustix::fs::fstat(fd).unwrap().st_ino
    }

    #[test]
    fn paths_lead_where_the_kernel_says() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("file"), "").unwrap();
        symlink("a", path("relative")).unwrap();
        symlink(path("relative/b"), path("absolute")).unwrap();
        symlink("circle", path("circle")).unwrap();
        for name in ["", ".", "a/b", "a/../a/./b", "relative/b", "absolute", "absolute/..", "a/b/"]
        {
            let found = walk(&path(name), Missing::Refused).unwrap();
            assert_eq!(number(&found), fs::metadata(path(name)).unwrap().ino(), "{name}");
        }
        for name in ["file", "file/x", "nothing", "circle", "absolute/nothing"] {
            assert!(walk(&path(name), Missing::Refused).is_err(), "{name}");
        }
        let made = walk(&path("relative/new/newer"), Missing::Made).unwrap();
        assert_eq!(number(&made), fs::metadata(path("a/new/newer")).unwrap().ino());
    }

    #[test]
    fn links_of_others_are_not_followed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::create_dir_all(path("private/below")).unwrap();
        symlink("private", path("link")).unwrap();
        for missing in [Missing::Refused, Missing::Made] {
            walk(&path("link/below"), missing).unwrap();
            lchown(path("link"), Some(65534), Some(65534)).unwrap();
            for name in ["link", "link/below", "link/new"] {
                let refused = walk(&path(name), missing).unwrap_err().to_string();
                assert!(refused.contains("user 65534"), "{name}: {refused}");
            }
            assert!(!path("private/new").exists());
            lchown(path("link"), Some(0), Some(0)).unwrap();
        }
    }
}
