//! The executable mappings of a process: from /proc where it is there to be asked, and else from its own
//! calls.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use framehop::x86_64::UnwinderX86_64;
use framehop::{Module, Unwinder};

use super::modules::Modules;
use super::seen::Seen;

/// Mappings of a process.
const MAPPINGS_MAX: usize = 4096;
/// Descriptors whose paths are remembered.
const DESCRIPTORS_MAX: usize = 1024;
/// Times that /proc is asked of a program because of addresses that are in no mapping.
const ASKED_MAX: u32 = 64;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 4096;

#[derive(Clone)]
struct Mapping {
    end: u64,
    offset: u64,
    path: Arc<[u8]>,
}

/// Where a path begins that does not begin with a slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// In the working directory.
    Here,
    /// In the directory of a descriptor.
    Descriptor(i64),
}

/// The mappings of a process.
pub struct Maps {
    pid: u32,
    /// Its working directory; empty if that is not known.
    directory: Vec<u8>,
    all: BTreeMap<u64, Mapping>,
    descriptors: HashMap<i64, Arc<[u8]>>,
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    /// The unwinder does not know all of them.
    is_stale: bool,
    asked: u32,
}

impl Maps {
    pub fn new(pid: u32) -> Maps {
        Maps {
            pid,
            directory: Vec::new(),
            all: BTreeMap::new(),
            descriptors: HashMap::new(),
            unwinder: UnwinderX86_64::new(),
            is_stale: true,
            asked: 0,
        }
    }

    /// Those of a child, which has the same.
    pub fn of_child(&self, pid: u32) -> Maps {
        Maps {
            pid,
            directory: self.directory.clone(),
            all: self.all.clone(),
            descriptors: self.descriptors.clone(),
            unwinder: self.unwinder.clone(),
            is_stale: self.is_stale,
            asked: 0,
        }
    }

    /// The process begins a program: what it had mapped is gone. `seen`: what /proc said of it then.
    pub fn begins_program(&mut self, seen: Option<Seen>) {
        self.all.clear();
        self.asked = 0;
        self.is_stale = true;
        match seen {
            Some(seen) => {
                self.pid = seen.pid;
                self.directory = seen.directory;
                self.all = parsed(&seen.maps).into_iter().collect();
            }
            None => self.ask(),
        }
    }

    /// Takes what /proc has, if the process is still there.
    fn ask(&mut self) {
        self.asked += 1;
        let text = fs::read(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let found = parsed(&text);
        if !found.is_empty() {
            self.all = found.into_iter().collect();
            self.is_stale = true;
        }
    }

    /// The whole path of what a call names, if it is known.
    fn whole(&self, from: Base, path: &[u8]) -> Option<Vec<u8>> {
        if path.first() == Some(&b'/') {
            return Some(path.to_vec());
        }
        let directory = match from {
            Base::Here => Some(&self.directory[..]).filter(|directory| !directory.is_empty())?,
            Base::Descriptor(descriptor) => self.descriptors.get(&descriptor)?,
        };
        let path = path.strip_prefix(b"./").unwrap_or(path);
        (!path.is_empty()).then(|| [directory, b"/", path].concat())
    }

    pub fn opened(&mut self, descriptor: i64, from: Base, path: &[u8]) {
        // By now the descriptor may be another file's: who loads libraries has few.
        let path = self.whole(from, path).or_else(|| {
            let link = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.pid));
            link.ok().map(|path| path.into_os_string().into_vec())
        });
        self.descriptors.remove(&descriptor);
        let has_room = self.descriptors.len() < DESCRIPTORS_MAX;
        if let Some(path) = path.filter(|path| has_room && path.len() <= PATH_BYTES_MAX) {
            self.descriptors.insert(descriptor, path.into());
        }
    }

    /// The working directory is another one: that of a path, or of a descriptor.
    pub fn moved(&mut self, from: Base, path: &[u8]) {
        let known = match (from, path) {
            (Base::Descriptor(descriptor), []) => {
                self.descriptors.get(&descriptor).map(|path| path.to_vec())
            }
            _ => self.whole(from, path),
        };
        self.directory = known.unwrap_or_default();
    }

    pub fn mapped(&mut self, range: Range<u64>, offset: u64, descriptor: i64) {
        let Some(path) = self.descriptors.get(&descriptor).cloned() else {
            // Somebody else's, or its path was too long: /proc may know.
            self.ask();
            return;
        };
        let gone: Vec<u64> = self.all.range(range.clone()).map(|(start, _)| *start).collect();
        gone.into_iter().for_each(|start| _ = self.all.remove(&start));
        if self.all.len() < MAPPINGS_MAX {
            self.all.insert(range.start, Mapping { end: range.end, offset, path });
            self.is_stale = true;
        }
    }

    fn at(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.all.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// The file that is mapped at an address, and where in it.
    pub fn place(&self, address: u64) -> Option<(Vec<u8>, u64)> {
        let (start, mapping) = self.all.range(..=address).next_back()?;
        let is_in = address < mapping.end;
        is_in.then(|| (mapping.path.to_vec(), mapping.offset.saturating_add(address - start)))
    }

    /// Returns true if an address is in a file whose name is, or begins as, this one (`libc` for
    /// `libc.so.6`).
    pub fn is_in_module(&self, address: u64, name: &str) -> bool {
        let Some(mapping) = self.at(address) else { return false };
        let path = Path::new(OsStr::from_bytes(&mapping.path));
        let file = path.file_name().unwrap_or_default().as_bytes();
        let after = file.strip_prefix(name.as_bytes());
        mapping.path.as_ref() == name.as_bytes()
            || after.is_some_and(|rest| rest.first().is_none_or(|byte| b".-".contains(byte)))
    }

    /// Makes the unwinder know them all, and look in /proc if an address is in none.
    pub fn make_ready(&mut self, site: u64, modules: &mut Modules) {
        if self.at(site).is_none() && self.asked < ASKED_MAX {
            self.ask();
        }
        if !self.is_stale {
            return;
        }
        self.is_stale = false;
        self.unwinder = UnwinderX86_64::new();
        for (start, mapping) in &self.all {
            let Some(module) = modules.of(&mapping.path) else { continue };
            let Some((base, info)) = module.at(*start, mapping.offset) else { continue };
            let name = String::from_utf8_lossy(&mapping.path).into_owned();
            self.unwinder.add_module(Module::new(name, *start..mapping.end, base, info));
        }
    }

    pub fn unwinder(&self) -> &UnwinderX86_64<Arc<[u8]>> {
        &self.unwinder
    }
}

/// The executable mappings in a text of /proc/PID/maps.
fn parsed(text: &[u8]) -> Vec<(u64, Mapping)> {
    text.split(|byte| *byte == b'\n').filter_map(line).take(MAPPINGS_MAX).collect()
}

/// An executable mapping of a file, from a line of /proc/PID/maps.
fn line(line: &[u8]) -> Option<(u64, Mapping)> {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let range = std::str::from_utf8(words.next()?).ok()?;
    let rights = words.next()?;
    let offset = std::str::from_utf8(words.next()?).ok()?;
    let path = words.nth(2)?.trim_ascii_start();
    if rights.get(2) != Some(&b'x') || path.first() != Some(&b'/') || path.len() > PATH_BYTES_MAX {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let [from, to, offset] = [from, to, offset].map(|word| u64::from_str_radix(word, 16));
    Some((from.ok()?, Mapping { end: to.ok()?, offset: offset.ok()?, path: path.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let text = b"7f00-7f10 r-xp 00000200 08:01 12                         /lib/a b.so";
        let (from, mapping) = line(text).unwrap();
        let Mapping { end, offset, path } = mapping;
        assert_eq!((from, end, offset, &*path), (0x7f00, 0x7f10, 0x200, &b"/lib/a b.so"[..]));
        assert!(line(b"7f00-7f10 rw-p 00000000 08:01 12   /lib/a").is_none());
        assert!(line(b"7f00-7f10 r-xp 00000000 00:00 0   [vdso]").is_none());
        assert!(line(b"7f00 r-xp").is_none());
    }

    #[test]
    fn paths_begin_where_they_did() {
        let mut maps = Maps::new(0);
        let at =
            |maps: &Maps, descriptor| maps.descriptors.get(&descriptor).map(|path| path.to_vec());
        maps.begins_program(Some(Seen { directory: b"/home/me".into(), ..Seen::default() }));
        maps.opened(3, Base::Here, b"./a.so");
        assert_eq!(at(&maps, 3), Some(b"/home/me/a.so".into()));
        maps.opened(4, Base::Here, b"/opt");
        maps.opened(3, Base::Descriptor(4), b"lib/b.so");
        assert_eq!(at(&maps, 3), Some(b"/opt/lib/b.so".into()));
        maps.moved(Base::Here, b"below");
        maps.opened(5, Base::Here, b"c.so");
        assert_eq!(at(&maps, 5), Some(b"/home/me/below/c.so".into()));
        maps.moved(Base::Descriptor(4), b"");
        maps.opened(5, Base::Here, b"d.so");
        assert_eq!(at(&maps, 5), Some(b"/opt/d.so".into()));
        // Where nothing is known, and nobody can be asked, the descriptor is no longer what it was.
        maps.moved(Base::Descriptor(9), b"");
        maps.opened(5, Base::Here, b"e.so");
        assert_eq!(at(&maps, 5), None);
    }

    #[test]
    fn mappings_replace_others_and_have_names() {
        let mut maps = Maps::new(0);
        maps.opened(3, Base::Here, b"/lib/libc.so.6");
        maps.mapped(0x1000..0x3000, 0, 3);
        maps.mapped(0x1000..0x2000, 0x100, 3);
        assert_eq!(maps.all.len(), 1);
        assert!(maps.is_in_module(0x1fff, "libc") && maps.is_in_module(0x1000, "/lib/libc.so.6"));
        assert!(!maps.is_in_module(0x2000, "libc") && !maps.is_in_module(0x1000, "lib"));
    }
}
