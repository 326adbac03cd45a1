//! `reenact image`: rebuilds the files that existed before the recording.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use render::amounts::{counted, show_size};
use replay::Fill;
use replay::image::{self, Built};
use replay::jail::Directory;
use replay::space::Space;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::replay::args::filler;
use crate::{source, terminal, units};

/// Rebuild the files that were there before the recording, from the trace alone.
///
/// Directories, files with size, permissions and owner, links and extended attributes are made as
/// far as the program came to know them. Files hold what was read before it was overwritten; bytes
/// that no call read, such as those of programs and libraries, are filler. `reenact replay` makes
/// such an image by itself, and leaves filler out of the comparison; given this one by --image, it
/// takes all bytes for real.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact image sqlite3.rnt before
  reenact image sqlite3.rnt before --json | jq .unknown_bytes")]
pub struct Args {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// The directory that stands for `/`: it is made, or it is empty
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Build into a directory that is not empty
    #[arg(long)]
    overwrite: bool,

    /// Take no more than this of the file system, such as 10G [default: most of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    max_size: Option<u64>,

    /// What is put where no call read: `zeros`, `random` or `pattern:HEX`
    #[arg(long, value_name = "FILL", default_value = "zeros", value_parser = filler)]
    fill: Fill,

    /// Report what was built, as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let trace = source::open(&args.trace)?;
    source::warn_of(&args.trace, &trace);
    let root = directory(&args.directory, args.overwrite)?;
    let progress = Progress::new(&trace, 1);
    let fail = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!("{}: {error}", args.trace.display()))
    };
    let space = root.try_clone().and_then(|root| Space::new(vec![root.into()], args.max_size));
    let space = Arc::new(space.map_err(|error| fail(&error))?);
    let advance = |events| progress.advance(events);
    let built = image::build(&trace, root.as_fd(), &[], &space, &args.fill, &advance)
        .map_err(|error| fail(&error))?;
    drop(progress);
    source::warn_of_unknown_events(&args.trace, &trace);
    let mut out = io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", json(&built))?,
        false => {
            let text = text(&built, &args.directory);
            write!(out, "{}", terminal::fit(&text, terminal::width(), terminal::below))?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn directory(path: &Path, overwrite: bool) -> Result<File, Failure> {
    let fail = |error: io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let directory =
        Directory::open_or_make(path).map_err(|error| Failure::Failed(error.to_string()))?;
    if !overwrite && !directory.is_empty().map_err(fail)? {
        return Err(Failure::Failed(format!(
            "{}: the directory is not empty; name one that is, or a new one, or --overwrite",
            path.display()
        )));
    }
    Ok(directory.to_read().map_err(fail)?.into())
}

fn text(built: &Built, directory: &Path) -> String {
    let mut text = format!(
        "{}, {}, {}, {}: {} as they were, {} that no call read -> {}\n",
        counted(built.directories, "directory", "directories"),
        counted(built.files, "file", "files"),
        counted(built.links, "link", "links"),
        counted(built.special, "fifo or socket", "fifos and sockets"),
        show_size(built.seen_bytes),
        show_size(built.unknown_bytes),
        directory.display()
    );
    for (what, count) in &built.left_out {
        text.push_str(&format!("not as it was: {what} ({count})\n"));
    }
    if built.given_up > 0 {
        text.push_str(&format!(
            "changed in too many places to follow: {}\n",
            counted(built.given_up, "file", "files")
        ));
    }
    text
}

fn json(built: &Built) -> String {
    let left_out: Vec<String> =
        built.left_out.iter().map(|(what, count)| format!("\"{what}\":{count}")).collect();
    format!(
        "{{\"directories\":{},\"files\":{},\"links\":{},\"special\":{},\"seen_bytes\":{},\
         \"unknown_bytes\":{},\"given_up\":{},\"left_out\":{{{}}}}}",
        built.directories,
        built.files,
        built.links,
        built.special,
        built.seen_bytes,
        built.unknown_bytes,
        built.given_up,
        left_out.join(",")
    )
}
