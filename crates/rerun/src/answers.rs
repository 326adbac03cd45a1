//! What becomes of a call that is as it was recorded.

use syscalls::abi::errno;
use syscalls::abi::memory::{
    MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_HUGETLB, MAP_PRIVATE, MAP_SHARED, MAP_TYPE,
    MREMAP_FIXED, MREMAP_MAYMOVE,
};
use syscalls::{Act, Again, Syscall};
use trace::event::{Call, Outcome};

/// What becomes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Its result is given.
    Given(i64),
    /// It is made again, with these arguments. If it returns, it returns this.
    Again {
        /// The arguments.
        args: [u64; 6],
        /// The result.
        ret: i64,
        /// It maps a file.
        of_file: bool,
    },
    /// It never returned: the process was killed, or the recording ended.
    Never,
}

/// Decides it.
pub fn fate(row: Option<&Syscall>, call: &Call) -> Fate {
    let again = row.map_or(Again::Given, |row| row.again_of(&call.args));
    let ret = match call.outcome {
        Outcome::Returned { ret, .. } => ret,
        Outcome::Unfinished => {
            let ends = row.is_some_and(|row| row.ret == syscalls::Ret::Never);
            return match again {
                Again::Made if ends => Fate::Again { args: call.args, ret: 0, of_file: false },
                _ => Fate::Never,
            };
        }
    };
    let made = |args, of_file| Fate::Again { args, ret, of_file };
    if again == Again::Always {
        return made(call.args, false);
    }
    if errno::is_error(ret) || ret == RESTARTED {
        return Fate::Given(ret);
    }
    match again {
        Again::Given | Again::GivenToAnother | Again::Unknown => Fate::Given(ret),
        Again::Reached if call.args[0] != ret as u64 => Fate::Given(ret),
        Again::Made | Again::Always | Again::Reached | Again::Born => made(call.args, false),
        Again::Placed => match row.map(|row| row.act_of(&call.args)) {
            Some(Act::Map) => {
                let (args, of_file) = placed(&call.args, ret as u64);
                made(args, of_file)
            }
            _ => made(moved(&call.args, ret as u64), false),
        },
    }
}

/// The result of a call that the kernel makes again after a signal handler.
const RESTARTED: i64 = errno::result(errno::ERESTARTSYS);

/// Whether what is stored to a mapping of a file reaches it.
pub(crate) fn is_shared(args: &[u64; 6]) -> bool {
    args[3] & MAP_TYPE != MAP_PRIVATE
}

/// The arguments of an mmap of a shadow in the place of its file.
pub(crate) fn of_shadow(args: &[u64; 6], recorded: &[u64; 6]) -> [u64; 6] {
    let kind = if is_shared(recorded) { MAP_SHARED } else { MAP_PRIVATE };
    // Whatever file system the file was on: this one has no pages of its own.
    let flags = args[3] & !(MAP_TYPE | MAP_HUGETLB) | kind;
    [args[0], args[1], args[2], flags, args[4], args[5]]
}

/// The arguments of an mmap of a file as it is: stores stay with the process, as the file is opened to be read.
pub(crate) fn of_real(args: &[u64; 6]) -> [u64; 6] {
    [args[0], args[1], args[2], args[3] & !MAP_HUGETLB, args[4], args[5]]
}

/// The arguments of an mmap that returns this address. The machine's own files are never mapped to be
/// changed.
fn placed(args: &[u64; 6], at: u64) -> ([u64; 6], bool) {
    let [_, len, prot, mut flags, fd, offset] = *args;
    let of_file = flags & MAP_ANONYMOUS == 0;
    if of_file {
        flags = flags & !MAP_TYPE | MAP_PRIVATE;
    }
    if flags & MAP_FIXED == 0 {
        flags |= MAP_FIXED_NOREPLACE;
    }
    ([at, len, prot, flags, fd, offset], of_file)
}

/// The arguments of an mremap that returns this address.
fn moved(args: &[u64; 6], to: u64) -> [u64; 6] {
    let [from, old, new, flags, ..] = *args;
    if from == to {
        return [from, old, new, flags & !(MREMAP_MAYMOVE | MREMAP_FIXED), 0, 0];
    }
    [from, old, new, flags | MREMAP_MAYMOVE | MREMAP_FIXED, to, 0]
}
