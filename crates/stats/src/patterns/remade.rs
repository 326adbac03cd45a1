//! Files that are made and removed again and again under one name, as journals of databases and locks are.

use std::collections::HashMap;

use model::{Moment, Namespace};
use render::amounts::{show_count, show_time};
use render::escape::escaped;
use syscalls::Act;
use trace::event::Call;

use super::costly::{Costs, Named};
use super::finding::Finding;
use super::kinds::FindingKind;
use super::often::{COUNTED_MAX, OFTEN_SLOW};
use crate::sheet::ratio;

/// A name that takes this share of what names of files cost is what they cost.
const MOST: f64 = 0.5;

/// How often each path was removed.
#[derive(Default)]
pub struct Removals(HashMap<Vec<u8>, u64>);

impl Removals {
    /// Counts a call, if it removed a file.
    pub fn add(&mut self, call: &Call, moment: &Moment<'_>) {
        let row = syscalls::by_number(call.nr.into());
        if call.success().is_none() || row.is_none_or(|row| row.act_of(&call.args) != Act::Remove) {
            return;
        }
        let Some((_, path)) = moment.step.paths.first() else { return };
        if let Some(count) = self.0.get_mut(path) {
            *count += 1;
        } else if self.0.len() < COUNTED_MAX {
            self.0.insert(path.clone(), 1);
        }
    }

    /// Returns how often a file was removed that takes most of this time, if it was that often.
    pub fn often(&self, first: Option<&Named>, all_ns: u64) -> Option<u64> {
        self.of(first.filter(|of| ratio(of.ns, all_ns) >= MOST)?)
    }

    /// Returns how often a file was removed, if it was often.
    fn of(&self, named: &Named) -> Option<u64> {
        let removed = (named.paths == 1).then(|| self.0.get(&named.path))?;
        removed.copied().filter(|count| *count >= OFTEN_SLOW)
    }

    /// Says of findings about making and removing a file and about syncs that these are of the same work, if
    /// they are: one change makes both fewer. `syncs` and `names`: what cost what of them; `price`: the part
    /// of the run that calls on names of files took.
    pub fn tie(
        &self,
        findings: &mut [Finding],
        [syncs, names]: [Option<&Costs>; 2],
        price: impl Fn(u64) -> u64,
        files: &Namespace,
    ) {
        let named = |costs: Option<&Costs>| costs.map(|of| of.names(files).0).unwrap_or_default();
        let at = |kind| findings.iter().position(|of| of.kind == kind);
        let (synced, remade) = (at(FindingKind::Syncs), at(FindingKind::Remade));
        let synced_often = named(syncs).into_iter().find_map(|of| Some((self.of(&of)?, of.path)));
        let (Some(synced), Some((removed, path))) = (synced, synced_often) else { return };
        let of_path = named(names).into_iter().find(|of| of.paths == 1 && of.path == path);
        let cost = of_path.map_or(0, |of| price(of.ns));
        let time =
            if cost == 0 { String::new() } else { format!(", which takes {}", show_time(cost)) };
        findings[synced].evidence.push_str(&format!(
            "; {} is made and removed {} times in the same work{time}: committing less often removes that too",
            escaped(&path),
            show_count(removed),
        ));
        findings[synced].saves_ns += cost;
        if let Some(remade) = remade.filter(|at| findings[*at].file == path) {
            findings[remade].evidence.push_str(
                "; the syncs are of the same work: committing less often removes both, and after that \
                 nothing is left to save here",
            );
        }
    }
}

/// Says how often a file was removed.
pub fn evidence(removed: u64) -> String {
    format!("; it was made and removed {} times", show_count(removed))
}
