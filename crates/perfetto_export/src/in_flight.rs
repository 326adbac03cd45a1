//! Tracks for operations in flight: those of one track never overlap.

use std::collections::HashMap;

/// Maximum number of tracks of a process. What is in flight beyond that shares the last one.
const TRACKS_MAX: usize = 256;

/// When the last operation of each track ended, by process.
#[derive(Default)]
pub struct InFlight {
    ended_ns: HashMap<u32, Vec<u64>>,
}

impl InFlight {
    /// Returns the number of a track that is free for this time, and whether it is new.
    pub fn place(&mut self, process: u32, (from_ns, to_ns): (u64, u64)) -> (usize, bool) {
        let tracks = self.ended_ns.entry(process).or_default();
        let number = match tracks.iter().position(|ended| *ended <= from_ns) {
            Some(number) => number,
            None => tracks.len().min(TRACKS_MAX - 1),
        };
        let is_new = number == tracks.len();
        if is_new {
            tracks.push(to_ns);
        }
        tracks[number] = tracks[number].max(to_ns);
        (number, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_has_tracks_of_its_own() {
        let mut in_flight = InFlight::default();
        assert_eq!(in_flight.place(1, (10, 50)), (0, true));
        assert_eq!(in_flight.place(1, (20, 40)), (1, true));
        assert_eq!(in_flight.place(1, (40, 60)), (1, false));
        assert_eq!(in_flight.place(2, (20, 40)), (0, true));
        for _ in 0..2 * TRACKS_MAX {
            assert!(in_flight.place(1, (1, 100)).0 < TRACKS_MAX);
        }
    }
}
