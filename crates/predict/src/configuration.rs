//! What a program is to be predicted on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the files lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In a fresh directory of this one.
    Directory(PathBuf),
    /// On a fresh disk image with this file system.
    Fresh(FileSystem),
    /// On a copy of this disk image.
    Image(PathBuf),
    /// In memory.
    Tmpfs,
}

/// File systems that can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// Btrfs that compresses with zlib.
    BtrfsZlib,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 4] =
        [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::BtrfsZlib];

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
            FileSystem::BtrfsZlib => "btrfs+zlib",
        }
    }

    /// The program that makes it, and its options.
    pub fn maker(self) -> (&'static str, &'static [&'static str]) {
        match self {
            FileSystem::Ext4 => ("mkfs.ext4", &["-q", "-F"]),
            FileSystem::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            FileSystem::Btrfs | FileSystem::BtrfsZlib => ("mkfs.btrfs", &["-q", "-f"]),
        }
    }

    /// Whether the maker is there.
    pub fn can_be_made(self) -> bool {
        let path = search_path();
        path.split(':').any(|folder| Path::new(folder).join(self.maker().0).is_file())
    }

    /// The Debian package that has the maker.
    pub fn package(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "e2fsprogs",
            FileSystem::Xfs => "xfsprogs",
            FileSystem::Btrfs | FileSystem::BtrfsZlib => "btrfs-progs",
        }
    }

    /// Options of the mount: nothing may be done in the background that a used file system would not do.
    pub fn mount_options(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "noinit_itable",
            FileSystem::Xfs | FileSystem::Btrfs => "defaults",
            FileSystem::BtrfsZlib => "compress=zlib",
        }
    }
}

/// Where programs of the system are looked for: an ordinary user's PATH does not have all.
pub fn search_path() -> String {
    // An empty path would be the current directory, whose programs nobody has asked for.
    let users = std::env::var("PATH").ok().filter(|path| !path.is_empty());
    let system = ["/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin".to_string()];
    users.into_iter().chain(system).collect::<Vec<_>>().join(":")
}

impl Place {
    /// Understands the word of a user: a file system, a directory or a disk image.
    pub fn parse(text: &str) -> Result<Place, String> {
        if let Some(known) = FileSystem::ALL.iter().find(|known| known.name() == text) {
            return Ok(Place::Fresh(*known));
        }
        if text == "tmpfs" {
            return Ok(Place::Tmpfs);
        }
        let path = PathBuf::from(text);
        let about = std::fs::metadata(&path).map_err(|error| {
            format!(
                "'{text}' is neither ext4, xfs, btrfs, btrfs+zlib or tmpfs, nor a directory or a \
                 disk image here ({error})"
            )
        })?;
        match about.is_dir() {
            true => Ok(Place::Directory(path)),
            false => Ok(Place::Image(path)),
        }
    }

    /// Whether an ordinary user can have it.
    pub fn is_for_anybody(&self) -> bool {
        matches!(self, Place::Directory(_))
    }

    /// Whether its I/O goes through a block device of its own.
    pub fn has_device(&self) -> bool {
        matches!(self, Place::Fresh(_) | Place::Image(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(path) | Place::Image(path) => write!(f, "{}", path.display()),
            Place::Fresh(system) => f.write_str(system.name()),
            Place::Tmpfs => f.write_str("tmpfs"),
        }
    }
}

/// How fast files are at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Bytes read in a second.
    pub read_bytes: Option<u64>,
    /// Bytes written in a second.
    pub write_bytes: Option<u64>,
    /// Requests in a second.
    pub iops: Option<u64>,
    /// What each request takes besides.
    pub latency: Option<Duration>,
}

impl Limits {
    /// Whether anything is limited.
    pub fn any(&self) -> bool {
        *self != Limits::default()
    }
}

/// One machine to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// Where the files lie.
    pub place: Place,
    /// Bytes of memory for the program and its files; `None`: what there is.
    pub memory: Option<u64>,
    /// How fast they are.
    pub limits: Limits,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(Place::parse("btrfs+zlib"), Ok(Place::Fresh(FileSystem::BtrfsZlib)));
        assert_eq!(Place::parse("tmpfs"), Ok(Place::Tmpfs));
        assert!(matches!(Place::parse("/"), Ok(Place::Directory(_))));
        assert!(matches!(Place::parse("/proc/self/exe"), Ok(Place::Image(_))));
        assert!(Place::parse("ext5").is_err());
    }
}
