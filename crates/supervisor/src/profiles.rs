//! Profiles of programs, made of the notes of agents about call sites that they met.
//!
//! Notes may be forged: all that a note can do is to make a site be patched early that was found
//! safe to patch.

use std::sync::atomic::Ordering;

use ring::{Arena, Catalog, Note, SITES_MAX};

/// Moves the notes that agents have left into all catalogs.
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

/// Copies all profiles of a catalog to an empty one.
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
