//! Chains of callers, with the names of functions.

use std::collections::HashMap;

use model::callers::callers_of;
use model::{Contents, Moment};
use symbols::{Place, Symbol, Symbols};
use trace::event::{Call, EventKind};

use crate::sites::{SiteId, Sites};

/// Follows what processes map, and spells callers.
#[derive(Default)]
pub struct Chains {
    sites: Sites,
    symbols: Symbols,
    /// Whether the function of a place that calls return to is known: no more than there are sites.
    named: HashMap<SiteId, bool>,
}

/// An address as it is told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Spelled {
    /// The function, if it is known.
    pub function: Option<String>,
    /// File and line, if they are known.
    pub line: Option<String>,
    /// The file of code, and where in it; or the address alone.
    pub place: Vec<u8>,
}

impl Spelled {
    /// The shortest name that tells it: the function, or else the place.
    pub fn name(&self) -> String {
        match &self.function {
            Some(function) => function.clone(),
            None => String::from_utf8_lossy(last(&self.place)).into_owned(),
        }
    }
}

/// The last part of a path.
fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

impl Chains {
    /// Takes each event, in order.
    pub fn add(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) {
        self.sites.add(moment, contents);
    }

    /// The places from which a call was made: its own instruction, and its callers from the innermost
    /// one on. `None`: callers were not recorded of it.
    pub fn of(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) -> Option<Vec<SiteId>> {
        let EventKind::Call(call) = &moment.event.kind else { return None };
        let callers = callers_of(moment.event, contents)?;
        let mut chain = vec![self.own(moment, call)];
        chain.extend(callers.iter().map(|address| self.sites.at(moment, *address)));
        Some(chain)
    }

    /// The place of a call's instruction.
    pub fn own(&mut self, moment: &Moment<'_>, call: &Call) -> SiteId {
        self.sites.at(moment, call.site)
    }

    /// The caller that tells most of a chain: of the first ones in another file than the call's own, which
    /// is the C library as a rule, the innermost one whose function is known.
    pub fn telling(&mut self, chain: &[SiteId]) -> Option<(SiteId, bool)> {
        let (own, callers) = chain.split_first()?;
        let file = |site: SiteId| self.sites.place(site).map(|place| &place.path);
        let Some(first) = callers.iter().position(|site| file(*site) != file(*own)) else {
            return Some(callers.first().map_or((*own, false), |site| (*site, true)));
        };
        let others = &callers[first..];
        let end = others.iter().position(|site| file(*site) != file(others[0]));
        let beside = &others[..end.unwrap_or(others.len())];
        let named = beside.iter().copied().find(|site| self.has_name(*site));
        Some((named.unwrap_or(others[0]), true))
    }

    /// Returns true if the function that a call returns to is known.
    fn has_name(&mut self, site: SiteId) -> bool {
        if let Some(known) = self.named.get(&site) {
            return *known;
        }
        let has_name = self.spell(site, true).function.is_some();
        self.named.insert(site, has_name);
        has_name
    }

    /// File and offset of a place.
    pub fn name(&self, site: SiteId) -> &[u8] {
        self.sites.name(site)
    }

    /// Spells a place. `returns`: it is one to which a call returns.
    pub fn spell(&mut self, site: SiteId, returns: bool) -> Spelled {
        let place = self.sites.name(site).to_vec();
        let Some(of) = self.sites.place(site).cloned() else {
            return Spelled { place, ..Spelled::default() };
        };
        self.spelled(&of, place, returns)
    }

    /// Spells a place in a file of code, by its offset there.
    pub fn spell_in_file(&mut self, path: &[u8], at: u64, returns: bool) -> Spelled {
        let place = [path, format!("+{at:#x}").as_bytes()].concat();
        let of = Place { path: path.to_vec(), at, is_loaded: false };
        self.spelled(&of, place, returns)
    }

    fn spelled(&mut self, of: &Place, place: Vec<u8>, returns: bool) -> Spelled {
        let Symbol { function, line } = self.symbols.of(of, returns);
        let line = line.map(|(file, line)| format!("{file}:{line}"));
        Spelled { function, line, place }
    }
}
