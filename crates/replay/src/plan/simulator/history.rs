//! Random programs, made on the reference kernel: which call begins, takes effect or returns next is
//! left to chance, so calls overlap, and each takes effect at some moment within its span.

use std::fmt;
use std::ops::Range;

use syscalls::abi::files::{LOCK_UN, O_APPEND, O_CREAT, O_EXCL, O_RDWR, O_TRUNC};
use trace::Trace;

use super::chance::Chance;
use super::kernel::{Came, Done, Kernel, Op, UNIT};
use super::spelled;
use crate::image::tests::recording::Recording;

/// A task that a call made.
#[derive(Clone, Copy, Debug)]
pub struct Begins {
    pub thread: u32,
    pub at: u64,
}

/// A call that was made.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub thread: u32,
    pub process: u32,
    pub op: Op,
    pub done: Done,
    pub begin: u64,
    pub end: u64,
    /// When it took effect.
    pub acted: u64,
    /// The trace has only a hash of what was read.
    pub by_hash: bool,
    /// The file that was seen at the path before the call.
    pub seen_before: Option<(usize, u64)>,
    pub begins: Option<Begins>,
    /// Files that it concerned, and the path that the planner knows each by.
    pub concerned: Vec<(usize, String)>,
    /// Its descriptor table, and the open file of its descriptor.
    pub table: usize,
    pub opened: Option<usize>,
    /// Bytes of the file that were behind its end before, and are not written.
    pub hole: Range<u64>,
}

/// What a program does most of the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Theme {
    Data,
    Appends,
    Offsets,
    Names,
    Pipes,
    Locks,
    Numbers,
}

const THEMES: [Theme; 7] = [
    Theme::Data,
    Theme::Appends,
    Theme::Offsets,
    Theme::Names,
    Theme::Pipes,
    Theme::Locks,
    Theme::Numbers,
];

/// Kinds of calls, in the order of the weights.
#[derive(Clone, Copy)]
enum Sort {
    Open,
    Create,
    Close,
    Read,
    ReadAt,
    Write,
    WriteAt,
    Seek,
    SeekEnd,
    Stat,
    StatPath,
    Cut,
    CutPath,
    Dup,
    DupTo,
    Mkdir,
    Rmdir,
    Remove,
    Rename,
    HardLink,
    Link,
    ReadLink,
    Pipe,
    Lock,
    Fork,
}

impl Theme {
    fn weights(self) -> Vec<(Sort, usize)> {
        use Sort as S;
        match self {
            Theme::Data => vec![
                (S::Open, 2),
                (S::Create, 1),
                (S::Close, 1),
                (S::ReadAt, 6),
                (S::WriteAt, 6),
                (S::Read, 2),
                (S::Write, 1),
                (S::SeekEnd, 2),
                (S::Stat, 3),
                (S::Cut, 3),
                (S::CutPath, 1),
                (S::StatPath, 1),
            ],
            Theme::Appends => vec![
                (S::Open, 2),
                (S::Create, 1),
                (S::ReadAt, 3),
                (S::WriteAt, 1),
                (S::Read, 2),
                (S::Write, 5),
                (S::SeekEnd, 2),
                (S::Stat, 2),
                (S::Cut, 1),
            ],
            Theme::Offsets => vec![
                (S::Open, 2),
                (S::Dup, 2),
                (S::Read, 6),
                (S::Write, 5),
                (S::Seek, 3),
                (S::ReadAt, 2),
                (S::WriteAt, 1),
                (S::Close, 1),
                (S::Fork, 1),
            ],
            Theme::Names => vec![
                (S::Open, 4),
                (S::Create, 4),
                (S::Close, 2),
                (S::StatPath, 4),
                (S::Mkdir, 4),
                (S::Rmdir, 4),
                (S::Remove, 5),
                (S::Rename, 4),
                (S::HardLink, 2),
                (S::Link, 2),
                (S::ReadLink, 2),
                (S::WriteAt, 2),
                (S::ReadAt, 1),
            ],
            Theme::Pipes => vec![
                (S::Pipe, 2),
                (S::Read, 7),
                (S::Write, 8),
                (S::Close, 1),
                (S::Dup, 1),
                (S::Fork, 1),
            ],
            Theme::Locks => {
                vec![(S::Open, 4), (S::Lock, 8), (S::ReadAt, 2), (S::WriteAt, 2), (S::Close, 1)]
            }
            Theme::Numbers => vec![
                (S::Open, 3),
                (S::Close, 5),
                (S::Dup, 2),
                (S::DupTo, 5),
                (S::ReadAt, 3),
                (S::Stat, 3),
                (S::Fork, 3),
                (S::Pipe, 1),
                (S::WriteAt, 1),
            ],
        }
    }
}

enum State {
    Idle,
    /// It has begun a call.
    Begun {
        op: Op,
        begin: u64,
        seen_before: Option<(usize, u64)>,
        concerned: Vec<(usize, String)>,
        hole: Range<u64>,
    },
    /// The call has taken effect.
    Acted(Box<Recorded>),
    /// It has been made and does not run yet.
    Unborn {
        maker: usize,
    },
}

struct Task {
    thread: u32,
    process: u32,
    table: usize,
    state: State,
}

/// What a program did, and the files before and after it.
pub struct History {
    pub calls: Vec<Recorded>,
    pub before: Kernel,
    pub after: Kernel,
    pub steps: u64,
}

/// A program that runs.
struct Program<'a> {
    chance: &'a mut Chance,
    kernel: Kernel,
    tasks: Vec<Task>,
    calls: Vec<Recorded>,
    theme: Theme,
    overlap: bool,
    /// Files that its calls choose from.
    files: usize,
    /// Contents that are often the same.
    few_contents: bool,
    written: u8,
    now: u64,
    left: usize,
}

/// Ticks between two steps.
const TICK: u64 = 10;
const TASKS_MAX: usize = 5;
const OPEN_MAX: usize = 8;

/// Runs a random program. Without `overlap` each call returns before the next one begins.
pub fn run(chance: &mut Chance, overlap: bool) -> History {
    let theme = chance.pick(&THEMES);
    let (files, few_contents) = (1 + chance.below(3), chance.one_in(4));
    let mut kernel = Kernel::new();
    for path in ["/w", "/w/d0"] {
        kernel.make((0, 0), &Op::MakeDirectory { path: path.into() }, false, None);
    }
    for file in ["/w/f0", "/w/f1", "/w/d0/f3"] {
        let open = Op::Open { path: file.into(), flags: O_CREAT | O_RDWR };
        kernel.make((0, 0), &open, false, None);
        let bytes: Vec<u8> = (b'p'..).take(3).flat_map(|byte| [byte; UNIT]).collect();
        kernel.make((0, 0), &Op::Write { fd: 0, bytes, at: Some(0) }, false, None);
        kernel.make((0, 0), &Op::Close { fd: 0 }, false, None);
    }
    let before = kernel.clone();
    let first = Task { thread: 1, process: 1, table: 0, state: State::Idle };
    let left = 8 + chance.below(24);
    let mut program = Program {
        chance,
        kernel,
        tasks: vec![first],
        calls: Vec::new(),
        theme,
        overlap,
        files,
        few_contents,
        written: 0,
        now: 10_000,
        left,
    };
    program.prepare();
    let steps = program.run();
    let Program { kernel: after, mut calls, .. } = program;
    calls.sort_by_key(|call| call.begin);
    History { calls, before, after, steps }
}

impl Program<'_> {
    /// Calls without overlap that most programs make first.
    fn prepare(&mut self) {
        let path = "/w/f0".to_string();
        let flags = if self.theme == Theme::Appends { O_RDWR | O_APPEND } else { O_RDWR };
        let opens = match self.theme {
            Theme::Names => vec![],
            Theme::Pipes => vec![Op::Pipe],
            Theme::Locks => vec![],
            _ => vec![Op::Open { path, flags }],
        };
        opens.into_iter().for_each(|op| self.alone(0, op));
        let more = 1 + self.chance.below(3);
        for _ in 0..more {
            let op = if self.chance.one_in(2) { Op::Thread } else { Op::Fork };
            self.alone(0, op);
            let born = self.tasks.len() - 1;
            self.advance(born);
        }
    }

    /// Makes a whole call, without overlap. One that would have to wait is not made.
    fn alone(&mut self, task: usize, op: Op) {
        self.begin(task, op);
        for _ in 0..3 {
            if !self.advance(task) {
                break;
            }
            if matches!(self.tasks[task].state, State::Idle) {
                return;
            }
        }
        self.tasks[task].state = State::Idle;
    }

    fn run(&mut self) -> u64 {
        let mut idle = 0;
        while idle < 100 {
            let task = self.chance.below(self.tasks.len());
            let is_idle = matches!(self.tasks[task].state, State::Idle);
            idle += 1;
            match is_idle {
                true if self.left == 0 => {}
                true => {
                    self.left -= 1;
                    let op = self.choose(task);
                    idle = 0;
                    match self.overlap && !self.chance.one_in(4) {
                        true => self.begin(task, op),
                        false => self.alone(task, op),
                    }
                }
                false if self.advance(task) => idle = 0,
                false => {}
            }
        }
        self.now / TICK
    }

    fn begin(&mut self, task: usize, op: Op) {
        self.now += TICK;
        let (begin, hole) = (self.now, 0..0);
        let mut state = State::Begun { op, begin, seen_before: None, concerned: vec![], hole };
        if let State::Begun { op: Op::Open { path, flags }, seen_before, .. } = &mut state
            && *flags & O_CREAT != 0
        {
            // The recorder looks at the path before it makes the call.
            *seen_before = self.kernel.file_at(path).map(|node| self.kernel.seen(node));
        }
        self.tasks[task].state = state;
    }

    /// The next step of a task, unless it has to wait.
    fn advance(&mut self, task: usize) -> bool {
        let now = self.now + TICK;
        let Task { thread, process, table, state } = &mut self.tasks[task];
        let (thread, process, table) = (*thread, *process, *table);
        match std::mem::replace(state, State::Idle) {
            State::Idle => return false,
            State::Unborn { maker } => {
                let begins = Some(Begins { thread, at: now });
                let child = i64::from(100 + thread);
                let makes = |call: &&mut Recorded| {
                    matches!(call.op, Op::Fork | Op::Thread) && call.done.ret == child
                };
                let made = self.calls.iter_mut().find(makes);
                if let Some(call) = made {
                    call.begins = begins;
                } else if let State::Acted(call) = &mut self.tasks[maker].state {
                    call.begins = begins;
                }
            }
            State::Begun { op, begin, seen_before, mut concerned, mut hole } => {
                if concerned.is_empty() {
                    concerned = self.concerned(table, &op);
                }
                if !self.kernel.is_half_done(task) {
                    hole = self.hole(table, &op, &concerned);
                }
                let opened = op.fd().and_then(|fd| self.kernel.open_of(table, fd));
                let mut blocked = false;
                let done = match &op {
                    Op::Fork | Op::Thread => Some(self.make_task(task, &op)),
                    _ => match self.kernel.make((task, table), &op, self.overlap, None) {
                        Came::Done(done) => Some(done),
                        Came::Half => None,
                        Came::Blocks => {
                            blocked = true;
                            None
                        }
                    },
                };
                let state = &mut self.tasks[task].state;
                let Some(done) = done else {
                    *state = State::Begun { op, begin, seen_before, concerned, hole };
                    self.now += if blocked { 0 } else { TICK };
                    return !blocked;
                };
                if let (Op::Open { path, .. }, Some((node, _))) = (&op, done.file) {
                    concerned = vec![(node, path.clone())];
                }
                let is_file =
                    matches!(&op, Op::Read { fd, .. } if !self.kernel.is_pipe(table, *fd));
                let by_hash = is_file && done.ret > 0 && self.chance.one_in(8);
                let end = 0;
                *state = State::Acted(Box::new(Recorded {
                    thread,
                    process,
                    op,
                    done,
                    begin,
                    end,
                    acted: now,
                    by_hash,
                    seen_before,
                    begins: None,
                    concerned,
                    table,
                    opened,
                    hole,
                }));
            }
            State::Acted(mut call) => {
                call.end = now;
                self.calls.push(*call);
            }
        }
        self.now = now;
        true
    }

    fn make_task(&mut self, maker: usize, op: &Op) -> Done {
        let Task { process, table, .. } = self.tasks[maker];
        let thread = self.tasks.len() as u32 + 1;
        let (process, table) = match op {
            Op::Fork => (thread, self.kernel.copy_table(table)),
            _ => (process, table),
        };
        self.tasks.push(Task { thread, process, table, state: State::Unborn { maker } });
        Done { ret: i64::from(100 + thread), ..Done::default() }
    }

    /// What a call is about to leave between the old end of its file and what it writes.
    fn hole(&self, table: usize, op: &Op, concerned: &[(usize, String)]) -> Range<u64> {
        let size = concerned.first().map_or(0, |(node, _)| self.kernel.seen(*node).1);
        match op {
            Op::Write { fd, at, .. } => {
                size..at.unwrap_or_else(|| self.kernel.offset(table, *fd)).max(size)
            }
            Op::CutFd { len, .. } | Op::CutPath { len, .. } => size..(*len).max(size),
            _ => 0..0,
        }
    }

    /// Files that a call is about to concern, by the paths that the planner knows them by.
    fn concerned(&self, table: usize, op: &Op) -> Vec<(usize, String)> {
        match op {
            Op::Read { fd, .. }
            | Op::Write { fd, .. }
            | Op::Seek { fd, .. }
            | Op::StatFd { fd }
            | Op::CutFd { fd, .. }
            | Op::Lock { fd, .. } => {
                let file = self.kernel.file_of(table, *fd);
                file.map(|(node, path)| (node, path.to_string())).into_iter().collect()
            }
            Op::StatPath { path } | Op::CutPath { path, .. } | Op::Open { path, .. } => {
                self.kernel.file_at(path).map(|node| (node, path.clone())).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn fd(&mut self, task: usize) -> i32 {
        let table = &self.kernel.tables[self.tasks[task].table];
        let all: Vec<i32> = table.keys().copied().collect();
        match all.is_empty() || self.chance.one_in(20) {
            true => self.chance.below(OPEN_MAX) as i32,
            false => self.chance.pick(&all),
        }
    }

    fn file(&mut self) -> String {
        let below = self.theme == Theme::Names && self.chance.one_in(3);
        let number = self.chance.below(self.files);
        if below {
            format!("/w/d{number}/f{}", self.chance.below(2))
        } else {
            format!("/w/f{number}")
        }
    }

    fn name(&mut self, letter: char) -> String {
        let number = self.chance.below(2);
        match self.chance.one_in(4) {
            true => format!("/w/d0/{letter}{number}"),
            false => format!("/w/{letter}{number}"),
        }
    }

    fn place(&mut self) -> u64 {
        (self.chance.below(5) * UNIT) as u64
    }

    fn len(&mut self) -> usize {
        (1 + self.chance.below(4)) * UNIT
    }

    fn bytes(&mut self) -> Vec<u8> {
        let units = 1 + self.chance.below(4);
        let mut bytes = Vec::new();
        for _ in 0..units {
            self.written = self.written.wrapping_add(1);
            let byte = match self.few_contents {
                true => self.chance.pick(b"xyp"),
                false => self.written,
            };
            bytes.extend([byte; UNIT]);
        }
        bytes
    }

    fn choose(&mut self, task: usize) -> Op {
        let weights = self.theme.weights();
        let at =
            self.chance.weighted(&weights.iter().map(|(_, weight)| *weight).collect::<Vec<_>>());
        let many = self.kernel.tables[self.tasks[task].table].len() >= OPEN_MAX;
        let fd = self.fd(task);
        match weights[at].0 {
            Sort::Open | Sort::Create | Sort::Dup | Sort::Pipe if many => Op::Close { fd },
            Sort::Open => {
                let appends = self.theme == Theme::Appends && self.chance.one_in(2);
                let flags = if appends { O_RDWR | O_APPEND } else { O_RDWR };
                Op::Open { path: self.file(), flags }
            }
            Sort::Create => {
                let more = self.chance.pick(&[0, 0, O_TRUNC, O_EXCL]);
                Op::Open { path: self.file(), flags: O_RDWR | O_CREAT | more }
            }
            Sort::Close => Op::Close { fd },
            Sort::Read => Op::Read { fd, len: self.len(), at: None },
            Sort::ReadAt => Op::Read { fd, len: self.len(), at: Some(self.place()) },
            Sort::Write => Op::Write { fd, bytes: self.bytes(), at: None },
            Sort::WriteAt => Op::Write { fd, bytes: self.bytes(), at: Some(self.place()) },
            Sort::Seek => Op::Seek { fd, by: self.place() as i64, whence: libc::SEEK_SET },
            Sort::SeekEnd => Op::Seek { fd, by: 0, whence: libc::SEEK_END },
            Sort::Stat => Op::StatFd { fd },
            Sort::StatPath => Op::StatPath { path: self.file() },
            Sort::Cut => Op::CutFd { fd, len: self.place() },
            Sort::CutPath => Op::CutPath { path: self.file(), len: self.place() },
            Sort::Dup => Op::Dup { fd },
            Sort::DupTo => Op::DupTo { fd, to: self.chance.below(OPEN_MAX) as i32 },
            Sort::Mkdir => Op::MakeDirectory { path: self.name('d') },
            Sort::Rmdir => Op::RemoveDirectory { path: self.name('d') },
            Sort::Remove => Op::Remove { path: self.file() },
            Sort::Rename => Op::Rename { from: self.file(), to: self.file() },
            Sort::HardLink => Op::HardLink { from: self.file(), to: self.name('h') },
            Sort::Link => Op::Link { target: self.file(), path: self.name('l') },
            Sort::ReadLink => Op::ReadLink { path: self.name('l') },
            Sort::Pipe => Op::Pipe,
            Sort::Lock => {
                let how = self.chance.pick(&[libc::LOCK_EX as u64, LOCK_UN]);
                Op::Lock { fd, how }
            }
            Sort::Fork if self.tasks.len() < TASKS_MAX => {
                let is_main = self.tasks[task].thread == self.tasks[task].process;
                if is_main && self.chance.one_in(4) { Op::Thread } else { Op::Fork }
            }
            Sort::Fork => Op::Close { fd },
        }
    }
}

/// One line for each call: its span, its thread, and what came out.
impl fmt::Display for History {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.iter().enumerate().try_for_each(|(seq, call)| {
            let Recorded { thread, process, op, done, begin, end, by_hash, .. } = call;
            write!(to, "{seq:3} {begin:6}-{end:6} {process}.{thread} ")?;
            let units = |bytes: &[u8]| bytes.chunks(UNIT).map(|unit| unit[0]).collect::<Vec<u8>>();
            match op {
                Op::Write { fd, bytes, at } => write!(to, "Write {fd} {:?} {at:?}", units(bytes))?,
                op => write!(to, "{op:?}")?,
            }
            writeln!(
                to,
                " = {} {:?}{}",
                done.ret,
                units(&done.out),
                if *by_hash { " hash" } else { "" }
            )
        })
    }
}

impl History {
    /// The trace of it.
    pub fn trace(&self) -> Trace {
        let mut recording = Recording::new("/");
        self.calls.iter().for_each(|call| spelled::record(&mut recording, call));
        recording.in_order();
        recording.trace()
    }
}
