//! Where a thread stood that left the recording: its callers, and what its code learns without a call.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recorder::callers_of;
use render::escape::escaped;
use rerun::Stood;
use stats::chains::{Chains, Spelled};

/// Maximum size of a file of code that is looked through, and number of files.
const FILE_MAX: u64 = 512 << 20;
const FILES_MAX: usize = 16;
/// Number of libraries that are looked through, and their bytes.
const LIBRARIES_MAX: usize = 4096;
const LIBRARIES_BYTES_MAX: usize = 2 << 30;
/// Number of callers, of places, and of libraries that are told.
const CALLERS_SHOWN: usize = 32;
const PLACES_SHOWN: usize = 3;
const LIBRARIES_SHOWN: usize = 8;

/// A thread's place and its callers, the innermost one first.
pub struct Standing {
    /// The file of each, if it is in one, and how it is spelled.
    frames: Vec<(Option<Vec<u8>>, Spelled)>,
}

impl Standing {
    /// Unwinds a stack.
    pub fn of(stood: &Stood, chains: &mut Chains) -> Standing {
        let registers = [stood.site, stood.sp, stood.fp];
        let callers = callers_of(registers, &stood.stack, &stood.maps);
        let spell = |(at, caller): (usize, recorder::Caller)| match caller.file {
            Some((path, offset)) => {
                let of = chains.spell_in_file(&path, offset, at > 0);
                (Some(path), of)
            }
            None => {
                let place = format!("{:#x}", caller.address).into_bytes();
                (None, Spelled { place, ..Spelled::default() })
            }
        };
        Standing {
            frames: callers.into_iter().take(CALLERS_SHOWN).enumerate().map(spell).collect(),
        }
    }

    /// A line for each.
    pub fn lines(&self) -> Vec<String> {
        self.frames.iter().map(|(_, of)| spelled(of)).collect()
    }

    /// What functions on the stack, or the program itself if its libraries are other files, learn of the
    /// processor.
    pub fn untold(&self, stood: &Stood, chains: &mut Chains) -> Option<String> {
        let exe = stood.exe.as_os_str().as_bytes();
        let mut files: Vec<&[u8]> = vec![exe];
        for (path, _) in &self.frames {
            if let Some(path) = path.as_deref().filter(|path| !files.contains(path)) {
                files.push(path);
            }
        }
        let functions = self
            .frames
            .iter()
            .filter_map(|(path, of)| Some((path.as_deref()?, of.function.as_deref()?)));
        let functions: HashSet<(&[u8], &str)> = functions.collect();
        let mut told = Vec::new();
        for path in files.into_iter().take(FILES_MAX) {
            let file = Path::new(OsStr::from_bytes(path));
            let Some(bytes) = code_of(file) else { continue };
            let Some(untold) = supervisor::untold(&bytes) else { continue };
            let is_own = path == exe && untold.has_interpreter;
            for (at, name) in untold.places {
                let of = chains.spell_in_file(path, at, false);
                let is_on_stack =
                    of.function.as_deref().is_some_and(|name| functions.contains(&(path, name)));
                if is_own || is_on_stack {
                    told.push((is_on_stack, format!("{name} in {}", spelled(&of))));
                }
            }
        }
        // Those on the stack first.
        told.sort_by_key(|(is_on_stack, _)| !is_on_stack);
        let more = told.len().saturating_sub(PLACES_SHOWN);
        let places: Vec<String> =
            told.into_iter().take(PLACES_SHOWN).map(|(_, text)| text).collect();
        (!places.is_empty()).then(|| {
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("its code asks the processor, which no call gives: {}{more}", places.join(", "))
        })
    }
}

/// Libraries in every program, whose instructions for that measure their own start.
const EVERYWHERE: [&str; 2] = ["libc.so", "ld-linux"];

/// Which libraries that are mapped, or which program without any, may have learnt something of the processor: they
/// have returned from it, so that nothing shows whether they did.
pub fn of_libraries(stood: &Stood) -> Option<String> {
    let mut files: Vec<&[u8]> = Vec::new();
    for line in stood.maps.split(|byte| *byte == b'\n') {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let (mode, path) = (words.nth(1).unwrap_or_default(), words.nth(3).unwrap_or_default());
        let is_code = mode.starts_with(b"r-x") && path.starts_with(b"/");
        if is_code && !files.contains(&path) {
            files.push(path);
        }
    }
    let mut bytes_left = LIBRARIES_BYTES_MAX;
    let told = files.into_iter().take(LIBRARIES_MAX).filter_map(|path| {
        let file = Path::new(OsStr::from_bytes(path));
        let name = file.file_name()?.to_string_lossy();
        if EVERYWHERE.iter().any(|begin| name.starts_with(begin)) {
            return None;
        }
        let code = code_of(file)?;
        bytes_left = bytes_left.checked_sub(code.len())?;
        let untold = supervisor::untold(&code)?;
        if untold.has_interpreter && path == stood.exe.as_os_str().as_bytes() {
            return None;
        }
        let places = untold.places;
        let kinds: BTreeSet<&str> = places.iter().map(|(_, kind)| *kind).collect();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        (!kinds.is_empty()).then(|| format!("{} ({})", escaped(name.as_bytes()), kinds.join(", ")))
    });
    let mut told: Vec<String> = told.collect();
    let more = told.len().saturating_sub(LIBRARIES_SHOWN);
    told.truncate(LIBRARIES_SHOWN);
    (!told.is_empty()).then(|| {
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let told = told.join(", ");
        format!("perhaps code that asks the processor, which no call gives: {told}{more}")
    })
}

/// The bytes of a file of code that is not too large.
fn code_of(file: &Path) -> Option<Vec<u8>> {
    let fits = fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_MAX);
    fits.then(|| fs::read(file).ok()).flatten()
}

/// A place in the program in a line.
pub fn spelled(of: &Spelled) -> String {
    let function = escaped(of.function.as_deref().unwrap_or("?").as_bytes());
    let line = of.line.iter().map(|line| format!(" at {}", escaped(line.as_bytes())));
    format!("{function}{} [{}]", line.collect::<String>(), escaped(&of.place))
}
