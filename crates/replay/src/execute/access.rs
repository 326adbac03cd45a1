//! What files are that a call names: directories, or to be executed, where nothing can be.

use events::Kind;

use super::Maker;
use crate::batch::Call;

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

    /// Whether the file that the call names first is a directory.
    pub(super) fn is_directory(&self, call: &Call) -> bool {
        let mut dir = libc::AT_FDCWD;
        for (arg, value) in call.args.iter().zip(self.values) {
            // SAFETY: all zeros are a stat; the path was built here and ends with a NUL.
            unsafe {
                let mut stat: libc::stat = std::mem::zeroed();
                let done = match arg.kind {
                    Kind::DirFd => {
                        dir = value as i32;
                        continue;
                    }
                    Kind::Path => libc::fstatat(dir, value as *const _, &raw mut stat, 0),
                    Kind::Fd => libc::fstat(value as i32, &raw mut stat),
                    _ => continue,
                };
                return done == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
            }
        }
        false
    }
}
