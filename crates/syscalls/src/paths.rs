//! Path arguments of calls: where each path begins, and whether a symbolic link at its end is
//! followed. Compiled from the rows.

use crate::act::Act;
use crate::shape::{ArgKind, Classes, FlagSet, Syscall};
use crate::table::{PLACES, ROWS, place};
use crate::text;

/// Maximum number of paths in a call.
pub const PATHS_MAX: usize = 2;

/// Treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinalLink {
    /// The link is followed.
    Followed,
    /// The link itself is used.
    Meant,
    /// The link itself is used if all of these bits of an argument are set.
    MeantIf {
        /// The argument.
        arg: u8,
        /// The bits.
        bits: u32,
    },
    /// The link itself is used unless all of these bits of an argument are set.
    MeantUnless {
        /// The argument.
        arg: u8,
        /// The bits.
        bits: u32,
    },
}

impl FinalLink {
    /// Returns true if a call with these arguments uses the link itself.
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
    /// The argument with the starting directory; `None`: the working directory.
    pub dir: Option<u8>,
    /// The argument with the path.
    pub path: u8,
    /// Treatment of a symbolic link at its end.
    pub link: FinalLink,
}

/// Path arguments of a call.
pub type Paths = [Option<PathUse>; PATHS_MAX];

/// Returns all path arguments of a call.
pub const fn of(row: &Syscall) -> Paths {
    let mut paths: Paths = [None; PATHS_MAX];
    let (mut dir, mut found, mut number) = (None, 0, 0);
    while number < row.args.len() {
        match row.args[number].kind {
            ArgKind::DirFd => dir = Some(number as u8),
            ArgKind::Path if found < PATHS_MAX => {
                paths[found] = Some(PathUse { dir, path: number as u8, link: link(row, found) });
                found += 1;
            }
            _ => {}
        }
        number += 1;
    }
    paths
}

/// Returns the paths of existing files that the call changes, replaces or takes names from. Paths
/// that a call only creates or opens are not included.
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

/// Returns how the call treats a link at the end of its path number `path`.
const fn link(row: &Syscall, path: usize) -> FinalLink {
    let mut number = 0;
    while number < row.args.len() {
        let arg = number as u8;
        if let ArgKind::Flags(set) = row.args[number].kind {
            let follow = bits_of(set, "SYMLINK_FOLLOW");
            // If there are two paths, the flags are for the first.
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

/// Returns true if the default is to follow links, so that a flag asking for it has no effect.
const fn can_leave(set: &FlagSet, row: &Syscall) -> bool {
    bits_of(set, "NOFOLLOW") != 0 && !row.act.is_on_link()
}

/// Returns the bits of the flag whose name has this suffix; 0 if there is none.
const fn bits_of(set: &FlagSet, end: &str) -> u32 {
    let mut member = 0;
    while member < set.members.len() {
        let (bits, name) = set.members[member];
        if text::ends_with(name, end) {
            return bits as u32;
        }
        member += 1;
    }
    0
}

const fn all() -> [Paths; PLACES] {
    let mut index = [[None; PATHS_MAX]; PLACES];
    let mut group = 0;
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            let Some(place) = place(ROWS[group][i].nr as u64) else { panic!("no place") };
            index[place] = of(&ROWS[group][i]);
            i += 1;
        }
        group += 1;
    }
    index
}

static BY_PLACE: [Paths; PLACES] = all();

/// Returns true if a call with these arguments uses a link at the end of this path argument itself.
pub fn means_link(nr: u16, path: u8, args: &[u64; 6]) -> bool {
    let paths = place(nr.into()).map(|place| &BY_PLACE[place]).into_iter().flatten().flatten();
    paths
        .into_iter()
        .find(|found| found.path == path)
        .is_some_and(|found| found.link.is_meant(args))
}
