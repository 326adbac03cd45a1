//! Working directories, and how tasks share them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::budget::Held;
use crate::places::Place;

/// A working directory, replaced by a new value on every change of directory.
#[derive(Debug, Default)]
pub struct Directory {
    /// Its absolute path; empty while unknown.
    pub path: Vec<u8>,
    /// Unique id, for use by the fold's client.
    pub mark: Cell<u64>,
    pub(crate) mount: u32,
    /// Root of the processes here, if it is not the initial one.
    pub(crate) root: Option<Rc<Place>>,
    pub(super) _held: Option<Held>,
}

/// A working directory that tasks may share.
pub(super) type Cwd = Rc<RefCell<Rc<Directory>>>;

/// Returns a copy that is shared with nobody.
pub(super) fn copy<T: Clone>(shared: &Rc<RefCell<T>>) -> Rc<RefCell<T>> {
    Rc::new(RefCell::new(shared.borrow().clone()))
}
