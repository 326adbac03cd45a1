//! Properties of the files that a call names: whether they are executable, or directories.

use syscalls::ArgKind;
use syscalls::abi::files::X_OK;

use super::Maker;
use super::value::Value;
use crate::batch::Call;

impl Maker {
    /// Decides execute access by the file's own permissions: our mounts are noexec, so the kernel
    /// denies it for every file.
    pub(super) fn may_be_executed(&self, call: &Call) -> bool {
        let mut dir = libc::AT_FDCWD;
        let mut path = None;
        for (at, arg) in call.args.iter().enumerate() {
            let value = self.values.get(at);
            match arg.kind {
                ArgKind::DirFd => dir = value.number() as i32,
                // SAFETY: the path was built by `prepare`; its memory has not been reused since.
                ArgKind::Path => path = unsafe { value.text() },
                ArgKind::Flags(set) if std::ptr::eq(set, &raw const syscalls::flags::ACCESS) => {
                    let mode = value.number();
                    let Some(path) = path.filter(|_| mode as u64 & X_OK != 0) else { return false };
                    let rest = (mode as u64 & !X_OK) as i32;
                    // SAFETY: the path ends with a NUL, and all zeros are a valid stat.
                    return unsafe {
                        let mut stat: libc::stat = std::mem::zeroed();
                        libc::faccessat(dir, path.as_ptr(), rest, 0) == 0
                            && libc::fstatat(dir, path.as_ptr(), &raw mut stat, 0) == 0
                            && stat.st_mode & 0o111 != 0
                    };
                }
                _ => {}
            }
        }
        false
    }

    /// Changes a call that sets a mode so that it reaches only a directory, whatever others put in
    /// its place: only directories contain `.`.
    pub(super) fn reach_directories_only(&mut self, call: &Call) {
        let Some(at) = call.args.iter().position(|arg| matches!(arg.kind, ArgKind::Path)) else {
            self.nr = libc::SYS_fchmodat as u16;
            let here = Value::Memory(self.contents.text(std::iter::once(&b"."[..]), 1));
            let mode = self.values.get(1);
            self.values.set(1, here);
            self.values.set(2, mode);
            return;
        };
        // SAFETY: the path was built by `prepare`; its memory has not been reused since.
        let Some(path) = (unsafe { self.values.get(at).text() }) else { return };
        let path = path.to_bytes();
        let inside: &[u8] = if path.is_empty() { b"." } else { b"/." };
        let len = path.len() + inside.len();
        let path = self.contents.text([path, inside].into_iter(), len);
        self.values.set(at, Value::Memory(path));
    }
}
