//! Output files of commands: readable by their owner only, never replacing a file without `force`,
//! and removed if the command fails.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// An output file that is not final yet. If dropped without `keep`, it is removed, and the file it
/// was to replace is unchanged.
pub struct Pending {
    path: PathBuf,
    /// Where the file that it replaces is moved to, if that is kept.
    old: Option<PathBuf>,
    /// Where it was moved to.
    moved: Option<PathBuf>,
    state: State,
}

enum State {
    /// Nothing to do: the file is final, or is not a regular file of ours.
    Settled,
    /// A new file under the final name.
    New(TempPath),
    /// A temporary file next to the one that it will replace.
    Beside(TempPath),
}

/// Creates the file `path`, or uses standard output for `-`. An existing file is replaced only with
/// `force`, when the new one is kept, and never if it is one of the `inputs`.
pub fn create(path: &Path, force: bool, inputs: &[&Path]) -> Result<(File, Pending), String> {
    let fail = |error: io::Error| format!("cannot create {}: {error}", path.display());
    let pending = |state| Pending { path: path.to_path_buf(), old: None, moved: None, state };
    if path.as_os_str() == "-" {
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(fail)?;
        return Ok((File::from(stdout), pending(State::Settled)));
    }
    let found = path.metadata().ok();
    if found.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(format!("{} is a directory; name a file in it", path.display()));
    }
    // Nothing is lost by writing to /dev/null.
    let force = force || found.is_some_and(|found| found.file_type().is_char_device());
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).create_new(true);
    let (file, state) = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && force => {
            replace(path, inputs).map_err(fail)?
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(format!(
                "{} exists; give another name with --output, or --force to replace it",
                path.display()
            ));
        }
        opened => {
            let file = opened.map_err(fail)?;
            (file, State::New(TempPath::try_from_path(path).map_err(fail)?))
        }
    };
    Ok((file, pending(state)))
}

/// Creates the file `path` as [`create`] does without `force`. But a recording of ours that is there is
/// moved to its name with `.old`, in place of an earlier one, when the new file is kept.
pub fn create_for_recording(path: &Path) -> Result<(File, Pending), String> {
    let old = path.with_added_extension("old");
    if is_own_recording(path) && (is_own_recording(&old) || old.symlink_metadata().is_err()) {
        let beside = beside(path)
            .ok_or_else(|| format!("cannot create a file in {}", directory(path).display()))?;
        let (file, state) = beside;
        return Ok((
            file,
            Pending { path: path.to_path_buf(), old: Some(old), moved: None, state },
        ));
    }
    create(path, false, &[])
}

/// Returns true for a regular file of ours that begins as recordings do.
fn is_own_recording(path: &Path) -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    let is_own = |found: &std::fs::Metadata| found.is_file() && found.uid() == own;
    if !path.symlink_metadata().is_ok_and(|found| is_own(&found)) || is_mounted(path) {
        return false;
    }
    let mut begin = [0; trace::format::FILE_MAGIC.len()];
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path);
    file.is_ok_and(|mut file| {
        file.read_exact(&mut begin).is_ok() && begin == trace::format::FILE_MAGIC
    })
}

impl Pending {
    /// Makes the file final, under its name.
    pub fn keep(&mut self) -> Result<(), String> {
        if let Some(old) = self.old.take() {
            match std::fs::rename(&self.path, &old) {
                Ok(()) => self.moved = Some(old),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let (path, old) = (self.path.display(), old.display());
                    return Err(format!("cannot move {path} to {old}: {error}"));
                }
            }
        }
        match std::mem::replace(&mut self.state, State::Settled) {
            State::Settled => {}
            State::New(file) => leave(file),
            State::Beside(file) => {
                if let Err(error) = file.persist(&self.path) {
                    self.state = State::Beside(error.path);
                    return Err(format!("cannot replace {}: {}", self.path.display(), error.error));
                }
            }
        }
        Ok(())
    }

    /// Where the recording is now that had the name before, if there was one.
    pub fn moved(&self) -> Option<&Path> {
        self.moved.as_deref()
    }

    /// Makes the file final under its temporary name.
    pub fn keep_beside(&mut self) {
        if let State::Beside(file) = std::mem::replace(&mut self.state, State::Settled) {
            self.path = file.to_path_buf();
            leave(file);
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn leave(mut file: TempPath) {
    file.disable_cleanup(true);
}

fn replace(path: &Path, inputs: &[&Path]) -> io::Result<(File, State)> {
    if let Ok(found) = path.metadata() {
        let id = |meta: &std::fs::Metadata| (meta.dev(), meta.ino(), meta.file_type());
        let same = |input: &&Path| input.metadata().is_ok_and(|input| id(&input) == id(&found));
        if found.is_file() && inputs.iter().any(same) {
            return Err(io::Error::other("it is the trace that is read"));
        }
    }
    if may_be_replaced(path)
        && let Some(beside) = beside(path)
    {
        return Ok(beside);
    }
    Ok((open_as_it_is(path)?, State::Settled))
}

/// Opens an existing file that cannot be replaced, to overwrite it. Another user must not be able
/// to read the output: the file must belong to us or root, or be reached by a /proc or /dev link.
fn open_as_it_is(path: &Path) -> io::Result<File> {
    let is_descriptor = path.symlink_metadata().is_ok_and(|found| found.is_symlink())
        && is_made_by_the_system(path);
    // Check before opening: opening a pipe would block until it has a reader.
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    let found = place.metadata()?;
    let kind = found.file_type();
    // SAFETY: geteuid has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    let refused = match () {
        () if is_descriptor => None,
        () if kind.is_fifo() => Some("is a named pipe"),
        () if kind.is_socket() => Some("is a socket"),
        () if kind.is_block_device() => Some("is a block device"),
        () if ![0, own].contains(&found.uid()) => Some("belongs to another user"),
        () => None,
    };
    if let Some(what) = refused {
        return Err(io::Error::other(format!(
            "it {what}, and nothing is written into what is there; name a new file, or remove it"
        )));
    }
    // Open the checked file, even if its path leads to another one now.
    let same = format!("/proc/self/fd/{}", place.as_raw_fd());
    let file = OpenOptions::new().write(true).custom_flags(libc::O_NOCTTY).open(same)?;
    if kind.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// Returns true if the name can be moved to a new file. Devices, pipes and mounted files cannot.
fn may_be_replaced(path: &Path) -> bool {
    let is_file = match path.metadata() {
        Ok(found) => found.is_file(),
        // A dangling link.
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    is_file && !(is_link && is_made_by_the_system(path)) && !is_mounted(path)
}

/// Returns true for links in /dev or /proc, such as /dev/stdout.
fn is_made_by_the_system(link: &Path) -> bool {
    let place = directory(link).canonicalize().unwrap_or_default();
    place == Path::new("/dev") || place.starts_with("/proc")
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_mounted(path: &Path) -> bool {
    let Ok(name) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    let root = libc::STATX_ATTR_MOUNT_ROOT as u64;
    // SAFETY: `name` is NUL-terminated, and an all-zero statx is a valid value to write to.
    unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        let result = libc::statx(libc::AT_FDCWD, name.as_ptr(), flags, 0, &raw mut found);
        result == 0 && found.stx_attributes & root != 0
    }
}

/// Creates a temporary file in the directory of `path`, if possible.
fn beside(path: &Path) -> Option<(File, State)> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(".");
    let made = tempfile::Builder::new().prefix(&name).tempfile_in(directory(path)).ok()?;
    let (file, at) = made.into_parts();
    Some((file, State::Beside(at)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Writes the file and keeps it.
    fn write(path: &Path, force: bool, bytes: &[u8]) -> Result<(), String> {
        let (mut file, mut pending) = create(path, force, &[])?;
        file.write_all(bytes).unwrap();
        pending.keep()
    }

    fn names(place: &Path) -> Vec<String> {
        let entries = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn what_exists_is_replaced_only_when_told_to() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        write(&path, false, b"first").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(create(&path, false, &[]).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write(&path, true, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(names(place.path()), ["out"]);
    }

    #[test]
    fn the_last_recording_is_moved_aside() {
        let place = tempfile::tempdir().unwrap();
        let (path, old) = (place.path().join("a.rnt"), place.path().join("a.rnt.old"));
        let record = |bytes: &[u8]| -> Result<(), String> {
            let (mut file, mut pending) = create_for_recording(&path)?;
            file.write_all(&[&trace::format::FILE_MAGIC, bytes].concat()).unwrap();
            let kept = pending.keep();
            assert_eq!(pending.moved().is_some(), kept.is_ok() && old.exists());
            kept
        };
        let read = |path: &Path| fs::read(path).unwrap().split_off(trace::format::FILE_MAGIC.len());
        record(b"1").unwrap();
        assert!(!old.exists());
        for (new, last) in [(b"2", b"1"), (b"3", b"2")] {
            record(new).unwrap();
            assert_eq!((read(&path), read(&old)), (new.to_vec(), last.to_vec()));
        }
        // A recording that does not begin leaves both as they are.
        drop(create_for_recording(&path).unwrap());
        assert_eq!((read(&path), read(&old)), (b"3".to_vec(), b"2".to_vec()));
        assert_eq!(names(place.path()).len(), 2);
        // What is no recording is not moved, and not replaced.
        fs::write(&old, b"precious").unwrap();
        assert!(record(b"4").is_err_and(|said| said.contains("--force")));
        fs::remove_file(&old).unwrap();
        fs::write(&path, b"precious").unwrap();
        assert!(record(b"4").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn what_is_not_kept_leaves_no_trace() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        drop(create(&path, false, &[]).unwrap());
        assert!(!path.exists());
        write(&path, false, b"first").unwrap();
        let (mut file, pending) = create(&path, true, &[]).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        drop(pending);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(names(place.path()), ["out"]);
    }

    #[test]
    fn a_link_is_replaced_and_not_what_it_leads_to() {
        let place = tempfile::tempdir().unwrap();
        let (path, link) = (place.path().join("out"), place.path().join("link"));
        fs::write(&path, b"precious").unwrap();
        for target in ["out", "nowhere"] {
            let _ = fs::remove_file(&link);
            symlink(target, &link).unwrap();
            write(&link, true, b"new").unwrap();
            assert!(link.symlink_metadata().unwrap().is_file());
            assert_eq!(fs::read(&path).unwrap(), b"precious");
        }
        // A /proc link is not replaced: its descriptor is written to.
        let file = File::options().write(true).open(&path).unwrap();
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        write(Path::new(&descriptor), true, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn what_is_no_file_is_written_to() {
        for force in [false, true] {
            write(Path::new("/dev/null"), force, b"anything").unwrap();
            let place = tempfile::tempdir().unwrap();
            let refused = write(place.path(), force, b"anything").unwrap_err();
            assert!(refused.ends_with("is a directory; name a file in it"), "{refused}");
        }
        let found = Path::new("/dev/null").metadata().unwrap();
        assert!(!found.is_file() && found.mode() & 0o777 != 0o600);
    }

    #[test]
    fn what_others_may_read_is_not_written_to() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let pipe = std::ffi::CString::new(path("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a NUL-terminated string.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o666) }, 0);
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        symlink("pipe", path("link")).unwrap();
        for (name, what) in
            [("pipe", "a named pipe"), ("link", "a named pipe"), ("socket", "a socket")]
        {
            let refused = create(&path(name), true, &[]).map(drop).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
        // Descriptors of our own were chosen by the user.
        let (_reader, writer) = io::pipe().unwrap();
        let descriptor = format!("/proc/self/fd/{}", writer.as_raw_fd());
        write(Path::new(&descriptor), true, b"new").unwrap();
        fs::write(path("theirs"), b"theirs").unwrap();
        if std::os::unix::fs::chown(path("theirs"), Some(65534), None).is_ok() {
            assert!(open_as_it_is(&path("theirs")).is_err(), "another user's file is written to");
            write(&path("theirs"), true, b"new").unwrap();
            assert_ne!(path("theirs").metadata().unwrap().uid(), 65534);
        }
    }

    #[test]
    fn what_is_read_is_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("trace"), place.path().join("name"));
        fs::write(&path, b"trace").unwrap();
        fs::hard_link(&path, &other).unwrap();
        assert!(create(&other, true, &[&path]).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"trace");
    }
}
