//! Waits among overlapping calls. Open calls may be made to wait for each other, because of their
//! results or their order of return, but never in a circle: a replay must not get stuck, whatever
//! the trace says. So a wait that would close a circle is not added, and the first one wins.
//!
//! An open call is followed by the open calls that must wait for it and, once one of these has
//! ended in the recording, by every call that begins later.

use crate::order::Index;

/// Open calls, at most one for each lane, and which of them wait for which.
#[derive(Default)]
pub struct Graph {
    /// By lane.
    nodes: Vec<Node>,
    /// Lanes with an open call.
    open: Vec<Index>,
    /// Number of them that all later calls wait for.
    lasting: usize,
}

#[derive(Default)]
struct Node {
    /// Who waits for it.
    followers: Followers,
    /// It is among the followers of another one.
    follows: bool,
    /// Its place in [`Graph::open`].
    at: usize,
}

/// Lanes that wait for an open call, directly or indirectly.
#[derive(Clone, Default)]
struct Followers {
    /// Bit set of lanes with open calls.
    open: Vec<u64>,
    /// All calls that begin later.
    later: bool,
}

impl Followers {
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

/// What became of a wait that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// It is new: the call has to wait.
    Added,
    /// It was there before, directly or through others.
    Already,
    /// The other call waits for this one.
    Opposite,
}

impl Graph {
    /// Lanes with an open call.
    pub fn open_lanes(&self) -> &[Index] {
        &self.open
    }

    /// Adds an open call. It follows all calls that later ones must wait for.
    pub fn open(&mut self, index: Index) {
        if index >= self.nodes.len() {
            self.nodes.resize_with(index + 1, Node::default);
        }
        if self.lasting > 0 {
            for &other in &self.open {
                if self.nodes[other].followers.later {
                    self.nodes[other].followers.add(index);
                    self.nodes[index].follows = true;
                }
            }
        }
        self.nodes[index].at = self.open.len();
        self.open.push(index);
    }

    /// Whether `last`'s call waits for `first`'s.
    pub fn has(&self, last: Index, first: Index) -> bool {
        self.nodes[first].followers.has(last)
    }

    /// Makes `last`'s open call wait for `first`'s, unless `first` already waits for `last`.
    pub fn follow(&mut self, last: Index, first: Index) -> Waits {
        if self.has(first, last) {
            return Waits::Opposite;
        }
        if self.has(last, first) {
            return Waits::Already;
        }
        self.add(last, |other, followers| other == first || followers.has(first));
        Waits::Added
    }

    /// Makes `last`'s open call wait for an action that was running when `last` began and is not
    /// here any more. That action may in turn wait for every call that all later ones wait for.
    pub fn follow_recent(&mut self, last: Index) -> Waits {
        if self.nodes[last].followers.later {
            return Waits::Opposite;
        }
        self.add(last, |_, followers| followers.later);
        Waits::Added
    }

    /// Lanes for which `through` is true get `last` and its followers as followers.
    fn add(&mut self, last: Index, through: impl Fn(Index, &Followers) -> bool) {
        let mut more = self.nodes[last].followers.clone();
        more.add(last);
        for &other in &self.open {
            let followers = &mut self.nodes[other].followers;
            if through(other, followers) {
                followers.add_all(&more);
                if more.later && !followers.later {
                    followers.later = true;
                    self.lasting += 1;
                }
            }
        }
        self.nodes[last].follows = true;
    }

    /// The lane's open call ends: it leaves all waits, and no new ones are added for it.
    pub fn end(&mut self, index: Index) {
        let at = self.nodes[index].at;
        self.open.swap_remove(at);
        if let Some(&moved) = self.open.get(at) {
            self.nodes[moved].at = at;
        }
        let node = &mut self.nodes[index];
        self.lasting -= usize::from(std::mem::take(&mut node.followers.later));
        node.followers.open.clear();
        if !std::mem::take(&mut node.follows) {
            return;
        }
        for &other in &self.open {
            let followers = &mut self.nodes[other].followers;
            if followers.has(index) {
                followers.remove(index);
                self.lasting += usize::from(!followers.later);
                followers.later = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// The same by definition: calls have numbers, and waits are pairs of them.
    #[derive(Default)]
    struct Model {
        calls: u64,
        open: BTreeMap<Index, u64>,
        /// The later call, and the one that it waits for.
        waits: BTreeSet<(u64, u64)>,
    }

    impl Model {
        fn reaches(&self, from: u64, to: u64) -> bool {
            let (mut left, mut seen) = (vec![from], BTreeSet::from([from]));
            while let Some(call) = left.pop() {
                let next = self.waits.range((call, 0)..=(call, u64::MAX)).map(|(_, first)| *first);
                left.extend(next.filter(|first| seen.insert(*first)));
            }
            seen.contains(&to)
        }

        /// A call begins: it waits for all calls that have ended.
        fn open(&mut self, index: Index) {
            let new = self.calls;
            let ended = |call: &u64| !self.open.values().any(|open| open == call);
            self.waits.extend((0..new).filter(ended).map(|call| (new, call)));
            self.open.insert(index, new);
            self.calls += 1;
        }

        fn follow(&mut self, last: Index, first: Index) -> Waits {
            let (last, first) = (self.open[&last], self.open[&first]);
            if self.reaches(first, last) {
                return Waits::Opposite;
            }
            if self.reaches(last, first) {
                return Waits::Already;
            }
            self.waits.insert((last, first));
            Waits::Added
        }
    }

    #[test]
    fn waits_are_those_of_the_definition() {
        let mut state = 7u64;
        let mut any = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..300 {
            let (mut graph, mut model) = (Graph::default(), Model::default());
            let lanes = 2 + any(5);
            let first = if any(2) == 0 { 0 } else { 62 };
            for _ in 0..60 {
                let (one, other) = (first + any(lanes), first + any(lanes));
                match (model.open.contains_key(&one), model.open.contains_key(&other)) {
                    (false, _) => {
                        graph.open(one);
                        model.open(one);
                    }
                    (true, true) if one != other => {
                        assert_eq!(graph.follow(one, other), model.follow(one, other));
                    }
                    _ if any(3) == 0 => {
                        graph.end(one);
                        model.open.remove(&one);
                    }
                    _ => {}
                }
                let mut open = graph.open_lanes().to_vec();
                open.sort_unstable();
                assert!(open.iter().eq(model.open.keys()));
            }
        }
    }

    #[test]
    fn what_is_recent_may_wait_for_what_all_wait_for() {
        let mut graph = Graph::default();
        (0..3).for_each(|index| graph.open(index));
        assert_eq!(graph.follow(1, 0), Waits::Added);
        graph.end(1);
        assert_eq!(graph.follow_recent(0), Waits::Opposite, "all that begins later waits for it");
        assert_eq!(graph.follow_recent(2), Waits::Added);
        assert_eq!(graph.follow(0, 2), Waits::Opposite);
        graph.open(1);
        assert!(graph.has(1, 0) && !graph.has(1, 2));
    }
}
