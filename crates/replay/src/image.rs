//! The initial files of a replay: rebuilt from the trace alone, or copied from a directory.
//!
//! A pass over the events follows names and contents ([`fold`]): the first observation of a name or
//! byte, before the program changes it, shows its initial state. Contents are written to disk as
//! they are found ([`staging`]); names, links and attributes follow at the end ([`assemble`]).
//! Memory holds an entry for each name and file in the recording, and ranges, never contents.

mod assemble;
mod at_end;
mod attributes;
mod built;
mod changes;
mod content;
mod copy;
mod data;
mod entries;
mod error;
mod failed;
mod fold;
mod hidden;
mod left_out;
mod loaded;
mod merge;
mod node_id;
mod opens;
mod pending;
mod ranges;
mod sources;
mod staging;
mod stored;
mod tells;
mod tree;
mod unknown;
mod untold;
mod walk;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;

use trace::{Sequenced, Trace};

use crate::options::Fill;
use crate::space::Space;

use fold::Fold;
use staging::Staging;
use tree::Name;

pub use built::{Built, MadeUp};
pub use copy::{Inode, copy};
pub use error::ImageError;
pub use ranges::Ranges;
pub use unknown::Unknown;

/// Most passes over a trace, if guesses turn out to be wrong.
const PASSES_MAX: usize = 3;

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
    let (mut cursor, mut next) = (trace.cursor(), Sequenced::default());
    while let Some(taken) = cursor.next_into(trace, &mut next) {
        taken?;
        fold.event(&mut next.event)?;
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
    fold.tree.learn_from_end(trace)?;
    fold.tree.learn_texts()?;
    let unknown = unknown::find(&fold.tree);
    let untold = std::mem::take(&mut fold.untold).paths(&fold.tree);
    let not_seen = std::mem::take(&mut fold.unseen).finish_of(trace);
    let mut built = assemble::assemble(&mut fold.tree, &mut fold.staging, root, fill)?;
    if fold.seen.too_large > 0 {
        built.left_out.insert(left_out::SIZE, fold.seen.too_large);
    }
    if fold.tree.too_deep > 0 {
        built.left_out.insert(left_out::DEEP, fold.tree.too_deep);
    }
    if fold.world.left_out() > 0 {
        built.left_out.insert(left_out::NOT_FOLLOWED, fold.world.left_out());
    }
    fold.staging.finish().map_err(|e| ImageError::write(b"/", e))?;
    let (seen_bytes, given_up) = (fold.seen.bytes, fold.seen.given_up);
    built.made_up.bytes = untold;
    Ok(Built { seen_bytes, given_up, unknown, not_seen, ..built })
}
