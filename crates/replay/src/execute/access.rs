//! What files are that a call names: directories, or to be executed, where nothing can be.

use std::ffi::CStr;

use events::Kind;

use super::{Maker, NOWHERE};
use crate::batch::Call;
use crate::shared::Fill;

impl Maker {
    /// Nothing can be executed where we are, so the kernel denies it of every file: the file's own
    /// permissions tell.
    pub(super) fn may_be_executed(&self, call: &Call) -> bool {
        const X_OK: usize = libc::X_OK as usize;
        let mut dir = libc::AT_FDCWD;
        let mut path = 0;
        for (arg, value) in call.args.iter().zip(self.values) {
            match arg.kind {
                Kind::DirFd => dir = value as i32,
                Kind::Path => path = value,
                Kind::Flags(set) if std::ptr::eq(set, &raw const events::flags::ACCESS) => {
                    if value & X_OK == 0 || path == 0 {
                        return false;
                    }
                    let rest = (value & !X_OK) as i32;
                    // SAFETY: the path was built by `prepare`; all zeros are a stat.
                    return unsafe {
                        let mut stat: libc::stat = std::mem::zeroed();
                        libc::faccessat(dir, path as *const _, rest, 0) == 0
                            && libc::fstatat(dir, path as *const _, &raw mut stat, 0) == 0
                            && stat.st_mode & 0o111 != 0
                    };
                }
                _ => {}
            }
        }
        false
    }

    /// Changes a call that sets a mode so that it reaches a directory or fails, whatever others put in
    /// its way: `.` is only in directories.
    pub(super) fn reach_directories_only(&mut self, call: &Call) {
        let Some(at) = call.args.iter().position(|arg| matches!(arg.kind, Kind::Path)) else {
            self.nr = libc::SYS_fchmodat as u16;
            let here = self.memory.copy(std::iter::once(&b"."[..]), 2, &Fill::Zeros);
            self.values = [self.values[0], here as usize, self.values[1], 0, 0, 0];
            return;
        };
        if self.values[at] <= NOWHERE {
            return;
        }
        // SAFETY: the path was built here and ends with a NUL.
        let path = unsafe { CStr::from_ptr(self.values[at] as *const _) }.to_bytes();
        let inside: &[u8] = if path.is_empty() { b"." } else { b"/." };
        let len = path.len() + inside.len() + 1;
        self.values[at] = self.memory.copy([path, inside].into_iter(), len, &Fill::Zeros) as usize;
    }
}
