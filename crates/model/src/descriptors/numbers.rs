//! A copy-on-write map from numbers to marked or unmarked values. A copy is free and a change of
//! one number copies a few nodes. So does a change of a whole range, because nodes store pending
//! changes for everything below them.

use std::rc::Rc;

use crate::budget::{Budget, Held};

/// Bits of a number that select the slot in one level of nodes.
const LEVEL_BITS: u32 = 4;
const SLOTS: usize = 1 << LEVEL_BITS;
/// Levels needed for 32-bit numbers.
const LEVELS_MAX: u32 = u32::BITS / LEVEL_BITS;

/// State of an entry after a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Gone,
    Plain,
    Marked,
}

/// A change of all entries below a node, by their state before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    plain: State,
    marked: State,
}

impl Change {
    const NONE: Change = Change { plain: State::Plain, marked: State::Marked };
    /// Removes all entries.
    pub const REMOVE: Change = Change { plain: State::Gone, marked: State::Gone };
    /// Removes the marked entries.
    pub const REMOVE_MARKED: Change = Change { plain: State::Plain, marked: State::Gone };

    /// Marks or unmarks all entries.
    pub const fn mark(marked: bool) -> Change {
        let state = if marked { State::Marked } else { State::Plain };
        Change { plain: state, marked: state }
    }

    const fn of(self, state: State) -> State {
        match state {
            State::Gone => State::Gone,
            State::Plain => self.plain,
            State::Marked => self.marked,
        }
    }

    /// Returns the change that does `first` and then `self`.
    const fn after(self, first: Change) -> Change {
        Change { plain: self.of(first.plain), marked: self.of(first.marked) }
    }

    /// Returns the number of plain and marked entries after the change.
    const fn count(self, before: Counts) -> Counts {
        let mut after = [0; 2];
        let states = [self.plain, self.marked];
        let mut at = 0;
        while at < states.len() {
            match states[at] {
                State::Gone => {}
                State::Plain => after[0] += before[at],
                State::Marked => after[1] += before[at],
            }
            at += 1;
        }
        after
    }

    const fn leaves_nothing(self) -> bool {
        matches!((self.plain, self.marked), (State::Gone, State::Gone))
    }
}

/// Number of plain and of marked entries.
type Counts = [u32; 2];

#[derive(Debug, Clone, Default)]
enum Slot<T> {
    #[default]
    Empty,
    /// A value and its mark.
    Value(T, bool),
    /// A node and the change pending for everything below it.
    Below(Rc<Node<T>>, Change),
}

impl<T> Slot<T> {
    const fn is_empty(&self) -> bool {
        matches!(self, Slot::Empty)
    }

    fn counts(&self) -> Counts {
        match self {
            Slot::Empty => [0, 0],
            Slot::Value(_, marked) => [u32::from(!marked), u32::from(*marked)],
            Slot::Below(node, pending) => pending.count(node.counts),
        }
    }
}

#[derive(Debug, Clone)]
struct Node<T> {
    slots: [Slot<T>; SLOTS],
    /// Entries in all slots.
    counts: Counts,
    _held: Held,
}

impl<T> Node<T> {
    fn new(budget: &Budget) -> Node<T> {
        let _held = budget.hold(size_of::<Node<T>>());
        Node { slots: std::array::from_fn(|_| Slot::Empty), counts: [0, 0], _held }
    }
}

/// A map from numbers to values with a mark.
#[derive(Debug, Clone)]
pub struct Numbers<T> {
    top: Slot<T>,
    /// Levels of nodes below `top`. With 0 levels, `top` is the slot of number 0.
    levels: u32,
    budget: Budget,
}

/// Returns the first number that does not fit in `levels` levels.
const fn room(levels: u32) -> u64 {
    1 << (levels * LEVEL_BITS)
}

/// Returns the slot of a number in a node with `below` levels below it.
const fn slot_of(number: u32, below: u32) -> usize {
    (number >> (below * LEVEL_BITS)) as usize % SLOTS
}

impl<T: Clone> Numbers<T> {
    /// Makes an empty table.
    pub fn new(budget: Budget) -> Numbers<T> {
        Numbers { top: Slot::Empty, levels: 0, budget }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.top.counts().iter().map(|count| *count as usize).sum()
    }

    /// Returns the value of a number and its mark.
    pub fn get(&self, number: u32) -> Option<(&T, bool)> {
        if u64::from(number) >= room(self.levels) {
            return None;
        }
        let (mut slot, mut below, mut change) = (&self.top, self.levels, Change::NONE);
        loop {
            match slot {
                Slot::Empty => return None,
                Slot::Value(value, marked) => return changed(value, *marked, change),
                Slot::Below(node, pending) => {
                    change = change.after(*pending);
                    below -= 1;
                    slot = &node.slots[slot_of(number, below)];
                }
            }
        }
    }

    /// Sets the value of a number.
    pub fn set(&mut self, number: u32, value: T, marked: bool) {
        let replaced = self.get(number).map(|(_, marked)| usize::from(marked));
        while u64::from(number) >= room(self.levels) {
            let old = std::mem::take(&mut self.top);
            if !old.is_empty() {
                let mut node = Node::new(&self.budget);
                node.counts = old.counts();
                node.slots[0] = old;
                self.top = Slot::Below(Rc::new(node), Change::NONE);
            }
            self.levels += 1;
            debug_assert!(self.levels <= LEVELS_MAX, "a number of 32 bits fits");
        }
        let (mut slot, mut below) = (&mut self.top, self.levels);
        while below > 0 {
            below -= 1;
            if slot.is_empty() {
                *slot = Slot::Below(Rc::new(Node::new(&self.budget)), Change::NONE);
            }
            let Slot::Below(node, pending) = slot else { return };
            let node = opened(node, pending);
            if let Some(replaced) = replaced {
                node.counts[replaced] -= 1;
            }
            node.counts[usize::from(marked)] += 1;
            slot = &mut node.slots[slot_of(number, below)];
        }
        *slot = Slot::Value(value, marked);
    }

    /// Removes the entry of a number.
    pub fn remove(&mut self, number: u32) {
        if let Some((_, marked)) = self.get(number) {
            remove_from(&mut self.top, self.levels, number, usize::from(marked));
        }
    }

    /// Changes the entries of an inclusive range of numbers.
    pub fn change(&mut self, first: u32, last: u32, change: Change) {
        if first > last || u64::from(first) >= room(self.levels) {
            return;
        }
        let range = (u64::from(first), u64::from(last));
        change_slot(&mut self.top, (0, self.levels), range, change);
    }

    /// Returns the entries of an inclusive range of numbers in order.
    pub fn within(&self, first: u32, last: u32) -> Within<'_, T> {
        let top = Pending { slot: &self.top, base: 0, below: self.levels, change: Change::NONE };
        Within { left: vec![top], first: first.into(), last: last.into() }
    }
}

/// Returns a mutable node with its pending change applied.
fn opened<'a, T: Clone>(node: &'a mut Rc<Node<T>>, pending: &mut Change) -> &'a mut Node<T> {
    let change = std::mem::replace(pending, Change::NONE);
    let node = Rc::make_mut(node);
    if change != Change::NONE {
        node.counts = change.count(node.counts);
        node.slots.iter_mut().for_each(|slot| change_whole(slot, change));
    }
    node
}

/// Removes a number, whose mark is known, from a slot with `levels` levels.
fn remove_from<T: Clone>(slot: &mut Slot<T>, levels: u32, number: u32, mark: usize) {
    match slot {
        Slot::Below(node, pending) if pending.count(node.counts).iter().sum::<u32>() > 1 => {
            let (node, below) = (opened(node, pending), levels - 1);
            node.counts[mark] -= 1;
            remove_from(&mut node.slots[slot_of(number, below)], below, number, mark);
        }
        _ => *slot = Slot::Empty,
    }
}

fn change_whole<T>(slot: &mut Slot<T>, change: Change) {
    match slot {
        Slot::Empty => {}
        Slot::Value(_, marked) => {
            match change.of(if *marked { State::Marked } else { State::Plain }) {
                State::Gone => *slot = Slot::Empty,
                state => *marked = state == State::Marked,
            }
        }
        Slot::Below(_, pending) => {
            *pending = change.after(*pending);
            if pending.leaves_nothing() {
                *slot = Slot::Empty;
            }
        }
    }
}

/// Changes the part of a slot in `range`. `place`: its first number and the levels below it.
fn change_slot<T: Clone>(slot: &mut Slot<T>, place: (u64, u32), range: (u64, u64), change: Change) {
    let (base, levels) = place;
    let end = base + (room(levels) - 1);
    if range.0 <= base && end <= range.1 {
        return change_whole(slot, change);
    }
    let Slot::Below(node, pending) = slot else { return };
    let (node, below) = (opened(node, pending), levels - 1);
    for (child, number) in node.slots.iter_mut().zip(0u64..) {
        let base = base + number * room(below);
        let is_touched = base <= range.1 && range.0 < base + room(below);
        if is_touched && !child.is_empty() {
            change_slot(child, (base, below), range, change);
        }
    }
    let counts = node.slots.iter().map(Slot::counts);
    node.counts = counts.fold([0, 0], |all, some| [all[0] + some[0], all[1] + some[1]]);
    if node.counts == [0, 0] {
        *slot = Slot::Empty;
    }
}

fn changed<T>(value: &T, marked: bool, change: Change) -> Option<(&T, bool)> {
    match change.of(if marked { State::Marked } else { State::Plain }) {
        State::Gone => None,
        state => Some((value, state == State::Marked)),
    }
}

/// A slot still to be visited.
struct Pending<'a, T> {
    slot: &'a Slot<T>,
    base: u64,
    below: u32,
    change: Change,
}

/// Iterator over entries in order of their numbers.
pub struct Within<'a, T> {
    left: Vec<Pending<'a, T>>,
    first: u64,
    last: u64,
}

impl<'a, T> Iterator for Within<'a, T> {
    type Item = (u32, &'a T, bool);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(Pending { slot, base, below, change }) = self.left.pop() {
            if base > self.last || base + (room(below) - 1) < self.first {
                continue;
            }
            match slot {
                Slot::Empty => {}
                Slot::Value(value, marked) => {
                    if let Some((value, marked)) = changed(value, *marked, change) {
                        return Some((base as u32, value, marked));
                    }
                }
                Slot::Below(node, pending) => {
                    let (change, below) = (change.after(*pending), below - 1);
                    let slots = node.slots.iter().enumerate().rev();
                    let filled = slots.filter(|(_, slot)| !slot.is_empty());
                    self.left.extend(filled.map(|(number, slot)| {
                        let base = base + number as u64 * room(below);
                        Pending { slot, base, below, change }
                    }));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Plain = BTreeMap<u32, (u32, bool)>;

    fn listed(numbers: &Numbers<u32>, first: u32, last: u32) -> Vec<(u32, u32, bool)> {
        numbers
            .within(first, last)
            .map(|(number, value, marked)| (number, *value, marked))
            .collect()
    }

    fn apply(plain: &mut Plain, first: u32, last: u32, change: Change) {
        plain.retain(|number, (_, marked)| {
            if !(first..=last).contains(number) {
                return true;
            }
            let state = change.of(if *marked { State::Marked } else { State::Plain });
            *marked = state == State::Marked;
            state != State::Gone
        });
    }

    /// Compares with ordinary maps, over copies of copies.
    #[test]
    fn any_order_of_changes_agrees_with_a_map() {
        let mut seed = 0x5eed_u64;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as u32 % below
        };
        for _ in 0..100 {
            let spread = [20, 300, 5000, i32::MAX as u32][next(4) as usize];
            let numbers = Numbers::<u32>::new(Budget::default());
            let mut copies = vec![(numbers, Plain::default())];
            for step in 0..100 {
                let at = next(copies.len() as u32) as usize;
                let (first, last) = (next(spread), next(spread));
                if next(8) == 0 {
                    copies.push(copies[at].clone());
                }
                let (numbers, plain) = &mut copies[at];
                match next(7) {
                    1 => {
                        let change = [
                            Change::REMOVE,
                            Change::REMOVE_MARKED,
                            Change::mark(true),
                            Change::mark(false),
                        ][next(4) as usize];
                        let (first, last) = (first.min(last), first.max(last));
                        numbers.change(first, last, change);
                        apply(plain, first, last, change);
                    }
                    2 => {
                        numbers.remove(first);
                        plain.remove(&first);
                    }
                    3 => {
                        numbers.change(0, u32::MAX, Change::REMOVE_MARKED);
                        apply(plain, 0, u32::MAX, Change::REMOVE_MARKED);
                    }
                    _ => {
                        let marked = last.is_multiple_of(2);
                        numbers.set(first, step, marked);
                        plain.insert(first, (step, marked));
                    }
                }
                assert_eq!(
                    numbers.get(first).map(|(value, marked)| (*value, marked)),
                    plain.get(&first).copied()
                );
                let expected = plain.range(first.min(last)..=first.max(last));
                let expected: Vec<_> = expected.map(|(n, (v, m))| (*n, *v, *m)).collect();
                assert_eq!(listed(numbers, first.min(last), first.max(last)), expected);
                assert_eq!(numbers.len(), plain.len());
            }
            for (numbers, plain) in &copies {
                let expected: Vec<_> = plain.iter().map(|(n, (v, m))| (*n, *v, *m)).collect();
                assert_eq!(listed(numbers, 0, u32::MAX), expected);
            }
        }
    }

    #[test]
    fn nothing_is_left_of_what_was_removed() {
        let mut numbers = Numbers::new(Budget::default());
        for number in [0, 5, 70_000, u32::MAX] {
            numbers.set(number, number, false);
        }
        assert_eq!(numbers.get(u32::MAX), Some((&u32::MAX, false)));
        for number in [70_000, u32::MAX, 0, 5] {
            numbers.change(number, number, Change::REMOVE);
        }
        assert!(numbers.top.is_empty());
    }

    /// Modified copies of a large table take no more memory than their changes.
    #[test]
    fn copies_share_what_they_have_in_common() {
        let value = Rc::new(());
        let mut numbers = Numbers::new(Budget::default());
        for number in 0..10_000 {
            numbers.set(number, value.clone(), number % 2 == 0);
        }
        let copies: Vec<_> = (0..1000)
            .map(|number| {
                let mut copy = numbers.clone();
                copy.change(number, 9000, Change::mark(true));
                copy.change(5, 5, Change::mark(false));
                copy.change(0, u32::MAX, Change::REMOVE_MARKED);
                copy
            })
            .collect();
        assert!(copies.iter().all(|copy| copy.get(5).is_some() && copy.get(8000).is_none()));
        let most = 1000 * LEVELS_MAX as usize * SLOTS;
        assert!(Rc::strong_count(&value) < 10_000 + most, "{}", Rc::strong_count(&value));
    }
}
