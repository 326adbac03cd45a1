//! The table of system calls that drives capture, printing, replay and export, and the encoding of
//! records in the shared-memory rings.
//!
//! Rows are plain data; every consumer interprets them. Nothing here allocates or does I/O.
#![no_std]

pub mod abi;
pub mod act;
mod again;
pub mod attributes;
mod beside;
pub mod capture;
pub mod families;
mod flag_set;
pub mod flags;
pub mod handler;
pub mod layout;
mod lending;
pub mod mapping;
pub mod operations;
pub mod paths;
pub mod record;
pub mod requests;
pub mod shape;
pub mod table;
mod text;

pub use act::{Act, Ids};
pub use handler::{Handler, Settled};
pub use shape::{
    Again, Arg, ArgKind, Beside, Classes, Dir, FlagSet, Gives, Len, Of, OpenFlags, Operand, Replay,
    Ret, Syscall, Variant, WaitsOn,
};
pub use table::{by_name, by_number};
