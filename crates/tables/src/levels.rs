//! Run-length encoded levels of a column's values.

/// Sequence of levels.
#[derive(Default)]
pub struct Levels {
    /// Level and length of all runs but the last.
    runs: Vec<(i16, usize)>,
    last: (i16, usize),
}

impl Levels {
    /// Adds a level.
    pub fn push(&mut self, level: i16) {
        if self.last.0 != level {
            self.runs.extend(Some(self.last).filter(|(_, times)| *times > 0));
            self.last = (level, 0);
        }
        self.last.1 += 1;
    }

    /// Returns all levels in order.
    pub fn all(&self) -> Vec<i16> {
        let runs = self.runs.iter().chain([&self.last]);
        let mut all = Vec::with_capacity(runs.clone().map(|(_, times)| times).sum());
        runs.for_each(|(level, times)| all.resize(all.len() + times, *level));
        all
    }

    /// Approximate memory in use.
    pub fn held_bytes(&self) -> usize {
        size_of_val(&self.runs[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_come_back_in_order() {
        for want in [&[][..], &[0], &[1, 1, 1], &[0, 0, 3, 2, 2, 0], &[2, 0, 0]] {
            let mut levels = Levels::default();
            want.iter().for_each(|level| levels.push(*level));
            assert_eq!(levels.all(), want);
        }
    }
}
