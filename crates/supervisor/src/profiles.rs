//! Profiles of programs: made of what agents note about the sites that they met.
//!
//! A note is a hint of somebody who may be anybody: it makes a site be patched early that was
//! found safe to patch, and nothing else.

use std::sync::atomic::Ordering;

use ring::{Arena, Catalog, Note, SITES_MAX};

/// Takes the notes that agents left, if they left some, into all catalogs.
pub fn take_notes(arena: &Arena, catalogs: &[Catalog]) {
    if arena.control().notes.load(Ordering::Relaxed) == 0 {
        return;
    }
    arena.control().notes.store(0, Ordering::SeqCst);
    for word in arena.notes() {
        if word.load(Ordering::Relaxed) == 0 {
            continue;
        }
        if let Some(note) = Note::from_word(word.swap(0, Ordering::Relaxed)) {
            catalogs.iter().for_each(|catalog| add(catalog, note));
        }
    }
}

/// All profiles of one catalog, in another one that has none.
pub fn copy(from: &Catalog, to: &Catalog) {
    for (from, to) in from.profiles().iter().zip(to.profiles()) {
        for (from, to) in from.sites.iter().zip(&to.sites) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        to.program.store(from.program.load(Ordering::Relaxed), Ordering::Release);
    }
}

fn add(catalog: &Catalog, note: Note) {
    let known = catalog.modules().sites.load(Ordering::Relaxed) as usize;
    if note.site >= known.min(SITES_MAX) {
        return;
    }
    let is_its = |profile: &&ring::Profile| {
        let program = profile.program.load(Ordering::Relaxed);
        program == 0 || program == note.program
    };
    let Some(profile) = catalog.places_for(note.program).find(is_its) else { return };
    let wanted = note.site as u32 + 1;
    for place in &profile.sites {
        match place.load(Ordering::Relaxed) {
            0 => {
                place.store(wanted, Ordering::Relaxed);
                break;
            }
            other if other == wanted => break,
            _ => {}
        }
    }
    profile.program.store(note.program, Ordering::Release);
}
