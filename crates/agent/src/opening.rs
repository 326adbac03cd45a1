//! Calls that open files, or change files that they name by path: what those are is recorded at the
//! first use, and with `--snapshot` what is in them.

use linux_raw_sys::general as raw;
use syscalls::Handler;
use syscalls::capture::Opening;
use syscalls::paths::PathUse;
use syscalls::record::RESULT;

use crate::call::{self, Call, enter, exit};
use crate::context::Context;
use crate::identity::{Told, tell};
use crate::snapshot::{self, Begun, Target};
use crate::stream::Stream;
use crate::{clock, course, memory, sys};

/// Number of a call's arguments.
const ARGUMENTS: usize = 6;

/// Makes a call that may change files named by its paths: records their identities first.
#[inline(never)]
pub fn change_files(context: &Context, call: &Call) {
    let began = enter(context, call, 0);
    let quiet = context.silent.get() || sys::is_quiet();
    let truncates = call.row.handler == Handler::Truncate && !quiet;
    let mut stored = None;
    if truncates && snapshot::is_wanted(context, raw::O_TRUNC.into()) {
        let first = call.row.changed_paths().next();
        stored = first.map(|path| snapshot::before(context, &target(call, path, 0, 0)));
    }
    let told = quiet || stored.as_ref().is_some_and(Begun::has_told);
    let mut files = [Told::default(); ARGUMENTS];
    if !told {
        for (used, file) in call.row.changed_paths().zip(&mut files) {
            let is_link = used.link.is_meant(call.args);
            let flags = if is_link { u64::from(raw::AT_SYMLINK_NOFOLLOW) } else { 0 };
            let (dir, path) = place(call, used);
            *file = tell(context, dir, path, flags, used.path, path);
        }
    }
    if stored.is_some() || files.iter().any(|file| file.is_new()) {
        looked_first(context, began);
    }
    let ret = call.make();
    files.into_iter().for_each(Told::keep);
    exit(context, call, ret);
    if let Some(begun) = stored {
        snapshot::after(context, &begun, ret);
    }
}

/// A call that began then is made now: others may have changed the files before we looked at them. Not where
/// calls are to begin in the order in which threads and processes came to them.
fn looked_first(context: &Context, began: u64) {
    if !course::is_repeatable() {
        call::made_late(context, clock::now(context).saturating_sub(began));
    }
    Stream::publish(context);
}

/// Returns the directory and the path that an argument names.
fn place(call: &Call, used: PathUse) -> (u64, u64) {
    let arg = |number: u8| call.args[usize::from(number)];
    (used.dir.map_or(raw::AT_FDCWD as u64, arg), arg(used.path))
}

fn target(call: &Call, used: PathUse, flags: u64, resolve: u64) -> Target {
    let (dir, path) = place(call, used);
    Target { dir, path, arg: used.path, flags, resolve }
}

/// Opens a file. One that may be truncated or created is recorded before, others after.
pub fn open(context: &Context, call: &Call) {
    let Some(Opening { path: used, flags: where_flags }) = call.row.opening() else {
        return call::plain(context, call);
    };
    let began = enter(context, call, 0);
    let quiet = context.silent.get() || sys::is_quiet();
    let read = |context: &Context, arg: u8, at: u8| {
        memory::read::<u64>(context, call.args[usize::from(arg)].wrapping_add(u64::from(at)))
    };
    let flags = where_flags.of(call.args, |arg, at| read(context, arg, at));
    let mut stored = None;
    if !quiet && snapshot::is_wanted(context, flags) {
        let resolve = where_flags.resolve(|arg, at| read(context, arg, at));
        stored = Some(snapshot::before(context, &target(call, used, flags, resolve)));
    }
    let told = quiet || stored.as_ref().is_some_and(Begun::has_told);
    let before = flags & u64::from(raw::O_CREAT | raw::O_TRUNC) != 0;
    let (dir, path) = place(call, used);
    let mut file = Told::default();
    if before && !told && flags & u64::from(raw::O_EXCL) == 0 {
        file = tell(context, dir, path, 0, used.path, path);
    }
    if stored.is_some() || file.is_new() {
        looked_first(context, began);
    }
    let ret = call.make();
    let returned = call::returned(context);
    file.keep();
    if !before && !told && ret >= 0 {
        let flags = u64::from(raw::AT_EMPTY_PATH);
        tell(context, ret as u64, c"".as_ptr() as u64, flags, RESULT, path).keep();
    }
    call::exit_behind(context, call, ret, returned);
    if let Some(begun) = stored {
        snapshot::after(context, &begun, ret);
    }
}
