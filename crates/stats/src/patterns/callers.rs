//! Who made the calls of a finding: by recorded callers, or else the call's own instruction.

use std::collections::HashSet;

use model::{Contents, Moment};
use trace::event::Call;

use crate::chains::{Chains, Spelled};
use crate::sites::SiteId;

/// Follows what processes map.
#[derive(Default)]
pub struct Callers {
    chains: Chains,
    /// Places that a call returns to, and not those of calls themselves.
    returned_to: HashSet<SiteId>,
    /// True if any were recorded.
    were_recorded: bool,
}

impl Callers {
    /// Takes each event, in order.
    pub fn add(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) {
        self.chains.add(moment, contents);
    }

    /// Returns the place that tells most of where a call was made, and whether its callers were recorded.
    pub fn of(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        contents: &mut dyn Contents,
    ) -> (SiteId, bool) {
        let chain = self.chains.of(moment, contents);
        self.were_recorded |= chain.is_some();
        match chain.and_then(|chain| self.chains.telling(&chain)) {
            Some((site, returns)) => {
                if returns {
                    self.returned_to.insert(site);
                }
                (site, true)
            }
            None => (self.chains.own(moment, call), false),
        }
    }

    /// Returns true if callers of any call were recorded.
    pub fn were_recorded(&self) -> bool {
        self.were_recorded
    }

    /// Returns a place for people: with function, file and line where these are known.
    pub fn spelled(&mut self, site: SiteId) -> Vec<u8> {
        let returns = self.returned_to.contains(&site);
        let Spelled { function, line, place } = self.chains.spell(site, returns);
        let Some(function) = function else { return place };
        let at = line.map_or(Vec::new(), |line| format!(" at {line}").into_bytes());
        [function.as_bytes(), &at, b" [", &place, b"]"].concat()
    }
}
