//! A directory shown once more by FUSE, as slow as it is asked to be: a disk with limits, or a volume
//! that is reached over a network.
//!
//! The kernel caches pages, names and attributes as a client of a network file system does; what it asks
//! for besides takes its time, by [`speed`]. [`nodes`] knows the files, [`serve`] answers.

mod answers;
mod nodes;
mod serve;
mod speed;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::Error;
use crate::configuration::Limits;
use serve::Files;
use speed::Speed;

/// Requests that are dealt with at a time.
const THREADS: usize = 16;
/// Attempts to unmount it while processes that were killed are just ending.
const TRIES: u32 = 200;
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// A mounted volume; dropping it unmounts it.
pub struct Volume {
    session: Option<BackgroundSession>,
    at: PathBuf,
    speed: Arc<Speed>,
}

impl Volume {
    /// Shows the directory `from` at `at`, as fast as it can until the limits begin.
    pub fn mount(from: &Path, at: &Path, limits: &Limits) -> Result<Volume, Error> {
        raise_descriptors();
        let top = File::open(from).map_err(Error::of(from.display()))?;
        let speed = Arc::new(Speed::new(*limits));
        let files = Files::new(top.into(), Arc::clone(&speed));
        let files = files.map_err(Error::of(from.display()))?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("reenact".into()),
            MountOption::Subtype("reenact".into()),
            MountOption::DefaultPermissions,
            MountOption::NoDev,
        ];
        config.acl = SessionACL::All;
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let session = Session::new(files, at, &config).and_then(Session::spawn);
        let session = session.map_err(|error| {
            Error::Refused(format!(
                "a FUSE file system cannot be mounted ({error}): this limit needs /dev/fuse and root"
            ))
        })?;
        Ok(Volume { session: Some(session), at: at.to_path_buf(), speed })
    }

    /// From now on the limits hold, or hold no more.
    pub fn limit(&self, holds: bool) {
        self.speed.hold(holds);
    }

    /// Takes it out of the tree in any case: what is removed below must not be looked for through it.
    fn unmount(&self) {
        for _ in 0..TRIES {
            match unmount(&self.at, UnmountFlags::empty()) {
                Err(rustix::io::Errno::BUSY) => std::thread::sleep(TRY_AGAIN),
                Ok(()) => return,
                Err(_) => break,
            }
        }
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Who was killed in the middle of a request ends when that is answered.
        self.limit(false);
        self.unmount();
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
    }
}

/// Every file that the kernel knows has a descriptor here.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open");
    let most = most.ok().and_then(|text| text.trim().parse().ok());
    for maximum in [most.or(limit.maximum), limit.maximum] {
        let raised = rustix::process::Rlimit { current: maximum, maximum };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return;
        }
    }
}
