//! Mounts. A file system in memory is replayed as a directory of its own; other calls are made with
//! the paths that their files have without mounts (`model::places`); files in mounts of other kinds
//! are not available.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use model::places;
use syscalls::shape::ArgKind;
use trace::event::{Call, Event};

use super::Planner;
use crate::batch::What;
use crate::order::Index;
use crate::outcome::Stopped;
use crate::treatment::Said;

impl Planner<'_> {
    /// Returns what a call concerns in a mount that is not followed.
    pub(super) fn lies_elsewhere(
        &self,
        thread: u32,
        said: &Said,
        call: &Call,
        paths: &[(u8, Vec<u8>)],
    ) -> Option<String> {
        if !self.world.has_views() {
            return None;
        }
        let by_path = paths.iter().find_map(|(_, path)| places::elsewhere(path));
        by_path.or_else(|| {
            let table = self.world.descriptors(thread)?;
            let mut fds = said.args.iter().zip(call.args);
            fds.find_map(|(arg, fd)| match arg.kind {
                ArgKind::Fd => places::elsewhere(&table.get(fd as i32)?.description.path),
                _ => None,
            })
        })
    }

    /// Has a task create the directory that stands for what it mounted.
    pub(super) fn make_fresh(
        &mut self,
        index: Index,
        event: &Event,
        exit: u64,
        path: Vec<u8>,
        mode: u32,
    ) {
        if let Err(error) = make_room() {
            let what = format!("no directory for what is mounted: {error}");
            self.shared.stop(Stopped::Failed(what));
            return;
        }
        self.open_action(index, event.tsc, exit).what = What::Directory { path: path.into(), mode };
    }
}

/// Creates the directory in which tasks create theirs.
fn make_room() -> io::Result<()> {
    let all = Path::new(std::ffi::OsStr::from_bytes(places::FRESH));
    let Some(above) = all.parent().filter(|_| !all.exists()) else { return Ok(()) };
    fs::create_dir_all(all)?;
    fs::set_permissions(above, PermissionsExt::from_mode(0o755))?;
    fs::set_permissions(all, PermissionsExt::from_mode(0o1777))
}
