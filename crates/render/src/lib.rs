//! Decoded values as text, in the notation of strace, and as JSON.

pub mod escape;
pub mod json;
pub mod text;
