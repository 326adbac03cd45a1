//! What threads do: the kinds, stretches of time, and sums.

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Doing {
    /// It has a CPU, neither interrupted nor in a call or fault.
    Own,
    /// It has a CPU, in a call.
    Call,
    /// It has a CPU, in a page fault. An estimate: no event ends one.
    Fault,
    /// Its CPU does something else in between.
    Interrupted,
    /// It was woken and has no CPU yet.
    Woken,
    /// It was put aside for another one.
    Preempted,
    /// It waits for a disk.
    Disk,
    /// It waits for the other end of a pipe, for the network, a terminal, or any of several.
    Peer,
    /// It waits for a lock.
    Lock,
    /// It waits for another process.
    Child,
    /// It sleeps: for a time, for a signal, or without work.
    Asleep,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// Events about it are missing.
    Unknown,
}

impl Doing {
    /// Number of things that a thread may do.
    pub const COUNT: usize = 13;
    /// All of them, in their order.
    pub const ALL: [Doing; Doing::COUNT] = [
        Doing::Own,
        Doing::Call,
        Doing::Fault,
        Doing::Interrupted,
        Doing::Woken,
        Doing::Preempted,
        Doing::Disk,
        Doing::Peer,
        Doing::Lock,
        Doing::Child,
        Doing::Asleep,
        Doing::Stopped,
        Doing::Unknown,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Doing::Own => "own",
            Doing::Call => "call",
            Doing::Fault => "fault",
            Doing::Interrupted => "interrupted",
            Doing::Woken => "runnable",
            Doing::Preempted => "preempted",
            Doing::Disk => "disk",
            Doing::Peer => "peer",
            Doing::Lock => "lock",
            Doing::Child => "child",
            Doing::Asleep => "asleep",
            Doing::Stopped => "stopped",
            Doing::Unknown => "unknown",
        }
    }

    /// Returns true if it has a CPU.
    pub fn is_on_cpu(self) -> bool {
        matches!(self, Doing::Own | Doing::Call | Doing::Fault | Doing::Interrupted)
    }

    /// Returns true if it waits for a CPU.
    pub fn is_runnable(self) -> bool {
        matches!(self, Doing::Woken | Doing::Preempted)
    }

    /// Returns true if it waits for something else.
    pub fn is_blocked(self) -> bool {
        matches!(self, Doing::Disk | Doing::Peer | Doing::Lock | Doing::Child | Doing::Asleep)
    }
}

/// Who woke a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waker {
    /// That is not known.
    #[default]
    Nobody,
    /// Another thread.
    Thread(u32),
    /// A thread of the kernel's own.
    KernelThread(u32),
    /// The end of a request to a device.
    Disk([u64; 2]),
    /// A timer.
    Timer,
    /// A packet.
    Network,
    /// Another interrupt.
    Interrupt,
}

/// A stretch of time in which a thread did one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// What it did.
    pub doing: Doing,
    /// Since when, in nanoseconds since the start of the trace.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// The CPU on which it ran then, or last before.
    pub cpu: u32,
    /// Who ended a wait, or what it was woken by if it waits for a CPU.
    pub waker: Waker,
    /// The lock of the kernel that it waited for, or the word in its memory.
    pub lock: Option<u64>,
}

/// A stretch of time in which a CPU was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interruption {
    /// The CPU.
    pub cpu: u32,
    /// The thread that it runs; 0 if none.
    pub task: u32,
    /// The second half of an interrupt.
    pub is_soft: bool,
    /// Since when, in nanoseconds since the start of the trace.
    pub from: u64,
    /// Until when.
    pub to: u64,
}

/// How long a thread did what, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times([u64; Doing::COUNT]);

impl Times {
    /// The time that it did this.
    pub fn of(&self, doing: Doing) -> u64 {
        self.0[doing as usize]
    }

    /// The time that it did any of these.
    pub fn sum(&self, is_one: impl Fn(Doing) -> bool) -> u64 {
        let all = Doing::ALL.iter().filter(|&&doing| is_one(doing));
        all.fold(0, |sum: u64, &doing| sum.saturating_add(self.of(doing)))
    }

    /// All of it.
    pub fn life_ns(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Adds the time of another one.
    pub fn add(&mut self, other: &Times) {
        self.0.iter_mut().zip(other.0).for_each(|(to, ns)| *to = to.saturating_add(ns));
    }

    /// Adds time.
    pub fn spend(&mut self, doing: Doing, ns: u64) {
        let to = &mut self.0[doing as usize];
        *to = to.saturating_add(ns);
    }

    /// Returns true if there is none.
    pub fn is_nothing(&self) -> bool {
        self.0 == [0; Doing::COUNT]
    }
}

/// A call that a thread is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InCall {
    /// Its number.
    pub nr: u16,
    /// Its arguments.
    pub args: [u64; 6],
    /// Since when.
    pub from: u64,
    /// Until when, as far as is known.
    pub until: u64,
}
