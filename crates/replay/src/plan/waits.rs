//! Waits among overlapping calls. Open calls may be made to wait for each other, because of their
//! results or their order of return, but never in a circle: a replay must not get stuck, whatever
//! the trace says.
//!
//! An open call is followed by the open calls that must wait for it and, once one of these has
//! ended in the recording, by every call that begins later.

use std::sync::Arc;

use super::Planner;
use crate::lane::Lane;
use crate::order::Index;

/// Lanes that wait for an open call, directly or indirectly.
#[derive(Clone, Default)]
pub struct Followers {
    /// Bit set of lanes with open calls.
    open: Vec<u64>,
    /// All calls that begin later.
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
    /// Makes `last`'s open call wait for `first`'s, unless `first` already waits for `last`.
    /// Returns whether it waits.
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

    /// Makes the call that returned later wait for the other one, unless the opposite order is
    /// established. Returns whether the order of return was not established before.
    pub(super) fn follow_by_return(&mut self, a: Index, b: Index) -> bool {
        let key = |index: Index| (self.lines[index].open_until(), index);
        let (first, last) = if key(a) < key(b) { (a, b) } else { (b, a) };
        let known = self.lines[first].followers.has(last);
        self.follow(last, first);
        !known
    }

    /// Makes `last`'s open call wait for an action of another lane that was still running when
    /// `last` began. That action may in turn wait for every call that all later ones wait for.
    pub(super) fn follow_recent(&mut self, last: Index, wait: (Arc<Lane>, u64)) {
        if !self.lines[last].followers.later {
            self.add_wait(last, wait, |planner, other| planner.lines[other].followers.later);
        }
    }

    /// Adds a wait: lanes for which `through` is true get `last` and its followers as followers.
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

    /// A new open call follows all calls that later ones must wait for.
    pub(super) fn follow_as_later(&mut self, index: Index) {
        let Planner { busy, lines, .. } = self;
        for &other in busy.iter().filter(|other| **other != index) {
            if lines[other].followers.later {
                lines[other].followers.add(index);
                lines[index].follows = true;
            }
        }
    }

    /// The lane's open action ends: it leaves all waits, and no new ones are added for it.
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
