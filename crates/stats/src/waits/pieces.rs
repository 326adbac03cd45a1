//! What each thread did, remembered as far as there is room.

use std::collections::{HashMap, VecDeque};

use model::scheduling::{Doing, Piece, Thread, Times};

/// Stretches that are remembered of a thread, and of all together.
const OF_THREAD_MAX: usize = 1 << 15;
const ALL_MAX: usize = 1 << 20;
/// Those that are remembered of each thread where there is no more room.
const LATEST: usize = 32;

#[derive(Default)]
struct Remembered {
    name: Vec<u8>,
    pid: Option<u32>,
    pieces: VecDeque<Piece>,
}

/// The stretches of time of all threads.
#[derive(Default)]
pub struct Pieces {
    all: HashMap<u32, Remembered>,
    count: usize,
    forgot: bool,
}

impl Pieces {
    /// Remembers one.
    pub fn add(&mut self, thread: &Thread, piece: Piece) {
        let of_thread = self.all.entry(thread.id).or_default();
        if of_thread.name != thread.name {
            of_thread.name.clone_from(&thread.name);
        }
        of_thread.pid = thread.pid;
        // What is done on a CPU is one thing here, but for calls, and interrupts are part of it.
        if let Some(last) = of_thread.pieces.back_mut()
            && last.to == piece.from
            && last.doing.is_on_cpu()
            && (piece.doing == last.doing || piece.doing == Doing::Interrupted)
        {
            last.to = piece.to;
            return;
        }
        of_thread.pieces.push_back(piece);
        self.count += 1;
        let len = of_thread.pieces.len();
        if len > OF_THREAD_MAX || (self.count > ALL_MAX && len > LATEST) {
            of_thread.pieces.pop_front();
            self.count -= 1;
            self.forgot = true;
        }
    }

    /// Returns true if some are not remembered any more.
    pub fn forgot(&self) -> bool {
        self.forgot
    }

    /// The name of a thread, if it has one.
    pub fn name(&self, id: u32) -> &[u8] {
        self.all.get(&id).map_or(b"", |of_thread| &of_thread.name)
    }

    /// The process of a thread, if known.
    pub fn process(&self, id: u32) -> Option<u32> {
        self.all.get(&id)?.pid
    }

    /// Returns true if something is known of a thread.
    pub fn knows(&self, id: u32) -> bool {
        self.all.contains_key(&id)
    }

    /// What a thread did up to a time, the latest first; the first one may end after it.
    pub fn before(&self, id: u32, until: u64) -> impl Iterator<Item = &Piece> {
        let pieces = self.all.get(&id).map(|of_thread| &of_thread.pieces);
        let count = pieces.map_or(0, |pieces| pieces.partition_point(|piece| piece.from < until));
        pieces.into_iter().flat_map(move |pieces| pieces.range(..count).rev())
    }

    /// How long a thread did what between two times. What it did last may not be told yet: it ran, if
    /// it woke another one then.
    pub fn between(&self, id: u32, from: u64, to: u64) -> Times {
        let mut times = Times::default();
        let mut end = to;
        for piece in self.before(id, to) {
            if piece.to <= from {
                break;
            }
            if end == to && piece.to < to {
                times.spend(Doing::Own, to - piece.to.max(from));
            }
            let (begins, ends) = (piece.from.max(from), piece.to.min(to));
            times.spend(piece.doing, ends.saturating_sub(begins));
            end = begins;
        }
        if end == to {
            times.spend(Doing::Own, to - from);
        }
        times
    }
}
