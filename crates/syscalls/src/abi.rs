//! Numbers and names of the kernel's interface that code outside the table needs. Nothing else in
//! the workspace defines them.

pub mod calls;
pub mod errno;
pub mod files;
pub mod images;
pub mod ipc;
pub mod memory;
pub mod rings;
pub mod signals;
pub mod softirqs;
pub mod states;
pub mod tasks;
