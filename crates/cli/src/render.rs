//! Decoded values as text and as JSON.

pub mod escape;
pub mod json;
pub mod text;
