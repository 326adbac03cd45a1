//! What an event is about to change in a world, and the paths that its call names.

use std::rc::Rc;

use crate::descriptors::Descriptor;
use crate::open_files::Description;
use crate::path::Own;
use crate::places::{Change, Place, Space};
use crate::world::{CredentialsChange, Directory, TiesChange};

/// One change of a world.
#[derive(Debug)]
pub(crate) enum Effect {
    Install { fd: i32, entry: Descriptor },
    Close { fd: i32 },
    CloseRange { first: u32, last: u32 },
    SetCloseOnExec { first: u32, last: u32, on: bool },
    Chdir { directory: Rc<Directory> },
    Bound { description: Rc<Description>, local: String },
    Connected { description: Rc<Description>, peer: String },
    UnshareFiles,
    UnshareCwd,
    View(ViewChange),
    Filter { program: Vec<u8>, all_threads: bool },
    Ties(TiesChange),
    Credentials(CredentialsChange),
}

/// A change of a thread's view, or of paths.
#[derive(Debug)]
pub(crate) enum ViewChange {
    /// Changes the mounts of the namespace.
    Mounts(Change),
    /// Gives the thread its own root.
    Root,
    /// Gives the thread its own copy of the namespace.
    Leave,
    /// Moves the thread to another namespace.
    Enter(Space),
    /// Creates a symbolic link.
    Linked { path: Vec<u8>, target: Vec<u8> },
    /// Renames a file or directory.
    Renamed { from: Vec<u8>, to: Vec<u8> },
    /// Removes a path.
    Removed { path: Vec<u8> },
}

/// A path argument that goes through a /proc link to one of the process's own directories.
#[derive(Debug)]
pub struct Through {
    /// Number of the argument.
    pub arg: u8,
    /// The directory that the link leads to.
    pub own: Own,
    /// The rest of the path, relative to that directory.
    pub below: Vec<u8>,
}

/// The changes that an event is about to make.
#[derive(Debug, Default)]
pub struct Step {
    /// The thread of the event.
    pub thread: u32,
    /// Absolute path of each path argument, by argument number.
    pub paths: Vec<(u8, Vec<u8>)>,
    /// Path arguments that go through /proc links to the process's own directories.
    pub through: Vec<Through>,
    /// Path arguments that lead elsewhere because of the process's mounts, links or root, each with
    /// the path that leads there without them.
    pub aside: Vec<(u8, Vec<u8>)>,
    /// Directory that stands for the root of a new, empty mount, and its mode.
    pub makes: Option<(Vec<u8>, u32)>,
    /// True if the program's own seccomp filter answered the call, so that it was not made.
    pub answered: bool,
    pub(crate) places: Vec<(u8, Place)>,
    pub(crate) at_entry: Vec<Effect>,
    pub(crate) at_exit: Vec<Effect>,
    pub(crate) exit_tsc: Option<u64>,
    pub(crate) ended: bool,
    pub(crate) exited: Option<u32>,
}

impl Step {
    /// Id of the mount that the first path argument leads to.
    pub(crate) fn first_mount(&self) -> u32 {
        self.places.first().map_or(0, |(_, place)| place.mount)
    }

    /// Returns the working directory that the call sets.
    pub fn directory(&self) -> Option<&Rc<Directory>> {
        self.at_exit.iter().find_map(|effect| match effect {
            Effect::Chdir { directory } => Some(directory),
            _ => None,
        })
    }

    /// Returns the descriptors that the call creates.
    pub fn gives(&self) -> impl Iterator<Item = (i32, &Descriptor)> {
        self.at_exit.iter().filter_map(|effect| match effect {
            Effect::Install { fd, entry } => Some((*fd, entry)),
            _ => None,
        })
    }

    /// Returns the ranges (first and last) of descriptors that the call closes, open or not.
    pub fn closes(&self) -> impl Iterator<Item = (u32, u32)> {
        self.at_entry.iter().filter_map(|effect| match effect {
            Effect::Close { fd } => Some((*fd as u32, *fd as u32)),
            Effect::CloseRange { first, last } => Some((*first, *last)),
            _ => None,
        })
    }

    /// Returns true if the call changes descriptors or directories.
    pub fn changes(&self) -> bool {
        !(self.at_entry.is_empty() && self.at_exit.is_empty())
    }

    /// Returns true if the thread stops sharing its descriptor table.
    pub fn leaves_files(&self) -> bool {
        self.at_entry.iter().chain(&self.at_exit).any(|e| matches!(e, Effect::UnshareFiles))
    }

    /// Returns true if the thread stops sharing its working directory.
    pub fn leaves_directory(&self) -> bool {
        self.at_entry.iter().chain(&self.at_exit).any(|e| matches!(e, Effect::UnshareCwd))
    }
}
