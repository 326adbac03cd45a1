//! Notes the files that programs load and map, for a re-execution to compare.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use model::loaded::{Loaded, PIECES_MAX};
use recorder::{Handle, host, start_thread};
use rerun::hash_of;
use ring::answer;
use supervisor::{Answer, Asked};

/// Device, inode, size and time of the last change, which nobody can set.
type Key = (u64, u64, u64, i64, i64);

/// Maximum number of bytes of a mapping that are stored.
const STORED_MAX: u64 = 64 << 20;

/// A mapping that a thread is about to make.
struct Mapping {
    tid: i32,
    process: u32,
    thread: u32,
    /// The arguments of the call.
    args: [u64; 6],
    /// Lets it go on.
    answer: Answer,
}

/// Files of a new image: the number of its process, its root directory, which is there when it has
/// ended too, and their paths in it.
struct Image {
    process: u32,
    root: File,
    files: Vec<PathBuf>,
}

enum Wanted {
    Mapping(Mapping),
    Image(Image),
}

/// Notes the files of programs.
pub struct LoadedFiles {
    /// Looks at files: that may take long, or for ever, and nobody else is to wait.
    wanted: Sender<Wanted>,
    /// The thread that does.
    thread: u32,
}

/// Hashes of files that were seen.
#[derive(Default)]
struct Known(HashMap<Key, Vec<u8>>);

/// The offsets and lengths of what is stored of a range of a file; `None` if that is too much. What is
/// large is stored without its holes.
fn stored(file: &File, offset: u64, len: u64) -> Option<Vec<(u64, u64)>> {
    if len <= STORED_MAX {
        return Some(vec![(offset, len)]);
    }
    let end = i64::try_from(offset.checked_add(len)?).ok()?;
    let next = |at: i64, what: i32| {
        // SAFETY: takes numbers; the descriptor is ours.
        let found = unsafe { libc::lseek(file.as_raw_fd(), at, what) };
        match found {
            // Behind the last data there is none.
            -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => Some(end),
            -1 => None,
            found => Some(found.min(end)),
        }
    };
    let (mut at, mut bytes, mut pieces) = (i64::try_from(offset).ok()?, 0, Vec::new());
    while at < end {
        let from = next(at, libc::SEEK_DATA)?.max(at);
        at = next(from, libc::SEEK_HOLE)?.max(from);
        if at > from {
            pieces.push((from.unsigned_abs(), (at - from).unsigned_abs()));
            bytes += (at - from).unsigned_abs();
        } else if from < end {
            return None;
        }
        if bytes > STORED_MAX || pieces.len() > PIECES_MAX {
            return None;
        }
    }
    if pieces.is_empty() {
        pieces.push((offset, 0));
    }
    Some(pieces)
}

/// Appends a piece of a file to an empty buffer. It is not zeroed before, which took as long again.
fn read_exactly(mut file: &File, offset: u64, len: u64, to: &mut Vec<u8>) -> std::io::Result<()> {
    to.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))?;
    file.seek(SeekFrom::Start(offset))?;
    let read = file.take(len).read_to_end(to)? as u64;
    if read == len { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

impl LoadedFiles {
    /// Begins to note files.
    pub fn start(handle: Handle) -> std::io::Result<LoadedFiles> {
        let (wanted, asked) = channel::<Wanted>();
        let (tell, told) = channel();
        start_thread("loaded", move || {
            // Who started it waits for that.
            // SAFETY: has no arguments.
            let _ = tell.send(unsafe { libc::gettid() }.cast_unsigned());
            let mut known = Known::default();
            for wanted in asked {
                match wanted {
                    Wanted::Mapping(mapping) => {
                        let is_told = known.mapped(&handle, &mapping).is_some();
                        mapping.answer.give(if is_told { answer::DONE } else { answer::REFUSED });
                    }
                    Wanted::Image(image) => known.image(&handle, &image),
                }
            }
        })?;
        let thread = told.recv().map_err(std::io::Error::other)?;
        Ok(LoadedFiles { wanted, thread })
    }

    /// The thread that programs wait for when they map a file.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// Notes the file behind a descriptor of a thread that is about to map it.
    pub fn mapped(&mut self, asked: Asked) {
        let Asked { tid, process, thread, args, answer, .. } = asked;
        // If nobody looks any more, the answer is dropped, and so given.
        let mapping = Mapping { tid, process, thread, args, answer };
        let _ = self.wanted.send(Wanted::Mapping(mapping));
    }

    /// Notes the files of a new image: the program, and what loads it.
    pub fn image(&mut self, pid: u32, process: u32) {
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return };
        let mut paths: Vec<&str> =
            maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).collect();
        paths.dedup();
        let files = paths.into_iter().map(PathBuf::from).collect();
        let mut open = OpenOptions::new();
        let root = open.read(true).custom_flags(libc::O_PATH).open(format!("/proc/{pid}/root"));
        let Ok(root) = root else { return };
        let _ = self.wanted.send(Wanted::Image(Image { process, root, files }));
    }
}

impl Known {
    fn image(&mut self, handle: &Handle, image: &Image) {
        for path in &image.files {
            let root = image.root.as_raw_fd();
            let at = PathBuf::from(format!("/proc/self/fd/{root}{}", path.display()));
            if let Some((loaded, _)) = self.look(path, &at) {
                let process = image.process;
                handle.event(Loaded { process, ..loaded }.event(host::tsc(), 0));
            }
        }
    }

    /// `None`: nothing was told.
    fn mapped(&mut self, handle: &Handle, mapping: &Mapping) -> Option<()> {
        let [_, len, _, _, fd, offset] = mapping.args;
        let link = PathBuf::from(format!("/proc/{}/fd/{}", mapping.tid, fd as i32));
        let path = std::fs::read_link(&link).ok()?;
        let (loaded, file) = self.look(&path, &link)?;
        let (process, thread) = (mapping.process, mapping.thread);
        let loaded = Loaded { process, thread, offset, ..loaded };
        // Programs and libraries are loaded from their files again; other files may have changed until
        // then, by the program itself.
        let is_code = syscalls::mapping::Mapping::of(&mapping.args).is_code();
        let len = len.min(loaded.size.saturating_sub(offset));
        let stored = file.filter(|_| !is_code).and_then(|file| {
            let pieces = stored(&file, offset, len)?;
            Some((file, pieces))
        });
        let Some((file, pieces)) = stored else {
            handle.event(loaded.event(host::tsc(), 0));
            return Some(());
        };
        for (offset, len) in pieces {
            let mut bytes = handle.buffer();
            // What is not there is none of the bytes that are mapped.
            if read_exactly(&file, offset, len, &mut bytes).is_err() {
                handle.event(loaded.event(host::tsc(), 0));
                return Some(());
            }
            let loaded = Loaded { offset, ..loaded.clone() };
            handle.event_with_bytes(loaded.event(host::tsc(), len), bytes);
        }
        Some(())
    }

    /// Looks at a file, and opens it if it is a regular one. `at` leads to it, `path` is its name.
    fn look(&mut self, path: &Path, at: &Path) -> Option<(Loaded, Option<File>)> {
        let metadata = at.metadata().ok()?;
        if !metadata.is_file() {
            return Some((Loaded::of(path, &metadata, Vec::new()), None));
        }
        // What is there may have been exchanged for a pipe, whose open would wait for a peer.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(at).ok()?;
        let metadata = file.metadata().ok().filter(Metadata::is_file)?;
        let time = (metadata.ctime(), metadata.ctime_nsec());
        let key = (metadata.dev(), metadata.ino(), metadata.size(), time.0, time.1);
        let hash = match self.0.get(&key) {
            Some(known) => known.clone(),
            None => {
                let hash = hash_of(&file).ok()?;
                self.0.insert(key, hash.clone());
                hash
            }
        };
        Some((Loaded::of(path, &metadata, hash), Some(file)))
    }
}
