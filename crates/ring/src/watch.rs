//! How an agent names the file whose mapping is to be watched.

/// The file that is mapped in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapped {
    /// That of a descriptor of the thread, from an offset on.
    File {
        /// The descriptor.
        fd: i32,
        /// The offset.
        offset: u64,
    },
    /// What was mapped from this address on until the thread's last [`GONE`](about::GONE).
    FormerlyAt(u64),
    /// All that went with the thread's last [`GONE`](about::GONE) is still there.
    Restored,
    /// The same as is mapped at this address.
    CopyOf(u64),
    /// The file that was mapped there until the thread's last [`GONE`](about::GONE), from another
    /// page on.
    Reordered(u64),
    /// All that the process with this number has mapped: a child is to be watched like its parent.
    LikeProcess(u32),
    /// What was mapped there to be watched [later](when::LATER).
    Noted,
}

const FILE: u32 = 1;
const FORMERLY_AT: u32 = 2;
const LIKE_PROCESS: u32 = 3;
const NOTED: u32 = 4;
const RESTORED: u32 = 5;
const COPY_OF: u32 = 6;
const REORDERED: u32 = 7;

impl Mapped {
    /// The words of a request that name it.
    pub const fn to_words(self) -> [u64; 2] {
        match self {
            Mapped::File { fd, offset } => [two(FILE, fd.cast_unsigned()), offset],
            Mapped::FormerlyAt(address) => [two(FORMERLY_AT, 0), address],
            Mapped::LikeProcess(process) => [two(LIKE_PROCESS, process), 0],
            Mapped::Noted => [two(NOTED, 0), 0],
            Mapped::Restored => [two(RESTORED, 0), 0],
            Mapped::CopyOf(address) => [two(COPY_OF, 0), address],
            Mapped::Reordered(page) => [two(REORDERED, 0), page],
        }
    }

    /// What such words name.
    pub const fn of_words([first, second]: [u64; 2]) -> Option<Mapped> {
        Some(match halves(first) {
            (FILE, fd) => Mapped::File { fd: fd.cast_signed(), offset: second },
            (FORMERLY_AT, _) => Mapped::FormerlyAt(second),
            (LIKE_PROCESS, process) => Mapped::LikeProcess(process),
            (NOTED, _) => Mapped::Noted,
            (RESTORED, _) => Mapped::Restored,
            (COPY_OF, _) => Mapped::CopyOf(second),
            (REORDERED, _) => Mapped::Reordered(second),
            _ => return None,
        })
    }
}

/// When memory is watched.
pub mod when {
    /// From now on.
    pub const NOW: u32 = 0;
    /// Once it can be written: see [`Mapped::Noted`](super::Mapped::Noted).
    pub const LATER: u32 = 1;
    /// Only what is read there.
    pub const READS: u32 = 2;
}

/// What a collection is about.
pub mod about {
    /// All watched memory.
    pub const ALL: u64 = 0;
    /// A stretch of it: address and length.
    pub const MEMORY: u64 = 1;
    /// The same, which is not watched from then on. The answer is
    /// [`NOT_THIS`](crate::answer::NOT_THIS) if nothing of it was.
    pub const GONE: u64 = 2;
    /// Memory in which the file of a descriptor is mapped.
    pub const FILE: u64 = 3;
    /// Like [`GONE`], together with what the thread's last one has named.
    pub const ALSO_GONE: u64 = 4;
}

/// What comes after a collection.
pub mod next {
    /// The process goes on.
    pub const GOES_ON: u64 = 0;
    /// It ends, or executes another program.
    pub const ENDS: u64 = 1;
    /// Nothing is watched any more.
    pub const UNWATCHED: u64 = 2;
}

/// Puts two words of 32 bits together.
pub const fn two(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// The words that [`two`] has put together.
pub const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Mapped;

    #[test]
    fn words_name_what_they_were_made_of() {
        for named in [
            Mapped::File { fd: -1, offset: 1 << 63 },
            Mapped::FormerlyAt(u64::MAX),
            Mapped::LikeProcess(7),
            Mapped::Noted,
            Mapped::Restored,
            Mapped::CopyOf(1),
            Mapped::Reordered(1 << 50),
        ] {
            assert_eq!(Mapped::of_words(named.to_words()), Some(named));
        }
        assert_eq!(Mapped::of_words([0, 0]), None);
    }
}
