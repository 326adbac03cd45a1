//! Whether files that a program loads are what they were when it was recorded.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use model::loaded::Loaded;
use xxhash_rust::xxh3::Xxh3;

/// Returns the hash of a file's bytes.
pub fn hash_of(mut file: impl Read) -> io::Result<Vec<u8>> {
    let mut hasher = Xxh3::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hasher.digest128().to_le_bytes().to_vec()),
            Ok(n) => hasher.update(&piece[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns what is different about the file that has its path now.
pub(crate) fn difference(loaded: &Loaded) -> Option<String> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&loaded.path));
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) => return Some(error.to_string()),
    };
    if loaded.hash.is_empty() {
        return None;
    }
    if !metadata.is_file() {
        return Some("it is no regular file any more".into());
    }
    if metadata.size() != loaded.size {
        return Some(format!("it had {} bytes and has {}", loaded.size, metadata.size()));
    }
    // The path may be any: to open it, or to read more than was hashed, might wait, or take from others.
    let mut open = OpenOptions::new();
    open.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let hashed = match loaded.size {
        0 => hash_of(io::empty()),
        size => open.open(path).and_then(|file| hash_of(file.take(size))),
    };
    match hashed {
        Ok(hash) if hash == loaded.hash => None,
        Ok(_) => Some("it has other bytes".into()),
        Err(error) => Some(error.to_string()),
    }
}
