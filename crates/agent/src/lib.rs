//! The part of reenact that runs inside the traced program.
//!
//! A position-independent image without libc, allocator or relocated data. It makes the program's
//! system calls, copies their data, and publishes records to the thread's ring.
//!
//! ```text
//! program --(patched site or SIGSYS)--> arch/entry -> dispatch -> call -> capture -> stream -> ring
//! ```
//!
//! Files are layers: none uses itself by way of others (`tests/layers.rs`). Control goes up by
//! symbol alone, from the assembly to the functions that `arch/x86_64/entry.rs` lists.
//!
//! Invariants:
//! - Until the real call is made, everything can be undone: a signal that arrives by then finds the
//!   program as if it had not reached the call yet. Once the call has returned, the record is
//!   finished first and the signal delivered afterwards.
//! - Locks are taken only with all signals masked or after the call has returned: an undone call
//!   must not leave a lock behind.
//! - State of threads and of the address space is reached by shared references only, see [`cells`].
//! - Every system call of the agent's own has a row in [`needs`].
//! - The agent opens no descriptor in the program's table. It writes to the program's memory only
//!   patched call sites, the frames of delivered signals, masks in status files, and results that it
//!   computes itself.
#![no_std]
#![allow(missing_docs, reason = "nobody links the agent")]

#[cfg(test)]
extern crate std;

// The processor, and the kernel.
mod arch;
mod needs;
mod sys;

// State, as types that know nothing of what changes them.
mod aio_contexts;
mod baton;
mod cells;
mod chunk;
mod copied;
mod course;
mod cpu_time;
mod flights;
mod late_input;
mod lock;
mod long_copies;
mod patience;
mod provided;
mod shadow;
mod signal;
mod signal_cases;
mod signal_queue;
mod site_table;
mod status_lines;
mod text_map;
mod timers;
mod watch;

mod context;

// Records of calls, and requests.
mod between_calls;
mod call;
mod capture;
mod clock;
mod lost_calls;
mod memory;
mod operations;
mod requests;
mod serial;
mod stream;
mod used;

// What else is done for the program to be recorded and to notice nothing.
mod actions;
mod aio;
mod asked;
mod completions;
mod cpu_area;
mod deferred;
mod deliver;
mod exec;
mod filter;
mod guards;
mod helper;
mod hurry;
mod identity;
mod interrupted;
mod loaded;
mod locking;
mod looking;
mod mapped;
mod maps;
mod masked;
mod native;
mod opening;
mod profile;
mod queues;
mod rights;
mod ring_setup;
mod ring_tables;
mod ring_waits;
mod rings;
mod sigcalls;
mod signals;
mod sigsys;
mod sites;
mod snapshot;
mod start;
mod status;
mod tasks;
mod text;
mod threads;
mod tracing;
mod users;
mod waiting;

// The top.
mod answered;
mod dispatch;

pub use arch::processor::stop;
