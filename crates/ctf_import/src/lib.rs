//! CTF 1.8 traces, such as LTTng and babeltrace2 write them, as recordings.
//!
//! What is read is hostile: types, windows, streams, threads and values have limits, and what makes no
//! sense ends a stream with the byte at which it stands.

mod error;
mod import;
mod metadata;
mod packets;
mod spelling;
mod stream;
mod tokens;
mod types;
mod values;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use trace::WriterOptions;

pub use error::Wrong;
pub use import::Imported;

/// Name of the file with the metadata.
pub const METADATA: &str = ctf_export::METADATA;
/// Bytes of metadata.
const METADATA_BYTES_MAX: u64 = 64 << 20;
/// Streams of a trace.
const STREAMS_MAX: usize = 1 << 10;
/// Folders that are looked through for a trace, and how deep.
const FOLDERS_MAX: usize = 1 << 12;
const DEEP: usize = 6;

/// Finds the trace in a directory: there, or in the only directory below that has one.
pub fn find(directory: &Path) -> Result<PathBuf, Wrong> {
    let mut found = Vec::new();
    let mut waiting = vec![(directory.to_path_buf(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = waiting.pop() {
        seen += 1;
        if fs::symlink_metadata(folder.join(METADATA)).is_ok_and(|meta| meta.is_file()) {
            found.push(folder);
            continue;
        }
        if depth >= DEEP || seen >= FOLDERS_MAX {
            continue;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort();
    match found.len() {
        0 => Err(Wrong::Directory(format!("there is no CTF trace: no file {METADATA}"))),
        1 => Ok(found.remove(0)),
        count => {
            let names: Vec<String> =
                found.iter().take(8).map(|path| path.display().to_string()).collect();
            Err(Wrong::Directory(format!(
                "it has {count} CTF traces, name one: {}",
                names.join(", ")
            )))
        }
    }
}

/// Reads the trace in a directory, and writes it as a recording, which `sink` opens.
pub fn import(
    directory: &Path,
    sink: impl FnOnce() -> io::Result<Box<dyn Write + Send>>,
    options: WriterOptions,
    version: &str,
) -> Result<Imported, Wrong> {
    let read = |path: &Path, error| Wrong::Read(path.display().to_string(), error);
    let path = directory.join(METADATA);
    let mut bytes = Vec::new();
    let file = File::open(&path).map_err(|error| read(&path, error))?;
    let taken = file.take(METADATA_BYTES_MAX + 1).read_to_end(&mut bytes);
    taken.map_err(|error| read(&path, error))?;
    if bytes.len() as u64 > METADATA_BYTES_MAX {
        return Err(Wrong::Directory("the metadata are too long".into()));
    }
    let metadata = metadata::parse(&packets::unpacked(&bytes)?)?;
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| read(directory, error))? {
        let entry = entry.map_err(|error| read(directory, error))?;
        // Other than files, and what is hidden, are no streams.
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let name = entry.file_name();
        if is_file && name != METADATA && !name.to_string_lossy().starts_with('.') {
            names.push(entry.path());
        }
    }
    names.sort();
    if names.len() > STREAMS_MAX {
        return Err(Wrong::Directory(format!("more than {STREAMS_MAX} streams")));
    }
    let mut streams = Vec::new();
    for (place, path) in names.iter().enumerate() {
        let file = File::open(path).map_err(|error| read(path, error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        streams.push(stream::Stream::open(name.unwrap_or_default(), file, place as u32)?);
    }
    import::import(&metadata, streams, sink, options, version)
}
