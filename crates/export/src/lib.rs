//! Formats of other tools, as bytes. What goes into them is decided elsewhere.

pub mod fio;
pub mod perfetto;
