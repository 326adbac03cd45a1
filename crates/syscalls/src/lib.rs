//! The table of system calls that drives capture, printing, replay and export, and the encoding of
//! records in the shared-memory rings.
//!
//! Rows are plain data; every consumer interprets them. Nothing here allocates or does I/O.
#![no_std]

pub mod act;
pub mod capture;
pub mod errno;
pub mod flags;
pub mod handler;
pub mod layout;
pub mod mapping;
pub mod paths;
pub mod record;
pub mod shape;
pub mod table;

pub use act::Act;
pub use errno::{errno_name, signal_name};
pub use handler::Handler;
pub use shape::{
    Arg, Classes, Dir, FlagSet, Kind, Len, Of, OpenFlags, Replay, Ret, Syscall, Variant,
};
pub use table::{by_name, by_number};
