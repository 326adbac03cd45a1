//! Files that are exported, imported, swapped, stripped and damaged.

mod copies;
mod hostile;
mod round_trip;
mod sample;
