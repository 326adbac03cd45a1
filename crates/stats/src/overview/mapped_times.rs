//! Where the times of what processes read of mapped files come from.

use std::collections::BTreeMap;

use model::Moment;
use model::mapped::Times;

/// Limit for the reasons that are counted.
const REASONS_MAX: usize = 64;

/// Where the times come from.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MappedTimes {
    /// Number of times that a process began for which they come from page faults.
    pub by_faults: u64,
    /// The same for looks at its memory, by the reason.
    pub by_looks: BTreeMap<String, u64>,
    /// Number of page faults that were lost.
    pub lost: u64,
}

impl MappedTimes {
    pub(super) fn event(&mut self, moment: &Moment<'_>) {
        let Some(Times { by_faults, lost, why }) = Times::of(moment.event) else { return };
        self.lost = self.lost.saturating_add(lost);
        match by_faults {
            true => self.by_faults += u64::from(lost == 0),
            false if self.by_looks.len() < REASONS_MAX || self.by_looks.contains_key(why) => {
                *self.by_looks.entry(why.to_owned()).or_default() += 1;
            }
            false => {}
        }
    }
}
