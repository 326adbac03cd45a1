//! Which calls are followed, and what of their memory is needed, derived from the table's rows.

use model::file_use::{self, NamesUse};
use model::unseen::{self, Unseen};
use syscalls::Act;
use syscalls::record::OLD_NUMBERS;
use syscalls::shape::{ArgKind, Of, Syscall};
use syscalls::table::NUMBER_LIMIT;

/// Which calls of a row are followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    None,
    All,
    /// Those whose arguments say so.
    Some,
}

/// What is followed of all rows, by number.
pub(super) struct Followed {
    /// Which calls, and a bit for each argument whose memory is needed.
    rows: Vec<(Which, u8)>,
}

impl Followed {
    pub fn new() -> Followed {
        let of_row = |row: &'static Syscall| (which(row), memory(row));
        let rows = (0..NUMBER_LIMIT as u64).map(syscalls::by_number);
        Followed { rows: rows.map(|row| row.map_or((Which::None, 0), of_row)).collect() }
    }

    #[inline]
    fn of(&self, nr: u16) -> (Which, u8) {
        self.rows.get(usize::from(nr)).copied().unwrap_or((Which::None, 0))
    }

    /// Whether calls with this number and these arguments matter.
    #[inline]
    pub fn follows(&self, nr: u16, args: &[u64; 6]) -> bool {
        match self.of(nr).0 {
            Which::None => nr & OLD_NUMBERS != 0,
            Which::All => true,
            Which::Some => by_arguments(nr, args),
        }
    }

    /// Whether the memory behind an argument is needed.
    #[inline]
    pub fn wants(&self, nr: u16, arg: u8) -> bool {
        self.of(nr).1 >> arg & 1 != 0
    }
}

fn by_arguments(nr: u16, args: &[u64; 6]) -> bool {
    let row = syscalls::by_number(u64::from(nr));
    Unseen::follows(nr, args) || row.is_some_and(|row| leads(row.act_of(args)))
}

/// Whether paths of later calls lead elsewhere after such a call.
fn leads(act: Act) -> bool {
    matches!(
        act,
        Act::Duplicate
            | Act::SetDescriptorFlags
            | Act::SetCloseOnExec
            | Act::ClearCloseOnExec
            | Act::Close
            | Act::CloseRange
            | Act::Directory
            | Act::Root
            | Act::PivotRoot
            | Act::Unshare
            | Act::EnterNamespace
            | Act::Spawn
    )
}

fn which(row: &Syscall) -> Which {
    let used = file_use::of(row.nr);
    if row.acts().any(unseen::is_followed)
        || row.may_lend()
        || row.variants.iter().any(|v| v.act.is_some_and(leads))
    {
        Which::Some
    } else {
        let is_on_paths = used.names != NamesUse::Nothing || used.opens || used.changes;
        let is_all = is_on_paths || leads(row.act) || row.act == Act::Bind;
        if is_all { Which::All } else { Which::None }
    }
}

/// The arguments whose memory is needed.
fn memory(row: &'static Syscall) -> u8 {
    if which(row) == Which::None {
        return 0;
    }
    let tells = row.open.is_some() || row.act == Act::Spawn || row.acts().any(unseen::is_followed);
    let is_needed = |kind| match kind {
        ArgKind::Path => true,
        ArgKind::Buf(_, Of::Sockaddr, _) => row.act == Act::Bind,
        ArgKind::Buf(_, Of::Struct(_) | Of::I64, _) => tells,
        _ => false,
    };
    let all = row.variants.iter().map(|variant| variant.args).chain([row.args]);
    let needed = all.flat_map(|args| args.iter().zip(0u8..)).filter(|(arg, _)| is_needed(arg.kind));
    needed.fold(0, |bits, (_, number)| bits | 1 << number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str) -> (bool, Vec<u8>) {
        let followed = Followed::new();
        let nr = syscalls::by_name(name).unwrap().nr;
        let args = (0..6).filter(|arg| followed.wants(nr, *arg)).collect();
        (followed.follows(nr, &[0; 6]), args)
    }

    #[test]
    fn what_only_moves_data_or_asks_is_not_followed() {
        for name in
            ["read", "write", "pwrite64", "readv", "tee", "stat", "getpid", "futex", "socket"]
        {
            assert_eq!(wanted(name), (false, vec![]), "{name}");
        }
        assert!(Followed::new().follows(OLD_NUMBERS | 5, &[0; 6]));
    }

    #[test]
    fn rows_tell_which_memory_is_needed() {
        for (name, args) in [
            ("renameat2", &[1, 3][..]),
            ("openat2", &[1, 2]),
            ("symlinkat", &[2]),
            ("utimensat", &[1]),
            ("fchmod", &[]),
            ("clone3", &[0]),
            ("bind", &[1]),
            ("chdir", &[0]),
            ("mmap", &[]),
            ("sendfile", &[2]),
            ("copy_file_range", &[1, 3]),
        ] {
            assert_eq!(wanted(name), (true, args.to_vec()), "{name}");
        }
    }

    #[test]
    fn sub_calls_are_followed_by_their_arguments() {
        let followed = Followed::new();
        let fcntl = syscalls::by_name("fcntl").unwrap();
        let of =
            |act| fcntl.variants.iter().find(|variant| variant.act == Some(act)).unwrap().value;
        assert!(followed.follows(fcntl.nr, &[0, of(Act::Duplicate), 0, 0, 0, 0]));
        assert!(!followed.follows(fcntl.nr, &[0, of(Act::SetStatusFlags), 0, 0, 0, 0]));
        assert!(!followed.follows(syscalls::by_name("ioctl").unwrap().nr, &[0; 6]));
    }
}
