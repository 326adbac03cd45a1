//! Events and decoded values as text, in the notation of strace, and as JSON; sizes, times and the
//! origin of a recording in words.

pub mod amounts;
pub mod escape;
pub mod json;
pub mod lines;
pub mod objects;
pub mod origin;
pub mod text;
