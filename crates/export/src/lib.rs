//! Encoders for formats of other tools. The callers decide on the content.

pub mod fio;
pub mod perfetto;
