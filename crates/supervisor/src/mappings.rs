//! Finds which files' text is mapped where in a process.
//!
//! A program can make a path from its memory map lead anywhere: to a pipe, to a device, to a file
//! system that it serves itself. So a path is only followed if it is in the kernel's cache, and
//! without links; otherwise the file is reached through /proc/PID/map_files, if that is allowed. No
//! file is opened before it is known to be the regular file that is mapped.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use kin::maps::{self, Mapping, Which};

/// A file's identity: device, inode, modification time, size.
pub type Key = [u64; 4];

/// All executable mappings of files.
pub fn executable(pid: i32) -> io::Result<Vec<Mapping>> {
    let mut found = Vec::new();
    maps::each(pid, Which::Text, |mapping| {
        found.push(mapping);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Opens the file whose text is mapped at an address of a process.
pub fn open_at(pid: i32, address: u64) -> Option<File> {
    let mut at = None;
    let looked = maps::each(pid, Which::Text, |mapping| {
        if mapping.contains(address) {
            at = Some(mapping);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    looked.ok()?;
    let (place, _) = locate(pid, &at?)?;
    // `place` is a regular file, and /proc/self/fd opens that very file.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

/// A file that was found without waiting for a file system's server.
pub struct Found {
    /// An O_PATH descriptor of the file.
    pub place: OwnedFd,
    pub key: Key,
    /// The unique id of its mount, if the kernel has those (since Linux 6.8).
    pub mount: Option<u64>,
}

/// The root directory of a process.
pub struct Root(OwnedFd);

impl Root {
    /// `None` if it may not be opened.
    pub fn of(pid: i32) -> Option<Root> {
        open_path(libc::AT_FDCWD, format!("/proc/{pid}/root").into_bytes(), 0).ok().map(Root)
    }

    /// The file behind a mapping, if its path is in the kernel's cache, as after a recent mmap.
    /// This never waits for a file system's server.
    pub fn in_memory(&self, mapping: &Mapping) -> Option<Found> {
        let links = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
        let how = links | libc::RESOLVE_CACHED;
        let place = open_path(self.0.as_raw_fd(), mapping.path.clone(), how).ok()?;
        let Identity { device, key, mount } = identity(&place)?;
        let is_it = (device, key[1]) == (mapping.dev, mapping.ino);
        is_it.then_some(Found { place, key, mount })
    }
}

/// The identity of the file behind a mapping, as the program sees it. This may block for ever.
pub fn key(pid: i32, mapping: &Mapping) -> Option<Key> {
    locate(pid, mapping).map(|(_, key)| key)
}

pub fn key_of(file: &File) -> Option<Key> {
    let meta = file.metadata().ok()?;
    let mtime_ns = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
    Some([meta.dev(), meta.ino(), mtime_ns as u64, meta.len()])
}

/// An O_PATH descriptor of the mapped file, and the file's identity.
fn locate(pid: i32, mapping: &Mapping) -> Option<(OwnedFd, Key)> {
    let found = Root::of(pid).and_then(|root| root.in_memory(mapping));
    found.map(|found| (found.place, found.key)).or_else(|| by_mapping(pid, mapping))
}

/// Opens the file through /proc/PID/map_files: needs root, but also finds removed files.
fn by_mapping(pid: i32, mapping: &Mapping) -> Option<(OwnedFd, Key)> {
    let path = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let place = open_path(libc::AT_FDCWD, path.into_bytes(), 0).ok()?;
    let Identity { key, .. } = identity(&place)?;
    Some((place, key))
}

fn open_path(directory: i32, path: Vec<u8>, resolve: u64) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    // SAFETY: all-zero bytes are a valid struct; it and the path live during the call, and nothing
    // else owns the new descriptor.
    unsafe {
        let mut how: libc::open_how = std::mem::zeroed();
        how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
        how.resolve = resolve;
        let (how, len) = (&raw const how, size_of::<libc::open_how>());
        let fd = libc::syscall(libc::SYS_openat2, directory, path.as_ptr(), how, len);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

/// What the kernel knows of a regular file without asking its file system's server.
struct Identity {
    device: (u64, u64),
    key: Key,
    mount: Option<u64>,
}

fn identity(file: &OwnedFd) -> Option<Identity> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: all-zero bytes are a valid struct, and the kernel fills it during the call only.
    let found = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let (fd, wanted) = (file.as_raw_fd(), libc::STATX_BASIC_STATS | libc::STATX_MNT_ID_UNIQUE);
        let done = libc::statx(fd, c"".as_ptr(), flags, wanted, &raw mut found) == 0;
        done.then_some(found)?
    };
    if u32::from(found.stx_mode) & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let mtime_ns = found.stx_mtime.tv_sec * 1_000_000_000 + i64::from(found.stx_mtime.tv_nsec);
    let dev = libc::makedev(found.stx_dev_major, found.stx_dev_minor);
    let device = (u64::from(found.stx_dev_major), u64::from(found.stx_dev_minor));
    let key = [dev, found.stx_ino, mtime_ns as u64, found.stx_size];
    let mount = (found.stx_mask & libc::STATX_MNT_ID_UNIQUE != 0).then_some(found.stx_mnt_id);
    Some(Identity { device, key, mount })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn own() -> i32 {
        std::process::id() as i32
    }

    fn own_text() -> Mapping {
        let here = own_text as *const () as u64;
        executable(own()).unwrap().into_iter().find(|mapping| mapping.contains(here)).unwrap()
    }

    #[test]
    fn mapped_files_are_found_both_ways() {
        let exe = File::open(std::env::current_exe().unwrap()).unwrap();
        let text = own_text();
        assert_eq!(key(own(), &text), key_of(&exe));
        let Found { key, .. } = Root::of(own()).unwrap().in_memory(&text).unwrap();
        assert_eq!(Some(key), key_of(&exe));
        // SAFETY: geteuid takes no arguments and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            assert_eq!(by_mapping(own(), &text).unwrap().1, key);
        }
        let open = open_at(own(), text.start).unwrap();
        assert_eq!(key_of(&open), key_of(&exe));
        assert!(open_at(own(), 0).is_none());
    }

    /// Maps and removes a file, and calls `then` with the path that its name has in the maps now.
    fn after_removal(then: impl Fn(&Path)) -> Option<File> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("library");
        fs::write(&path, [7; 4096]).unwrap();
        let file = File::open(&path).unwrap();
        // SAFETY: maps a file at a free address; the mapping stays for the life of the test.
        let at = unsafe {
            let (null, rights) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_EXEC);
            libc::mmap(null, 4096, rights, libc::MAP_PRIVATE, file.as_raw_fd(), 0) as u64
        };
        fs::remove_file(&path).unwrap();
        let mapped = executable(own()).unwrap();
        let mapping = mapped.into_iter().find(|mapping| mapping.contains(at)).unwrap();
        let name = PathBuf::from(String::from_utf8(mapping.path).unwrap());
        assert!(name.to_string_lossy().ends_with(" (deleted)"));
        then(&name);
        let opened = open_at(own(), at);
        let same = |opened: &File| key_of(opened) == key_of(&file);
        assert!(opened.as_ref().is_none_or(same), "another file");
        opened
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_not_opened() {
        let pipe = |name: &Path| {
            let name = CString::new(name.to_str().unwrap()).unwrap();
            // SAFETY: the path ends with NUL and lives during the call.
            assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        };
        let others: [&dyn Fn(&Path); 4] = [
            &pipe,
            &|name| std::os::unix::fs::symlink("/dev/tty", name).unwrap(),
            &|name| fs::write(name, [7; 4096]).unwrap(),
            &|_| {},
        ];
        for other in others {
            let opened = after_removal(other);
            // SAFETY: geteuid takes no arguments and cannot fail.
            assert_eq!(opened.is_some(), unsafe { libc::geteuid() } == 0);
        }
    }
}
