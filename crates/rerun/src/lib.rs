//! Executes a recorded program again, with its calls answered from the trace.
//!
//! ```text
//! supervisor (agents' requests) --Message--> driver --answer--> agent
//!                                              |
//!                        trace: the calls in their recorded order
//! ```
//!
//! The driver goes through the trace once. For each call it waits until the thread that made it asks,
//! compares the call with the recorded one, and says what becomes of it, as the call's row says. So
//! calls happen in the recorded order, and the first one that differs ends the re-execution.

mod answers;
mod breakpoints;
mod buffers;
mod compare;
mod debugger;
mod divergence;
mod driver;
mod faults;
mod files;
mod first_image;
mod held;
mod live;
mod loaded;
mod mapped_file;
mod memory;
mod named;
mod network;
mod pace;
mod ports;
mod processes;
mod real;
mod reasons;
mod reply;
mod sent;
mod shadows;
mod stored_to;
mod streams;
mod survey;
mod timeline;
mod words;

pub use compare::Counts;
pub use debugger::{Debugger, Order};
pub use divergence::{Divergence, Ending, Reason, Stood};
pub use driver::{Driver, Setup};
pub use files::Files;
pub use first_image::FirstImage;
pub use live::{Asked, Message, What};
pub use loaded::hash_of;
pub use network::{Client, Network};
pub use real::RealFiles;
pub use shadows::Shadows;
pub use streams::{NotShown, Output, Shown};
pub use survey::{Refusal, Survey};
pub use timeline::{Processors, Stimuli, Times};
