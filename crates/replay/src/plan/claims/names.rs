//! Names that a call found, missed or changed.

use syscalls::abi::errno::{EEXIST, ENOENT, ENOTEMPTY};
use syscalls::abi::files::{S_IFDIR, S_IFMT};
use syscalls::record::RESULT;
use syscalls::shape::{ArgKind, Dir, Of};
use syscalls::{Act, attributes};
use trace::event::Call;

use super::listings::Listing;
use crate::treatment::{Said, exchanges, makes_name};

/// A call's effect on names.
#[derive(Debug, Default)]
pub struct Names {
    /// A name that it made.
    pub made: Option<Vec<u8>>,
    /// A name that it removed.
    pub removed: Option<Vec<u8>>,
    /// A previous entry that it may have replaced.
    pub replaced: Option<Vec<u8>>,
    /// A name that was there before the call, and that it would have made if it had gone by then.
    pub remade: Option<Vec<u8>>,
    /// A name that it would have made if it had not failed.
    pub tried: Option<Vec<u8>>,
    /// What it found or missed.
    pub found: Vec<Found>,
    /// It told how many names a file has, which is no directory.
    pub links: Option<u32>,
}

/// What a call found before it changed anything.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The name existed and stayed.
    There(Vec<u8>),
    /// This directory and those above it existed.
    Above(Vec<u8>),
    /// The name did not exist.
    Absent(Vec<u8>),
    /// The directory was not empty.
    Filled(Vec<u8>),
    /// Of the names in a directory, these existed.
    Listed(Listing),
}

impl Names {
    /// Effect of a call on these absolute paths; `is_there`: the last one is known to stand for a file.
    pub fn of(
        said: &Said,
        call: &Call,
        ret: i64,
        paths: &[(u8, Vec<u8>)],
        is_there: bool,
    ) -> Option<Names> {
        let (first, last) = (&paths.first()?.1, &paths.last()?.1);
        let above = |path: &[u8]| Found::Above(parent(path).to_vec());
        let mut names = Names::default();
        if ret < 0 {
            names.found = match -ret as i32 {
                EEXIST if first != last => [first, last].map(|it| Found::There(it.clone())).into(),
                EEXIST => vec![Found::There(last.clone())],
                ENOTEMPTY => vec![Found::Filled(last.clone())],
                ENOENT => absent(said.act, makes_name(said.act, said.args), first, last),
                _ => return None,
            };
            names.tried = makes_name(said.act, said.args).then(|| last.clone());
            return Some(names);
        }
        match said.act {
            Act::MakeDirectory | Act::MakeNode | Act::MakeLink => {
                names.made = Some(last.clone());
                names.found = vec![above(last)];
            }
            Act::HardLink => {
                names.made = Some(last.clone());
                names.found = vec![Found::There(first.clone()), above(last)];
            }
            Act::Remove | Act::RemoveDirectory => {
                names.removed = Some(first.clone());
                names.found = vec![above(first)];
            }
            Act::Rename if exchanges(said, call) => {
                names.found = vec![above(first), above(last)];
            }
            // Nothing happens.
            Act::Rename if first == last => names.found = vec![Found::There(first.clone())],
            Act::Rename => {
                names.made = Some(last.clone());
                names.replaced = Some(last.clone());
                names.removed = Some(first.clone());
                names.found = vec![above(first), above(last)];
            }
            Act::Open if makes_name(said.act, said.args) => match is_there || was_told(call) {
                true => {
                    names.remade = Some(last.clone());
                    names.found = vec![Found::There(last.clone())];
                }
                false => {
                    names.made = Some(last.clone());
                    names.found = vec![above(last)];
                }
            },
            _ => {
                names.found = paths.iter().map(|(_, path)| Found::There(path.clone())).collect();
            }
        }
        Some(names)
    }

    /// Returns how many names a file has, if a call told that; `came_out` gives the output of an argument.
    pub fn told_links<'a>(said: &Said, came_out: impl Fn(u8) -> Option<&'a [u8]>) -> Option<u32> {
        said.args.iter().zip(0..).find_map(|(arg, number)| match arg.kind {
            ArgKind::Buf(Dir::Out, Of::Struct(layout), _) => {
                let file = attributes::of_struct(layout, came_out(number)?)?;
                (file.mode & S_IFMT != S_IFDIR).then_some(file.nlink)
            }
            _ => None,
        })
    }

    /// What a call got of the names in a directory, which was not removed yet.
    pub fn listed(directory: &[u8], listing: Option<Listing>) -> Names {
        let there = Found::There(directory.to_vec());
        let found = std::iter::once(there).chain(listing.map(Found::Listed)).collect();
        Names { found, ..Names::default() }
    }

    /// A call found an open directory removed.
    pub fn removed_before(directory: &[u8]) -> Names {
        Names { found: vec![Found::Absent(directory.to_vec())], ..Names::default() }
    }

    /// Names that stand for something else, or nothing, after it.
    pub fn changed(&self) -> impl Iterator<Item = &[u8]> {
        [&self.made, &self.removed, &self.tried].into_iter().flatten().map(|path| &path[..])
    }

    /// All names that it concerns.
    pub fn touched(&self) -> impl Iterator<Item = &[u8]> {
        let found = self.found.iter().filter_map(|found| match found {
            Found::There(path) | Found::Above(path) | Found::Absent(path) | Found::Filled(path) => {
                Some(path)
            }
            Found::Listed(_) => None,
        });
        self.changed().chain(found.map(|path| &path[..]))
    }
}

/// Names that may have been missing. Directories further up are left out: the name itself is the
/// more likely reason.
fn absent(act: Act, makes: bool, first: &[u8], last: &[u8]) -> Vec<Found> {
    let absent = |path: &[u8]| Found::Absent(path.to_vec());
    match act {
        Act::HardLink | Act::Rename => vec![absent(first), absent(parent(last))],
        _ if makes => vec![absent(parent(last))],
        _ => vec![absent(first), absent(last)],
    }
}

/// Whether the opened file had been identified before the open.
fn was_told(call: &Call) -> bool {
    call.identities.iter().any(|(arg, _)| *arg != RESULT)
}

/// The directory part of a path.
pub fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&c| c == b'/').unwrap_or(0)]
}

/// Whether a path is another one, or below it.
pub fn leads_through(path: &[u8], other: &[u8]) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
