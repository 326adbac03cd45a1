//! The call sites that were hit in an address space, and the memory of their stubs.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::arch::stubs::{JUMP_REACH, STUB_BYTES};

/// Maximum number of sites remembered; later ones stay slow.
const SITES: usize = 1024;
const INDEX: usize = 2 * SITES;
/// Number of index entries tried for a site.
const PROBES: usize = 32;
const AREAS: usize = 64;
/// Size of a memory area for stubs.
pub const AREA_BYTES: u64 = 64 << 10;
/// Maximum distance of a stub, with a margin below the reach of a jump.
pub const REACH: u64 = JUMP_REACH - (1 << 20);

/// A call site that was hit.
pub struct Entry {
    pub site: AtomicU64,
    /// Address of its stub; 0: none.
    pub stub: AtomicU64,
    pub hits: AtomicU32,
    /// Number of bytes from the site on that the jump replaced; 0: none.
    pub replaced: AtomicU32,
    /// The site is patched, or must not be.
    pub settled: AtomicBool,
}

/// A memory area for stubs. Changed under the lock of the address space.
struct StubArea {
    /// Its address; 0: not mapped yet.
    base: AtomicU64,
    used: AtomicU64,
}

/// All call sites of an address space.
pub struct Sites {
    /// Entry numbers plus one, by a hash of the site; 0: free.
    index: [AtomicU16; INDEX],
    /// In the order of first hits, so that a short-lived program touches few pages.
    entries: [Entry; SITES],
    used: AtomicU32,
    areas: [StubArea; AREAS],
    /// The `program_id` of the program in this image; 0: none.
    pub program: AtomicU64,
}

impl Sites {
    /// Returns the index places that may refer to a site's entry.
    fn places(&self, site: u64) -> impl Iterator<Item = &AtomicU16> {
        let start = (site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize;
        (start..start + PROBES).map(|at| &self.index[at % INDEX])
    }

    /// Returns the entry that an index place refers to; `None` if the place is free.
    fn entry_at(&self, place: &AtomicU16) -> Option<&Entry> {
        let number = usize::from(place.load(Ordering::Acquire)).checked_sub(1)?;
        self.entries.get(number)
    }

    pub fn find(&self, site: u64) -> Option<&Entry> {
        self.places(site)
            .map_while(|place| self.entry_at(place))
            .find(|entry| entry.site.load(Ordering::Relaxed) == site)
    }

    /// Returns the entry of a site, creating it if necessary.
    pub fn entry_for(&self, site: u64) -> Option<&Entry> {
        if let Some(entry) = self.find(site) {
            return Some(entry);
        }
        let number = self.used.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(new) = self.entries.get(number) else {
            self.used.store(SITES as u32, Ordering::Relaxed);
            return None;
        };
        new.site.store(site, Ordering::Relaxed);
        for place in self.places(site) {
            let order = (Ordering::AcqRel, Ordering::Acquire);
            if place.compare_exchange(0, number as u16 + 1, order.0, order.1).is_ok() {
                return Some(new);
            }
            // Another thread may have added the same site meanwhile: use its entry.
            if let Some(entry) = self.entry_at(place)
                && entry.site.load(Ordering::Relaxed) == site
            {
                new.site.store(0, Ordering::Relaxed);
                return Some(entry);
            }
        }
        None
    }

    /// Forgets the sites in a memory range that has changed.
    pub fn forget(&self, from: u64, to: u64) {
        for entry in &self.entries {
            let site = entry.site.load(Ordering::Relaxed);
            if (from..to).contains(&site) {
                entry.stub.store(0, Ordering::Relaxed);
                entry.replaced.store(0, Ordering::Relaxed);
                entry.hits.store(0, Ordering::Relaxed);
                entry.settled.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Returns the address and the number of bytes in use of every area for stubs.
    pub fn stub_areas(&self) -> impl Iterator<Item = (u64, u64)> {
        let read = |area: &StubArea| {
            (area.base.load(Ordering::Relaxed), area.used.load(Ordering::Relaxed))
        };
        self.areas.iter().map(read).take_while(|(base, _)| *base != 0)
    }

    /// Returns the address of the stub that contains an address.
    pub fn stub_of(&self, address: u64) -> Option<u64> {
        let (base, _) =
            self.stub_areas().find(|(base, _)| (*base..base + AREA_BYTES).contains(&address))?;
        Some(base + (address - base) / STUB_BYTES * STUB_BYTES)
    }

    /// Allocates contiguous stubs within reach of an address. `map` maps an area near it.
    pub fn new_stubs(
        &self,
        near: u64,
        count: u64,
        map: impl Fn(u64) -> Option<u64>,
    ) -> Option<u64> {
        for area in &self.areas {
            let mut base = area.base.load(Ordering::Relaxed);
            if base == 0 {
                base = map(near)?;
                area.used.store(0, Ordering::Relaxed);
                area.base.store(base, Ordering::Relaxed);
            }
            let used = area.used.load(Ordering::Relaxed);
            if base.abs_diff(near) < REACH && used + count * STUB_BYTES <= AREA_BYTES {
                area.used.store(used + count * STUB_BYTES, Ordering::Relaxed);
                return Some(base + used);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use std::boxed::Box;

    use super::*;

    fn empty() -> Box<Sites> {
        // SAFETY: all zeros is how the table starts.
        Box::new(unsafe { core::mem::zeroed() })
    }

    #[test]
    fn a_site_has_one_entry() {
        let sites = empty();
        assert!(sites.find(0x1000).is_none());
        let first = sites.entry_for(0x1000).expect("there is room");
        first.hits.store(7, Ordering::Relaxed);
        assert!(core::ptr::eq(sites.entry_for(0x1000).expect("it is there"), first));
        assert_eq!(sites.find(0x1000).expect("it is there").hits.load(Ordering::Relaxed), 7);
        assert!(!core::ptr::eq(sites.entry_for(0x1002).expect("there is room"), first));
    }

    #[test]
    fn a_full_table_forgets_nothing() {
        let sites = empty();
        let all = (0..SITES as u64).map(|n| 0x40_0000 + n * 37);
        let known = all.clone().filter(|site| sites.entry_for(*site).is_some()).count();
        assert!(known > SITES * 9 / 10, "{known}");
        for site in all.clone().filter(|site| sites.find(*site).is_some()) {
            let entry = sites.entry_for(site).expect("it is there");
            assert_eq!(entry.site.load(Ordering::Relaxed), site);
        }
        assert_eq!(all.filter(|site| sites.find(*site).is_some()).count(), known);
        for more in 0..100 {
            assert!(sites.entry_for(0x9000_0000 + more).is_none());
        }
    }

    #[test]
    fn what_is_unmapped_is_forgotten() {
        let sites = empty();
        for site in [0x1000, 0x2000] {
            let entry = sites.entry_for(site).expect("there is room");
            entry.stub.store(0x9000, Ordering::Relaxed);
            entry.settled.store(true, Ordering::Relaxed);
        }
        sites.forget(0x1000, 0x2000);
        let stub = |site| sites.find(site).expect("it is there").stub.load(Ordering::Relaxed);
        assert_eq!((stub(0x1000), stub(0x2000)), (0, 0x9000));
    }

    #[test]
    fn stubs_lie_within_reach() {
        let sites = empty();
        let mapped = Cell::new(0);
        let map = |near: u64| {
            mapped.set(mapped.get() + 1);
            Some(near + (1 << 20))
        };
        let near = 0x7000_0000_0000;
        let first = sites.new_stubs(near, 1, map).expect("an area is mapped");
        assert_eq!(sites.new_stubs(near, 3, map), Some(first + STUB_BYTES));
        assert_eq!(sites.new_stubs(near, 1, map), Some(first + 4 * STUB_BYTES));
        assert_eq!(mapped.get(), 1);
        let far = sites.new_stubs(near + 2 * JUMP_REACH, 1, map).expect("another area");
        assert!(far.abs_diff(near + 2 * JUMP_REACH) < REACH);
        assert_eq!(mapped.get(), 2);
        assert_eq!(sites.stub_of(first + STUB_BYTES + 17), Some(first + STUB_BYTES));
        assert_eq!(sites.stub_of(first - 1), None);
        let whole = AREA_BYTES / STUB_BYTES;
        assert_eq!(sites.new_stubs(near, whole, |_| None), None, "no area has room");
    }
}
