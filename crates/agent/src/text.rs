//! Looks up sites in the supervisor's catalog, by the file whose text is mapped there.

use core::sync::atomic::Ordering;

use ring::{Catalog, MODULES_MAX, Module, SITES_MAX, Site, request};

use crate::context::{Context, space};
use crate::requests;
use crate::text_map::{Key, Map};

/// Result of looking up a site in the catalog.
pub enum Known {
    /// The site may be patched; with its index in the table of sites.
    Patchable(Site, usize),
    /// The site must not be patched.
    Never,
    /// The file has not been analysed yet.
    NotYet,
}

/// Returns the mapping that contains an address.
pub fn at(address: u64) -> Option<Map> {
    let space = space();
    space.lock.with(|shared| shared.maps.find(address))
}

/// Looks up a site in the catalog.
pub fn site(site: u64) -> Known {
    let (Some(map), Some(catalog)) = (at(site), space().catalog.get()) else { return Known::Never };
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
pub fn ask_for(context: &Context, site: u64) {
    requests::send(context, request::MODULE, [site, 0, 0, 0, 0, 0]);
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
