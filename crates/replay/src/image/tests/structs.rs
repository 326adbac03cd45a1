//! The structs of stat and statx, as the kernel fills them.

use std::mem::{MaybeUninit, transmute};
use std::os::unix::fs::MetadataExt;

use syscalls::attributes::{MTIME_UNKNOWN, of_struct};
use syscalls::layout;
use syscalls::record::Identity;

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
    let told = of_struct(&layout::STAT, &stat).unwrap();
    assert_eq!(of_struct(&layout::STATX, &statx), Some(told));
    let mut without_time = statx;
    without_time[0] &= !(libc::STATX_MTIME as u8);
    let partly = Identity { mtime_ns: MTIME_UNKNOWN, ..told };
    assert_eq!(of_struct(&layout::STATX, &without_time), Some(partly));
    without_time[0] &= !1;
    assert_eq!(of_struct(&layout::STATX, &without_time), None);
    let meta = file.as_file().metadata().unwrap();
    assert_eq!((told.dev, told.ino, told.mode), (meta.dev(), meta.ino(), meta.mode()));
    assert_eq!((told.size, told.nlink, told.uid), (10, 1, meta.uid()));
    assert_eq!(told.mtime_ns, meta.mtime() * 1_000_000_000 + meta.mtime_nsec());
    assert_eq!(of_struct(&layout::STAT, &stat[..100]), None);
}
