//! Events written as strace writes them.

mod call;
mod lines;
mod value;

pub use lines::Lines;
