//! Predicts how long a recorded program takes elsewhere: makes a fresh file system with the memory
//! and the speed that are asked for, lets a replay (or the program itself) run there in a process of
//! its own, and measures it.
//!
//! A run goes so: [`ground`] lays out the file system, [`group`] holds the run's memory and speed,
//! [`volume`] slows a file system down where the kernel cannot; [`run`] starts the run, lets it build
//! its files, sets the limits, and measures the rest.

pub mod configuration;
pub mod ground;
pub mod group;
mod measured;
mod pinned;
pub mod run;
pub mod volume;

pub use configuration::{Configuration, Limits, Place};
pub use measured::{Change, Measured};
pub use run::Job;

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine or user cannot make the configuration; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// Something failed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    fn of(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::Failed(format!("{what}: {error}"))
    }
}
