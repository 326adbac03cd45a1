//! Files that the program maps: what it finds there are shadows of them, files of the re-execution's own.
//!
//! ```text
//! trace: bytes that were mapped --fill--> shadow <--mmap at the recorded address-- program, its children
//!        calls that change the file --change-^
//! ```
//!
//! A shadow has the bytes that the trace holds of the file. What recorded calls change of the file is
//! changed there too, so mappings see it, as they see the stores of each other: the kernel takes care of
//! both. Programs and libraries have none, as they are loaded from the machine's own files.

mod changes;
mod place;
mod ranges;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use model::FileId;
use model::loaded::{Loaded, PIECES_MAX};
use render::escape::escaped;
use trace::event::Content;

use crate::mapped_file::MappedFile;
use place::Place;
use ranges::Ranges;

/// Maximum number of shadows.
const SHADOWS_MAX: usize = 1 << 14;
/// From how many bytes on those that nobody has mapped are removed.
const BYTES_MAX: u64 = 1 << 30;
/// How many are made before they are counted.
const LOOK_EVERY: u32 = 16;
/// Those of larger files stay: the trace may have their bytes only once.
const REMOVED_MAX: u64 = 64 << 20;
/// Maximum size of a file of this machine that is copied.
const COPIED_MAX: u64 = 16 << 30;
/// Maximum number of doubts that are told.
const DOUBTS_MAX: usize = 4;

/// The device and the inode that a file had.
type Inode = (u64, u64);

/// The shadows of a re-execution.
pub struct Shadows {
    /// Why there is none, if there is none.
    place: io::Result<Place>,
    /// By number, so the oldest one first.
    all: BTreeMap<u32, Shadow>,
    by_file: HashMap<FileId, u32>,
    by_inode: HashMap<Inode, u32>,
    /// Files that are mapped as they are on this machine, and their paths.
    originals: HashMap<FileId, Vec<u8>>,
    next: u32,
    /// Bytes at which to look for what can be removed.
    limit: u64,
    /// What the trace does not hold of mapped files.
    doubts: Vec<String>,
}

/// The shadow of one file.
struct Shadow {
    /// The file's path, for people.
    path: Vec<u8>,
    inode: Inode,
    size: u64,
    known: Ranges,
    /// The hash of the whole file, unless it was changed since.
    hash: Option<Vec<u8>>,
    /// It was mapped so that stores reach it, or may once its memory is made writable.
    is_shared: bool,
    /// Programs may have stored to it.
    is_stored: bool,
    /// Number of threads that are about to map it.
    opening: u32,
}

/// A mapping that is made again.
pub(crate) struct Mapping<'a> {
    /// The file in the model, if it is told from others.
    pub file: Option<FileId>,
    /// What the trace says of the file.
    pub loaded: &'a Loaded,
    /// The same for each piece of its bytes that is in the trace. What none has is a hole.
    pub pieces: &'a [Loaded],
    /// What is mapped.
    pub range: Range<u64>,
    /// Stores reach the file.
    pub is_shared: bool,
    /// It can be stored to.
    pub is_writable: bool,
    /// A program or a library is loaded.
    pub is_code: bool,
    /// It was opened to be written as well.
    pub may_be_written: bool,
    /// The file that has the path now has the same bytes.
    pub is_unchanged: bool,
}

/// Reads bytes of the trace.
pub(crate) type Bytes<'a> = dyn FnMut(&Content) -> Result<Vec<u8>, String> + 'a;

/// What is mapped.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Means {
    /// The machine's own file.
    Original,
    /// The shadow of this number.
    Shadow(u32),
    /// The file of the re-execution's root that has this path here.
    Real(Vec<u8>),
}

impl Shadows {
    /// Makes a directory for them.
    pub fn in_a_new_directory() -> Shadows {
        Shadows {
            place: Place::new(),
            all: BTreeMap::new(),
            by_file: HashMap::new(),
            by_inode: HashMap::new(),
            originals: HashMap::new(),
            next: 0,
            limit: BYTES_MAX,
            doubts: Vec::new(),
        }
    }

    /// The directory: the only one where the program may open files to change them.
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.place.as_ref().ok().map(Place::directory)
    }

    /// What the trace does not hold of mapped files, for people.
    pub fn doubts(&mut self) -> Vec<String> {
        if let (false, Ok(place)) = (self.all.is_empty(), &self.place)
            && place.has_room().is_err()
        {
            self.doubts.push(full(place, &[]));
        }
        std::mem::take(&mut self.doubts)
    }

    /// Notes something that the trace does not hold.
    pub(crate) fn doubt(&mut self, text: String) {
        if self.doubts.len() < DOUBTS_MAX && !self.doubts.contains(&text) {
            self.doubts.push(text);
        }
    }

    /// The path of a shadow.
    pub fn path_of(&self, number: u32) -> Vec<u8> {
        self.place.as_ref().map(|place| place.path_of(number)).unwrap_or_default()
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        !self.all.is_empty()
    }

    /// What a thread has mapped somewhere grows to another length, if that is a shadow.
    pub(crate) fn grow(&mut self, there: &MappedFile, lengths: Range<u64>) {
        let number = self.place.as_ref().ok().and_then(|place| place.at_path(&there.path));
        let Some(shadow) = number.and_then(|number| self.all.get(&number)) else { return };
        let at = there.offset;
        let shown = at.saturating_add(lengths.start)..at.saturating_add(lengths.end);
        if !shadow.known.has(shown.start..shown.end.min(shadow.size)) {
            let path = escaped(&shadow.path);
            self.doubt(format!(
                "mremap shows bytes of {path} that no mmap has shown, and the trace does not hold them"
            ));
        }
    }

    /// A thread has mapped a shadow.
    pub fn was_mapped(&mut self, number: u32) {
        if let Some(shadow) = self.all.get_mut(&number) {
            shadow.opening = shadow.opening.saturating_sub(1);
        }
    }

    /// Memory is made writable: a mapping of a shadow may be there.
    pub fn is_made_writable(&mut self) {
        for shadow in self.all.values_mut() {
            shadow.is_stored |= shadow.is_shared;
        }
    }

    /// A file is about to be mapped. `bytes` reads what the trace has of the range.
    pub(crate) fn map(
        &mut self,
        mapping: &Mapping<'_>,
        bytes: &mut Bytes<'_>,
    ) -> Result<Means, String> {
        let loaded = mapping.loaded;
        if loaded.hash.is_empty() {
            return Ok(Means::Original);
        }
        let found = self.find(mapping);
        let pieces = mapping.pieces;
        if pieces.len() > PIECES_MAX || pieces.iter().any(|piece| piece.content.is_none()) {
            let Some(number) = found.filter(|number| self.serves(*number, mapping)) else {
                return self.original(mapping);
            };
            return Ok(self.is_mapped(number, mapping));
        }
        let number = match found {
            Some(number) => number,
            None => self.make(loaded)?,
        };
        let filled = self.fill(number, mapping, bytes);
        filled.map_err(|error| self.failed(number, &error))?;
        Ok(self.is_mapped(number, mapping))
    }

    /// The shadow of a file: by its identity in the model, and by its inode.
    fn find(&mut self, mapping: &Mapping<'_>) -> Option<u32> {
        let of_file = mapping.file.and_then(|file| self.by_file.get(&file)).copied();
        // Another file may have its name now.
        let of_file = of_file.filter(|number| self.all[number].inode == mapping.loaded.inode);
        let of_inode = || {
            let number = self.by_inode.get(&mapping.loaded.inode).copied()?;
            // Who has a file mapped keeps its inode from others.
            (mapping.file.is_none() || self.is_used(number)).then_some(number)
        };
        let number = of_file.or_else(of_inode)?;
        if let Some(file) = mapping.file {
            self.by_file.insert(file, number);
        }
        Some(number)
    }

    fn is_used(&self, number: u32) -> bool {
        let is_opened = self.all.get(&number).is_some_and(|shadow| shadow.opening > 0);
        let Ok(place) = &self.place else { return false };
        is_opened || place.open(number).is_ok_and(|file| place::is_used(&file))
    }

    /// Whether a mapping of which the trace has no bytes is served by a shadow.
    fn serves(&self, number: u32, mapping: &Mapping<'_>) -> bool {
        let shadow = &self.all[&number];
        let is_original = mapping.is_unchanged
            && mapping.is_code
            && shadow.hash.as_ref() == Some(&mapping.loaded.hash);
        let within = mapping.range.start..mapping.range.end.min(shadow.size);
        !is_original && shadow.known.has(within)
    }

    /// The machine's own file is mapped.
    fn original(&mut self, mapping: &Mapping<'_>) -> Result<Means, String> {
        let path = escaped(&mapping.loaded.path);
        if !mapping.is_unchanged {
            return Err(format!(
                "the trace does not hold the bytes of {path} that the program maps, and the file has others now"
            ));
        }
        let is_copied = mapping.may_be_written && mapping.loaded.size <= COPIED_MAX;
        if is_copied && !mapping.is_code {
            let number = self.make(mapping.loaded)?;
            let copied = self.copy(number, mapping.loaded);
            copied.map_err(|error| self.failed(number, &error))?;
            return Ok(self.is_mapped(number, mapping));
        }
        if let Some(file) = mapping.file.filter(|_| !mapping.is_code) {
            if mapping.is_shared && mapping.is_writable {
                self.doubt(format!(
                    "{path} is too large for its bytes to be in the trace, so what the program stores to a \
                     mapping of it is seen there alone"
                ));
            }
            self.originals.insert(file, mapping.loaded.path.clone());
        }
        Ok(Means::Original)
    }

    /// Copies the machine's own file.
    fn copy(&mut self, number: u32, loaded: &Loaded) -> io::Result<()> {
        let (Ok(place), Some(shadow)) = (&self.place, self.all.get_mut(&number)) else {
            return Ok(());
        };
        place.has_room_for(loaded.size)?;
        let mut open = File::options();
        open.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC);
        let original = open.open(OsStr::from_bytes(&loaded.path))?;
        let copied = io::copy(&mut original.take(loaded.size), &mut place.open(number)?)?;
        if copied != loaded.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        shadow.size = loaded.size;
        shadow.known.add(0..loaded.size);
        shadow.hash = Some(loaded.hash.clone());
        Ok(())
    }

    fn is_mapped(&mut self, number: u32, mapping: &Mapping<'_>) -> Means {
        if let Some(shadow) = self.all.get_mut(&number) {
            shadow.is_shared |= mapping.is_shared;
            shadow.is_stored |= mapping.is_shared && mapping.is_writable;
            shadow.opening += 1;
        }
        if let Some(file) = mapping.file {
            self.by_file.insert(file, number);
        }
        Means::Shadow(number)
    }

    fn make(&mut self, loaded: &Loaded) -> Result<u32, String> {
        self.make_room();
        let place = match &self.place {
            Ok(place) => place,
            Err(error) => {
                return Err(format!(
                    "no directory for files that the program maps can be made in {}: {error}",
                    std::env::temp_dir().display()
                ));
            }
        };
        if self.all.len() >= SHADOWS_MAX {
            return Err(format!("the program has more than {SHADOWS_MAX} files mapped"));
        }
        let number = self.next;
        place.make(number).map_err(|error| failed(place, &loaded.path, &error))?;
        self.next += 1;
        let shadow = Shadow {
            path: loaded.path.clone(),
            inode: loaded.inode,
            size: 0,
            known: Ranges::default(),
            hash: None,
            is_shared: false,
            is_stored: false,
            opening: 0,
        };
        self.all.insert(number, shadow);
        self.by_inode.insert(loaded.inode, number);
        Ok(number)
    }

    /// Removes shadows that nobody has mapped, if there are many.
    fn make_room(&mut self) {
        let bytes = |all: &BTreeMap<u32, Shadow>| all.values().map(|one| one.known.bytes()).sum();
        if self.all.len() < SHADOWS_MAX
            && (!self.next.is_multiple_of(LOOK_EVERY) || bytes(&self.all) < self.limit)
        {
            return;
        }
        let unused = self
            .all
            .iter()
            .filter(|(number, shadow)| shadow.size <= REMOVED_MAX && !self.is_used(**number));
        let unused: Vec<u32> = unused.map(|(number, _)| *number).collect();
        for number in &unused {
            self.all.remove(number);
            if let Ok(place) = &self.place {
                place.remove(*number);
            }
        }
        self.by_file.retain(|_, number| self.all.contains_key(number));
        self.by_inode.retain(|_, number| self.all.contains_key(number));
        let left: u64 = bytes(&self.all);
        self.limit = left.saturating_mul(2).max(BYTES_MAX);
    }

    /// Gives a shadow the bytes that the trace has of a mapping.
    fn fill(
        &mut self,
        number: u32,
        mapping: &Mapping<'_>,
        bytes: &mut Bytes<'_>,
    ) -> io::Result<()> {
        let loaded = mapping.loaded;
        // What programs have stored may be newer than what the trace has here.
        let is_newer = self.all[&number].is_stored && self.is_used(number);
        let (Ok(place), Some(shadow)) = (&self.place, self.all.get_mut(&number)) else {
            return Ok(());
        };
        place.has_room()?;
        let end = mapping.range.end.min(loaded.size);
        let range = mapping.range.start.min(end)..end;
        let is_same = shadow.size == loaded.size && shadow.hash.as_ref() == Some(&loaded.hash);
        if range.is_empty() && is_same || (is_same || is_newer) && shadow.known.has(range.clone()) {
            return Ok(());
        }
        let file = place.open(number)?;
        if !is_newer && shadow.size != loaded.size {
            file.set_len(loaded.size)?;
            shadow.known.remove(loaded.size..u64::MAX);
            shadow.size = loaded.size;
        }
        let range = range.start.min(shadow.size)..range.end.min(shadow.size);
        let mut at = range.start;
        for piece in mapping.pieces {
            let bytes = match &piece.content {
                Some(content) => bytes(content).map_err(io::Error::other)?,
                None => Vec::new(),
            };
            let start = piece.offset.clamp(at, range.end);
            let end = piece.offset.saturating_add(bytes.len() as u64).clamp(start, range.end);
            shadow.fill_hole(&file, at..start, is_newer)?;
            for part in shadow.parts(start..end, is_newer) {
                let of = |at: u64| (at - piece.offset) as usize;
                shadow.put((place, &file), part.start, &bytes[of(part.start)..of(part.end)])?;
            }
            at = end;
        }
        shadow.fill_hole(&file, at..range.end, is_newer)?;
        shadow.known.add(range);
        let is_whole = !is_newer && shadow.known.has(0..shadow.size);
        shadow.hash = is_whole.then(|| loaded.hash.clone());
        Ok(())
    }

    fn failed(&self, number: u32, error: &io::Error) -> String {
        let path = self.all.get(&number).map_or(&[][..], |shadow| &shadow.path);
        self.place.as_ref().map_or(String::new(), |place| failed(place, path, error))
    }
}

impl Shadow {
    /// What is to be written of a range: all, or what is not known.
    fn parts(&self, range: Range<u64>, is_newer: bool) -> Vec<Range<u64>> {
        match is_newer {
            _ if range.is_empty() => Vec::new(),
            true => self.known.missing(range),
            false => vec![range],
        }
    }

    /// Makes zeros where the file has a hole.
    fn fill_hole(&self, file: &File, range: Range<u64>, is_newer: bool) -> io::Result<()> {
        self.parts(range, is_newer).into_iter().try_for_each(|part| place::clear(file, part))
    }

    /// Writes bytes, where others are and there is room.
    fn put(&mut self, (place, file): (&Place, &File), at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut before = vec![0; bytes.len()];
        if file.read_exact_at(&mut before, at).is_ok() && before == bytes {
            return Ok(());
        }
        place.has_room_for(bytes.len() as u64)?;
        file.write_all_at(bytes, at)
    }
}

/// A failure, for people.
fn failed(place: &Place, path: &[u8], error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => full(place, path),
        _ => format!(
            "{}, which the program maps, cannot be kept in {}: {error}",
            escaped(path),
            place.named().display()
        ),
    }
}

fn full(place: &Place, path: &[u8]) -> String {
    let what = match path {
        [] => "files that the program maps".into(),
        path => format!("{}, which the program maps", escaped(path)),
    };
    format!(
        "there is too little room for {what}, in {}; TMPDIR names a directory elsewhere",
        place.named().display()
    )
}
