//! CTF 1.8, with the names of LTTng.

use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;

use ctf_export::Exporter;
use render::amounts::counted;

use super::job::{Job, Written};
use crate::failure::Failure;

/// Writes streams and metadata into a directory.
pub fn export(job: &Job<'_>) -> Result<Written, Failure> {
    let directory = job.to;
    let shown = directory.display();
    if directory.as_os_str() == "-" {
        return Err(Failure::Usage("a CTF trace is a directory: name one".into()));
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && job.force => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::Failed(format!(
                "{shown} exists; give another name with --output, or --force to write into it"
            )));
        }
        made => made.map_err(|error| Failure::Failed(format!("cannot create {shown}: {error}")))?,
    }
    let mut create = |name: &str| -> Result<File, Failure> { job.create(&directory.join(name)) };
    let mut exporter = Exporter::new(job.trace, &mut create);
    let unread =
        job.each(&mut |moment, wanted, contents| exporter.event(moment, wanted, contents))?;
    let counts = exporter.finish()?;
    let mut left_out = vec![
        "the bytes of buffers: the arguments of calls are addresses, but for paths".to_string(),
    ];
    if counts.others > 0 {
        left_out.push(format!(
            "{}, neither calls nor the kernel's",
            counted(counts.others, "event", "events")
        ));
    }
    if counts.without_cpu > 0 {
        left_out.push(format!(
            "the CPU of {}, which the trace does not have: they are in the first stream",
            counted(counts.without_cpu, "call", "calls")
        ));
    }
    Ok(Written { calls: counts.calls, left_out, unread })
}
