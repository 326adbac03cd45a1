//! Interprets a recording: a pure fold over events keeps the state of processes, threads,
//! descriptors and working directories, and calls are decoded into values by the rows of the table.
//!
//! Stored bytes are read through [`Contents`].

mod budget;
pub mod callers;
mod conditions;
pub mod contents;
pub mod decode;
mod descriptors;
mod effects;
pub mod file_use;
mod filters;
pub mod glob;
pub mod happenings;
pub mod kernel_births;
pub mod kernel_devices;
pub mod kernel_events;
mod kernel_pids;
pub mod kernel_tasks;
pub mod loaded;
pub mod mapped;
pub mod mappings;
mod moment;
pub mod mounts;
pub mod names;
mod namespace;
mod open_files;
pub mod operations;
pub mod path;
pub mod places;
pub mod realm;
pub mod scheduling;
mod step;
mod touch;
pub mod unseen;
pub mod user_time;
mod walk;
pub mod world;

pub use conditions::{CallChoice, Conditions, EventChoice, class_names};
pub use contents::{Contents, InlineOnly, Stored};
pub use decode::value::Value;
pub use descriptors::{Descriptor, DescriptorTable, Entry};
pub use effects::{changes_nothing, concerns_tasks, open_flags, spawn_flags, word_behind};
pub use happenings::kernel_layouts;
pub use moment::{Moment, duration_ns};
pub use namespace::{File, FileId, Namespace, Paths};
pub use open_files::{Description, Offset, OpenHasher, OpenId, OpenTable, Origin};
pub use step::{Step, Through};
pub use touch::{Access, Synced, Touch};
pub use walk::{Unread, Visitor, Walk, clock, walk, walk_files};
pub use world::{Argv, Credentials, Directory, IdSet, Process, Surroundings, Thread, Ties, World};
