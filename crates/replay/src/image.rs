//! The initial files of a replay: rebuilt from the trace alone, or copied from a directory.
//!
//! A pass over the events follows names and contents ([`fold`]): the first observation of a name or
//! byte, before the program changes it, shows its initial state. Contents are written to disk as
//! they are found ([`staging`]); names, links and attributes follow at the end ([`assemble`]).
//! Memory holds an entry for each name and file in the recording, and ranges, never contents.

mod assemble;
mod attributes;
mod changes;
mod content;
mod copy;
mod data;
mod entries;
mod failed;
mod fold;
mod foreign;
mod links;
mod merge;
mod opens;
mod ranges;
mod sources;
mod staging;
mod stored;
mod tells;
mod tree;
mod unknown;
mod untold;
mod users;
mod walk;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

use model::unseen::NotSeen;
use trace::{ReadError, Trace};

use crate::shared::Fill;
use crate::space::Space;

use fold::Fold;
use staging::Staging;
use tree::Name;

pub use copy::{Inode, copy};
pub use ranges::Ranges;
pub use unknown::Unknown;

/// Most passes over a trace, if guesses turn out to be wrong.
const PASSES_MAX: usize = 3;

/// Why the image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(#[from] ReadError),
    /// Stored bytes cannot be read.
    #[error("{0}")]
    Data(String),
    /// The trace names more files than are followed.
    #[error("the trace speaks of more files than can be followed")]
    TooMany,
    /// The given directory cannot be copied.
    #[error("the directory to copy from is {0}")]
    Source(&'static str),
    /// A file of the image cannot be created.
    #[error("cannot make {} in the image: {source}", shown(path))]
    Write {
        /// Its path in the image.
        path: Vec<u8>,
        /// The error.
        source: io::Error,
    },
}

/// Returns the end of a path, for users.
fn shown(path: &[u8]) -> String {
    const SHOWN_MAX: usize = 256;
    let end = &path[path.len().saturating_sub(SHOWN_MAX)..];
    let dots = if end.len() < path.len() { "..." } else { "" };
    format!("{dots}{}", end.escape_ascii())
}

impl From<tree::TooMany> for ImageError {
    fn from(_: tree::TooMany) -> ImageError {
        ImageError::TooMany
    }
}

impl ImageError {
    fn write(path: &[u8], source: impl Into<io::Error>) -> ImageError {
        ImageError::Write { path: path.to_vec(), source: source.into() }
    }
}

/// Description of the built image.
#[derive(Debug, Default)]
pub struct Built {
    /// Number of directories.
    pub directories: u64,
    /// Number of regular files.
    pub files: u64,
    /// Number of symbolic links.
    pub links: u64,
    /// Number of fifos and sockets.
    pub special: u64,
    /// Bytes of files with known content.
    pub seen_bytes: u64,
    /// Bytes of files that no call read: they are filler.
    pub unknown_bytes: u64,
    /// Files with so many changed ranges that later reads were not used.
    pub given_up: u64,
    /// What could not be reproduced, and how often.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Content of the recording's final files that was never seen.
    pub unknown: Unknown,
    /// Data that is missing in the trace although it has every call.
    pub not_seen: NotSeen,
    /// Names of open files for which the image may have filler where the trace has only a hash.
    pub untold: HashSet<Vec<u8>>,
}

impl Built {
    fn leave_out(&mut self, what: &'static str) {
        *self.left_out.entry(what).or_default() += 1;
    }
}

/// Counters of the pass.
#[derive(Debug, Default)]
struct Seen {
    bytes: u64,
    given_up: u64,
    /// Reads beyond the largest file size.
    too_large: u64,
}

/// Makes one pass over the events. `no_links`: paths that must not be taken for links.
fn pass<'a>(
    trace: &'a Trace,
    root: BorrowedFd<'_>,
    places: &[Vec<u8>],
    space: &Arc<Space>,
    progress: &dyn Fn(u64),
    no_links: &Rc<HashSet<Vec<Name>>>,
) -> Result<Fold<'a>, ImageError> {
    let staging =
        Staging::new(root, places, Arc::clone(space)).map_err(|e| ImageError::write(b"/", e))?;
    let mut fold = Fold::new(stored::Stored::new(trace), staging);
    fold.tree.no_links = Rc::clone(no_links);
    for next in trace.events() {
        fold.event(next?.event)?;
        progress(1);
        // Unreadable bytes would be taken for bytes that no call has seen.
        if let Some(error) = fold.stored.error.take() {
            return Err(ImageError::Data(error));
        }
    }
    fold.finish()?;
    fold.sources(trace)?;
    match fold.stored.error.take() {
        Some(error) => Err(ImageError::Data(error)),
        None => Ok(fold),
    }
}

/// Rebuilds the initial files below `root`, in one pass over the trace, or several if a guess turns
/// out to be wrong too late. `places` are absolute paths in it that are on their own file systems;
/// no more space is used than `space` has. `fill` is put where no call read. `progress` is called
/// with the number of events read.
///
/// Nothing outside `root` is touched, whatever the trace says: every file is created relative to
/// its directory, and no link is followed.
pub fn build(
    trace: &Trace,
    root: BorrowedFd<'_>,
    places: &[Vec<u8>],
    space: &Arc<Space>,
    fill: &Fill,
    progress: &dyn Fn(u64),
) -> Result<Built, ImageError> {
    let mut fold = pass(trace, root, places, space, progress, &Rc::default())?;
    for _ in 1..PASSES_MAX {
        if fold.tree.denied.is_empty() {
            break;
        }
        let mut no_links = std::mem::take(&mut fold.tree.denied);
        no_links.extend(fold.tree.no_links.iter().cloned());
        // First free its disk space and memory.
        drop(fold);
        fold = pass(trace, root, places, space, &|_| {}, &Rc::new(no_links))?;
    }
    fold.tree.learn_links(trace)?;
    let unknown = unknown::find(&fold.tree);
    let untold = std::mem::take(&mut fold.untold).paths(&fold.tree);
    let not_seen = std::mem::take(&mut fold.unseen).finish_of(trace);
    let mut built = assemble::assemble(&mut fold.tree, &mut fold.staging, root, fill)?;
    if fold.seen.too_large > 0 {
        built.left_out.insert(assemble::left_out::SIZE, fold.seen.too_large);
    }
    if fold.tree.too_deep > 0 {
        built.left_out.insert(assemble::left_out::DEEP, fold.tree.too_deep);
    }
    if fold.world.left_out() > 0 {
        built.left_out.insert(assemble::left_out::NOT_FOLLOWED, fold.world.left_out());
    }
    fold.staging.finish().map_err(|e| ImageError::write(b"/", e))?;
    let (seen_bytes, given_up) = (fold.seen.bytes, fold.seen.given_up);
    Ok(Built { seen_bytes, given_up, unknown, untold, not_seen, ..built })
}
