//! Which sites images of a program met: their successors patch them before they start.
//!
//! Most processes live too short for a site to be met four times, and all images of a program
//! begin in the same way.

use core::sync::atomic::Ordering;

use crate::context::{Context, space};
use crate::maps::{self, Known, Map};
use crate::{sites, sys};

/// Fewer sites than this in a mapping are not worth making it writable.
const WORTHWHILE: usize = 3;
/// Places that are tried for a program's profile.
const PROBES: usize = 8;

/// A new image of the program that is mapped here begins: finds or makes its profile.
pub fn begin(context: &Context, program: &Map) {
    let Some(arena) = context.arena else { return };
    let (profiles, hash) = (arena.profiles(), program.key.hash());
    let places = (hash as usize..).take(PROBES).map(|at| &profiles[at % profiles.len()]);
    let is_its = |profile: &&ring::Profile| {
        let order = Ordering::Relaxed;
        match profile.program.compare_exchange(0, hash, order, order) {
            Ok(_) => true,
            Err(other) => other == hash,
        }
    };
    space().sites.profile = places.into_iter().find(is_its);
}

/// A site was met for the first time in this image.
pub fn note(context: &Context, site: u64) {
    let Some(profile) = space().sites.profile else { return };
    let Known::Patchable(_, index) = maps::site(context, site) else { return };
    let wanted = index as u32 + 1;
    for place in &profile.sites {
        let order = Ordering::Relaxed;
        match place.compare_exchange(0, wanted, order, order) {
            Err(other) if other != wanted => {}
            _ => return,
        }
    }
}

/// A mapping is new: nobody has executed it yet.
pub fn patch(context: &Context, map: &Map) {
    let (Some(profile), Some(arena)) = (space().sites.profile, context.arena) else { return };
    if sys::is_quiet() {
        return;
    }
    let Some((first, sites)) = maps::sites_of(arena, &map.key) else { return };
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
