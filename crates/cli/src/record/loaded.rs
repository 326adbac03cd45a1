//! Notes the files that programs load and map, for a re-execution to compare.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recorder::{Handle, host};
use rerun::{Loaded, hash_of};

/// Device, inode, size and time of the last change.
type Key = (u64, u64, u64, i64, i64);

/// Hashes of files that were seen.
#[derive(Default)]
pub struct LoadedFiles(HashMap<Key, Vec<u8>>);

impl LoadedFiles {
    /// Notes the file behind a descriptor of a thread that is about to map it.
    pub fn mapped(&mut self, handle: &Handle, (tid, fd): (i32, i32), process: u32, thread: u32) {
        let link = PathBuf::from(format!("/proc/{tid}/fd/{fd}"));
        let Ok(path) = std::fs::read_link(&link) else { return };
        self.note(handle, &path, &link, process, thread);
    }

    /// Notes the files of a new image: the program, and what loads it.
    pub fn image(&mut self, handle: &Handle, pid: u32, process: u32) {
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return };
        let mut paths: Vec<&str> =
            maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).collect();
        paths.dedup();
        for path in paths {
            let at = PathBuf::from(format!("/proc/{pid}/root{path}"));
            self.note(handle, Path::new(path), &at, process, 0);
        }
    }

    fn note(&mut self, handle: &Handle, path: &Path, at: &Path, process: u32, thread: u32) {
        let Ok(metadata) = at.metadata() else { return };
        let mut hash = Vec::new();
        if metadata.is_file() {
            let time = (metadata.mtime(), metadata.mtime_nsec());
            let key = (metadata.dev(), metadata.ino(), metadata.size(), time.0, time.1);
            if let Some(known) = self.0.get(&key) {
                hash.clone_from(known);
            } else {
                let Ok(of) = File::open(at).and_then(hash_of) else { return };
                hash.clone_from(&of);
                self.0.insert(key, of);
            }
        }
        let loaded = Loaded { process, thread, ..Loaded::of(path, &metadata, hash) };
        handle.event(loaded.event(host::tsc()));
    }
}
