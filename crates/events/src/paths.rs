//! What calls mean by their paths: where each begins, and whether a symbolic link at its end is
//! followed. Compiled from the rows.

use crate::act::Act;
use crate::shape::{Classes, FlagSet, Kind, Syscall};
use crate::table::{NUMBER_LIMIT, ROWS};

/// Most paths that a call takes.
pub const PATHS_MAX: usize = 2;

/// How a call treats a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinalLink {
    /// The file that the link leads to is meant.
    Followed,
    /// The link itself is meant.
    Meant,
    /// The link itself is meant when these bits of an argument are set.
    MeantIf {
        /// The argument.
        arg: u8,
        /// The bits.
        bits: u32,
    },
    /// The link itself is meant unless these bits of an argument are set.
    MeantUnless {
        /// The argument.
        arg: u8,
        /// The bits.
        bits: u32,
    },
}

impl FinalLink {
    /// Whether a call with these arguments means the link itself.
    pub const fn is_meant(self, args: &[u64; 6]) -> bool {
        match self {
            FinalLink::Followed => false,
            FinalLink::Meant => true,
            FinalLink::MeantIf { arg, bits } => args[arg as usize] as u32 & bits == bits,
            FinalLink::MeantUnless { arg, bits } => args[arg as usize] as u32 & bits != bits,
        }
    }
}

/// A path argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathUse {
    /// The argument with the directory that the path begins at; none: the working directory.
    pub dir: Option<u8>,
    /// The argument with the path.
    pub path: u8,
    /// What a symbolic link at its end means.
    pub link: FinalLink,
}

/// Some path arguments of a call.
pub type Paths = [Option<PathUse>; PATHS_MAX];

/// All path arguments of a call.
pub const fn of(row: &Syscall) -> Paths {
    let mut paths: Paths = [None; PATHS_MAX];
    let (mut dir, mut found, mut number) = (None, 0, 0);
    while number < row.args.len() {
        match row.args[number].kind {
            Kind::DirFd => dir = Some(number as u8),
            Kind::Path if found < PATHS_MAX => {
                paths[found] = Some(PathUse { dir, path: number as u8, link: link(row, found) });
                found += 1;
            }
            _ => {}
        }
        number += 1;
    }
    paths
}

/// The paths behind which there may be files that the call changes, replaces or takes names from.
/// What calls only make is not among them, nor what is opened.
pub const fn changed(row: &Syscall) -> Paths {
    let mut paths = of(row);
    let makes = matches!(
        row.act,
        Act::Open | Act::MakeDirectory | Act::MakeNode | Act::MakeLink | Act::Bind
    );
    if makes || !row.classes.intersects(Classes::CHANGE) {
        return [None; PATHS_MAX];
    }
    if matches!(row.act, Act::HardLink) {
        paths[1] = None;
    }
    paths
}

/// What a call that takes several paths means by this one's last link.
const fn link(row: &Syscall, path: usize) -> FinalLink {
    let mut number = 0;
    while number < row.args.len() {
        let arg = number as u8;
        if let Kind::Flags(set) = row.args[number].kind {
            let follow = bits_of(set, "SYMLINK_FOLLOW");
            // Of two paths, flags concern the first.
            if follow != 0 && path == 0 && !can_leave(set, row) {
                return FinalLink::MeantUnless { arg, bits: follow };
            }
            let leave = bits_of(set, "NOFOLLOW") | bits_of(set, "DONT_FOLLOW");
            if leave != 0 && !row.act.is_on_link() {
                return FinalLink::MeantIf { arg, bits: leave };
            }
        }
        number += 1;
    }
    if row.act.is_on_link() { FinalLink::Meant } else { FinalLink::Followed }
}

/// Whether links are followed unless a flag says otherwise: the one that says so then has no use.
const fn can_leave(set: &FlagSet, row: &Syscall) -> bool {
    bits_of(set, "NOFOLLOW") != 0 && !row.act.is_on_link()
}

/// The bits of the flag whose name ends so; 0 if there is none.
const fn bits_of(set: &FlagSet, end: &str) -> u32 {
    let mut member = 0;
    while member < set.members.len() {
        let (bits, name) = set.members[member];
        if ends_with(name.as_bytes(), end.as_bytes()) {
            return bits as u32;
        }
        member += 1;
    }
    0
}

const fn ends_with(text: &[u8], end: &[u8]) -> bool {
    if text.len() < end.len() {
        return false;
    }
    let (mut at, before) = (0, text.len() - end.len());
    while at < end.len() {
        if text[before + at] != end[at] {
            return false;
        }
        at += 1;
    }
    true
}

const fn all() -> [Paths; NUMBER_LIMIT] {
    let mut index = [[None; PATHS_MAX]; NUMBER_LIMIT];
    let mut group = 0;
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            index[ROWS[group][i].nr as usize] = of(&ROWS[group][i]);
            i += 1;
        }
        group += 1;
    }
    index
}

static BY_NUMBER: [Paths; NUMBER_LIMIT] = all();

/// Whether a call with these arguments means a symbolic link at the end of one of its paths itself.
pub fn means_link(nr: u16, path: u8, args: &[u64; 6]) -> bool {
    let paths = BY_NUMBER.get(usize::from(nr)).into_iter().flatten().flatten();
    paths
        .into_iter()
        .find(|found| found.path == path)
        .is_some_and(|found| found.link.is_meant(args))
}
