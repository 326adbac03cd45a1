//! Profiles: sites that earlier processes of a program hit. New ones patch them before they start.
//!
//! Most processes are too short-lived to hit a site four times, and all images of a program begin
//! alike. Agents leave notes; the supervisor turns them into profiles, which programs cannot write.

use core::sync::atomic::Ordering;

use ring::{NOTES, Note, Profile, program_id};

use crate::context::{Context, space};
use crate::text::{self, Known};
use crate::text_map::Map;
use crate::{sites, sys};

/// Minimum number of sites in a mapping for which it is made writable.
const WORTHWHILE: usize = 3;
/// Number of places tried for a note.
const PROBES: u64 = 8;

/// Sets the program of a new image, from the mapping of its file.
pub fn begin(program: &Map) {
    space().sites.program.store(program_id(program.key.hash()), Ordering::Relaxed);
}

/// Returns the profile of the program in this image.
fn profile() -> Option<&'static Profile> {
    let space = space();
    let program = space.sites.program.load(Ordering::Relaxed);
    let is_its = |profile: &&Profile| profile.program.load(Ordering::Acquire) == program;
    space.catalog.get()?.places_for(program).find(is_its).filter(|_| program != 0)
}

/// Leaves a note about a site that is hit for the first time in this image.
pub fn note(context: &Context, site: u64) {
    let program = space().sites.program.load(Ordering::Relaxed);
    let (Some(arena), true) = (context.arena.get(), program != 0) else { return };
    let Known::Patchable(_, index) = text::site(site) else { return };
    let wanted = index as u32 + 1;
    let sites = profile().map(|profile| &profile.sites[..]).unwrap_or_default();
    if sites.iter().any(|place| place.load(Ordering::Relaxed) == wanted)
        || sites.last().is_some_and(|last| last.load(Ordering::Relaxed) != 0)
    {
        return;
    }
    let word = Note { program, site: index }.to_word();
    let first = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    for at in first..first + PROBES {
        let place = &arena.notes()[at as usize % NOTES];
        match place.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed) {
            Err(other) if other != word => {}
            _ => break,
        }
    }
    arena.control().notes.store(1, Ordering::Relaxed);
}

/// Patches the profile's sites in a new mapping, which no thread has executed yet.
pub fn patch(map: &Map) {
    let (Some(profile), Some(catalog)) = (profile(), space().catalog.get()) else { return };
    if sys::is_quiet() {
        return;
    }
    let Some((first, sites)) = text::sites_of(catalog, &map.key) else { return };
    let known = profile
        .sites
        .iter()
        .map(|place| place.load(Ordering::Relaxed) as usize)
        .take_while(|&place| place != 0)
        .filter_map(|place| sites.get((place - 1).checked_sub(first)?).copied())
        .filter(|site| {
            let (from, len) = (u64::from(site.offset), map.end - map.start);
            from.checked_sub(map.offset).is_some_and(|at| (8..len - 32).contains(&at))
        });
    if known.clone().count() >= WORTHWHILE {
        sites::patch_unused(map, known);
    }
}
