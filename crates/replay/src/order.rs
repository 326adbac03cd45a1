//! Order of calls: a call may start when all calls that had ended before it started have ended.
//!
//! The planner reads calls in the order in which they began. For each call it names, for every
//! other lane, how many actions that lane must have finished. A lane's earlier calls already waited
//! for older ones, so only lanes that advanced since its last call are named: lanes are linked in
//! the order of their last advance, and the walk stops at the first one already seen.

/// Index of a lane in the planner.
pub type Index = usize;

const NOBODY: Index = Index::MAX;

/// Progress of the lanes, in the order of the recording.
#[derive(Default)]
pub struct Order {
    places: Vec<Place>,
    newest: Option<Index>,
    clock: u64,
}

struct Place {
    /// Number of actions that have ended in the recording.
    finished: u64,
    /// Clock value when `finished` last advanced; 0 if unlinked.
    stamp: u64,
    /// Clock value up to which this lane has waited for others.
    seen: u64,
    newer: Index,
    older: Index,
}

impl Order {
    /// Adds a lane at `index`, which inherits what its maker has seen.
    pub fn begin(&mut self, index: Index, maker: Option<Index>) {
        let seen = maker.map_or(0, |maker| self.places[maker].seen);
        let place = Place { finished: 0, stamp: 0, seen, newer: NOBODY, older: NOBODY };
        if index == self.places.len() {
            self.places.push(place);
        } else {
            self.forget(index);
            self.places[index] = place;
        }
    }

    /// The lane's actions up to `count` have ended in the recording.
    pub fn finish(&mut self, index: Index, count: u64) {
        self.forget(index);
        self.clock += 1;
        let newest = self.newest.replace(index);
        if let Some(newest) = newest {
            self.places[newest].newer = index;
        }
        let place = &mut self.places[index];
        place.finished = count;
        place.stamp = self.clock;
        place.older = newest.unwrap_or(NOBODY);
        place.newer = NOBODY;
    }

    /// Advances whenever an action ends.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Clock value up to which a lane has waited for others.
    pub fn seen(&self, index: Index) -> u64 {
        self.places[index].seen
    }

    /// Resets the value of [`Order::seen`].
    pub fn set_seen(&mut self, index: Index, seen: u64) {
        self.places[index].seen = seen;
    }

    /// Unlinks the lane: none needs to wait for it any more.
    pub fn forget(&mut self, index: Index) {
        let place = &mut self.places[index];
        if place.stamp == 0 {
            return;
        }
        let (newer, older) = (place.newer, place.older);
        place.stamp = 0;
        match self.places.get_mut(newer) {
            Some(place) => place.older = older,
            None => self.newest = (older != NOBODY).then_some(older),
        }
        if let Some(place) = self.places.get_mut(older) {
            place.newer = newer;
        }
    }

    /// Calls `wait` with each lane that this one must wait for now, and the count it must reach.
    pub fn waits(&mut self, index: Index, mut wait: impl FnMut(Index, u64)) {
        let seen = self.places[index].seen;
        let mut next = self.newest.unwrap_or(NOBODY);
        while let Some(place) = self.places.get(next) {
            if place.stamp <= seen {
                break;
            }
            if next != index {
                wait(next, place.finished);
            }
            next = place.older;
        }
        self.places[index].seen = self.clock;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(order: &mut Order, index: Index) -> Vec<(Index, u64)> {
        let mut all = Vec::new();
        order.waits(index, |lane, count| all.push((lane, count)));
        all.sort_unstable();
        all
    }

    #[test]
    fn only_what_is_new_is_waited_for() {
        let mut order = Order::default();
        (0..3).for_each(|index| order.begin(index, None));
        order.finish(0, 1);
        order.finish(1, 1);
        order.finish(0, 2);
        assert_eq!(waits(&mut order, 2), [(0, 2), (1, 1)]);
        assert_eq!(waits(&mut order, 2), []);
        assert_eq!(waits(&mut order, 0), [(1, 1)]);
        order.finish(1, 5);
        assert_eq!(waits(&mut order, 2), [(1, 5)]);
        order.finish(2, 1);
        order.forget(1);
        assert_eq!(waits(&mut order, 0), [(2, 1)]);
        order.begin(1, Some(0));
        assert_eq!(waits(&mut order, 1), []);
    }

    /// Against the definition: after each step, the waits cover everything that ended.
    #[test]
    fn nothing_that_ended_is_missed() {
        let mut order = Order::default();
        let lanes = 5;
        (0..lanes).for_each(|index| order.begin(index, None));
        let mut finished = vec![0u64; lanes];
        let mut known = vec![vec![0u64; lanes]; lanes];
        let mut state = 12345u64;
        for _ in 0..10_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (lane, ends) = ((state >> 40) as usize % lanes, state >> 63 == 0);
            if ends {
                finished[lane] += 1;
                order.finish(lane, finished[lane]);
            } else {
                for (other, count) in waits(&mut order, lane) {
                    assert!(count > known[lane][other], "named though nothing is new");
                    known[lane][other] = count;
                }
                known[lane][lane] = finished[lane];
                assert_eq!(known[lane], finished);
            }
        }
    }
}
