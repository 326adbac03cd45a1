//! Calls that map memory: keeps the list of mapped text up to date.

use linux_raw_sys::general as raw;
use syscalls::Handler;
use syscalls::abi::errno::is_error;
use syscalls::record::{self, unwatched};

use crate::arch::head::phase;
use crate::arch::own_gs;
use crate::call::{Call, enter, exit_behind, exit_saying, returned};
use crate::context::{Context, mask_all, space};
use crate::loaded::{self, Told};
use crate::mapped::{self, After};
use crate::signal::real_mask;
use crate::text_map::{Key, Map};
use crate::{course, identity, profile, rings, sys};

/// The argument of mmap that says which file is mapped.
const FD_ARG: u8 = 4;

/// mmap, munmap, mremap, remap_file_pages and mprotect: keeps the list of mappings up to date.
pub fn call(context: &Context, call: &Call) {
    let args = call.args;
    let mut told = Told::default();
    if course::is_repeatable() && call.row.handler == Handler::Map && !context.silent.get() {
        told = loaded::tell(context, args);
    }
    let watched = mapped::before(context, call);
    let text = if call.row.handler == Handler::Map { text_of(context, args) } else { None };
    enter(context, call, 0);
    if let Some(file) = &told.known {
        identity::record(context, FD_ARG, file);
    }
    if let Some(text) = text {
        return map_text(context, call, text, &told);
    }
    let ret = match mapped::instead(context, call) {
        Some(args) => Call::new(call.number, &args).make(),
        None => call.make(),
    };
    let mut is_shadowed = false;
    if !is_error(ret) {
        match call.row.handler {
            Handler::Map => {
                covered(args, ret as u64);
                is_shadowed = rings::mapped(context, args, ret as u64);
            }
            Handler::Protect => protected(args),
            Handler::Remap => {
                unmapped(args[0], args[1]);
                unmapped(ret as u64, args[2]);
            }
            _ => unmapped(args[0], args[1]),
        }
    }
    let watch = mapped::after(context, call, ret, watched);
    let word = if is_shadowed { record::watched::SHADOWED } else { watch.word() };
    exit_saying(context, call, ret, word);
    told.end(context);
    if watch == After::Lost {
        mapped::tell(context, unwatched::MOVED);
    }
}

fn unmapped(from: u64, len: u64) {
    let to = from.saturating_add(len);
    let space = space();
    space.lock.with(|shared| {
        if shared.maps.remove(from, to) {
            space.sites.forget(from, to);
        }
    });
}

/// Drops mappings that are no longer just text: their sites are not patched any more.
fn protected(args: &[u64; 6]) {
    let [from, len, prot, ..] = *args;
    let both = u64::from(raw::PROT_EXEC | raw::PROT_READ);
    if prot & (both | u64::from(raw::PROT_WRITE)) != both {
        let space = space();
        space.lock.with(|shared| shared.maps.remove(from, from.saturating_add(len)));
    }
}

/// Drops mappings that a fixed mapping has replaced.
fn covered(args: &[u64; 6], at: u64) {
    if args[3] & u64::from(raw::MAP_FIXED) != 0 {
        unmapped(at, args[1]);
    }
}

/// What an mmap call asks for.
struct Text {
    /// With its address unknown.
    map: Map,
    /// It does not set `%gs`.
    is_harmless: bool,
}

/// Returns the text mapping that an mmap call asks for.
fn text_of(context: &Context, args: &[u64; 6]) -> Option<Text> {
    let [_, len, prot, flags, fd, offset] = *args;
    let executable = prot & u64::from(raw::PROT_EXEC) != 0;
    let writable = prot & u64::from(raw::PROT_WRITE) != 0;
    if !executable || writable || flags & u64::from(raw::MAP_ANONYMOUS) != 0 {
        return None;
    }
    if context.silent.get() || sys::is_quiet() {
        return None;
    }
    let stat = identity::of_open(fd)?;
    let key = Key {
        dev: stat.st_dev,
        ino: stat.st_ino,
        mtime_ns: stat.st_mtime as i64 * 1_000_000_000 + stat.st_mtime_nsec as i64,
        size: stat.st_size as u64,
    };
    let map = Map { start: 0, end: len, offset, key };
    let is_harmless = own_gs::known(context, &map) == Some(false) || !own_gs::is_program(fd, &stat);
    Some(Text { map, is_harmless })
}

/// Maps a file's text. If it may set `%gs`, signals are blocked until that is handled.
fn map_text(context: &Context, call: &Call, text: Text, told: &Told) {
    let Text { map, is_harmless } = text;
    if !is_harmless {
        sys::set_mask(mask_all(context));
        context.phase.set(phase::IN_CALL);
    }
    let ret = call.make();
    let returned = returned(context);
    let map = Map { start: ret as u64, end: (ret as u64).wrapping_add(map.end), ..map };
    if !is_error(ret) {
        covered(call.args, map.start);
        let space = space();
        space.lock.with(|shared| shared.maps.add(map));
        profile::patch(&map);
    }
    exit_behind(context, call, ret, returned);
    if is_harmless {
        return told.end(context);
    }
    let sets_gs = !is_error(ret) && own_gs::is_set_by(context, &map);
    let is_left = sets_gs && own_gs::prepare(context);
    if sets_gs {
        own_gs::tell(context, is_left);
    }
    if is_left {
        own_gs::leave(context, 0);
    }
    sys::set_mask(if is_left { context.mask.get() } else { real_mask(context.mask.get()) });
}
