//! The part of reenact that lives inside the traced program.
//!
//! A position-independent image without libc, allocator or relocated data. It makes the program's
//! system calls in its place, copies what they carry, and publishes records into the thread's ring.
//!
//! ```text
//! program --(patched site or SIGSYS)--> entry -> call -> capture -> stream -> ring
//! ```
//!
//! Invariants:
//! - Until the real call is made, everything can be undone: a signal that arrives then finds the
//!   program as if it had not reached the call yet. Once it has returned, the record is finished
//!   first and the signal delivered afterwards.
//! - Locks are taken only with all signals masked or after the call has returned, never before it:
//!   what is undone must not leave a lock behind.
//! - No descriptor is opened, no byte of the program's memory or stack is written, apart from the
//!   call sites that are patched and the frames of the signals that are delivered.
#![no_std]
#![allow(missing_docs, reason = "nobody links the agent")]

mod bootstrap;
mod call;
mod capture;
mod clock;
mod context;
mod deliver;
mod entry;
mod entry_quiet;
mod exec;
mod filter;
mod guards;
mod helper;
mod identity;
mod locking;
mod maps;
mod memory;
mod native;
mod own_gs;
mod profile;
mod rights;
#[cfg(feature = "image")]
mod routines;
mod sigcalls;
mod signals;
mod sites;
mod snapshot;
mod start;
mod status;
mod stream;
mod sys;
mod tasks;
mod tracing;
mod users;
mod waiting;
