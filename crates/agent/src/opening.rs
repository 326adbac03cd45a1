//! Calls that open files, or change files that they name by path: what those are is recorded at the
//! first use, and with `--snapshot` what is in them.

use linux_raw_sys::general as raw;
use syscalls::capture::Row;
use syscalls::record::RESULT;

use crate::arch::frames::Frame;
use crate::call::{self, enter, exit};
use crate::context::Context;
use crate::identity::tell;
use crate::snapshot::{self, Begun, Target};
use crate::stream::Stream;
use crate::{memory, sys};

/// Offset of the resolve flags in `struct open_how`.
const RESOLVE: u64 = 16;

/// Continues a call that may change files named by its paths: records their identities first.
#[inline(never)]
pub fn changing_call(context: &mut Context, nr: u64, row: &'static Row, args: &[u64; 6]) -> i64 {
    let truncates = nr as u32 == raw::__NR_truncate && !context.silent && !sys::is_quiet();
    let stored = (truncates && snapshot::is_wanted(context, raw::O_TRUNC.into())).then(|| {
        let (dir, flags) = (raw::AT_FDCWD as u64, 0);
        snapshot::before(context, &Target { dir, path: args[0], arg: 0, flags, resolve: 0 })
    });
    let told = stored.as_ref().is_some_and(Begun::has_told);
    if !told && !context.silent && !sys::is_quiet() {
        for arg in row.changed_paths() {
            let dir = arg.dir.map_or(raw::AT_FDCWD as u64, |dir| args[usize::from(dir)]);
            let is_link = arg.link.is_meant(args);
            let flags = if is_link { u64::from(raw::AT_SYMLINK_NOFOLLOW) } else { 0 };
            let path = args[usize::from(arg.path)];
            tell(context, dir, path, flags, arg.path, path);
        }
        Stream::publish(context);
    }
    let ret = call::make(context, nr, args);
    exit(context, row, args, ret);
    if let Some(begun) = stored {
        snapshot::after(context, &begun, ret);
    }
    ret
}

/// Handles open calls. Files that may be truncated or created are recorded before, others after.
pub fn open_call(context: &mut Context, frame: &mut Frame) -> i64 {
    let nr = frame.rax;
    let args = frame.args();
    let row = enter(context, nr, &args, 0);
    let quiet = context.silent || sys::is_quiet();
    let (dir, path, flags) = match nr as u32 {
        raw::__NR_open => (None, 0, args[1]),
        raw::__NR_creat => (None, 0, u64::from(raw::O_CREAT | raw::O_TRUNC)),
        raw::__NR_openat => (Some(args[0]), 1, args[2]),
        _ => {
            let flags = memory::read::<u64>(context, args[2]).unwrap_or(0);
            (Some(args[0]), 1, flags)
        }
    };
    let stored = (!quiet && snapshot::is_wanted(context, flags)).then(|| {
        let is_openat2 = nr as u32 == raw::__NR_openat2;
        let resolve = is_openat2
            .then(|| memory::read::<u64>(context, args[2].wrapping_add(RESOLVE)))
            .flatten();
        let target = Target {
            dir: dir.unwrap_or(raw::AT_FDCWD as u64),
            path: args[usize::from(path)],
            arg: path,
            flags,
            resolve: resolve.unwrap_or(0),
        };
        snapshot::before(context, &target)
    });
    let told = quiet || stored.as_ref().is_some_and(Begun::has_told);
    let before = flags & u64::from(raw::O_CREAT | raw::O_TRUNC) != 0;
    if before && !told && flags & u64::from(raw::O_EXCL) == 0 {
        let dir = dir.unwrap_or(raw::AT_FDCWD as u64);
        let at = args[usize::from(path)];
        tell(context, dir, at, 0, path, at);
        Stream::publish(context);
    }
    let ret = call::make(context, nr, &args);
    if !before && !told && ret >= 0 {
        let flags = u64::from(raw::AT_EMPTY_PATH);
        let name = args[usize::from(path)];
        tell(context, ret as u64, c"".as_ptr() as u64, flags, RESULT, name);
    }
    exit(context, row, &args, ret);
    if let Some(begun) = stored {
        snapshot::after(context, &begun, ret);
    }
    ret
}
