//! Events written as strace writes them.

mod call;
mod lines;
#[cfg(test)]
mod tests;
mod value;

pub use lines::Lines;
