//! What a recording means: a pure fold over events (processes, threads, descriptors, working
//! directories), and calls decoded into values by the table's rows.
//!
//! Stored bytes come through [`Contents`], output is values.

mod budget;
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
pub mod world;

pub use contents::{Contents, InlineOnly, Stored};
pub use decode::value::Value;
pub use descriptors::{Description, Descriptor, DescriptorTable, Entry, Offset, Origin};
pub use effects::{Step, Through, changes_nothing, spawn_flags};
pub use moment::Moment;
pub use world::{Argv, Directory, Process, Thread, View, World};
