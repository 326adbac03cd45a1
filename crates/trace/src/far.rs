//! Detects short buffers that recur at such a distance that compression does not find them.
//!
//! A short buffer is normally stored in its event: as a blob it would need a hash too, and looking
//! it up costs as much as writing the call. That pays off only while most of them recur, and at a
//! greater distance than compression sees. One of sixteen contents is watched to find out.

/// One of this many contents is watched.
const WATCHED_SHARE: u64 = 16;
/// Number of watched contents remembered: those of 64 thousand contents.
const REMEMBERED: usize = 4096;
/// Distance, in short buffers, at which compression no longer finds a repetition.
const FAR: u32 = 1024;
/// Number of watched buffers between two decisions.
const ASKED: u32 = 256;

#[derive(Clone, Copy, Default)]
struct Watched {
    tag: u32,
    /// Number of the short buffer in which it occurred last.
    at: u32,
}

/// Watches short buffers for repetitions.
pub struct Far {
    remembered: Vec<Watched>,
    /// Number of short buffers so far.
    count: u32,
    watched: u32,
    came_from_far: u32,
    worth_it: bool,
}

impl Far {
    /// Returns a watcher that has seen no buffers.
    pub fn new() -> Far {
        Far {
            remembered: vec![Watched::default(); REMEMBERED],
            count: 0,
            watched: 0,
            came_from_far: 0,
            worth_it: false,
        }
    }

    /// Takes a buffer of at least 8 bytes. Returns whether such buffers should be stored as blobs.
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

/// Hash of three words of a buffer: good enough for an estimate.
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

    /// The decision after `count` buffers of so many contents.
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
