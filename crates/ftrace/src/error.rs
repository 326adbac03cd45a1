//! Why events of the kernel cannot be had.

use std::io;
use std::path::{Path, PathBuf};

/// Why events of the kernel cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no tracefs.
    #[error(
        "no kernel events: tracefs is not mounted here; as root, \
         `mount -t tracefs nodev /sys/kernel/tracing` helps, unless the kernel has none"
    )]
    NoTracefs,
    /// We may not use it.
    #[error(
        "no kernel events: {} cannot be written ({source}); they need root, or write access to \
         tracefs: as root, `mount -o remount,uid=USER /sys/kernel/tracing`; or CAP_PERFMON where tracefs \
         can be read: `mount -o remount,gid=GROUP,mode=750 /sys/kernel/tracing`. A kernel in lockdown gives them to nobody", path.display()
    )]
    NotAllowed {
        /// What was refused.
        path: PathBuf,
        /// How.
        source: io::Error,
    },
    /// The kernel has no clock that fits that of recorded calls.
    #[error(
        "no kernel events: the kernel's trace clock cannot be set to the time stamp counter, by \
         which calls are timed ({source})"
    )]
    NoClock {
        /// How it was refused.
        source: io::Error,
    },
    /// Each event of each CPU is an open file.
    #[error(
        "no kernel events: tracefs can only be read, and by perf_event_open each event of each CPU is an \
         open file, of which there may be no more; fewer events, or `ulimit -n` with a greater number, help"
    )]
    TooManyFiles,
    /// Something else failed.
    #[error("no kernel events: {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A file of tracefs has a content that we do not understand.
    #[error("no kernel events: {}: {why}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No such class or event.
    #[error("no kernel events: {0}")]
    Unknown(String),
}

impl Error {
    /// An error of a file of tracefs.
    pub(crate) fn of(path: &Path, source: io::Error) -> Error {
        let path = path.to_path_buf();
        if source.raw_os_error() == Some(libc::EMFILE) {
            return Error::TooManyFiles;
        }
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::NotAllowed { path, source }
            }
            _ => Error::Io { path, source },
        }
    }
}
