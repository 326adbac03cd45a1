//! What a portion of a directory's entries shows of the names in it.

use std::collections::HashSet;

use syscalls::record::part;
use syscalls::shape::{ArgKind, Of};
use trace::Trace;
use trace::event::Call;

use crate::scan;
use crate::treatment::Said;
use model::contents::piece;
use model::{Contents, Stored};

/// Maximum size of a portion that is looked at.
const PORTION_BYTES_MAX: usize = 1 << 20;

/// A portion of a directory's entries.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing {
    directory: Vec<u8>,
    names: HashSet<Vec<u8>>,
    /// It is the first one: a name that it lacks had not been made, or comes in a later one.
    is_first: bool,
}

impl Listing {
    /// Returns what a call got of this directory, if the trace has all of it.
    pub fn of(
        said: &Said,
        call: &Call,
        trace: &Trace,
        directory: &[u8],
        is_first: bool,
    ) -> Option<Listing> {
        let (number, is_old) =
            said.args.iter().zip(0..).find_map(|(arg, number)| match arg.kind {
                ArgKind::Buf(_, Of::Dirents64, _) => Some((number, false)),
                ArgKind::Buf(_, Of::Dirents, _) => Some((number, true)),
                _ => None,
            })?;
        let data = piece(&call.data, number, part::WHOLE, 0, true)?;
        if data.content.len() < data.true_len {
            return None;
        }
        let bytes = Stored(trace).read(&data.content, PORTION_BYTES_MAX).ok()?;
        let names = scan::names(&bytes, is_old).collect();
        // Names in the root begin with one `/` alone.
        let directory = directory.strip_suffix(b"/").unwrap_or(directory).to_vec();
        Some(Listing { directory, names, is_first })
    }

    /// Whether a name is among the entries.
    pub fn has(&self, path: &[u8]) -> bool {
        self.name_of(path).is_some_and(|name| self.names.contains(name))
    }

    /// Whether a name would be among them, had it been there before.
    pub fn lacks(&self, path: &[u8]) -> bool {
        self.is_first && self.name_of(path).is_some_and(|name| !self.names.contains(name))
    }

    /// Returns the last part of a path that names something in the directory itself.
    fn name_of<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let below = path.strip_prefix(&self.directory[..])?.strip_prefix(b"/")?;
        (!below.contains(&b'/')).then_some(below)
    }
}
