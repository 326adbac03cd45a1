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
        let words = [self.dev, self.ino, self.mtime_ns as u64, self.size];
        let mix = |hash: u64, word: u64| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        };
        words.into_iter().fold(1, mix) | 1
    }
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
