//! Which programs have races that the planner does not recognise: the list in docs/design/replay.md,
//! "Races".

use syscalls::abi::files::{LOCK_UN, O_TRUNC};

use super::history::{History, Recorded};
use super::kernel::Op;

impl History {
    /// Whether it has a race that the planner does not recognise (docs/design/replay.md, "Races").
    pub fn is_out_of_reach(&self) -> bool {
        let links = |call: &Recorded| matches!(call.op, Op::HardLink { .. }) && call.done.ret == 0;
        let has_links = self.calls.iter().any(links);
        self.calls.iter().enumerate().any(|(at, one)| {
            let after = self.calls[at + 1..].iter().take_while(|other| other.begin < one.end);
            after
                .filter(|other| {
                    is_out_of_reach(one, other, has_links)
                        || self.is_late(one, other)
                        || self.is_passed_on(one, other)
                        || self.is_passed_on(other, one)
                        || self.is_known_otherwise(one, other)
                })
                .count()
                > 0
        })
    }
}

impl History {
    /// The first call began to change numbers before the other one began to copy them, and changed
    /// them after that: the model takes them for closed, and a call that ended in between may depend
    /// on the change, so it does not wait for the copy.
    fn is_late(&self, one: &Recorded, fork: &Recorded) -> bool {
        let between = one.begin..fork.begin;
        fork.op == Op::Fork
            && one.table == fork.table
            && fork.acted < one.acted
            && (matches!(one.op, Op::Close { .. } | Op::DupTo { .. })
                || !one.gives().is_empty()
                    && self.calls.iter().any(|other| between.contains(&other.end)))
    }

    /// A number was closed while a child was made, and the child made one as well: what that one
    /// has is not looked at.
    fn is_passed_on(&self, fork: &Recorded, close: &Recorded) -> bool {
        let closes = matches!(close.op, Op::Close { .. } | Op::DupTo { .. });
        let child = fork.begins.map(|begins| begins.thread);
        let is_grandchild = |call: &Recorded| call.op == Op::Fork && Some(call.process) == child;
        fork.op == Op::Fork
            && closes
            && fork.table == close.table
            && self.calls.iter().any(is_grandchild)
    }

    /// Both concern a name of a file that was opened by an earlier name.
    fn is_known_otherwise(&self, one: &Recorded, other: &Recorded) -> bool {
        let theirs = names(other);
        let was_opened = |old: &String| {
            let opens = |op: &Op| matches!(op, Op::Open { path, .. } if path == old);
            self.calls.iter().any(|call| opens(&call.op) && call.done.ret >= 0)
        };
        let was_renamed = |name: &String| {
            self.calls.iter().any(|call| match &call.op {
                Op::Rename { from, to } => {
                    call.done.ret == 0 && to == name && from != to && was_opened(from)
                }
                _ => false,
            })
        };
        names(one).iter().any(|name| theirs.contains(name) && was_renamed(name))
    }
}

/// Names that it opens or changes.
fn names(call: &Recorded) -> Vec<String> {
    match &call.op {
        Op::Open { path, .. } | Op::Remove { path } => vec![path.clone()],
        Op::Rename { from, to } => vec![from.clone(), to.clone()],
        _ => vec![],
    }
}

fn is_out_of_reach(one: &Recorded, other: &Recorded, has_links: bool) -> bool {
    let by_two_paths = one.concerned.iter().any(|(file, path)| {
        other.concerned.iter().any(|(same, other)| same == file && other != path)
    });
    let unlocks = |call: &Recorded| matches!(call.op, Op::Lock { how: LOCK_UN, .. });
    let locks = |call: &Recorded| matches!(call.op, Op::Lock { .. });
    let one_lock = locks(one) && locks(other) && one.opened == other.opened;
    // It saw zeros that the other one left before what it wrote.
    let saw_hole = |one: &Recorded, other: &Recorded| {
        let reads = matches!(one.op, Op::Read { .. }) && one.done.out.ends_with(&[0]);
        let same = one.concerned.first().map(|(file, _)| file)
            == other.concerned.first().map(|(file, _)| file);
        reads && same && !other.hole.is_empty()
    };
    // What became of a file that has another name as well.
    let changes = |call: &Recorded| match call.op {
        Op::Write { .. } | Op::CutFd { .. } | Op::CutPath { .. } => true,
        Op::Open { flags, .. } => flags & O_TRUNC != 0,
        _ => false,
    };
    let one_file =
        one.concerned.iter().any(|(file, _)| other.concerned.iter().any(|(same, _)| same == file));
    let both_change = one_file && changes(one) && changes(other);
    let linked =
        || has_links && (both_change || names(one).iter().any(|name| names(other).contains(name)));
    // It closed a number that had not been returned yet.
    let takes_over = |one: &Recorded, other: &Recorded| match other.op {
        Op::Close { fd } => {
            one.table == other.table && one.acted < other.acted && one.gives().contains(&fd)
        }
        _ => false,
    };
    let given = one.gives();
    let one_number = one.table == other.table && other.gives().iter().any(|fd| given.contains(fd));
    let changed = |one: &Recorded, other: &Recorded| {
        one.table == other.table && one.uses().is_some_and(|fd| other.changes(fd, one))
    };
    // The child has a number that was opened while it was made.
    let inherits = |one: &Recorded, other: &Recorded| {
        let (is_fork, is_late) = (one.op == Op::Fork, one.acted > other.acted);
        is_fork && is_late && one.table == other.table && !other.gives().is_empty()
    };
    by_two_paths
        || inherits(one, other)
        || inherits(other, one)
        || one_lock && (unlocks(one) || unlocks(other))
        || one_number
        || saw_hole(one, other)
        || saw_hole(other, one)
        || takes_over(one, other)
        || takes_over(other, one)
        || linked()
        || changed(one, other)
        || changed(other, one)
}

impl Recorded {
    /// The number that it uses.
    fn uses(&self) -> Option<i32> {
        self.op.fd()
    }

    /// Numbers that it opened.
    fn gives(&self) -> Vec<i32> {
        match &self.op {
            Op::Open { .. } | Op::Dup { .. } | Op::DupTo { .. } if self.done.ret >= 0 => {
                vec![self.done.ret as i32]
            }
            Op::Pipe => self.done.out.chunks(4).map(|number| number[0].into()).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it opened or closed a number that another call used.
    fn changes(&self, fd: i32, other: &Recorded) -> bool {
        let closes_alone = matches!(other.op, Op::Close { .. }) && other.done.ret == 0;
        match &self.op {
            Op::Close { fd: closed } => *closed == fd && self.done.ret == 0,
            _ => !closes_alone && self.gives().contains(&fd),
        }
    }
}
