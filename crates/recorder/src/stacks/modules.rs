//! Files of code: their tables for unwinding, each read once.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::read::{ReadCache, ReadRef};
use object::{Object, ObjectSection, ObjectSegment};

/// Files that are remembered, and bytes of their tables.
const FILES_MAX: usize = 4096;
const TABLE_BYTES_MAX: u64 = 256 << 20;
const ALL_BYTES_MAX: u64 = 1 << 30;

/// A section: where it is, and what is in it.
type Section = Option<(Range<u64>, Arc<[u8]>)>;

/// A file of code.
pub struct Code {
    /// Parts that are loaded: place in the file, and address.
    segments: Vec<(Range<u64>, u64)>,
    text: Option<Range<u64>>,
    eh_frame: Section,
    eh_frame_hdr: Section,
    bytes: u64,
}

/// All of them, by path.
#[derive(Default)]
pub struct Modules {
    all: HashMap<Arc<[u8]>, Option<Arc<Code>>>,
    bytes: u64,
}

impl Modules {
    /// The file at a path, if it is one of code.
    pub fn of(&mut self, path: &Arc<[u8]>) -> Option<Arc<Code>> {
        if let Some(known) = self.all.get(path) {
            return known.clone();
        }
        if self.all.len() >= FILES_MAX || self.bytes >= ALL_BYTES_MAX {
            return None;
        }
        let code = read(Path::new(OsStr::from_bytes(path))).map(Arc::new);
        self.bytes += code.as_ref().map_or(0, |code| code.bytes);
        self.all.insert(Arc::clone(path), code.clone());
        code
    }
}

/// Opens a regular file, and nothing else: a path of a program's may lead to whatever it made.
fn open(path: &Path) -> Option<File> {
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).ok()?;
    if !place.metadata().ok()?.is_file() {
        return None;
    }
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place));
    File::open(again).ok()
}

fn read(path: &Path) -> Option<Code> {
    let cache = ReadCache::new(open(path)?);
    let file = object::File::parse(&cache).ok()?;
    code_of(&file)
}

fn code_of<'a>(file: &object::File<'a, impl ReadRef<'a>>) -> Option<Code> {
    let mut bytes = 0;
    let mut section = |name: &str| -> Section {
        let section = file.section_by_name(name)?;
        if section.size() > TABLE_BYTES_MAX {
            return None;
        }
        let data = section.data().ok()?;
        bytes += data.len() as u64;
        let from = section.address();
        Some((from..from.checked_add(section.size())?, data.into()))
    };
    let (eh_frame, eh_frame_hdr) = (section(".eh_frame"), section(".eh_frame_hdr"));
    let text = file.section_by_name(".text");
    let text = text.map(|text| text.address()..text.address().saturating_add(text.size()));
    let segments = file.segments().map(|segment| {
        let (from, size) = segment.file_range();
        (from..from.saturating_add(size), segment.address())
    });
    Some(Code { segments: segments.collect(), text, eh_frame, eh_frame_hdr, bytes })
}

impl Code {
    /// Where the file begins in memory if a part of it, from a place in the file on, is mapped there;
    /// and its tables.
    pub fn at(
        &self,
        start: u64,
        offset: u64,
    ) -> Option<(u64, ExplicitModuleSectionInfo<Arc<[u8]>>)> {
        // Mappings begin at whole pages, parts of files anywhere.
        const PAGE: u64 = 4096;
        let segment = self
            .segments
            .iter()
            .find(|(range, _)| (range.start & !(PAGE - 1)..range.end).contains(&offset))?;
        let address = segment.1.wrapping_add(offset.wrapping_sub(segment.0.start));
        let bias = start.wrapping_sub(address);
        let base_svma = self.segments.iter().map(|(_, address)| *address).min()? & !(PAGE - 1);
        let section = |section: &Section| match section {
            Some((range, bytes)) => (Some(range.clone()), Some(Arc::clone(bytes))),
            None => (None, None),
        };
        let (eh_frame_svma, eh_frame) = section(&self.eh_frame);
        let (eh_frame_hdr_svma, eh_frame_hdr) = section(&self.eh_frame_hdr);
        let info = ExplicitModuleSectionInfo {
            base_svma,
            text_svma: self.text.clone(),
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            ..ExplicitModuleSectionInfo::default()
        };
        Some((base_svma.wrapping_add(bias), info))
    }
}
