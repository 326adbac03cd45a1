//! Output of decoded values as text and as JSON.

pub mod escape;
pub mod json;
pub mod text;
