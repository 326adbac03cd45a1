//! Files of the re-execution's own root that the program maps as they are, so that what it waits for there
//! is what it would wait for on the system under test.
//!
//! Those to which the trace stores by mappings are none of them: stores are made where calls are, later than
//! the program's own, and would put old bytes over new ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use model::{FileId, Touch};
use syscalls::Act;

use crate::mapped_file::MappedFile;
use crate::shadows::Mapping;

/// The root, and which of its files are mapped.
pub struct RealFiles {
    root: OwnedFd,
    /// Their recorded paths.
    mapped: HashMap<FileId, Vec<u8>>,
    /// The recorded paths of those of which only a part was mapped, by their paths here.
    in_part: HashMap<Vec<u8>, Vec<u8>>,
    /// When calls had ended that changed a file or made it, and those after which names lead to other files.
    changed: HashMap<FileId, u64>,
    names_changed: u64,
    /// Calls that change what mappings show: when they had ended, and their numbers.
    to_make: BinaryHeap<Reverse<(u64, u64)>>,
    /// Hashes of mapped files, until calls change them.
    hashes: HashMap<FileId, Vec<u8>>,
    /// Files with bytes that the trace does not have.
    foreign: HashSet<FileId>,
}

impl RealFiles {
    /// Those below a directory.
    pub fn below(root: OwnedFd) -> RealFiles {
        RealFiles {
            root,
            mapped: HashMap::new(),
            in_part: HashMap::new(),
            changed: HashMap::new(),
            names_changed: 0,
            to_make: BinaryHeap::new(),
            hashes: HashMap::new(),
            foreign: HashSet::new(),
        }
    }

    /// The path of the file that a mapping shows; `None` if it is not there as it was.
    pub(crate) fn find(&mut self, mapping: &Mapping<'_>) -> Option<Vec<u8>> {
        let id = mapping.file?;
        // No call has changed it, so somebody did who was not recorded.
        if self.hashes.get(&id).is_some_and(|hash| *hash != mapping.loaded.hash) {
            self.foreign.insert(id);
        }
        if self.foreign.contains(&id) {
            return None;
        }
        let below = mapping.loaded.path.strip_prefix(b"/")?;
        let file = self.open(&CString::new(below).ok()?).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.len() != mapping.loaded.size {
            return None;
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let path = path.into_os_string().into_vec();
        if path.len() >= ring::REPLY_PATH {
            return None;
        }
        let Mapping { loaded, range, .. } = mapping;
        self.mapped.insert(id, loaded.path.clone());
        self.hashes.insert(id, loaded.hash.clone());
        if range.start > 0 || range.end < loaded.size {
            self.in_part.insert(path.clone(), loaded.path.clone());
        }
        Some(path)
    }

    fn open(&self, below: &CStr) -> io::Result<File> {
        // SAFETY: a struct of numbers.
        let mut how: libc::open_how = unsafe { zeroed() };
        how.flags = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC) as u64;
        how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS;
        let (root, size) = (self.root.as_raw_fd(), size_of_val(&how));
        // SAFETY: a name that ends with NUL and a struct; a descriptor that is returned is ours.
        unsafe {
            match libc::syscall(libc::SYS_openat2, root, below.as_ptr(), &raw const how, size) {
                fd if fd >= 0 => Ok(File::from_raw_fd(fd as i32)),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// A call begins, with its number, and when it had ended. Returns the recorded path of the file of which it
    /// changes what a mapping shows, to bytes that the trace does not have.
    pub(crate) fn change(
        &mut self,
        touch: &Touch,
        act: Option<Act>,
        (seq, end): (u64, u64),
    ) -> Option<&[u8]> {
        if matches!(act, Some(Act::Rename | Act::HardLink)) {
            self.names_changed = self.names_changed.max(end);
        }
        let written = touch.accesses.iter().flatten().find(|access| access.is_write);
        let changed = match act {
            Some(Act::Allocate | Act::CloneFile | Act::CloneRange) => touch.by_fd,
            _ => None,
        };
        let files = [
            written.map(|access| access.file),
            touch.length.map(|(file, _)| file),
            changed.map(|(file, _)| file),
            touch.created,
        ];
        for file in files.iter().flatten() {
            let last = self.changed.entry(*file).or_default();
            *last = end.max(*last);
            self.hashes.remove(file);
        }
        // A replay has none of what comes from elsewhere.
        let foreign = written.filter(|_| act == Some(Act::Copy) && touch.accesses[0].is_none());
        self.foreign.extend(foreign.map(|access| access.file));
        let path = files.iter().flatten().find_map(|file| self.mapped.get(file))?;
        self.to_make.push(Reverse((end, seq)));
        foreign.map(|_| &path[..])
    }

    /// The next call that changes what mappings show and had ended by then.
    pub(crate) fn next_until(&mut self, tsc: u64) -> Option<u64> {
        let Reverse((_, seq)) = *self.to_make.peek().filter(|next| next.0.0 <= tsc)?;
        self.to_make.pop();
        Some(seq)
    }

    /// Whether a file is there as the calls have left it that have begun, if all that ended until then were made.
    pub(crate) fn is_made(&self, file: FileId, until: u64) -> bool {
        self.names_changed <= until && self.changed.get(&file).is_none_or(|end| *end <= until)
    }

    /// Whether there are any of which mappings show a part.
    pub(crate) fn are_in_part(&self) -> bool {
        !self.in_part.is_empty()
    }

    /// The recorded path of such a file that lies at an address.
    pub(crate) fn in_part(&self, there: &MappedFile) -> Option<&[u8]> {
        self.in_part.get(&there.path).map(|path| &path[..])
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use model::loaded::Loaded;
    use model::{Access, OpenId};

    use super::*;

    fn find(
        files: &mut RealFiles,
        file: usize,
        path: &str,
        size: u64,
        (end, hash): (u64, u8),
    ) -> Option<Vec<u8>> {
        let metadata = Path::new("/").metadata().unwrap();
        let loaded = Loaded { size, ..Loaded::of(Path::new(path), &metadata, vec![hash]) };
        files.find(&Mapping {
            file: Some(FileId::at(file)),
            loaded: &loaded,
            pieces: &[],
            range: 0..end,
            is_shared: true,
            is_writable: false,
            is_code: false,
            may_be_written: false,
            is_unchanged: false,
        })
    }

    #[test]
    fn files_below_the_root_are_mapped() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("a")).unwrap();
        fs::write(at("a/file"), b"bytes").unwrap();
        symlink("file", at("a/link")).unwrap();
        symlink("/etc", at("etc")).unwrap();
        let mut files = RealFiles::below(fs::File::open(root.path()).unwrap().into());
        let size = fs::metadata("/etc/passwd").unwrap().len();
        for (path, size) in [
            ("/a/file", 6),
            ("/a/link", 5),
            ("/a/none", 0),
            ("/a", fs::metadata(at("a")).unwrap().len()),
            ("/etc/passwd", size),
            ("/../../../../../../etc/passwd", size),
            ("relative", 5),
            ("/nul\0", 5),
        ] {
            assert_eq!(find(&mut files, 1, path, size, (size, 1)), None, "{path}");
        }
        let path = root.path().canonicalize().unwrap().join("a/file");
        let path = path.into_os_string().into_vec();
        let by_fd =
            || Touch { by_fd: Some((FileId::at(7), OpenId::default())), ..Touch::default() };
        let touch = |file| {
            let (open, file, offset, bytes) = (OpenId::default(), FileId::at(file), Some(0), 1);
            let (is_write, appends, asked, durable) = (true, false, None, false);
            let access = Access { open, file, is_write, offset, appends, bytes, asked, durable };
            Touch { accesses: [None, Some(access)], ..Touch::default() }
        };
        assert_eq!(files.change(&touch(7), None, (1, 5)), None);
        assert_eq!(find(&mut files, 7, "/a/file", 5, (4, 1)), Some(path.clone()));
        assert_eq!(files.next_until(9), None, "it was not mapped then");
        for (seq, changed, act) in [
            (2, touch(7), None),
            (3, touch(8), None),
            (
                4,
                Touch { length: Some((FileId::at(7), 1)), ..Touch::default() },
                Some(Act::Truncate),
            ),
            (5, by_fd(), Some(Act::Allocate)),
            (6, by_fd(), Some(Act::Seek)),
        ] {
            assert_eq!(files.change(&changed, act, (seq, 20 - seq)), None);
        }
        assert_eq!([15, 16, 17].map(|until| files.next_until(until)), [Some(5), Some(4), None]);
        assert_eq!([18, 99].map(|until| files.next_until(until)), [Some(2), None]);
        assert!(!files.is_made(FileId::at(8), 16) && files.is_made(FileId::at(8), 17));
        assert!(files.is_made(FileId::at(9), 1));
        files.change(&by_fd(), Some(Act::Rename), (7, 30));
        assert!(!files.is_made(FileId::at(9), 29), "its name may lead to another one");
        assert_eq!(files.change(&touch(7), Some(Act::Copy), (8, 40)), Some(&b"/a/file"[..]));
        assert_eq!(
            find(&mut files, 7, "/a/file", 5, (4, 1)),
            None,
            "a replay has not what came there"
        );
        let other = |files: &mut RealFiles, hash| find(files, 6, "/a/file", 5, (5, hash));
        assert_eq!(other(&mut files, 1), Some(path.clone()));
        files.change(&touch(6), None, (9, 50));
        assert_eq!(other(&mut files, 2), Some(path.clone()), "a call has changed it");
        assert_eq!(other(&mut files, 3), None, "no call has");
        let there = |path: &[u8]| MappedFile { path: path.to_vec(), offset: 0 };
        assert_eq!(files.in_part(&there(&path)), Some(&b"/a/file"[..]));
        assert_eq!(files.in_part(&there(b"/a/file")), None);
    }
}
