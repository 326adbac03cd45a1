//! Finds a program's file, its interpreter, and whether it would gain rights.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::ReadCache;
use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::launch_error::LaunchError;

/// Bytes of a script that the kernel reads.
const SCRIPT_HEAD_BYTES: u64 = 256;
/// Maximum depth of interpreters that the kernel follows.
const INTERPRETERS_MAX: usize = 5;

/// Paths that a program's name may stand for, in the order in which execvp tries them.
pub(crate) fn candidates(name: &OsStr) -> Vec<PathBuf> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.as_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let below = |dir: PathBuf| {
        let dir = if dir.as_os_str().is_empty() { ".".into() } else { dir };
        dir.join(name)
    };
    std::env::split_paths(&path).map(below).collect()
}

/// The executable file that a name stands for.
pub fn find(name: &OsStr) -> Result<PathBuf, LaunchError> {
    let mut error = libc::ENOENT;
    for candidate in candidates(name) {
        match may_be_executed(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(libc::ENOENT | libc::ENOTDIR) => {}
            Err(libc::EACCES) => error = libc::EACCES,
            Err(other) => {
                error = other;
                break;
            }
        }
    }
    let source = io::Error::from_raw_os_error(error);
    Err(LaunchError::Program { program: name.to_owned(), source })
}

/// Fails with the error that execve would return.
fn may_be_executed(path: &Path) -> Result<(), i32> {
    let code = |error: io::Error| error.raw_os_error().unwrap_or(libc::EINVAL);
    if !path.metadata().map_err(code)?.is_file() {
        return Err(libc::EACCES);
    }
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| libc::EINVAL)?;
    // SAFETY: the path ends with NUL and lives during the call.
    let result =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    if result == 0 { Ok(()) } else { Err(code(io::Error::last_os_error())) }
}

/// The missing interpreter without which a program cannot start, and its error.
pub(crate) fn missing_interpreter(program: &Path) -> Option<(PathBuf, io::Error)> {
    let mut program = program.to_path_buf();
    for _ in 0..INTERPRETERS_MAX {
        program = interpreter(&program)?;
        if let Err(error) = may_be_executed(&program) {
            return Some((program, io::Error::from_raw_os_error(error)));
        }
    }
    None
}

fn interpreter(program: &Path) -> Option<PathBuf> {
    script_interpreter(program).or_else(|| {
        let file = File::open(program).ok()?;
        elf_interpreter::<FileHeader64<object::Endianness>>(&file)
            .or_else(|| elf_interpreter::<FileHeader32<object::Endianness>>(&file))
    })
}

fn script_interpreter(program: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(SCRIPT_HEAD_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let words = line.split(|byte| matches!(byte, b' ' | b'\t' | 0));
    let path = words.into_iter().find(|word| !word.is_empty())?;
    Some(OsString::from_vec(path.to_vec()).into())
}

fn elf_interpreter<Header: FileHeader<Endian = object::Endianness>>(
    file: &File,
) -> Option<PathBuf> {
    let data = &ReadCache::new(file);
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let path = segments.iter().find_map(|segment| segment.interpreter(endian, data).ok()?)?;
    Some(OsStr::from_bytes(path).into())
}

/// Whether a program would run with rights that we, as an ordinary user, do not have: those of its
/// owner, of its group, or capabilities. A program traced at its start does not get them.
pub fn gains_rights(program: &Path) -> bool {
    let mut program = program.to_path_buf();
    // Scripts do not get such rights, but their interpreters do.
    for _ in 0..INTERPRETERS_MAX {
        let Some(interpreter) = script_interpreter(&program) else { break };
        program = interpreter;
    }
    let Ok(found) = program.metadata() else { return false };
    let Ok(path) = CString::new(program.as_os_str().as_bytes()) else { return false };
    let mode = found.mode();
    // SAFETY: the path ends with NUL, `system` is local, and with a length of 0 getxattr stores
    // nothing.
    unsafe {
        let (user, group) = (libc::geteuid(), libc::getegid());
        if user == 0 || libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 {
            return false;
        }
        let mut system: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(path.as_ptr(), &raw mut system) == 0
            && system.f_flag & libc::ST_NOSUID != 0
        {
            return false;
        }
        let group_runs = libc::S_ISGID | libc::S_IXGRP;
        mode & libc::S_ISUID != 0 && found.uid() != user
            || mode & group_runs == group_runs && found.gid() != group
            || libc::getxattr(
                path.as_ptr(),
                c"security.capability".as_ptr(),
                std::ptr::null_mut(),
                0,
            ) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_where_they_may_be_executed() {
        let shell = find(OsStr::new("sh")).unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        for (name, expected) in
            [("", libc::ENOENT), ("./no/such", libc::ENOENT), ("/", libc::EACCES)]
        {
            let found = find(OsStr::new(name));
            let Err(LaunchError::Program { source, .. }) = found else { panic!("{name}: found") };
            assert_eq!(source.raw_os_error(), Some(expected), "{name}");
        }
    }

    #[test]
    fn images_name_their_interpreter() {
        let ourselves = Path::new("/proc/self/exe");
        assert!(interpreter(ourselves).is_some_and(|path| path.is_absolute()));
        assert!(missing_interpreter(ourselves).is_none());
        assert!(interpreter(Path::new("/proc/self/status")).is_none());
    }
}
