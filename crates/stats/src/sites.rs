//! Call sites: the module that a call's address is in.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use model::decode::image;
use model::{Contents, Moment, Value};
use symbols::Place;
use syscalls::Act;
use syscalls::abi::memory::{MAP_ANONYMOUS, PROT_EXEC};
use syscalls::record::part;
use trace::event::{Call, EventKind};

/// Limits for the mappings of a process and for the call sites.
const MAPPINGS_MAX: usize = 4096;
const SITES_MAX: usize = 1 << 16;
/// Assumed maximum size of the text of a program or the dynamic linker.
const REACH: u64 = 1 << 28;

/// Number of a call site.
pub type SiteId = usize;

/// Returns true if calls of this number map memory.
fn maps(nr: u16) -> bool {
    syscalls::by_number(nr.into()).is_some_and(|row| row.act == Act::Map)
}

#[derive(Clone, Debug)]
struct Mapping {
    end: u64,
    offset: u64,
    path: Rc<Vec<u8>>,
    /// It is one of the whole file, which is not laid out as in the file.
    is_loaded: bool,
}

/// Executable mappings of a process, by start address.
type Mappings = BTreeMap<u64, Mapping>;

/// Call sites by process and address.
#[derive(Default)]
pub struct Sites {
    mappings: HashMap<u32, Rc<Mappings>>,
    known: HashMap<(u32, u64), SiteId>,
    by_name: HashMap<Vec<u8>, SiteId>,
    names: Vec<Vec<u8>>,
    places: Vec<Option<Place>>,
}

impl Sites {
    /// Makes an empty table.
    pub fn new() -> Sites {
        Sites::default()
    }

    /// Returns module and file offset of a call site.
    pub fn name(&self, site: SiteId) -> &[u8] {
        self.names.get(site).map_or(b"(elsewhere)", Vec::as_slice)
    }

    /// Returns where a call site is, if it is in a file.
    pub fn place(&self, site: SiteId) -> Option<&Place> {
        self.places.get(site)?.as_ref()
    }

    /// Tracks executable mappings.
    pub fn add(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) {
        match &moment.event.kind {
            EventKind::Call(call) if maps(call.nr) => self.mapped(moment, call),
            EventKind::Start { process, parent, .. } => {
                let parent = moment.world.thread(*parent).map(|thread| thread.process);
                if let Some(theirs) = parent.and_then(|parent| self.mappings.get(&parent))
                    && parent != Some(*process)
                {
                    self.mappings.insert(*process, Rc::clone(theirs));
                }
            }
            EventKind::Image { data, .. } => {
                let Some(thread) = moment.world.thread(moment.event.thread) else { return };
                let process = thread.process;
                self.known.retain(|(of, _), _| *of != process);
                let auxv = data.iter().filter(|data| data.part == part::AUXV).cloned();
                let auxv = image::decode(&auxv.collect::<Vec<_>>(), contents);
                let mut mappings = Mappings::new();
                for (key, path) in
                    [("AT_PHDR", b"(program)".to_vec()), ("AT_BASE", b"(dynamic linker)".to_vec())]
                {
                    if let Some(address) = entry(&auxv, key).filter(|address| *address != 0) {
                        let start = address & !0xfff;
                        let end = start.saturating_add(REACH);
                        mappings.insert(
                            start,
                            Mapping { end, offset: 0, path: Rc::new(path), is_loaded: true },
                        );
                    }
                }
                self.mappings.insert(process, Rc::new(mappings));
            }
            EventKind::Exit { process, .. } => {
                self.mappings.remove(process);
                self.known.retain(|(of, _), _| of != process);
            }
            _ => {}
        }
    }

    fn mapped(&mut self, moment: &Moment<'_>, call: &Call) {
        let [_, length, protection, flags, fd, offset] = call.args;
        let Some(start) = call.success().map(|start| start as u64) else { return };
        if protection & PROT_EXEC == 0 || flags & MAP_ANONYMOUS != 0 {
            return;
        }
        let Some(thread) = moment.world.thread(moment.event.thread) else { return };
        let Some(path) = moment.view().fd(fd as i32) else { return };
        let mappings = Rc::make_mut(self.mappings.entry(thread.process).or_default());
        if mappings.len() < MAPPINGS_MAX {
            let end = start.saturating_add(length);
            mappings.insert(start, Mapping { end, offset, path: Rc::new(path), is_loaded: false });
        }
    }

    /// Returns the call site at an address of the event's process.
    pub fn at(&mut self, moment: &Moment<'_>, address: u64) -> SiteId {
        let process = moment.world.thread(moment.event.thread).map_or(0, |thread| thread.process);
        if let Some(known) = self.known.get(&(process, address)) {
            return *known;
        }
        let exe = moment.world.process(process).map_or(&b""[..], |process| &process.exe);
        let place = self.resolve(process, address, exe);
        let name = match &place {
            Some(Place { path, at, .. }) => [path, format!("+{at:#x}").as_bytes()].concat(),
            None => format!("{address:#x}").into_bytes(),
        };
        let next = self.names.len();
        if next >= SITES_MAX && !self.by_name.contains_key(&name) {
            return usize::MAX;
        }
        let id = *self.by_name.entry(name.clone()).or_insert(next);
        if id == next {
            self.names.push(name);
            self.places.push(place);
        }
        if self.known.len() < SITES_MAX {
            self.known.insert((process, address), id);
        }
        id
    }

    fn resolve(&self, process: u32, site: u64, exe: &[u8]) -> Option<Place> {
        let mappings = self.mappings.get(&process);
        let below = mappings.and_then(|mappings| mappings.range(..=site).next_back());
        let (start, mapping) = below.filter(|(_, mapping)| site < mapping.end)?;
        let path = match mapping.path.as_slice() {
            b"(program)" if !exe.is_empty() => exe,
            path => path,
        };
        let at = (site - start).wrapping_add(mapping.offset);
        Some(Place { path: path.to_vec(), at, is_loaded: mapping.is_loaded })
    }
}

/// Returns an entry of the auxiliary vector.
fn entry(given: &[(&'static str, Value)], wanted: &str) -> Option<u64> {
    let Value::Array { items, .. } = image::find(given, part::AUXV)? else { return None };
    items.iter().find_map(|item| match item {
        Value::Struct { fields, .. } => match &fields[..] {
            [(_, Value::Named { name, .. }), (_, Value::Hex(value))] if *name == wanted => {
                Some(*value)
            }
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use model::{InlineOnly, World};

    use super::*;
    use crate::sample::{begin, call, events, open};

    #[test]
    fn addresses_have_a_module_while_it_is_mapped() {
        let (text, data) = (5, 3);
        let map = |start, protection, fd, offset| {
            call("mmap", &[0, 0x1000, protection, 2, fd, offset], start)
        };
        let mut all = begin();
        all.extend(events(&[
            open("/lib/x.so", 0, 3),
            map(0x70000, text, 3, 0x2000),
            map(0x80000, data, 3, 0x3000),
            call("getppid", &[], 1),
        ]));
        let last = all.last().map_or(0, |event| event.tsc);
        let (mut world, mut sites) = (World::new(), Sites::new());
        let mut found = Vec::new();
        for event in &all {
            let step = world.step(event, &mut InlineOnly);
            let moment = Moment::new(None, event, &world, &step, &|tsc| tsc);
            sites.add(&moment, &mut InlineOnly);
            if event.tsc == last {
                for address in [0x70123, 0x70123, 0x71123, 0x80123] {
                    let site = sites.at(&moment, address);
                    found.push(String::from_utf8(sites.name(site).to_vec()).unwrap());
                }
            }
            world.finish(step);
        }
        assert_eq!(found, ["/lib/x.so+0x2123", "/lib/x.so+0x2123", "0x71123", "0x80123"]);
    }
}
