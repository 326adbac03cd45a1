//! Functions, files and lines of addresses in files of code: by the debug information in the file or in the
//! one that it names (build id, debuglink), and else by its symbols.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use addr2line::Loader;
use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol};

/// Files that are kept open.
const FILES_MAX: usize = 256;
/// Places that are remembered.
const PLACES_MAX: usize = 1 << 16;
/// Where distributions put debug information.
const DEBUG: &str = "/usr/lib/debug";
/// Symbols of a file whose length is known.
const SYMBOLS_MAX: usize = 1 << 18;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 512;

/// An address in a file of code.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The file.
    pub path: Vec<u8>,
    /// Where in it.
    pub at: u64,
    /// That counts from where the file begins in memory, not from its first byte.
    pub is_loaded: bool,
}

/// What is known of an address.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symbol {
    /// The function.
    pub function: Option<String>,
    /// File and line.
    pub line: Option<(String, u32)>,
}

/// A file's debug information and symbols.
struct Tables {
    loader: Loader,
    /// The lengths of what symbols stand for, by address.
    lengths: HashMap<u64, u64>,
}

impl Tables {
    fn open(path: &Path) -> Option<Tables> {
        let loader = Loader::new(path).ok()?;
        let cache = ReadCache::new(fs::File::open(path).ok()?);
        let lengths = object::File::parse(&cache).ok().map(|file| lengths(&file));
        Some(Tables { loader, lengths: lengths.unwrap_or_default() })
    }

    /// Returns the symbol that an address belongs to. A function without one of its own, as most are in a
    /// stripped file, does not belong to the one before it.
    fn symbol(&self, address: u64) -> Option<&str> {
        let symbol = self.loader.find_symbol_info(address)?;
        let length = self.lengths.get(&symbol.address()).copied();
        belongs(symbol.address(), length, address).then_some(symbol.name())
    }
}

/// Whether an address is within what a symbol stands for; of some the length is not known.
fn belongs(from: u64, length: Option<u64>, address: u64) -> bool {
    length.is_none_or(|length| address.wrapping_sub(from) < length)
}

fn lengths<'data>(file: &impl Object<'data>) -> HashMap<u64, u64> {
    let mut lengths = HashMap::new();
    let with_length =
        file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.size() > 0);
    for symbol in with_length.take(SYMBOLS_MAX) {
        let length = lengths.entry(symbol.address()).or_insert(0);
        *length = symbol.size().max(*length);
    }
    lengths
}

/// A file with its symbols.
struct File {
    own: Option<Tables>,
    debug: Option<Tables>,
    segments: Vec<(u64, u64, u64)>,
}

/// Looks them up.
#[derive(Default)]
pub struct Symbols {
    files: HashMap<Vec<u8>, Option<File>>,
    known: HashMap<Place, Symbol>,
}

impl Symbols {
    /// What is known of an address. `returns`: it is one to which a call returns, which belongs to the
    /// instruction before it.
    pub fn of(&mut self, place: &Place, returns: bool) -> Symbol {
        let at = place.at.wrapping_sub(u64::from(returns));
        let place = Place { at, ..place.clone() };
        if let Some(known) = self.known.get(&place) {
            return known.clone();
        }
        // Debug information of any origin is read by others' code.
        let found = catch_unwind(AssertUnwindSafe(|| self.look_up(&place)));
        let symbol = found.unwrap_or_default();
        if self.known.len() < PLACES_MAX {
            self.known.insert(place, symbol.clone());
        }
        symbol
    }

    fn look_up(&mut self, place: &Place) -> Symbol {
        if !self.files.contains_key(&place.path) {
            if self.files.len() >= FILES_MAX {
                return Symbol::default();
            }
            let file = open(Path::new(OsStr::from_bytes(&place.path)));
            self.files.insert(place.path.clone(), file);
        }
        let Some(Some(file)) = self.files.get(&place.path) else { return Symbol::default() };
        let Some(address) = file.address(place) else { return Symbol::default() };
        let mut symbol = Symbol::default();
        for tables in [&file.debug, &file.own].into_iter().flatten() {
            let loader = &tables.loader;
            if symbol.line.is_none()
                && let Ok(Some(location)) = loader.find_location(address)
                && let (Some(name), Some(line)) = (location.file, location.line)
            {
                symbol.line = Some((short(name), line));
            }
            if symbol.function.is_none()
                && let Ok(mut frames) = loader.find_frames(address)
                && let Ok(Some(frame)) = frames.next()
                && let Some(function) = frame.function
                && let Ok(name) = function.demangle()
            {
                symbol.function = Some(short(&name));
            }
            if symbol.function.is_none()
                && let Some(name) = tables.symbol(address)
            {
                symbol.function = Some(short(&addr2line::demangle_auto(name.into(), None)));
            }
        }
        symbol
    }
}

fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_BYTES_MAX) {
        Some((at, _)) => name[..at].into(),
        None => name.into(),
    }
}

impl File {
    /// The address of a place, as the file's own tables have it.
    fn address(&self, place: &Place) -> Option<u64> {
        if place.is_loaded {
            let first = self.segments.iter().map(|(.., address)| *address).min()? & !0xfff;
            return first.checked_add(place.at);
        }
        let segment =
            self.segments.iter().find(|(from, to, _)| (*from..*to).contains(&place.at))?;
        segment.2.checked_add(place.at - segment.0)
    }
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file())
}

fn open(path: &Path) -> Option<File> {
    // The name is from a trace: it may lead to anything.
    if !is_file(path) {
        return None;
    }
    let cache = ReadCache::new(fs::File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let segments = file.segments().map(|segment| {
        let (from, size) = segment.file_range();
        (from, from.saturating_add(size), segment.address())
    });
    let segments = segments.collect();
    let mut candidates: Vec<PathBuf> = Vec::new();
    if let Ok(Some(id)) = file.build_id()
        && id.len() > 1
    {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        candidates.push(format!("{DEBUG}/.build-id/{}/{}.debug", &hex[..2], &hex[2..]).into());
    }
    if let Ok(Some((name, _))) = file.gnu_debuglink()
        && let Some(folder) = path.parent()
    {
        let name = OsStr::from_bytes(name);
        let below = folder.strip_prefix("/").unwrap_or(folder);
        candidates.push(folder.join(name));
        candidates.push(folder.join(".debug").join(name));
        candidates.push(Path::new(DEBUG).join(below).join(name));
    }
    let debug = candidates.iter().find(|candidate| *candidate != path && is_file(candidate));
    let debug = debug.and_then(|debug| Tables::open(debug));
    Some(File { own: Tables::open(path), debug, segments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_functions_are_found() {
        let path = std::env::current_exe().unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let first = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap();
        let base = u64::from_str_radix(first.split('-').next().unwrap(), 16).unwrap();
        let at = our_own_functions_are_found as fn() as usize as u64 - base;
        let place = Place { path: path.as_os_str().as_bytes().into(), at, is_loaded: true };
        let symbol = Symbols::default().of(&place, false);
        assert!(symbol.function.unwrap().contains("our_own_functions_are_found"));
    }

    #[test]
    fn what_lies_behind_a_function_is_not_its_own() {
        assert!(belongs(100, Some(20), 100) && belongs(100, Some(20), 119));
        assert!(!belongs(100, Some(20), 120) && !belongs(100, Some(20), 99));
        assert!(belongs(100, None, 5000), "written in assembly");
        let tables = Tables::open(&std::env::current_exe().unwrap()).unwrap();
        assert!(tables.lengths.len() > 100);
    }

    #[test]
    fn what_is_no_code_has_no_names() {
        let mut symbols = Symbols::default();
        for path in ["/dev/zero", "/etc/passwd", "/none/such", "", "/"] {
            let place = Place { path: path.into(), at: 5, is_loaded: false };
            assert_eq!(symbols.of(&place, true), Symbol::default());
        }
    }
}
