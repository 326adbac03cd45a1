//! Tracks which file's text is mapped where, to look up sites in the supervisor's catalog.

use core::sync::atomic::Ordering;

use linux_raw_sys::general as raw;
use ring::{Catalog, MODULES_MAX, Module, SITES_MAX, Site, request};
use syscalls::capture::Row;

use crate::call::{self, enter, exit};
use crate::context::{Context, Frame, mask_all, phase, real_mask, space};
use crate::{exec, own_gs, profile, sites, sys};

/// Maximum number of mappings remembered; sites in others stay slow.
const MAPS: usize = 512;

/// Identity of a file, as in the module table.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Key {
    dev: u64,
    ino: u64,
    mtime_ns: i64,
    size: u64,
}

impl Key {
    /// Hash of the identity. Never 0.
    pub fn hash(&self) -> u64 {
        let words = [self.dev, self.ino, self.mtime_ns as u64, self.size];
        let mix = |hash: u64, word: u64| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        words.into_iter().fold(1, mix) | 1
    }
}

/// Result of looking up a site in the catalog.
pub enum Known {
    /// The site may be patched; with its index in the table of sites.
    Patchable(Site, usize),
    /// The site must not be patched.
    Never,
    /// The file has not been analysed yet.
    NotYet,
}

/// One executable mapping of a file.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    /// File offset of `start`.
    pub offset: u64,
    pub key: Key,
}

/// The executable mappings of an address space.
pub struct Maps {
    list: [Map; MAPS],
    used: usize,
}

impl Maps {
    pub fn add(&mut self, map: Map) {
        if let Some(free) = self.list[..self.used].iter_mut().find(|map| map.end == 0) {
            *free = map;
        } else if self.used < MAPS {
            self.list[self.used] = map;
            self.used += 1;
        }
    }

    fn remove(&mut self, from: u64, to: u64) -> bool {
        let mut found = false;
        for map in &mut self.list[..self.used] {
            if map.start < to && from < map.end {
                map.end = 0;
                map.start = 0;
                found = true;
            }
        }
        found
    }
}

/// Returns the mapping that contains an address.
pub fn at(address: u64) -> Option<Map> {
    let space = space();
    space.lock.with(|| {
        let maps = &space.maps;
        maps.list[..maps.used].iter().find(|map| (map.start..map.end).contains(&address)).copied()
    })
}

/// Looks up a site in the catalog.
pub fn site(site: u64) -> Known {
    let (Some(map), Some(catalog)) = (at(site), space().catalog) else { return Known::Never };
    let Some((first, sites)) = sites_of(catalog, &map.key) else { return Known::NotYet };
    let offset = site - map.start + map.offset;
    match sites.binary_search_by_key(&offset, |site| u64::from(site.offset)) {
        Ok(found) => Known::Patchable(sites[found], first + found),
        Err(_) => Known::Never,
    }
}

/// Returns the patchable sites of a file and the index of the first one; `None` if the file has not
/// been analysed yet.
pub fn sites_of(catalog: Catalog, key: &Key) -> Option<(usize, &'static [Site])> {
    let module = module(catalog, key)?;
    let first = (module.first.load(Ordering::Relaxed) as usize).min(SITES_MAX);
    let count = (module.count.load(Ordering::Relaxed) as usize).min(SITES_MAX - first);
    // SAFETY: the supervisor wrote these sites before it published the module.
    Some((first, unsafe { core::slice::from_raw_parts(catalog.sites().add(first), count) }))
}

/// Asks the supervisor to analyse the file of a site, without waiting.
pub fn ask_for(context: &mut Context, site: u64) {
    exec::tell(context, request::MODULE, [site, 0, 0, 0, 0, 0]);
}

/// Returns a file's entry in the module table.
fn module(catalog: Catalog, key: &Key) -> Option<&'static Module> {
    let modules = catalog.modules();
    let count = (modules.count.load(Ordering::Acquire) as usize).min(MODULES_MAX);
    modules.modules[..count].iter().find(|module| {
        module.ino.load(Ordering::Relaxed) == key.ino
            && module.dev.load(Ordering::Relaxed) == key.dev
            && module.mtime_ns.load(Ordering::Relaxed) == key.mtime_ns
            && module.size.load(Ordering::Relaxed) == key.size
    })
}

/// mmap, munmap, mremap and mprotect: keeps the list of mappings up to date.
pub fn call(context: &mut Context, frame: &mut Frame) -> i64 {
    let nr = frame.rax;
    let args = frame.args();
    let row = enter(context, nr, &args, 0);
    if nr as u32 == raw::__NR_mmap
        && let Some((text, stat)) = text_of(context, &args)
    {
        return map_text(context, row, &args, text, &stat);
    }
    let ret = call::make(context, nr, &args);
    if !is_error(ret) {
        match nr as u32 {
            raw::__NR_mmap => mapped(&args, ret as u64),
            raw::__NR_munmap => unmapped(args[0], args[1]),
            raw::__NR_mprotect | raw::__NR_pkey_mprotect => protected(&args),
            _ => unmapped(args[0], args[1].max(args[2])),
        }
    }
    exit(context, row, &args, ret);
    ret
}

fn is_error(ret: i64) -> bool {
    (-4095..0).contains(&ret)
}

fn unmapped(from: u64, len: u64) {
    let to = from.saturating_add(len);
    let space = space();
    space.lock.with(|| {
        if space.maps.remove(from, to) {
            sites::forget(from, to);
        }
    });
}

/// Drops mappings that are no longer just text: their sites are not patched any more.
fn protected(args: &[u64; 6]) {
    let [from, len, prot, ..] = *args;
    let both = u64::from(raw::PROT_EXEC | raw::PROT_READ);
    if prot & (both | u64::from(raw::PROT_WRITE)) != both {
        let space = space();
        space.lock.with(|| space.maps.remove(from, from.saturating_add(len)));
    }
}

/// Drops mappings that a fixed mapping has replaced.
fn mapped(args: &[u64; 6], at: u64) {
    if args[3] & u64::from(raw::MAP_FIXED) != 0 {
        unmapped(at, args[1]);
    }
}

/// Returns the text mapping that an mmap call asks for, with its address unknown.
fn text_of(context: &Context, args: &[u64; 6]) -> Option<(Map, raw::stat)> {
    let [_, len, prot, flags, fd, offset] = *args;
    let executable = prot & u64::from(raw::PROT_EXEC) != 0;
    let writable = prot & u64::from(raw::PROT_WRITE) != 0;
    if !executable || writable || flags & u64::from(raw::MAP_ANONYMOUS) != 0 {
        return None;
    }
    if context.silent || sys::is_quiet() {
        return None;
    }
    // SAFETY: `stat` consists of integers, for which zero is a valid value.
    let mut stat: raw::stat = unsafe { core::mem::zeroed() };
    if sys::call(raw::__NR_fstat, [fd, &raw mut stat as u64, 0, 0, 0, 0]) != 0 {
        return None;
    }
    let key = Key {
        dev: stat.st_dev,
        ino: stat.st_ino,
        mtime_ns: stat.st_mtime as i64 * 1_000_000_000 + stat.st_mtime_nsec as i64,
        size: stat.st_size as u64,
    };
    Some((Map { start: 0, end: len, offset, key }, stat))
}

/// Maps a file's text. If it may set `%gs`, signals are blocked until that is handled.
fn map_text(context: &mut Context, row: &Row, args: &[u64; 6], text: Map, stat: &raw::stat) -> i64 {
    let is_harmless =
        own_gs::known(context, &text) == Some(false) || !own_gs::is_program(args[4], stat);
    if !is_harmless {
        sys::set_mask(mask_all(context));
        context.phase = phase::IN_CALL;
    }
    let ret = call::make(context, u64::from(raw::__NR_mmap), args);
    let map = Map { start: ret as u64, end: (ret as u64).wrapping_add(text.end), ..text };
    if !is_error(ret) {
        mapped(args, map.start);
        let space = space();
        space.lock.with(|| space.maps.add(map));
        profile::patch(&map);
    }
    exit(context, row, args, ret);
    if is_harmless {
        return ret;
    }
    let sets_gs = !is_error(ret) && own_gs::is_set_by(context, &map);
    let is_left = sets_gs && own_gs::prepare(context);
    if sets_gs {
        own_gs::tell(context, is_left);
    }
    if is_left {
        own_gs::leave(context, 0);
    }
    sys::set_mask(if is_left { context.mask } else { real_mask(context.mask) });
    ret
}
