//! Checks names before calls that must fail because of them: a call that should fail and succeeds
//! has already done harm.

use std::ffi::CString;
use std::os::fd::RawFd;

use syscalls::ArgKind;

use super::Maker;
use crate::batch::{Batch, Call};
use crate::descriptors;
use crate::options::Fill;
use crate::treatment::makes_name;

/// A path, and the directory that it is relative to.
struct Name {
    dir: RawFd,
    path: CString,
    /// A link at its end is meant itself.
    means_link: bool,
}

/// Whether an error can be caused by names alone.
pub fn is_of_names(errno: i32) -> bool {
    matches!(errno, libc::ENOENT | libc::EEXIST | libc::ENOTEMPTY)
}

impl Maker {
    /// Whether the names would now cause the recorded error.
    pub fn names_fail(&mut self, batch: &Batch, call: &Call, fill: &Fill, errno: i32) -> bool {
        self.prepare(batch, call, fill);
        let names = self.names(call);
        let (Some(first), Some(last)) = (names.first(), names.last()) else { return true };
        match errno {
            libc::EEXIST => last.is_there(),
            libc::ENOTEMPTY => last.is_filled(),
            _ if !makes_name(call.act, call.args) => !last.is_found(),
            // If one path is made from another, either may be the reason.
            _ => names.len() > 1 && !first.is_found() || !last.above().is_there(),
        }
    }

    /// Whether a path of the call goes through an absolute symbolic link.
    pub fn follows_from_root(&mut self, batch: &Batch, call: &Call, fill: &Fill) -> bool {
        self.prepare(batch, call, fill);
        self.names(call).iter().any(Name::follows_from_root)
    }

    fn names(&self, call: &Call) -> Vec<Name> {
        let mut dir = libc::AT_FDCWD;
        let mut names = Vec::new();
        for (at, arg) in call.args.iter().enumerate() {
            let value = self.values.get(at);
            match arg.kind {
                ArgKind::DirFd => dir = value.number() as RawFd,
                ArgKind::Path => {
                    // SAFETY: the path was built by `prepare`; its memory has not been reused
                    // since.
                    let path = unsafe { value.text() };
                    let means_link = syscalls::paths::means_link(call.nr, at as u8, &call.values);
                    names.extend(path.map(|path| Name { dir, path: path.to_owned(), means_link }));
                }
                _ => {}
            }
        }
        names
    }
}

impl Name {
    /// Whether the name is there, if only as a link that leads nowhere.
    fn is_there(&self) -> bool {
        self.leads_to_a_file(libc::AT_SYMLINK_NOFOLLOW)
    }

    /// Whether the call finds the file that it means by the name.
    fn is_found(&self) -> bool {
        self.leads_to_a_file(if self.means_link { libc::AT_SYMLINK_NOFOLLOW } else { 0 })
    }

    fn leads_to_a_file(&self, flags: i32) -> bool {
        // SAFETY: the path ends with a NUL.
        unsafe { libc::faccessat(self.dir, self.path.as_ptr(), libc::F_OK, flags) == 0 }
    }

    /// Whether it goes through an absolute symbolic link.
    fn follows_from_root(&self) -> bool {
        let path = self.path.as_bytes();
        let ends = (1..=path.len()).filter(|end| path.get(*end).is_none_or(|byte| *byte == b'/'));
        let begins_at_root = |part: &[u8]| {
            let mut first = 0u8;
            let Ok(part) = CString::new(part) else { return false };
            // SAFETY: the path ends with a NUL, and the buffer has room for the one byte requested.
            let got =
                unsafe { libc::readlinkat(self.dir, part.as_ptr(), (&raw mut first).cast(), 1) };
            got == 1 && first == b'/'
        };
        ends.map(|end| &path[..end]).any(begins_at_root)
    }

    /// Whether it is a directory with entries.
    fn is_filled(&self) -> bool {
        descriptors::has_entries(self.dir, &self.path)
    }

    /// Its parent directory. Ends with a slash, to follow a link to a directory.
    fn above(&self) -> Name {
        let path = self.path.as_bytes();
        let end = path.len() - path.iter().rev().take_while(|&&c| c == b'/').count();
        let slash = path[..end].iter().rposition(|&c| c == b'/');
        let above = slash.map_or(&b"./"[..], |slash| &path[..=slash]);
        let path = CString::new(above).unwrap_or_default();
        Name { dir: self.dir, path, means_link: false }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_there_and_leads_to_no_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).expect("a link");
        let path = CString::new(dir.path().join("link").as_os_str().as_bytes()).expect("no zeros");
        let name = |means_link| Name { dir: libc::AT_FDCWD, path: path.clone(), means_link };
        assert!(name(false).is_there() && !name(false).is_found());
        assert!(name(true).is_there() && name(true).is_found());
        assert!(name(true).above().is_found() && name(false).above().is_found());
    }
}
