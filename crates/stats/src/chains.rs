//! Chains of callers, with the names of functions.

use model::callers::callers_of;
use model::{Contents, Moment};
use symbols::{Symbol, Symbols};
use trace::event::{Call, EventKind};

use crate::sites::{SiteId, Sites};

/// Follows what processes map, and spells callers.
#[derive(Default)]
pub struct Chains {
    sites: Sites,
    symbols: Symbols,
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

    /// The caller that tells most of a chain: the first one in another file than the call's own, which
    /// is the C library as a rule.
    pub fn telling(&self, chain: &[SiteId]) -> Option<(SiteId, bool)> {
        let (own, callers) = chain.split_first()?;
        let file = |site: SiteId| self.sites.place(site).map(|place| &place.path);
        let other = callers.iter().find(|site| file(**site) != file(*own));
        match other.or(callers.first()) {
            Some(site) => Some((*site, true)),
            None => Some((*own, false)),
        }
    }

    /// Spells a place. `returns`: it is one to which a call returns.
    pub fn spell(&mut self, site: SiteId, returns: bool) -> Spelled {
        let place = self.sites.name(site).to_vec();
        let Some(of) = self.sites.place(site).cloned() else {
            return Spelled { place, ..Spelled::default() };
        };
        let Symbol { function, line } = self.symbols.of(&of, returns);
        let line = line.map(|(file, line)| format!("{file}:{line}"));
        Spelled { function, line, place }
    }
}
