//! The longest calls and waits, each with what its time went to.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use model::scheduling::{Doing, Piece, Thread, Times, Waker};
use render::amounts::show_time;

use super::pieces::Pieces;
use crate::sheet::{Cell, Table};

/// Stories that are told.
const TOLD_MAX: usize = 200;
/// Parts of one that are told apart.
const PARTS_MAX: usize = 32;
/// Threads whose stories are not at their end.
const OPEN_MAX: usize = 1 << 16;
/// Parts smaller than this share of a story are not told.
const SMALL: u64 = 50;

/// The name of a call.
pub fn call_name(nr: u16) -> Cell {
    match syscalls::table::by_number(nr.into()) {
        Some(row) => Cell::word(row.name),
        None => Cell::Word(format!("syscall_{nr}").into()),
    }
}

/// What a part of the time went to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Cause {
    OnCpu,
    Runnable,
    /// Another thread had to do something first.
    Thread(u32, Doing),
    Doing(Doing),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Part {
    cause: Cause,
    ns: u64,
    /// What the other thread did meanwhile.
    meanwhile: Vec<(Doing, u64)>,
}

/// A call, or a wait outside of calls.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Story {
    ns: u64,
    from: u64,
    tid: u32,
    pid: u32,
    name: Vec<u8>,
    /// The call, and when it began.
    call: Option<(u16, u64)>,
    is_followed: bool,
    has_waited: bool,
    parts: Vec<Part>,
}

/// The longest stories.
#[derive(Default)]
pub struct Stories {
    open: HashMap<u32, Story>,
    longest: BinaryHeap<Reverse<Story>>,
}

impl Stories {
    /// A thread has spent time.
    pub fn add(&mut self, thread: &Thread, piece: &Piece, pieces: &Pieces) {
        let call = thread.call_at(piece.from).map(|call| (call.nr, call.from));
        let continues = |story: &Story| match (story.call, call) {
            (Some(one), Some(other)) => one == other,
            // What follows a wait is part of it until the thread runs.
            (None, None) => story.has_waited && piece.doing.is_runnable(),
            _ => false,
        };
        if self.open.get(&thread.id).is_some_and(|story| !continues(story))
            && let Some(story) = self.open.remove(&thread.id)
        {
            self.close(story);
        }
        let begins = call.is_some() || (piece.doing.is_blocked() && piece.doing != Doing::Asleep);
        if !self.open.contains_key(&thread.id) && (!begins || self.open.len() >= OPEN_MAX) {
            return;
        }
        let story = self.open.entry(thread.id).or_insert_with(|| Story {
            ns: 0,
            from: piece.from,
            tid: thread.id,
            pid: thread.pid.unwrap_or(thread.id),
            name: thread.name.clone(),
            call,
            is_followed: thread.is_followed || thread.has_agent(),
            has_waited: false,
            parts: Vec::new(),
        });
        story.ns += piece.to - piece.from;
        story.has_waited |= piece.doing.is_blocked() && piece.doing != Doing::Asleep;
        story.part(piece, pieces);
    }

    fn close(&mut self, story: Story) {
        if !story.has_waited {
            return;
        }
        let is_long = self.longest.peek().is_none_or(|Reverse(shortest)| story.ns > shortest.ns);
        if self.longest.len() < TOLD_MAX || is_long {
            self.longest.push(Reverse(story));
            if self.longest.len() > TOLD_MAX {
                self.longest.pop();
            }
        }
    }

    /// The longest ones, explained.
    pub fn finish(&mut self, pieces: &Pieces) -> Vec<Told> {
        let open: Vec<Story> = self.open.drain().map(|(_, story)| story).collect();
        open.into_iter().for_each(|story| self.close(story));
        let mut all: Vec<Story> = self.longest.drain().map(|Reverse(story)| story).collect();
        all.sort_by(|a, b| b.cmp(a));
        let told = all.into_iter().map(|story| Told {
            from: story.from,
            ns: story.ns,
            pid: story.pid,
            tid: story.tid,
            explained: story.tell(pieces),
            name: story.name,
            call: story.call.map(|(nr, _)| nr),
            is_followed: story.is_followed,
        });
        told.collect()
    }
}

/// A call that has waited, or a wait outside of calls, explained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// Since when, in nanoseconds since the start of the trace.
    pub from: u64,
    /// How long.
    pub ns: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// The call.
    pub call: Option<u16>,
    /// It is one of those whose events were wanted.
    pub is_followed: bool,
    /// What the time went to.
    pub explained: String,
}

impl Told {
    /// The name of the call, if it is one.
    pub fn call_name(&self) -> Cell {
        self.call.map_or(Cell::word("(outside of calls)"), call_name)
    }
}

/// The table of the longest ones.
pub fn longest(all: &[Told]) -> Table {
    let mut table = Table::new("longest", "The longest, explained", &COLUMNS);
    for told in all {
        table.row(vec![
            Cell::At(told.from),
            Cell::Id(told.pid.into()),
            Cell::Id(told.tid.into()),
            Cell::Name(told.name.clone()),
            told.call_name(),
            Cell::Ns(told.ns),
            Cell::Name(told.explained.clone().into_bytes()),
        ]);
    }
    table
}

impl Story {
    fn part(&mut self, piece: &Piece, pieces: &Pieces) {
        let (from, to, ns) = (piece.from, piece.to, piece.to - piece.from);
        let cause = match (piece.doing, piece.waker) {
            (doing, _) if doing.is_on_cpu() => Cause::OnCpu,
            (doing, _) if doing.is_runnable() => Cause::Runnable,
            (doing, Waker::Thread(id) | Waker::KernelThread(id))
                if doing.is_blocked() && pieces.knows(id) =>
            {
                Cause::Thread(id, doing)
            }
            (doing, _) => Cause::Doing(doing),
        };
        let times = match cause {
            Cause::Thread(id, _) => pieces.between(id, from, to),
            _ => Times::default(),
        };
        let place = self.parts.iter().position(|part| part.cause == cause);
        let place = place.unwrap_or_else(|| {
            if self.parts.len() < PARTS_MAX {
                self.parts.push(Part { cause, ns: 0, meanwhile: Vec::new() });
            }
            self.parts.len() - 1
        });
        let part = &mut self.parts[place];
        part.ns += ns;
        for doing in Doing::ALL {
            let spent = times.of(doing);
            if spent > 0 {
                match part.meanwhile.iter_mut().find(|(of, _)| *of == doing) {
                    Some((_, all)) => *all += spent,
                    None => part.meanwhile.push((doing, spent)),
                }
            }
        }
    }

    /// Says it in a line: `jbd2/vda-8 24 ms (disk 22 ms); runnable 2 ms`.
    fn tell(&self, pieces: &Pieces) -> String {
        let mut parts: Vec<&Part> = self.parts.iter().collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
        let is_told = |ns: u64, of: u64| ns >= of / SMALL;
        let told = parts.iter().filter(|part| is_told(part.ns, self.ns)).map(|part| {
            let mut text = match part.cause {
                Cause::OnCpu => "on a CPU".into(),
                Cause::Runnable => "runnable".into(),
                Cause::Doing(doing) => doing.name().into(),
                Cause::Thread(id, doing) => {
                    let name = String::from_utf8_lossy(pieces.name(id)).into_owned();
                    if doing == Doing::Lock { format!("lock, {name}") } else { name }
                }
            };
            text.push(' ');
            text.push_str(&show_time(part.ns));
            let mut meanwhile = part.meanwhile.clone();
            meanwhile.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
            let inner: Vec<String> = meanwhile
                .iter()
                .filter(|(doing, ns)| *doing != Doing::Unknown && is_told(*ns, part.ns))
                .map(|(doing, ns)| format!("{} {}", meant(*doing), show_time(*ns)))
                .collect();
            if !inner.is_empty() {
                text.push_str(&format!(" ({})", inner.join(", ")));
            }
            text
        });
        told.collect::<Vec<_>>().join("; ")
    }
}

/// What another thread did, in a word.
fn meant(doing: Doing) -> &'static str {
    match doing {
        Doing::Own => "ran",
        Doing::Call => "in calls",
        other => other.name(),
    }
}

const COLUMNS: [(&str, &str); 7] = [
    ("start_ns", "at"),
    ("pid", "pid"),
    ("tid", "tid"),
    ("name", "thread"),
    ("call", "call"),
    ("time_ns", "time"),
    ("explained", "= "),
];
