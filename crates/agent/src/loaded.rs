//! Tells the supervisor of files that are about to be mapped, for a re-execution. It looks at programs and
//! libraries once, as long as they do not change: to ask it takes 130 us.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use linux_raw_sys::general as raw;
use ring::{LOADED, answer, request};
use syscalls::mapping::Mapping;

use crate::arch::head::phase;
use crate::context::{Context, mask_all};
use crate::needs::needed;
use crate::signal::real_mask;
use crate::text_map::hash;
use crate::{course, identity, requests, sys};

/// Number of waits for an answer, a minute together. A file's server may never answer, or wait for us.
const WAITS_MAX: u32 = 3000;
/// No answer came: nothing more is told, and the trace does not name the files that are mapped then.
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// What was told of a file.
#[derive(Default)]
pub struct Told {
    /// The file, if the supervisor knows it already.
    pub known: Option<raw::stat>,
    /// Signals wait until the call is recorded.
    pub masked: bool,
}

impl Told {
    /// The call is recorded: signals may come.
    pub fn end(&self, context: &Context) {
        if self.masked && context.held_frame.get() == 0 {
            sys::set_mask(real_mask(context.mask.get()));
        }
    }
}

/// Tells of a file.
#[cold]
pub fn tell(context: &Context, args: &[u64; 6]) -> Told {
    let mapping = Mapping::of(args);
    if mapping.fd.is_none() || IS_LATE.load(Ordering::Relaxed) {
        return Told::default();
    }
    let is_wanted = mapping.is_code() && !course::is_answered() && !sys::is_quiet();
    let file = if is_wanted { identity::of_open(args[4]).filter(is_regular) } else { None };
    let known = file.as_ref().and_then(|file| Known::look_up(context, file));
    if known.as_ref().is_some_and(|known| known.is_told) {
        return Told { known: file, masked: false };
    }
    // A signal would have the call begun again, and asked for again: by a timer, for ever.
    let masked = !sys::denies(needed::MASKS);
    if masked {
        sys::set_mask(mask_all(context));
        context.phase.set(phase::IN_CALL);
    }
    match (requests::ask_patiently(context, request::FILE, *args, WAITS_MAX), known) {
        (Some(answer::DONE), Some(known)) => known.place.store(known.name, Ordering::Relaxed),
        (None, _) => IS_LATE.store(true, Ordering::Relaxed),
        _ => {}
    }
    Told { known: None, masked }
}

fn is_regular(file: &raw::stat) -> bool {
    file.st_mode & raw::S_IFMT == raw::S_IFREG
}

/// Where it stands that a file is known as it is now, and what stands there then.
struct Known {
    place: &'static AtomicU64,
    name: u64,
    is_told: bool,
}

impl Known {
    /// Each file has two places, so that few programs use two files that drive each other out.
    fn look_up(context: &Context, file: &raw::stat) -> Option<Known> {
        let all = context.arena.get()?.loaded();
        let name = name(file);
        let places = [name >> 48, name >> 32].map(|hash| &all[hash as usize % LOADED]);
        let has = |wanted: u64| places.iter().find(|place| place.load(Ordering::Relaxed) == wanted);
        let (place, is_told) = match has(name) {
            Some(place) => (place, true),
            None => (has(0).unwrap_or(&places[0]), false),
        };
        Some(Known { place, name, is_told })
    }
}

/// Hash of a file as it is now. Never 0.
fn name(file: &raw::stat) -> u64 {
    // A program can set when a file was written last, and not when it was changed last.
    let written = [file.st_mtime, file.st_mtime_nsec];
    let changed = [file.st_ctime, file.st_ctime_nsec];
    let (dev, ino, size) = (file.st_dev, file.st_ino, file.st_size as u64);
    hash(&[dev, ino, size, written[0], written[1], changed[0], changed[1]])
}
