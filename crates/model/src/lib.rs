//! Interprets a recording: a pure fold over events keeps the state of processes, threads,
//! descriptors and working directories, and calls are decoded into values by the rows of the table.
//!
//! Stored bytes are read through [`Contents`].

mod budget;
mod conditions;
pub mod contents;
pub mod decode;
mod descriptors;
mod effects;
mod filters;
pub mod glob;
pub mod mappings;
mod moment;
pub mod mounts;
pub mod names;
pub mod path;
pub mod places;
pub mod realm;
pub mod unseen;
mod walk;
pub mod world;

pub use conditions::{CallChoice, Conditions, EventChoice, class_names};
pub use contents::{Contents, InlineOnly, Stored};
pub use decode::value::Value;
pub use descriptors::{Description, Descriptor, DescriptorTable, Entry, Offset, Origin};
pub use effects::{
    Step, Through, changes_nothing, concerns_tasks, open_flags, spawn_flags, word_behind,
};
pub use moment::Moment;
pub use walk::{Unread, Visitor, Walk, clock, walk};
pub use world::{Argv, Credentials, Directory, IdSet, Process, Thread, Ties, View, World};
