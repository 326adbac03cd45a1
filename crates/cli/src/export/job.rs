//! What every export is given, and what it tells.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;

use model::{Conditions, Moment, Namespace, Unread, Visitor};
use trace::Trace;
use trace::event::EventKind;

use crate::failure::Failure;
use crate::output::{self, Pending};
use crate::progress;

/// Input of an export.
pub struct Job<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Its path.
    pub from: &'a Path,
    /// Path of what is written.
    pub to: &'a Path,
    /// True if what is there may be replaced.
    pub force: bool,
    /// True if the bytes of buffers are wanted.
    pub content: bool,
    /// Which events are wanted.
    pub conditions: Conditions,
    /// The files created so far.
    pub pending: RefCell<Vec<Pending>>,
}

/// Result of an export.
#[derive(Default)]
pub struct Written {
    /// Number of calls written.
    pub calls: u64,
    /// Descriptions of what the format cannot hold.
    pub left_out: Vec<String>,
    /// Blocks of the trace that could not be read.
    pub unread: Unread,
}

impl Job<'_> {
    /// Creates an output file, which is kept only if the export succeeds.
    pub fn create(&self, path: &Path) -> Result<File, Failure> {
        let created = output::create(path, self.force, &[self.from]);
        let (file, pending) = created.map_err(Failure::Failed)?;
        self.pending.borrow_mut().push(pending);
        Ok(file)
    }

    /// Makes all files final.
    pub fn keep(&self) -> Result<(), Failure> {
        self.pending.borrow_mut().iter_mut().try_for_each(Pending::keep).map_err(Failure::Failed)
    }

    /// Passes all events of the trace in order to `visit`, up to the last one that may be wanted.
    pub fn each(&self, visit: &mut Visitor<'_, Failure>) -> Result<Unread, Failure> {
        progress::walk(self.trace, &self.conditions, visit)
    }

    /// The same, and follows what calls do to files. Also returns these.
    pub fn each_with_files(
        &self,
        visit: &mut Visitor<'_, Failure>,
    ) -> Result<(Namespace, Unread), Failure> {
        progress::walk_files(self.trace, &self.conditions, visit)
    }
}

/// Returns true if an event is a call.
pub fn is_call(moment: &Moment<'_>) -> bool {
    matches!(moment.event.kind, EventKind::Call(_))
}
