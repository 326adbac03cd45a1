//! fio: accesses to file data, as logs that fio replays.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use fio_logs::{Counts, Exporter, FILES, JOBS_MAX};
use render::amounts::counted;

use super::job::{Job, Written};
use crate::failure::Failure;

/// Writes logs, job files and a list of files into a directory.
pub fn export(job: &Job<'_>) -> Result<Written, Failure> {
    let directory = job.to;
    make(directory, job.force)?;
    make(&directory.join(FILES), true)?;
    let mut create = |name: &str| -> Result<File, Failure> { job.create(&directory.join(name)) };
    let mut exporter = Exporter::new(&mut create);
    let (_, unread) =
        job.each_with_files(&mut |moment, wanted, _| exporter.event(moment, wanted))?;
    let counts = exporter.finish()?;
    Ok(Written { calls: counts.calls, left_out: left_out(&counts), unread })
}

/// Creates a private directory. Refuses `-`, and existing directories unless `may_exist`.
fn make(path: &Path, may_exist: bool) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return Err(Failure::Usage("fio's files go into a directory: name one".into()));
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && may_exist => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::Failed(format!(
            "{} exists; give another name with --output, or --force to write into it",
            path.display()
        ))),
        made => made
            .map_err(|error| Failure::Failed(format!("cannot create {}: {error}", path.display()))),
    }
}

/// Describes what fio cannot be given.
fn left_out(counts: &Counts) -> Vec<String> {
    let mut left_out = vec![
        format!(
            "{} that move no data of files, which fio has no words for",
            counted(counts.other_calls, "call", "calls")
        ),
        "the bytes that were written, renames, lengths and deletions of files".to_string(),
    ];
    if counts.too_many > 0 {
        left_out.push(format!(
            "{} to files beyond the limit",
            counted(counts.too_many, "access", "accesses")
        ));
    }
    if counts.shared_logs > 0 {
        left_out.push(format!(
            "that {} beside others: fio is given {JOBS_MAX} jobs",
            counted(counts.shared_logs, "thread ran", "threads ran")
        ));
    }
    left_out
}
