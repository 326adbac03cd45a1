//! Waits among calls that overlapped. Calls that are open may be made to wait for each other, because
//! of what came of them or of when they returned, but never in a circle: a replay must not get stuck,
//! however a trace was written.
//!
//! A call that is open is waited for by calls that are open as well, each of which was told to, and,
//! once one of these has ended in the recording, by every call that begins later.

use std::sync::Arc;

use super::Planner;
use crate::lane::Lane;
use crate::order::Index;

/// Who waits for a call that is open, directly or not.
#[derive(Clone, Default)]
pub struct Followers {
    /// Lanes with calls that are open, a bit each.
    open: Vec<u64>,
    /// All that begin later.
    later: bool,
}

impl Followers {
    fn any(&self) -> bool {
        self.later || !self.open.is_empty()
    }

    fn has(&self, index: Index) -> bool {
        self.open.get(index / 64).is_some_and(|word| word & 1 << (index % 64) != 0)
    }

    fn add(&mut self, index: Index) {
        let at = index / 64;
        if at >= self.open.len() {
            self.open.resize(at + 1, 0);
        }
        self.open[at] |= 1 << (index % 64);
    }

    fn remove(&mut self, index: Index) {
        if let Some(word) = self.open.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    fn add_all(&mut self, others: &Followers) {
        if self.open.len() < others.open.len() {
            self.open.resize(others.open.len(), 0);
        }
        self.open.iter_mut().zip(&others.open).for_each(|(ours, theirs)| *ours |= theirs);
    }
}

impl Planner<'_> {
    /// What the first lane has open waits for what the other one has open, unless that waits for it.
    /// Whether it does.
    pub(super) fn follow(&mut self, last: Index, first: Index) -> bool {
        let waits = |one: Index, other: Index| self.lines[other].followers.has(one);
        if waits(first, last) || waits(last, first) {
            return waits(last, first);
        }
        let wait = (Arc::clone(&self.lines[first].lane), self.lines[first].count + 1);
        self.add_wait(last, wait, |planner, other| {
            other == first || planner.lines[other].followers.has(first)
        });
        true
    }

    /// Of what two lanes have open, what returned later waits for the other one, unless what came of
    /// them tells otherwise. Whether nothing had told the same.
    pub(super) fn follow_by_return(&mut self, a: Index, b: Index) -> bool {
        let key = |index: Index| (self.lines[index].open_until(), index);
        let (first, last) = if key(a) < key(b) { (a, b) } else { (b, a) };
        let known = self.lines[first].followers.has(last);
        self.follow(last, first);
        !known
    }

    /// What a lane has open waits for what another one has done, which had not ended when that began:
    /// it may itself wait for all that are waited for by what begins later.
    pub(super) fn follow_recent(&mut self, last: Index, wait: (Arc<Lane>, u64)) {
        if !self.lines[last].followers.later {
            self.add_wait(last, wait, |planner, other| planner.lines[other].followers.later);
        }
    }

    /// Takes a wait up: who is waited for through it is waited for by one more.
    fn add_wait(
        &mut self,
        last: Index,
        wait: (Arc<Lane>, u64),
        through: impl Fn(&Self, Index) -> bool,
    ) {
        let mut more = self.lines[last].followers.clone();
        more.add(last);
        for at in 0..self.busy.len() {
            let other = self.busy[at];
            if through(self, other) {
                let followers = &mut self.lines[other].followers;
                followers.add_all(&more);
                if more.later && !followers.later {
                    followers.later = true;
                    self.lasting += 1;
                }
            }
        }
        self.lines[last].follows = true;
        self.lines[last].also_wait(wait);
    }

    /// A lane has opened a call.
    pub(super) fn follow_as_later(&mut self, index: Index) {
        let Planner { busy, lines, .. } = self;
        for &other in busy.iter().filter(|other| **other != index) {
            if lines[other].followers.later {
                lines[other].followers.add(index);
                lines[index].follows = true;
            }
        }
    }

    /// What a lane has open ends: it waits for nobody any more, and nobody new waits for it.
    pub(super) fn end_waits(&mut self, index: Index) {
        let Planner { busy, lines, lasting, .. } = self;
        let at = lines[index].busy_at;
        busy.swap_remove(at);
        if let Some(&moved) = busy.get(at) {
            lines[moved].busy_at = at;
        }
        let line = &mut lines[index];
        if line.followers.any() {
            *lasting -= usize::from(line.followers.later);
            line.followers.open.clear();
            line.followers.later = false;
        }
        if !std::mem::take(&mut line.follows) {
            return;
        }
        for &other in busy.iter() {
            let followers = &mut lines[other].followers;
            if followers.has(index) {
                followers.remove(index);
                *lasting += usize::from(!followers.later);
                followers.later = true;
            }
        }
    }
}
