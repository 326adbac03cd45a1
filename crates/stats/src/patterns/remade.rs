//! Files that are made and removed again and again under one name, as journals of databases and locks are.

use std::collections::HashMap;

use model::{Moment, Namespace};
use render::amounts::show_count;
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
        let first = first.filter(|of| of.paths == 1 && ratio(of.ns, all_ns) >= MOST)?;
        self.0.get(&first.path).copied().filter(|count| *count >= OFTEN_SLOW)
    }
}

/// Says so of findings about making and removing a file and about syncs if these are of the same work: one
/// change makes both fewer. `syncs`: what syncs cost.
pub fn tie(findings: &mut [Finding], syncs: Option<&Costs>, files: &Namespace) {
    let at = |kind| findings.iter().position(|of| of.kind == kind);
    let (Some(remade), Some(synced)) = (at(FindingKind::Remade), at(FindingKind::Syncs)) else {
        return;
    };
    let path = findings[remade].file.clone();
    let names = syncs.map(|costs| costs.names(files).0).unwrap_or_default();
    if !names.iter().any(|of| of.paths == 1 && of.path == path) {
        return;
    }
    findings[remade].evidence.push_str(
        "; the syncs are of the same work: committing less often removes both, and after that nothing is \
         left to save here",
    );
    findings[synced].evidence.push_str(&format!(
        "; {} is made and removed in the same work: committing less often removes that too",
        escaped(&path)
    ));
}

/// Says how often a file was removed.
pub fn evidence(removed: u64) -> String {
    format!("; it was made and removed {} times", show_count(removed))
}
