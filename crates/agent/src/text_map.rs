//! Which file's text is mapped where: a list that says nothing of how it is kept up to date.

/// Maximum number of mappings remembered; sites in others stay slow.
const MAPS: usize = 512;

/// Identity of a file, as in the module table.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Key {
    pub dev: u64,
    pub ino: u64,
    pub mtime_ns: i64,
    pub size: u64,
}

impl Key {
    /// Hash of the identity. Never 0.
    pub fn hash(&self) -> u64 {
        hash(&[self.dev, self.ino, self.mtime_ns as u64, self.size])
    }
}

/// Hash of words. Never 0.
pub fn hash(words: &[u64]) -> u64 {
    let mix =
        |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    words.iter().fold(1, mix) | 1
}

/// One executable mapping of a file.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    /// File offset of `start`.
    pub offset: u64,
    pub key: Key,
}

/// The executable mappings of an address space.
pub struct Maps {
    list: [Map; MAPS],
    used: usize,
}

impl Maps {
    pub fn add(&mut self, map: Map) {
        if let Some(free) = self.list[..self.used].iter_mut().find(|map| map.end == 0) {
            *free = map;
        } else if self.used < MAPS {
            self.list[self.used] = map;
            self.used += 1;
        }
    }

    /// Removes the mappings that overlap a range. Returns false if there are none.
    pub fn remove(&mut self, from: u64, to: u64) -> bool {
        let mut found = false;
        for map in &mut self.list[..self.used] {
            if map.start < to && from < map.end {
                map.end = 0;
                map.start = 0;
                found = true;
            }
        }
        found
    }

    /// Returns the mapping that contains an address.
    pub fn find(&self, address: u64) -> Option<Map> {
        self.list[..self.used].iter().find(|map| (map.start..map.end).contains(&address)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(start: u64, end: u64) -> Map {
        Map { start, end, offset: 0, key: Key { dev: 1, ino: start, mtime_ns: 3, size: 4 } }
    }

    #[test]
    fn mappings_are_found_until_they_are_removed() {
        // SAFETY: all zeros is how the list starts.
        let mut maps: Maps = unsafe { core::mem::zeroed() };
        maps.add(map(0x1000, 0x2000));
        maps.add(map(0x3000, 0x4000));
        assert_eq!(maps.find(0x3fff).map(|map| map.start), Some(0x3000));
        assert!(maps.find(0x2000).is_none() && maps.find(0).is_none());
        assert!(!maps.remove(0x2000, 0x3000), "it touches none");
        assert!(maps.remove(0x1fff, 0x2001));
        assert!(maps.find(0x1000).is_none() && maps.find(0x3000).is_some());
        maps.add(map(0x5000, 0x6000));
        assert_eq!(maps.used, 2, "a free place is used again");
    }

    #[test]
    fn a_full_list_takes_no_more() {
        // SAFETY: all zeros is how the list starts.
        let mut maps: Maps = unsafe { core::mem::zeroed() };
        (0..=MAPS as u64).for_each(|n| maps.add(map(n << 12, (n + 1) << 12)));
        assert!(
            maps.find((MAPS as u64 - 1) << 12).is_some()
                && maps.find((MAPS as u64) << 12).is_none()
        );
    }
}
