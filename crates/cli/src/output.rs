//! Files that commands write: for their owner only, and never over what is there unless told to.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::failure::Failure;

/// Creates the file `path`, `-` for standard output. One that exists is replaced only with `force`,
/// and never when it is one of the `inputs`.
pub fn create(path: &Path, force: bool, inputs: &[&Path]) -> Result<File, Failure> {
    let fail =
        |error: io::Error| Failure::Failed(format!("cannot create {}: {error}", path.display()));
    if path.as_os_str() == "-" {
        return io::stdout().as_fd().try_clone_to_owned().map(File::from).map_err(fail);
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).create_new(true);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && force => {
            replace(path, inputs).map_err(fail)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::Failed(format!(
            "{} exists; give another name with --output, or --force to replace it",
            path.display()
        ))),
        opened => opened.map_err(fail),
    }
}

fn replace(path: &Path, inputs: &[&Path]) -> io::Result<File> {
    let file = OpenOptions::new().write(true).open(path)?;
    let found = file.metadata()?;
    for input in inputs {
        let same = input.metadata().is_ok_and(|input| {
            (input.dev(), input.ino(), input.file_type())
                == (found.dev(), found.ino(), found.file_type())
        });
        if same && found.is_file() {
            return Err(io::Error::other("it is the trace that is read"));
        }
    }
    if found.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_exists_is_replaced_only_when_told_to() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        create(&path, false, &[]).unwrap().write_all(b"first").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(create(&path, false, &[]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        create(&path, true, &[]).unwrap().write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_read_is_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("trace"), place.path().join("name"));
        std::fs::write(&path, b"trace").unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        assert!(create(&other, true, &[&path]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"trace");
    }
}
