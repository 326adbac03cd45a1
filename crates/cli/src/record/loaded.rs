//! Notes the files that programs load and map, for a re-execution to compare.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use recorder::{Handle, host, start_thread};
use rerun::{Loaded, hash_of};
use ring::answer;
use supervisor::{Answer, Asked};
use syscalls::abi::memory::{MAP_DENYWRITE, PROT_EXEC};

/// Device, inode, size and time of the last change.
type Key = (u64, u64, u64, i64, i64);

/// Maximum size of a mapping whose bytes are stored.
const STORED_MAX: u64 = 64 << 20;

/// A mapping that a thread is about to make.
struct Mapping {
    tid: i32,
    process: u32,
    thread: u32,
    /// The arguments of the request.
    args: [u64; 6],
    /// Lets it go on.
    answer: Answer,
}

/// Notes the files of programs.
pub struct LoadedFiles {
    handle: Handle,
    known: Known,
    /// Looks at files that are mapped: that may take long, and only the program is to wait.
    mappings: Sender<Mapping>,
}

/// Hashes of files that were seen.
#[derive(Default)]
struct Known(HashMap<Key, Vec<u8>>);

impl LoadedFiles {
    /// Begins to note files.
    pub fn start(handle: Handle) -> std::io::Result<LoadedFiles> {
        let (mappings, asked) = channel::<Mapping>();
        let theirs = handle.clone();
        start_thread("loaded files", move || {
            let mut known = Known::default();
            for mapping in asked {
                known.mapped(&theirs, &mapping);
                mapping.answer.give(answer::DONE);
            }
        })?;
        Ok(LoadedFiles { handle, known: Known::default(), mappings })
    }

    /// Notes the file behind a descriptor of a thread that is about to map it.
    pub fn mapped(&mut self, asked: Asked) {
        let Asked { tid, process, thread, args, answer, .. } = asked;
        // If nobody looks any more, the answer is dropped, and so given.
        let _ = self.mappings.send(Mapping { tid, process, thread, args, answer });
    }

    /// Notes the files of a new image, which is stopped: the program, and what loads it.
    pub fn image(&mut self, pid: u32, process: u32) {
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return };
        let mut paths: Vec<&str> =
            maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).collect();
        paths.dedup();
        for path in paths {
            let at = PathBuf::from(format!("/proc/{pid}/root{path}"));
            if let Some(loaded) = self.known.look(Path::new(path), &at) {
                self.handle.event(Loaded { process, ..loaded }.event(host::tsc(), 0));
            }
        }
    }
}

impl Known {
    fn mapped(&mut self, handle: &Handle, mapping: &Mapping) {
        let [fd, prot, flags, len, offset, _] = mapping.args;
        let link = PathBuf::from(format!("/proc/{}/fd/{fd}", mapping.tid));
        let Ok(path) = std::fs::read_link(&link) else { return };
        let Some(loaded) = self.look(&path, &link) else { return };
        let (process, thread) = (mapping.process, mapping.thread);
        let loaded = Loaded { process, thread, offset, ..loaded };
        // Programs and libraries are loaded from their files again; other files may have changed until
        // then, by the program itself.
        let is_code = prot & PROT_EXEC != 0 || flags & MAP_DENYWRITE != 0;
        if !is_code && !loaded.hash.is_empty() && len <= STORED_MAX {
            let len = len.min(loaded.size.saturating_sub(offset));
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
            let read = File::open(&link).and_then(|file| file.read_exact_at(&mut bytes, offset));
            if read.is_ok() && handle.event_with_bytes(loaded.event(host::tsc(), len), bytes) {
                return;
            }
        }
        handle.event(loaded.event(host::tsc(), 0));
    }

    /// Looks at a file. `at` leads to it, `path` is its name.
    fn look(&mut self, path: &Path, at: &Path) -> Option<Loaded> {
        let metadata = at.metadata().ok()?;
        let mut hash = Vec::new();
        if metadata.is_file() {
            let time = (metadata.mtime(), metadata.mtime_nsec());
            let key = (metadata.dev(), metadata.ino(), metadata.size(), time.0, time.1);
            if let Some(known) = self.0.get(&key) {
                hash.clone_from(known);
            } else {
                hash = File::open(at).and_then(hash_of).ok()?;
                self.0.insert(key, hash.clone());
            }
        }
        Some(Loaded::of(path, &metadata, hash))
    }
}
