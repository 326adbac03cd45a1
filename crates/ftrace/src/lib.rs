//! Events of the kernel, by tracefs, or by perf where that can only be read. Nobody else knows tracefs, its files, or the bytes in its
//! buffers.
//!
//! ```text
//! Tracefs ──> Capture: an instance of our own (instance.rs), what is chosen (classes.rs),
//!    │           │      the formats of its events (format.rs)
//!    │           └──> a CpuBuffer for each CPU (buffer.rs) ──> Page (page.rs) ──> raw events
//!    │                  (where tracefs can only be read, rings of `perf_event_open`: ring.rs)
//!    └──> leftovers of recorders that were killed
//!
//! Faults: page faults of processes, by `perf_event_open` alone (faults.rs)
//! ```
//!
//! Only instances whose names begin with [`PREFIX`] are made, changed or removed; settings of the
//! machine are not touched.

mod buffer;
mod capture;
pub mod classes;
mod error;
mod faults;
mod format;
mod instance;
mod page;
mod ring;
mod words;

pub use buffer::{CpuBuffer, Losses};
pub use capture::{Admission, Capture, Part, Wanted};
pub use error::Error;
pub use faults::{Fault, Faults, Followed};
pub use format::{Field, Format, Kind, Value};
pub use instance::{PREFIX, Tracefs, names_processes_as_we_do};
pub use page::{Page, RawEvent};
pub use ring::Now;
