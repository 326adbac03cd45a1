//! Orders the open calls by their claims: asks `conflict.rs` how two of them overlap, adds the waits
//! that its rules want to `graph.rs`, and notes what the rules leave in doubt.

use std::sync::Arc;

use super::Planner;
use super::claims::Claims;
use super::claims::bytes::{Bytes, Does};
use super::claims::locks::{self, Lock};
use super::claims::names::Names;
use super::claims::queues::{Flow, Way};
use super::conflict::{First, Leaves, Overlap, Rule, bytes, names};
use super::graph::Waits;
use super::line::Line;
use crate::batch::Lane;
use crate::certainty::Reason;
use crate::order::Index;

/// Why all of a file is in doubt, for users.
const COPIED: &str = "bytes were copied to it that another call wrote at the time";

impl Planner<'_> {
    /// Orders a call among the open ones by all that it claims.
    pub(super) fn order_by_claims(&mut self, index: Index, claims: Claims, tsc: u64) {
        let Claims { names, bytes, copies_to, lock, flow, numbers, .. } = claims;
        self.lines[index].claims.copies_to = copies_to;
        self.order_by_names(index, names);
        self.order_by_bytes(index, bytes);
        self.order_by_lock(index, lock);
        if let Some(flow) = flow {
            self.order_by_queue(index, flow);
        }
        self.order_by_numbers(index, numbers, tsc);
    }

    /// Follows a rule for two open calls.
    /// Returns whether the opposite order was there already.
    pub(super) fn follow_rule(&mut self, rule: &Rule, one: Index, other: Index) -> bool {
        self.lines[one].weaken(rule.one);
        self.lines[other].weaken(rule.other);
        let agrees = match rule.first {
            First::One => self.follow(other, one),
            First::Other => self.follow(one, other),
            First::Returned => {
                self.follow_by_return(one, other);
                true
            }
            First::Nobody => true,
        };
        // Perhaps another call wrote in between.
        if !agrees && let Some(rule) = self.rules.of(Overlap::Contradiction) {
            self.lines[one].weaken(rule.one);
            self.lines[other].weaken(rule.other);
        }
        !agrees
    }

    /// Makes `last`'s open call wait for `first`'s, unless `first` already waits for `last`.
    /// Returns whether it waits.
    pub(super) fn follow(&mut self, last: Index, first: Index) -> bool {
        let waits = self.graph.follow(last, first);
        if waits == Waits::Added {
            let wait = (Arc::clone(&self.lines[first].lane), self.lines[first].count + 1);
            self.lines[last].also_wait(wait);
        }
        waits != Waits::Opposite
    }

    /// Makes the call that returned later wait for the other one, unless the opposite order is
    /// established.
    fn follow_by_return(&mut self, one: Index, other: Index) {
        let key = |index: Index| (self.lines[index].open_until(), index);
        let (first, last) = if key(one) < key(other) { (one, other) } else { (other, one) };
        self.follow(last, first);
    }

    /// Makes `last`'s open call wait for an action of another lane that was still running when
    /// `last` began.
    pub(super) fn follow_recent(&mut self, last: Index, wait: (Arc<Lane>, u64)) {
        if self.graph.follow_recent(last) == Waits::Added {
            self.lines[last].also_wait(wait);
        }
    }

    /// Orders open calls by their results on names.
    fn order_by_names(&mut self, index: Index, names: Option<Names>) {
        use Overlap::{ChangedAndFound, FoundAndChanged};
        let Some(names) = names else { return };
        let others = self.others_open_that(index, |line| line.claims.names.is_some());
        for &other in &others {
            let Some(theirs) = &self.lines[other].claims.names else { continue };
            let changed = names::changed_by_both(&names, theirs);
            if !changed.is_empty()
                && let Some(rule) = self.rules.of(Overlap::TwoChanged)
            {
                if rule.leaves == Leaves::Names {
                    changed.iter().for_each(|name| self.judge.is_contested(name));
                }
                self.follow_rule(rule, index, other);
            }
        }
        for other in others {
            let Some(theirs) = &self.lines[other].claims.names else { continue };
            if theirs.touched().any(|name| self.judge.may_be_another(name)) {
                theirs.changed().for_each(|name| self.judge.is_contested(name));
                self.lines[other].weaken(Some(Reason::Names));
            }
            let Some(theirs) = &self.lines[other].claims.names else { continue };
            let listed = match () {
                () if names::listed_beside(theirs, &names) => Some(other),
                () if names::listed_beside(&names, theirs) => Some(index),
                () => None,
            };
            if let Some(line) = listed {
                self.lines[line].weaken(Some(Reason::Raced));
                continue;
            }
            let counted = match () {
                () if names::counted_beside(theirs, &names) => Some(other),
                () if names::counted_beside(&names, theirs) => Some(index),
                () => None,
            };
            if let Some(line) = counted {
                self.lines[line].weaken(Some(Reason::OnceAlone));
            }
            let Some(theirs) = &self.lines[other].claims.names else { continue };
            let in_doubt = |name: &[u8]| self.judge.may_be_another(name);
            let (overlap, one, other) = match () {
                () if names::found_before(theirs, &names, in_doubt) => {
                    (FoundAndChanged, other, index)
                }
                () if names::found_before(&names, theirs, in_doubt) => {
                    (FoundAndChanged, index, other)
                }
                () if names::changed_before(theirs, &names, in_doubt) => {
                    (ChangedAndFound, other, index)
                }
                () if names::changed_before(&names, theirs, in_doubt) => {
                    (ChangedAndFound, index, other)
                }
                () => continue,
            };
            let Some(rule) = self.rules.of(overlap) else { continue };
            if self.follow_rule(rule, one, other) && self.rules.of(Overlap::Contradiction).is_some()
            {
                // Perhaps the name was removed and made in between.
                for names in [Some(&names), self.lines[other].claims.names.as_ref()] {
                    let changed = names.into_iter().flat_map(|names| names.changed());
                    changed.for_each(|name| self.judge.is_contested(name));
                }
                for line in [one, other] {
                    self.lines[line].weaken(Some(Reason::Names));
                }
            }
        }
        if names.touched().any(|name| self.judge.may_be_another(name)) {
            names.changed().for_each(|name| self.judge.is_contested(name));
            self.lines[index].weaken(Some(Reason::Names));
        }
        self.lines[index].claims.names = Some(names);
    }

    /// Orders open calls where the bytes they read or wrote show their order.
    pub(super) fn order_by_bytes(&mut self, index: Index, bytes: Option<Bytes>) {
        let Some(mut bytes) = bytes else { return };
        if self.doubts.has_lost_offset(&bytes) {
            bytes.forget_place();
            match bytes.looks() {
                true => self.lines[index].weaken(Some(Reason::Raced)),
                false => self.doubts.lose_written(bytes.file),
            }
        }
        if self.doubts.concern(&bytes) {
            self.lines[index].weaken(Some(Reason::Raced));
        }
        if bytes.appends() && self.doubts.has_end(bytes.file) {
            self.doubts.lose_written(bytes.file);
            // It left the offset at the end.
            bytes.moves.into_iter().for_each(|opened| self.doubts.lose_offset(opened));
        }
        self.lines[index].claims.doubts = self.doubts.clock();
        let same_file = |line: &Line| line.claims.bytes.is_some_and(|told| told.file == bytes.file);
        let mut others = self.others_open_that(index, same_file);
        self.nearest_first(index, &mut others);
        let mut forgets = false;
        for &other in &others {
            let Some(theirs) = self.lines[other].claims.bytes else { continue };
            let ((one, seen), (two, written)) = match bytes.looks() {
                true => ((index, bytes), (other, theirs)),
                false => ((other, theirs), (index, bytes)),
            };
            let overlap = bytes::overlap(&seen, &written, |range| {
                let (read, put) = (self.lines[one].content(), self.lines[two].content());
                bytes::shown((&seen, read), (&written, put), range)
            });
            let Some(rule) = overlap.and_then(|overlap| self.rules.of(overlap)) else { continue };
            if rule.leaves == Leaves::Places {
                forgets = true;
                bytes.forget_place();
                if let Some(theirs) = &mut self.lines[other].claims.bytes {
                    theirs.forget_place();
                }
            }
            self.follow_rule(rule, one, two);
            if rule.leaves != Leaves::Nothing {
                self.doubts.add(&bytes, &theirs);
                // Who appends leaves the offset at the end.
                if self.doubts.has_end(bytes.file) {
                    let appends = [&bytes, &theirs].into_iter().filter(|bytes| bytes.appends());
                    let opened = appends.filter_map(|bytes| bytes.moves);
                    opened.for_each(|opened| self.doubts.lose_offset(opened));
                }
            }
            if rule.leaves == Leaves::Places
                && let Some(opened) = bytes.moves
            {
                let open = bytes::places_left_open(&bytes, &theirs);
                if open.written {
                    self.doubts.lose_written(bytes.file);
                }
                if open.offset {
                    self.doubts.lose_offset(opened);
                }
            }
        }
        self.lines[index].claims.bytes = Some(bytes);
        if forgets {
            // What was concluded of calls that look assumed places that are unknown now.
            let looks = |line: &Line| line.claims.bytes.is_some_and(|bytes| bytes.looks());
            for line in others.into_iter().chain([index]) {
                if looks(&self.lines[line]) {
                    self.lines[line].weaken(Some(Reason::OnceAlone));
                }
            }
        }
    }

    /// The lane's open call ends: where it copied bytes that others wrote at the time, other ones may be.
    pub(super) fn doubt_copy(&mut self, index: Index) {
        let line = &self.lines[index];
        if let Some(to) = line.claims.copies_to
            && line.is_raced()
        {
            self.doubts.lose_file(to, COPIED);
        }
    }

    /// The lane's open call ends: what it wrote settles doubts.
    pub(super) fn settle_doubts(&mut self, index: Index) {
        let Claims { bytes: Some(bytes), doubts, .. } = &self.lines[index].claims else { return };
        if let Does::Writes { .. } | Does::Cuts(_) = bytes.does {
            self.doubts.settle(bytes, *doubts);
        }
    }

    /// Orders calls that got a lock of one file: otherwise two tasks can deadlock.
    fn order_by_lock(&mut self, index: Index, lock: Option<Lock>) {
        let Some(lock) = lock else { return };
        let its = |line: &Line| line.claims.lock.filter(|other| other.file == lock.file);
        for other in self.others_open_that(index, |line| its(line).is_some()) {
            let Some(theirs) = its(&self.lines[other]) else { continue };
            match () {
                () if lock.is_told_beside(theirs) => {
                    self.lines[index].weaken(Some(Reason::OnceAlone));
                }
                () if theirs.is_told_beside(lock) => {
                    self.lines[other].weaken(Some(Reason::OnceAlone));
                }
                () => {}
            }
        }
        let gets = |lock: Lock| lock.does == locks::Does::Gets;
        let mut others = match gets(lock) {
            true => self.others_open_that(index, |line| its(line).is_some_and(gets)),
            false => Vec::new(),
        };
        self.nearest_first(index, &mut others);
        if let Some(rule) = self.rules.of(Overlap::TwoLocked) {
            others.iter().for_each(|other| _ = self.follow_rule(rule, index, *other));
        }
        self.lines[index].claims.lock = Some(lock);
    }

    /// Orders a call on a pipe or socket pair among the open ones, and notes which bytes that
    /// leaves in doubt.
    ///
    /// Readers get their bytes in turn: one that takes another's bytes would leave that one waiting
    /// for later ones. The order of two writers is unknown and must not be guessed: a writer may
    /// return long after others have read its bytes, and a task that waited for it could deadlock.
    pub(super) fn order_by_queue(&mut self, index: Index, flow: Flow) {
        let queue = flow.queue;
        self.lines[index].claims.flow = Some(flow);
        if flow.at.is_none() && matches!(flow.way, Way::Takes | Way::Puts) {
            self.doubts.lose(queue);
        }
        let uses = |line: &Line| line.claims.flow.is_some_and(|flow| flow.queue == queue);
        let others = self.others_open_that(index, uses);
        let flow_of = |other: &Index| Some((*other, self.lines[*other].claims.flow?));
        let flows: Vec<(Index, Flow)> = others.iter().filter_map(flow_of).collect();
        self.order_by_ends(index, flow, &flows);
        self.doubt_counts(index, flow, &flows);
        let of_way = |way| flows.iter().copied().filter(move |(_, flow)| flow.way == way);
        if flow.way == Way::Takes {
            let mut readers: Vec<Index> = of_way(Way::Takes).map(|(reader, _)| reader).collect();
            self.nearest_first(index, &mut readers);
            if let Some(rule) = self.rules.of(Overlap::TwoTook) {
                readers.iter().for_each(|other| _ = self.follow_rule(rule, index, *other));
            }
            if self.doubts.take(queue, flow.stretch()) {
                let readers = readers.into_iter().chain([index]);
                readers.for_each(|line| self.lines[line].weaken(Some(Reason::Raced)));
            }
            return;
        }
        let Some(rule) = self.rules.of(Overlap::TwoPut) else { return };
        let is_alone = of_way(Way::Puts).next().is_none();
        if is_alone || flow.way != Way::Puts || rule.leaves != Leaves::Queue {
            return;
        }
        let all = of_way(Way::Puts).map(|(_, theirs)| theirs.stretch());
        let mixed = all.fold(flow.stretch(), |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.doubts.mix(queue, mixed);
        for (reader, theirs) in of_way(Way::Takes) {
            // It began before, and may get bytes that are mixed now.
            if self.doubts.are_mixed(queue, theirs.stretch()) {
                self.lines[reader].weaken(Some(Reason::Raced));
            }
        }
    }

    /// How many bytes are in a queue beside a call that moves some is chance.
    fn doubt_counts(&mut self, index: Index, flow: Flow, others: &[(Index, Flow)]) {
        let moves = |flow: &Flow| matches!(flow.way, Way::Takes | Way::Puts);
        for (other, theirs) in others {
            let tells = match (flow.way, theirs.way) {
                (Way::Tells, _) if moves(theirs) => index,
                (_, Way::Tells) if moves(&flow) => *other,
                _ => continue,
            };
            self.lines[tells].weaken(Some(Reason::OnceAlone));
        }
    }

    /// Orders a read that met the end of a FIFO before the open of a writer that returned later: behind that
    /// open it would wait for what this writer puts. (Where the read returned later, both orders are possible.)
    fn order_by_ends(&mut self, index: Index, flow: Flow, others: &[(Index, Flow)]) {
        for &(other, theirs) in others {
            let (reader, writer) = match (flow, theirs) {
                (read, Flow { way: Way::OpensToPut, .. }) if read.met_end() => (index, other),
                (Flow { way: Way::OpensToPut, .. }, read) if read.met_end() => (other, index),
                _ => continue,
            };
            if self.lines[reader].open_until() < self.lines[writer].open_until() {
                self.follow(writer, reader);
            }
        }
    }
}
