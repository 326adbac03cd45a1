//! Kernel structs with a file's attributes.

use syscalls::record::Identity;

/// Names of the layouts that [`parse`] supports.
pub const NAMES: &[&str] = &["stat", "statx"];

/// Required bits of the statx mask: type, mode, links, owner, inode and size.
const STATX_NEEDED: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x100 | 0x200;
/// Newer kernels leave it out unless requested.
const STATX_MTIME: u32 = 0x40;
/// Stands for an unknown modification time.
pub const MTIME_UNKNOWN: i64 = i64::MIN;

/// Parses a struct of a layout. `None` if it is too short, or lacks more than the modification
/// time.
pub fn parse(layout: &str, bytes: &[u8]) -> Option<Identity> {
    let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let time = |seconds: u64, nanoseconds: u64| {
        (seconds as i64).saturating_mul(1_000_000_000).saturating_add(nanoseconds as i64)
    };
    if layout == "stat" {
        return Some(Identity {
            dev: u64_at(0)?,
            ino: u64_at(8)?,
            nlink: u64_at(16)?.try_into().unwrap_or(u32::MAX),
            mode: u32_at(24)?,
            uid: u32_at(28)?,
            gid: u32_at(32)?,
            rdev: u64_at(40)?,
            size: u64_at(48)?,
            mtime_ns: time(u64_at(88)?, u64_at(96)?),
        });
    }
    let mask = u32_at(0)?;
    if mask & STATX_NEEDED != STATX_NEEDED {
        return None;
    }
    Some(Identity {
        dev: makedev(u32_at(136)?, u32_at(140)?),
        ino: u64_at(32)?,
        nlink: u32_at(16)?,
        mode: u16_at(28)?.into(),
        uid: u32_at(20)?,
        gid: u32_at(24)?,
        rdev: makedev(u32_at(128)?, u32_at(132)?),
        size: u64_at(40)?,
        mtime_ns: match mask & STATX_MTIME {
            0 => MTIME_UNKNOWN,
            _ => time(u64_at(112)?, u32_at(120)?.into()),
        },
    })
}

/// Builds a device number like `st_dev`.
fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | (minor & 0xff) | (minor & !0xff) << 12
}

#[cfg(test)]
mod tests {
    use std::mem::{MaybeUninit, transmute};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn both_structs_tell_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"some bytes").unwrap();
        let path = std::ffi::CString::new(file.path().to_str().unwrap()).unwrap();
        let mut stat = MaybeUninit::<libc::stat>::zeroed();
        let mut statx = MaybeUninit::<libc::statx>::zeroed();
        // SAFETY: the path ends with a NUL, and the structs are large enough and plain data.
        let (stat, statx) = unsafe {
            assert_eq!(libc::stat(path.as_ptr(), stat.as_mut_ptr()), 0);
            let all = libc::STATX_BASIC_STATS;
            assert_eq!(libc::statx(0, path.as_ptr(), 0, all, statx.as_mut_ptr()), 0);
            (
                transmute::<libc::stat, [u8; 144]>(stat.assume_init()),
                transmute::<libc::statx, [u8; 256]>(statx.assume_init()),
            )
        };
        let told = parse("stat", &stat).unwrap();
        assert_eq!(parse("statx", &statx), Some(told));
        let mut without_time = statx;
        without_time[0] &= !(STATX_MTIME as u8);
        let partly = Identity { mtime_ns: MTIME_UNKNOWN, ..told };
        assert_eq!(parse("statx", &without_time), Some(partly));
        without_time[0] &= !1;
        assert_eq!(parse("statx", &without_time), None);
        let meta = file.as_file().metadata().unwrap();
        assert_eq!((told.dev, told.ino, told.mode), (meta.dev(), meta.ino(), meta.mode()));
        assert_eq!((told.size, told.nlink, told.uid), (10, 1, meta.uid()));
        assert_eq!(told.mtime_ns, meta.mtime() * 1_000_000_000 + meta.mtime_nsec());
        assert_eq!(parse("stat", &stat[..100]), None);
    }
}
