//! Reads the memory maps of processes.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;

use syscalls::abi::memory::PROCMAP_QUERY;

/// A mapping of a file, or of something that the kernel shows like one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind its last byte.
    pub end: u64,
    /// File offset of `start`.
    pub offset: u64,
    /// Whether it is writable.
    pub writable: bool,
    /// Whether stores to it are stores to the file.
    pub shared: bool,
    /// The file system's device, major and minor.
    pub dev: (u64, u64),
    /// The file's inode.
    pub ino: u64,
    /// A present or former path of the file, as the process sees it.
    pub path: Vec<u8>,
}

impl Mapping {
    /// Whether the address is in this mapping.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Selects mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Executable mappings.
    Text,
    /// Shared, writable mappings.
    SharedAndWritable,
    /// All mappings of files.
    Files,
}

impl Which {
    /// Flags for this or the next such mapping of a file.
    fn query_flags(self) -> u64 {
        const WRITABLE: u64 = 2;
        const EXECUTABLE: u64 = 4;
        const SHARED: u64 = 8;
        const OR_NEXT: u64 = 0x10;
        const OF_A_FILE: u64 = 0x20;
        let kind = match self {
            Which::Text => EXECUTABLE,
            Which::SharedAndWritable => SHARED | WRITABLE,
            Which::Files => 0,
        };
        OR_NEXT | OF_A_FILE | kind
    }

    fn fits(self, rights: &[u8]) -> bool {
        match self {
            Which::Text => rights.get(2) == Some(&b'x'),
            Which::SharedAndWritable => {
                rights.get(1) == Some(&b'w') && rights.get(3) == Some(&b's')
            }
            Which::Files => true,
        }
    }
}

/// Limit for the text: more than the default maximum of mappings per process takes.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Calls `found` with a process's mappings in ascending order, until that returns `Break`.
pub fn each(
    pid: i32,
    which: Which,
    mut found: impl FnMut(Mapping) -> ControlFlow<()>,
) -> io::Result<()> {
    let maps = File::open(format!("/proc/{pid}/maps"))?;
    let mut from = 0;
    loop {
        match query(&maps, which, from) {
            Ok(Some(mapping)) => {
                from = mapping.end;
                if mapping.path.first() == Some(&b'/') && found(mapping).is_break() {
                    return Ok(());
                }
            }
            Ok(None) => return Ok(()),
            // The kernel is older than Linux 6.11, or out of memory.
            Err(_) => break,
        }
    }
    let mut text = Vec::new();
    maps.take(TEXT_BYTES_MAX).read_to_end(&mut text)?;
    let lines = text.split(|&byte| byte == b'\n');
    let _ = lines
        .filter_map(|line| parse(line, which))
        .filter(|mapping| mapping.end > from)
        .try_for_each(found);
    Ok(())
}

/// Whether a process has any memory: one that is ending has none.
pub(crate) fn has_any(pid: i32) -> bool {
    let maps = File::open(format!("/proc/{pid}/maps"));
    // Where that cannot be read, it counts as having some.
    maps.is_ok_and(|mut maps| maps.read(&mut [0]).map_or(true, |read| read == 1))
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

const _: () = assert!(size_of::<Query>() == 0x68);
/// Bits in `rights`.
const WRITABLE: u64 = 2;
const SHARED: u64 = 8;

/// The first such mapping that ends above an address. Three times as fast as reading the text.
fn query(maps: &File, which: Which, address: u64) -> io::Result<Option<Mapping>> {
    let mut name = [0u8; libc::PATH_MAX as usize];
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: which.query_flags(),
        address,
        name_size: name.len() as u32,
        name: name.as_mut_ptr() as u64,
        ..Query::default()
    };
    // SAFETY: `query` has the layout that the operation expects, and `name` its stated size.
    if unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as libc::Ioctl, &raw mut query) } != 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
    }
    let len = (query.name_size as usize).saturating_sub(1);
    Ok(Some(Mapping {
        start: query.start,
        end: query.end,
        offset: query.offset,
        writable: query.rights & WRITABLE != 0,
        shared: query.rights & SHARED != 0,
        dev: (query.dev_major.into(), query.dev_minor.into()),
        ino: query.ino,
        path: name.get(..len).unwrap_or_default().to_vec(),
    }))
}

/// Parses a line of /proc/PID/maps, if it is such a mapping of a file.
fn parse(line: &[u8], which: Which) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut next = || fields.next();
    let (places, rights, offset, dev) = (next()?, next()?, next()?, next()?);
    let (ino, path) = (next()?, next()?.trim_ascii_start());
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = text(places)?.split_once('-')?;
    let (major, minor) = text(dev)?.split_once(':')?;
    let mapping = Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(text(offset)?)?,
        writable: rights.get(1) == Some(&b'w'),
        shared: rights.get(3) == Some(&b's'),
        dev: (hex(major)?, hex(minor)?),
        ino: text(ino)?.parse().ok()?,
        path: path.to_vec(),
    };
    (which.fits(rights) && mapping.path.first() == Some(&b'/')).then_some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_text_is_found_both_ways() {
        let pid = std::process::id() as i32;
        let here = our_own_text_is_found_both_ways as *const () as u64;
        let text = std::fs::read("/proc/self/maps").unwrap();
        let lines = text.split(|&byte| byte == b'\n');
        let parsed: Vec<Mapping> = lines.filter_map(|line| parse(line, Which::Text)).collect();
        let mut asked = Vec::new();
        each(pid, Which::Text, |mapping| {
            asked.push(mapping);
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(parsed, asked);
        assert!(asked.iter().any(|mapping| mapping.contains(here) && !mapping.writable));
    }

    #[test]
    fn names_need_not_be_text() {
        let line = b"1000-3000 rw-s 00002000 fd:1a 77                 /tmp/\xff a (deleted)";
        let mapping = parse(line, Which::SharedAndWritable).unwrap();
        assert_eq!((mapping.dev, mapping.ino, mapping.offset), ((0xfd, 0x1a), 77, 0x2000));
        assert_eq!(mapping.path, b"/tmp/\xff a (deleted)");
        assert!(mapping.shared && mapping.writable);
        assert_eq!(parse(line, Which::Files), Some(mapping));
        assert_eq!(parse(line, Which::Text), None);
    }
}
