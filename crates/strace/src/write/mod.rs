//! Prints events as strace does.

mod call;
mod lines;
#[cfg(test)]
mod tests;
mod value;

pub use lines::Lines;
