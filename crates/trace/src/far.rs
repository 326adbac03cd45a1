//! Whether short buffers come again from so far that compression does not find them.
//!
//! A short buffer stands where it is used: stored apart it takes a hash as well, and to look it up
//! costs as much as to write the call. That is worth it only while most of them come again, and from
//! further than compression sees. One of sixteen contents is watched to find out.

/// One of so many contents is watched.
const WATCHED_SHARE: u64 = 16;
/// Watched contents that are remembered: a million buffers of few contents, or 64 thousand contents.
const REMEMBERED: usize = 4096;
/// Short buffers between two that compression does not see as one.
const FAR: u32 = 1024;
/// Watched buffers after which it is asked again.
const ASKED: u32 = 256;

#[derive(Clone, Copy, Default)]
struct Watched {
    tag: u32,
    /// Which short buffer it was when it came last.
    at: u32,
}

/// Watches short buffers.
pub struct Far {
    remembered: Vec<Watched>,
    /// Short buffers so far.
    count: u32,
    watched: u32,
    came_from_far: u32,
    worth_it: bool,
}

impl Far {
    /// Nothing has come.
    pub fn new() -> Far {
        Far {
            remembered: vec![Watched::default(); REMEMBERED],
            count: 0,
            watched: 0,
            came_from_far: 0,
            worth_it: false,
        }
    }

    /// A buffer of 8 bytes or more comes: whether such are to be stored apart.
    #[inline]
    pub fn worth_it(&mut self, bytes: &[u8]) -> bool {
        self.count = self.count.wrapping_add(1);
        let hash = rough_hash(bytes);
        if hash.is_multiple_of(WATCHED_SHARE) {
            self.watch(hash / WATCHED_SHARE);
        }
        self.worth_it
    }

    fn watch(&mut self, hash: u64) {
        let tag = (hash >> 28) as u32;
        let before = &mut self.remembered[hash as usize % REMEMBERED];
        let far = before.tag == tag && self.count.wrapping_sub(before.at) >= FAR;
        *before = Watched { tag, at: self.count };
        self.came_from_far += u32::from(far);
        self.watched += 1;
        if self.watched == ASKED {
            self.worth_it = self.came_from_far > ASKED / 2;
            (self.watched, self.came_from_far) = (0, 0);
        }
    }
}

/// Of three words of a buffer: enough for a guess.
fn rough_hash(bytes: &[u8]) -> u64 {
    let word = |at: usize| {
        let word = bytes.get(at..at + 8).and_then(|word| word.first_chunk::<8>());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    let [first, middle, last] = [word(0), word(bytes.len() / 2 - 4), word(bytes.len() - 8)];
    let mixed = (first ^ middle.rotate_left(21) ^ last.rotate_left(42)) | 1;
    let product = u128::from(mixed) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether it is worth it in the end.
    fn after(count: u64, contents: u64) -> bool {
        let mut far = Far::new();
        let bytes = |i: u64| [i, i * i, !i, 7].map(u64::to_le_bytes).concat();
        (0..count).map(|i| far.worth_it(&bytes(i % contents))).last().unwrap()
    }

    #[test]
    fn only_what_comes_again_from_far_is_worth_it() {
        assert!(after(100_000, 16_256));
        assert!(!after(100_000, 100_000), "nothing comes again");
        assert!(!after(100_000, 64), "compression finds that");
        assert!(!after(10_000, 16_256), "nothing has come again yet");
    }

    #[test]
    fn it_ends_when_all_is_new() {
        let mut far = Far::new();
        let bytes = |i: u64| [i, i, i, i].map(u64::to_le_bytes).concat();
        assert!((0..100_000).map(|i| far.worth_it(&bytes(i % 9000))).last().unwrap());
        assert!(!(100_000..200_000).map(|i| far.worth_it(&bytes(i))).last().unwrap());
    }
}
