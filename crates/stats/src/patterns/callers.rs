//! Who made the calls of a finding: by recorded callers, or else the call's own instruction.

use std::collections::HashSet;

use model::{Contents, Moment};
use trace::event::{Call, EventKind};

use super::finding::Finding;
use super::kinds::FindingKind;
use super::often::COUNTED_MAX;
use crate::chains::{Chains, Spelled};
use crate::sites::SiteId;

/// How to see who called.
const HINT: &str = "who called is not in this recording: `reenact record --stack ...` records it. Without that, \
                    `called from` is where the call itself is, mostly in the C library.";

/// Follows what processes map.
#[derive(Default)]
pub struct Callers {
    chains: Chains,
    /// Places that a call returns to, and not those of calls themselves.
    returned_to: HashSet<SiteId>,
    /// True if any were recorded.
    were_recorded: bool,
    /// Programs that ran.
    programs: HashSet<Vec<u8>>,
    /// True if a place was told that is in one of them, and if one was that is not, but in a library.
    told_program: bool,
    told_library: bool,
}

impl Callers {
    /// Takes each event, in order.
    pub fn add(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) {
        self.chains.add(moment, contents);
        if let EventKind::State(state) = &moment.event.kind
            && self.programs.len() < COUNTED_MAX
        {
            self.programs.insert(state.exe.clone());
        }
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

    /// Returns how to see who called, if findings leave that open: a place of theirs is in a library, or they
    /// are about calls and none has a place.
    pub fn hint(&self, findings: &[Finding]) -> Option<&'static str> {
        let is_open = |of: &Finding| {
            let has_place = of.kind.is_about_run() && of.kind != FindingKind::Spawns;
            has_place && of.count > 0 && of.site.is_empty()
        };
        let is_told = self.told_program || !findings.iter().any(is_open);
        (!self.were_recorded && (self.told_library || !is_told)).then_some(HINT)
    }

    /// Returns a place for people: with function, file and line where these are known.
    pub fn spelled(&mut self, site: SiteId) -> Vec<u8> {
        let returns = self.returned_to.contains(&site);
        let Spelled { function, line, place } = self.chains.spell(site, returns);
        let file = place.iter().rposition(|byte| *byte == b'+').map(|end| &place[..end]);
        let is_program = file.map(|file| self.programs.contains(file));
        self.told_program |= is_program == Some(true);
        self.told_library |= is_program == Some(false);
        let Some(function) = function else { return place };
        let at = line.map_or(Vec::new(), |line| format!(" at {line}").into_bytes());
        [function.as_bytes(), &at, b" [", &place, b"]"].concat()
    }
}
