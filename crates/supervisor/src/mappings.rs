//! Which files' text is mapped where in a process.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// An executable mapping of a file.
#[derive(Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Offset in the file of `start`.
    pub offset: u64,
    pub writable: bool,
    dev: (u64, u64),
    ino: u64,
    path: String,
}

impl Mapping {
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Identity of the file as the process sees it, if it still is that file: device, inode,
    /// modification time, size.
    pub fn key(&self, pid: i32) -> Option<[u64; 4]> {
        self.key_if_same(&fs::metadata(self.seen_from_outside(pid)).ok()?)
    }

    /// Opens the file, if it still is that file.
    pub fn open(&self, pid: i32) -> Option<File> {
        let file = File::open(self.seen_from_outside(pid)).ok()?;
        self.key_if_same(&file.metadata().ok()?).and(Some(file))
    }

    fn seen_from_outside(&self, pid: i32) -> String {
        format!("/proc/{pid}/root{}", self.path)
    }

    fn key_if_same(&self, meta: &fs::Metadata) -> Option<[u64; 4]> {
        let dev = (u64::from(libc::major(meta.dev())), u64::from(libc::minor(meta.dev())));
        (meta.ino() == self.ino && dev == self.dev).then(|| key_of(meta))
    }
}

/// A file's identity: device, inode, modification time, size.
pub fn key_of(meta: &fs::Metadata) -> [u64; 4] {
    let mtime_ns = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
    [meta.dev(), meta.ino(), mtime_ns as u64, meta.len()]
}

/// All executable mappings of files.
pub fn executable(pid: i32) -> io::Result<Vec<Mapping>> {
    let maps = File::open(format!("/proc/{pid}/maps"))?;
    let mut found = Vec::new();
    let mut from = 0;
    loop {
        match query(&maps, from) {
            Ok(Some(mapping)) => {
                from = mapping.end;
                found.extend(Some(mapping).filter(|mapping| mapping.path.starts_with('/')));
            }
            Ok(None) => return Ok(found),
            // Before Linux 6.11, or while memory is short.
            Err(_) => {
                let text = io::read_to_string(maps)?;
                return Ok(text.lines().filter_map(parse).collect());
            }
        }
    }
}

/// Opens the file whose text is mapped at an address of a process.
pub fn open_at(pid: i32, address: u64) -> Option<File> {
    executable(pid).ok()?.iter().find(|mapping| mapping.contains(address))?.open(pid)
}

/// The kernel's `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_size: u64,
    offset: u64,
    ino: u64,
    dev_major: u32,
    dev_minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::Ioctl = 0xc068_6611;
const _: () = assert!(size_of::<Query>() == 0x68);
/// In `rights`.
const WRITABLE: u64 = 2;
/// In `flags`: this mapping or the next, executable, of a file.
const NEXT_TEXT: u64 = 0x10 | 4 | 0x20;

/// The first executable mapping of a file that ends above an address: a third of the time that
/// the text takes.
fn query(maps: &File, address: u64) -> io::Result<Option<Mapping>> {
    let mut name = [0u8; libc::PATH_MAX as usize];
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: NEXT_TEXT,
        address,
        name_size: name.len() as u32,
        name: name.as_mut_ptr() as u64,
        ..Query::default()
    };
    // SAFETY: the operation reads and writes a structure of just this layout, and the name.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
    }
    let len = (query.name_size as usize).saturating_sub(1);
    Ok(Some(Mapping {
        start: query.start,
        end: query.end,
        offset: query.offset,
        writable: query.rights & WRITABLE != 0,
        dev: (query.dev_major.into(), query.dev_minor.into()),
        ino: query.ino,
        path: String::from_utf8_lossy(name.get(..len).unwrap_or_default()).into_owned(),
    }))
}

/// One line of /proc/PID/maps, if it is an executable mapping of a file.
fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let offset = fields.next()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let ino = fields.next()?.parse().ok()?;
    let path = fields.next()?.trim_start().to_owned();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mapping = Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        dev: (hex(major)?, hex(minor)?),
        ino,
        path,
        writable: rights.as_bytes().get(1) == Some(&b'w'),
    };
    (rights.as_bytes().get(2) == Some(&b'x') && mapping.path.starts_with('/')).then_some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_text_is_found_both_ways() {
        let pid = std::process::id() as i32;
        let here = our_own_text_is_found_both_ways as *const () as u64;
        let text = fs::read_to_string("/proc/self/maps").unwrap();
        let parsed: Vec<Mapping> = text.lines().filter_map(parse).collect();
        let asked = executable(pid).unwrap();
        for mappings in [&parsed, &asked] {
            let own = mappings.iter().find(|mapping| mapping.contains(here)).unwrap();
            let exe = fs::metadata(std::env::current_exe().unwrap()).unwrap();
            assert_eq!(own.key(pid), Some(key_of(&exe)));
            assert!(!own.writable && own.open(pid).is_some());
        }
        let places = |list: &[Mapping]| -> Vec<(u64, u64, u64, u64)> {
            list.iter().map(|m| (m.start, m.end, m.offset, m.ino)).collect()
        };
        assert_eq!(places(&parsed), places(&asked));
        assert!(open_at(pid, here).is_some() && open_at(pid, 0).is_none());
    }
}
