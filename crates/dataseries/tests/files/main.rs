//! Files that are exported, imported, byte-swapped, stripped and damaged.

mod copies;
mod hostile;
mod round_trip;
mod sample;
