//! Where the trace goes, and how it is written.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use recorder::Sink;
use trace::{Compress, WriterOptions};

use super::args::{Args, Compression};
use super::written::Written;
use crate::failure::Failure;
use crate::output::{self, Pending};

/// Destination of the trace.
pub struct Output {
    /// Takes its bytes.
    pub sink: Sink,
    /// Device of the file, 0 if it is none.
    pub device: u64,
    /// True if nothing else may be written to standard output.
    pub is_stdout: bool,
    /// The file, until it is final.
    pub pending: Pending,
    /// The file, if it has a name.
    pub written: Option<Written>,
}

/// Returns its name: it is named after the program, unless options say otherwise.
pub fn path(args: &Args, program: &OsStr) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let name = Path::new(program).file_name().unwrap_or(program);
        PathBuf::from(name).with_added_extension("rnt")
    })
}

/// Creates it.
pub fn create(args: &Args, program: &OsStr) -> Result<Output, Failure> {
    let path = path(args, program);
    let created = if args.force {
        output::create(&path, true, &[])
    } else {
        output::create_for_recording(&path)
    };
    let (file, pending) = created.map_err(Failure::Recorder)?;
    if path.as_os_str() == "-" {
        let sink = Sink::Stream(Box::new(file));
        return Ok(Output { sink, device: 0, is_stdout: true, pending, written: None });
    }
    let device = file.metadata().map_or(0, |meta| meta.dev());
    let is_stdout = is_standard_output(&file);
    let written = Written::new(&file);
    Ok(Output { sink: Sink::File(file), device, is_stdout, pending, written })
}

/// Returns true if a named file is our standard output, as /dev/stdout is. Devices do not count:
/// output to them does not mix with the trace.
fn is_standard_output(file: &File) -> bool {
    let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let (Ok(found), Ok(stdout)) = (file.metadata(), stdout.and_then(|file| file.metadata())) else {
        return false;
    };
    let mixes = found.is_file() || found.file_type().is_fifo();
    mixes && (found.dev(), found.ino()) == (stdout.dev(), stdout.ino())
}

/// How it is written.
pub fn writer_options(args: &Args) -> WriterOptions {
    WriterOptions { compress: compress(args.compress), ..WriterOptions::default() }
}

fn compress(choice: Compression) -> Compress {
    match choice {
        Compression::Auto => Compress::Adaptive,
        Compression::Zstd(level) => Compress::Zstd(level),
        Compression::Lz4 => Compress::Lz4,
        Compression::None => Compress::None,
    }
}
