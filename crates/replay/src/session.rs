//! Everything that happens in the jail: building the initial files, replay, and final comparison.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Instant;

use file_tree::Tree;
use model::unseen::NotSeen;
use serde::{Deserialize, Serialize};
use trace::Trace;

use crate::compare::{self, FinalState, Renames, Scrutiny};
use crate::image::{self, Built, ImageError, Inode};
use crate::jail::Proc;
use crate::log::Wanted;
use crate::options::Options;
use crate::outcome::{Outcome, Stopped};
use crate::replayer::replay;
use crate::space::Space;

/// Source of the initial files.
#[derive(Debug)]
pub enum Image {
    /// Rebuild them from the trace.
    Trace,
    /// Copy them from this directory.
    Copy(OwnedFd),
    /// Use the files that are already there.
    None,
}

/// A job to run in a jail.
pub struct Session<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// Called with the number of events read: by the image's pass, then by the replay's.
    pub progress: &'a dyn Fn(u64),
    /// Source of the initial files.
    pub image: Image,
    /// Absolute paths in the root that are on their own file systems.
    pub places: &'a [Vec<u8>],
    /// Options of the replay.
    pub options: Options,
    /// Pipes to announce the finished image, with a text of the possible causes of mismatches
    /// (4-byte length, then the text), and to wait for the go-ahead. Another byte says that all calls were made.
    pub ready: Option<(OwnedFd, OwnedFd)>,
    /// Most bytes to use on each file system.
    pub max_size: Option<u64>,
    /// Bytes of available memory, from [`crate::space::available_memory`].
    pub memory: u64,
    /// Compare the final files with the recorded ones.
    pub compare: bool,
    /// The jail's processes.
    pub proc: Option<Proc>,
    /// Log of single calls.
    pub log: Option<Wanted<'a>>,
}

/// Results of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Result of the replay.
    pub outcome: Outcome,
    /// Result of the comparison, if there was one.
    pub final_state: Option<FinalState>,
    /// What the image could not reproduce, and how often.
    pub image_left_out: BTreeMap<String, u64>,
    /// Bytes of the image that the trace does not hold.
    pub image_unknown_bytes: u64,
    /// Data that is missing in the trace although it has every call.
    pub not_seen: NotSeen,
    /// Bytes that the files take on disk in the end.
    pub allocated_bytes: u64,
    /// Seconds needed to build the image.
    pub image_s: f64,
    /// Seconds needed to compare the final files.
    pub comparison_s: f64,
    /// Total seconds, including the setup of the jail; filled in by the caller.
    pub elapsed_s: f64,
}

impl Findings {
    /// Serializes the results, to be sent out of the jail.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns true if every call and the final state are as recorded, as far as checked.
    pub fn agrees(&self) -> bool {
        self.outcome.agrees() && self.final_state.as_ref().is_none_or(FinalState::is_equal)
    }

    /// Returns the seconds outside of the parts: setting up the jail, cleaning up.
    pub fn rest_s(&self) -> f64 {
        let parts = self.image_s + self.outcome.calls_s + self.comparison_s;
        (self.elapsed_s - parts).max(0.0)
    }

    /// Deserializes results that came out of the jail.
    pub fn from_bytes(bytes: &[u8]) -> Result<Findings, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}

impl Session<'_> {
    /// Runs the session. The caller is in the jail, and ends it with everything in it afterwards.
    pub fn run(self) -> Findings {
        let mut findings = Findings::default();
        let failed = |what: String| Some(Stopped::Failed(what));
        let began = Instant::now();
        let built = self.space().map_err(|error| error.to_string()).and_then(|space| {
            let built = self.build(&space).map_err(|error| format!("the image: {error}"))?;
            Ok((space, built))
        });
        let (space, mut built) = match built {
            Ok(built) => built,
            Err(error) => {
                findings.outcome.stopped = failed(error);
                return findings;
            }
        };
        findings.image_s = began.elapsed().as_secs_f64();
        let left_out = built.left_out.iter().map(|(what, count)| ((*what).to_string(), *count));
        findings.image_left_out = left_out.collect();
        findings.image_unknown_bytes = built.unknown_bytes;
        findings.not_seen = std::mem::take(&mut built.not_seen);
        let dangers = findings.not_seen.dangers().unwrap_or_default();
        let mut told = None;
        if let Some((tell, hear)) = self.ready {
            match hand_shake(tell.into(), hear.into(), &dangers) {
                Ok(tell) => told = Some(tell),
                Err(error) => {
                    findings.outcome.stopped = failed(format!("the command is gone: {error}"));
                    return findings;
                }
            }
        }
        let privileged = self.options.privileged;
        let proc = self.proc.filter(|_| !space.answers_from_outside());
        let made_up = std::mem::take(&mut built.made_up);
        findings.outcome =
            replay(self.trace, self.options, space, made_up, self.progress, proc, self.log);
        // Nobody has to listen.
        let _ = told.map(|mut told| told.write_all(b"."));
        let began = Instant::now();
        if self.compare && findings.outcome.stopped.is_none() {
            match final_state(self.trace, &built, privileged) {
                Ok(mut state) => {
                    state.excuse(|path| findings.outcome.doubt_of(path));
                    findings.final_state = Some(state);
                }
                Err(error) => findings.outcome.stopped = failed(error),
            }
        }
        if let Ok(tree) = Tree::open("/".as_ref()) {
            findings.allocated_bytes = tree.allocated_bytes();
        }
        findings.comparison_s = began.elapsed().as_secs_f64();
        findings
    }

    fn space(&self) -> io::Result<Arc<Space>> {
        let open = |path: &[u8]| File::open(OsStr::from_bytes(path)).map(OwnedFd::from);
        let places = std::iter::once(&b"/"[..]).chain(self.places.iter().map(|place| &place[..]));
        let directories = places.map(open).collect::<io::Result<_>>()?;
        Ok(Arc::new(Space::new(directories, self.max_size)?.in_memory(self.memory)))
    }

    /// Returns the root and all mount points in it.
    fn own(&self) -> Result<Vec<Inode>, ImageError> {
        let inode = |path: &[u8]| {
            let stat = rustix::fs::stat(path);
            let stat = stat
                .map_err(|error| ImageError::Write { path: path.to_vec(), source: error.into() })?;
            Ok((stat.st_dev, stat.st_ino))
        };
        let places = self.places.iter().map(|place| &place[..]);
        std::iter::once(&b"/"[..]).chain(places).map(inode).collect()
    }

    fn build(&self, space: &Arc<Space>) -> Result<Built, ImageError> {
        let root =
            File::open("/").map_err(|source| ImageError::Write { path: b"/".to_vec(), source })?;
        match &self.image {
            Image::Trace => {
                let (fill, progress) = (&self.options.fill, self.progress);
                image::build(self.trace, root.as_fd(), self.places, space, fill, progress)
            }
            Image::Copy(from) => {
                let not_seen = NotSeen::of(self.trace)?;
                let built = image::copy(from.as_fd(), root.as_fd(), &self.own()?, space)?;
                Ok(Built { not_seen, ..built })
            }
            Image::None => Ok(Built { not_seen: NotSeen::of(self.trace)?, ..Built::default() }),
        }
    }
}

/// Tells that the image is there, and waits for the go-ahead. Returns where to tell more.
fn hand_shake(mut tell: File, mut hear: File, dangers: &str) -> io::Result<File> {
    let len = u32::try_from(dangers.len()).unwrap_or(0).to_le_bytes();
    tell.write_all(&[&len, dangers.as_bytes()].concat())?;
    hear.read_exact(&mut [0])?;
    Ok(tell)
}

/// Compares the final files with those of the recording.
fn final_state(trace: &Trace, built: &Built, privileged: bool) -> Result<FinalState, String> {
    let tree = Tree::open("/".as_ref()).map_err(|error| error.to_string())?;
    let scrutiny = Scrutiny { owners: privileged, privileged: false };
    let unseen = |path: &[u8], _| {
        let ranges = built.unknown.of(path);
        ranges.map(|ranges| ranges.iter().collect()).unwrap_or_default()
    };
    compare::manifest_and_tree(trace, &tree, scrutiny, &Renames::default(), &unseen)
        .map_err(|error| error.to_string())
}
