//! Staging of contents: one sparse file for each, on the target's file system, until the names of
//! all files are known.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};

use crate::options::Fill;
use crate::space::{Medium, Space};

/// Most files kept open.
const OPEN_MAX: usize = 128;
/// Bytes of filler written at a time.
const FILL_BYTES: usize = 256 << 10;
/// Disk space of a file beyond its bytes.
const FILE_BYTES: u64 = 256;
/// Most names tried for the directory.
const TRIES_MAX: u32 = 1000;

/// A file with staged content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Staged {
    place: usize,
    number: u32,
}

/// A directory for staged contents.
struct Place {
    /// Path in the image that it serves, and the directory there that contains it.
    prefix: Vec<u8>,
    above: OwnedFd,
    name: String,
    directory: OwnedFd,
}

/// The staged contents of an image.
pub struct Staging {
    space: Arc<Space>,
    places: Vec<Place>,
    next: u32,
    open: HashMap<u32, OwnedFd>,
    order: VecDeque<u32>,
}

/// Open flags for directories: links are not followed.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Staging {
    /// Creates a place in the root, and one in each of the directories in it that are on their own
    /// file systems.
    pub fn new(root: BorrowedFd<'_>, others: &[Vec<u8>], space: Arc<Space>) -> io::Result<Staging> {
        let (places, open, order) = (Vec::new(), HashMap::new(), VecDeque::new());
        let mut staging = Staging { space, places, next: 0, open, order };
        for prefix in [b"/".to_vec()].iter().chain(others) {
            let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let above = rustix::fs::openat2(root, &prefix[..], flags, Mode::empty(), resolve)?;
            let name = make_directory(above.as_fd())?;
            let directory = rustix::fs::openat(&above, &name, DIRECTORY, Mode::empty())?;
            staging.places.push(Place { prefix: prefix.clone(), above, name, directory });
        }
        Ok(staging)
    }

    /// Writes part of a content; `path` is the file's future path.
    pub fn write(
        &mut self,
        staged: &mut Option<Staged>,
        path: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let file = match *staged {
            Some(file) => file,
            None => {
                let file = self.new_file(path);
                *staged = Some(file);
                file
            }
        };
        self.take(bytes.len() as u64)?;
        let fd = self.file(file)?;
        let mut done = 0;
        while done < bytes.len() {
            done += rustix::io::pwrite(fd, &bytes[done..], offset + done as u64)?;
        }
        Ok(())
    }

    /// Reserves disk space.
    pub fn take(&self, bytes: u64) -> io::Result<()> {
        match self.space.take_here(bytes.saturating_add(FILE_BYTES)) {
            true => Ok(()),
            false => Err(io::Error::other(self.space.used_up(Medium::Disk))),
        }
    }

    /// Writes filler to ranges of a content.
    pub fn fill(&mut self, file: Staged, ranges: &[Range<u64>], fill: &Fill) -> io::Result<()> {
        for range in ranges {
            self.take(range.end - range.start)?;
            let fd = self.file(file)?;
            let mut at = range.start;
            while at < range.end {
                let len = (range.end - at).min(FILL_BYTES as u64) as usize;
                let mut bytes = vec![0; len];
                fill.write(&mut bytes);
                at += rustix::io::pwrite(fd, &bytes, at)? as u64;
            }
        }
        Ok(())
    }

    /// Creates an empty content for the file at a path.
    pub fn new_file(&mut self, path: &[u8]) -> Staged {
        let fits = |place: &&(usize, &Place)| crate::realm::is_at_or_below(path, &place.1.prefix);
        let places = self.places.iter().enumerate().collect::<Vec<_>>();
        let best = places.iter().filter(fits).max_by_key(|(_, place)| place.prefix.len());
        let place = best.map_or(0, |(place, _)| *place);
        self.next += 1;
        Staged { place, number: self.next }
    }

    /// Returns the open file of a content.
    pub fn file(&mut self, staged: Staged) -> io::Result<BorrowedFd<'_>> {
        let number = staged.number;
        if !self.open.contains_key(&number) {
            if self.open.len() >= OPEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.open.remove(&oldest);
            }
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = &self.places[staged.place].directory;
            let mode = Mode::RUSR | Mode::WUSR;
            let fd = rustix::fs::openat(directory, number.to_string(), flags, mode)?;
            self.open.insert(number, fd);
            self.order.push_back(number);
        }
        match self.open.get(&number) {
            Some(fd) => Ok(fd.as_fd()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Links a content to a name in the image; it also keeps its staging name until the end.
    pub fn link(
        &self,
        staged: Staged,
        directory: BorrowedFd<'_>,
        name: &[u8],
    ) -> rustix::io::Result<()> {
        let from = &self.places[staged.place].directory;
        rustix::fs::linkat(from, staged.number.to_string(), directory, name, AtFlags::empty())
    }

    /// Moves a content to its only name in the image.
    pub fn rename(
        &mut self,
        staged: Staged,
        directory: BorrowedFd<'_>,
        name: &[u8],
    ) -> rustix::io::Result<()> {
        let from = &self.places[staged.place].directory;
        rustix::fs::renameat(from, staged.number.to_string(), directory, name)
    }

    /// Removes the staging directories, and contents that were not used.
    pub fn finish(mut self) -> io::Result<()> {
        self.open.clear();
        self.remove_all()
    }

    fn remove_all(&mut self) -> io::Result<()> {
        for place in self.places.drain(..) {
            let mut entries = rustix::fs::Dir::read_from(&place.directory)?;
            while let Some(entry) = entries.read() {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name != b"." && name != b".." {
                    rustix::fs::unlinkat(&place.directory, name, AtFlags::empty())?;
                }
            }
            rustix::fs::unlinkat(&place.above, &place.name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After a failure. What cannot be removed stays, like the rest of the image.
        let _ = self.remove_all();
    }
}

fn make_directory(above: BorrowedFd<'_>) -> io::Result<String> {
    for number in 0..TRIES_MAX {
        let name = format!(".reenact-image-{number}");
        match rustix::fs::mkdirat(above, &name, Mode::RWXU) {
            Err(rustix::io::Errno::EXIST) => {}
            made => return made.map(|()| name).map_err(io::Error::from),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
