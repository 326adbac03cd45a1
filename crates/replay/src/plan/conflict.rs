//! What follows if two calls overlap that claim the same resource: which goes first, what a result
//! that differs then proves, and what is in doubt from then on.
//!
//! Pure functions find out how two claims overlap (`conflict/`). [`RULES`] says what follows from
//! it: one row for each [`Overlap`], in the order of the table in docs/design/replay.md, "Races".

pub mod bytes;
pub mod names;

use crate::certainty::Reason;

/// How two calls overlap. The names of rows call them the one and the other, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overlap {
    FoundAndChanged,
    ChangedAndFound,
    TwoChanged,
    SawNothing,
    SawAll,
    SawPart,
    NotHeld,
    SawOldEnd,
    SawNewEnd,
    SawNothingWithin,
    SawEndWithin,
    SawNothingBesideAppend,
    LookedBesideAppend,
    SawBehindCut,
    SawEndBesideCut,
    TwoWrote,
    TwoAppended,
    OneOffset,
    TwoLocked,
    TwoTook,
    TwoPut,
    ForkedAndChanged,
    ClosedAndOpened,
    Contradiction,
}

/// Which of two calls goes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First {
    One,
    Other,
    /// The one that returned first, unless it was shown to wait for the other one.
    Returned,
    /// Nothing shows it, and no order is better than another.
    Nobody,
}

/// What is in doubt from then on, until something settles it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    Nothing,
    /// What the names stand for.
    Names,
    /// The last writer of these bytes of the file, unless others saw the order.
    Bytes,
    /// Where in the file both moved their bytes, and all that `Bytes` means.
    Places,
    /// The order of these bytes of the queue.
    Queue,
    /// Whether the new process has the numbers.
    Numbers,
}

/// What follows if two calls overlap in some way.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub overlap: Overlap,
    /// As in docs/design/replay.md.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests and the document tell rules by it"))]
    pub name: &'static str,
    pub first: First,
    /// Why a result of the one that differs proves less.
    pub one: Option<Reason>,
    /// Likewise of the other.
    pub other: Option<Reason>,
    pub leaves: Leaves,
}

const fn rule(overlap: Overlap, name: &'static str, first: First) -> Rule {
    Rule { overlap, name, first, one: None, other: None, leaves: Leaves::Nothing }
}

impl Rule {
    /// The result of the one proves less.
    const fn one(self, reason: Reason) -> Rule {
        Rule { one: Some(reason), ..self }
    }

    /// The results of both prove less.
    const fn both(self, reason: Reason) -> Rule {
        Rule { one: Some(reason), other: Some(reason), ..self }
    }

    const fn leaves(self, leaves: Leaves) -> Rule {
        Rule { leaves, ..self }
    }
}

/// The rows of docs/design/replay.md, "Races". Their order is that of [`Overlap`].
pub const RULES: [Rule; 24] = {
    use First::{Nobody, One, Other, Returned};
    use Overlap as O;
    use Reason::{Names, OnceAlone, Raced};
    [
        rule(O::FoundAndChanged, "found and changed", One),
        rule(O::ChangedAndFound, "changed and found", One),
        rule(O::TwoChanged, "two changed a name", Nobody).both(Names).leaves(Leaves::Names),
        rule(O::SawNothing, "saw nothing of a write", One),
        rule(O::SawAll, "saw all of a write", Other),
        rule(O::SawPart, "saw a part of a write", One).one(Raced),
        rule(O::NotHeld, "bytes are not held", Nobody).one(OnceAlone),
        rule(O::SawOldEnd, "saw the old end", One),
        rule(O::SawNewEnd, "saw the new end", Other),
        rule(O::SawNothingWithin, "saw nothing within a write", One).one(Raced),
        rule(O::SawEndWithin, "saw the end within a write", Nobody).one(Raced),
        rule(O::SawNothingBesideAppend, "saw nothing beside an append", One).one(OnceAlone),
        rule(O::LookedBesideAppend, "looked beside an append", Nobody).one(OnceAlone),
        rule(O::SawBehindCut, "saw behind a cut", One).one(Raced),
        rule(O::SawEndBesideCut, "saw the end beside a cut", Nobody).one(Raced),
        rule(O::TwoWrote, "two wrote", Returned).leaves(Leaves::Bytes),
        rule(O::TwoAppended, "two appended", Returned).leaves(Leaves::Bytes),
        rule(O::OneOffset, "one offset", Returned).leaves(Leaves::Places),
        rule(O::TwoLocked, "two locked", Returned),
        rule(O::TwoTook, "two took from a queue", Returned).both(Raced),
        rule(O::TwoPut, "two put into a queue", Nobody).leaves(Leaves::Queue),
        rule(O::ForkedAndChanged, "forked and changed", One).leaves(Leaves::Numbers),
        rule(O::ClosedAndOpened, "closed and opened", One),
        rule(O::Contradiction, "contradiction", Nobody).both(Raced),
    ]
};

/// The rules that a planner follows: all of them, but for tests that leave one out.
#[derive(Clone, Copy)]
pub struct Rules(u32);

impl Rules {
    pub const ALL: Rules = Rules(u32::MAX);

    /// All but one.
    #[cfg(test)]
    pub fn without(overlap: Overlap) -> Rules {
        Rules(!(1 << overlap as u32))
    }

    /// What follows from an overlap.
    pub fn of(self, overlap: Overlap) -> Option<&'static Rule> {
        let at = overlap as usize;
        RULES.get(at).filter(|rule| rule.overlap == overlap && self.0 & 1 << at != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_overlap_has_its_row() {
        for (rule, at) in RULES.iter().zip(0..) {
            assert_eq!(rule.overlap as usize, at, "{}", rule.name);
            assert!(Rules::ALL.of(rule.overlap).is_some_and(|other| other.name == rule.name));
            assert!(Rules::without(rule.overlap).of(rule.overlap).is_none());
        }
    }

    #[test]
    fn the_document_has_the_same_rows() {
        let text = include_str!("../../../../docs/design/replay.md");
        let races = text.split("\n## ").find(|part| part.starts_with("Races")).expect("a chapter");
        let rows = races.lines().filter_map(|line| line.strip_prefix("| *"));
        let named: Vec<&str> = rows.filter_map(|row| Some(row.split_once("* |")?.0)).collect();
        assert_eq!(named, RULES.map(|rule| rule.name));
    }
}
