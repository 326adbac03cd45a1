//! The system calls that the agent makes for itself: each has a row here, by which
//! [`sys::call`](crate::sys::call) makes it, and by which the program's seccomp filters are asked
//! whether they let it through.

use linux_raw_sys::general as raw;
use linux_raw_sys::prctl;
use syscalls::abi::files::{CLOSE_RANGE_UNSHARE, F_GETFL, O_CLOEXEC};
use syscalls::abi::ipc::IPC_STAT;
use syscalls::abi::memory::USERFAULTFD_FLAGS;
use syscalls::abi::rings::REGISTER_SYNC_CANCEL;
use syscalls::abi::tasks::ARCH_SET_GS;

/// Calls that the agent needs and a filter of the program may deny. A filter might kill the program
/// for a call that the program itself never makes. So if any bit is set, the agent is *quiet*: it
/// makes only the program's own calls, and calls known to be allowed.
pub mod needed {
    /// rt_sigprocmask.
    pub const MASKS: u32 = 1;
    /// rt_sigaction.
    pub const ACTIONS: u32 = 1 << 1;
    /// sigaltstack.
    pub const STACKS: u32 = 1 << 2;
    /// munmap.
    pub const UNMAPPING: u32 = 1 << 3;
    pub const OTHERS: u32 = 1 << 4;
    pub const ALL: u32 = (1 << 5) - 1;
    /// What is needed for rings of io_uring alone. Without it the agent is not quiet, but leaves them alone.
    pub const RINGS: u32 = 1 << 5;
    /// Timers, by which threads are told to look at rings.
    pub const TIMERS: u32 = 1 << 6;
    /// The CPU clock of the calling thread, without which it is not known what it computes.
    pub const OWN_CLOCK: u32 = 1 << 7;
    /// The CPU clocks of other threads.
    pub const CLOCKS: u32 = 1 << 8;
    /// Areas of restartable sequences.
    pub const CPU_AREAS: u32 = 1 << 9;
    /// Helpers. Where files are stored before they change, and in threads that may become another user, the agent is
    /// quiet without them.
    pub const HELPERS: u32 = 1 << 10;
    /// What tells stores to mapped files.
    pub const STORES: u32 = 1 << 11;
    /// How many semaphores are in a set.
    pub const SEMAPHORES: u32 = 1 << 12;
    /// Nothing: it is made before there is a filter, or in a re-execution, where none is real.
    pub const UNASKED: u32 = 0;
    pub const ANY: u32 = u32::MAX;
}

/// A call that the agent makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Need {
    SetMask,
    SetAction,
    ReturnFromSignal,
    SetStack,
    Futex,
    Pid,
    Tid,
    ParentPid,
    EffectiveUser,
    EffectiveGroup,
    SendSignal,
    QueueSignal,
    StatPath,
    StatDescriptor,
    AttachSegment,
    Unmap,
    MapMemory,
    MapMemoryOver,
    MapCode,
    MapCodeAt,
    MapWritableCode,
    // For an image in another IPC namespace, and for a thread that moves to another arena.
    SocketPair,
    ReceiveMessage,
    Close,
    MapArena,
    MapCatalog,
    MapImage,
    ProtectCode,
    ProtectWritable,
    DispatchOn,
    DispatchOff,
    RefusesCode,
    SetGs,
    GainsNoRights,
    Users,
    KeepOutOfCores,
    MapPages,
    Unlock,
    Yield,
    Xattr,
    ReadMemory,
    WriteMemory,
    FileSystem,
    Position,
    ReadAt,
    StartHelper,
    LeaveDescriptors,
    Open,
    OpenBy,
    Read,
    Limits,
    LookForEnd,
    Lock,
    LockAll,
    UnlockAll,
    ExitHelper,
    Sleep,
    NoticeStores,
    OpenFlags,
    OwnClock,
    ClockOf,
    WatchCpu,
    MapRing,
    MapShared,
    MapAgain,
    SameFile,
    CancelInRing,
    MakeRing,
    PlaceRing,
    NumberRing,
    EnterDirectory,
    EndProcess,
    MakeTimer,
    SetTimer,
    EndTimer,
    WaitAgain,
    LetTrace,
    SemaphoreSet,
    Usage,
}

/// What is known of a call.
#[derive(Clone, Copy)]
pub struct Row {
    need: Need,
    pub nr: u32,
    /// Arguments; `None`: any value.
    pub args: [Option<u64>; 6],
    /// If the call fails with an error, the agent can do without it.
    pub may_fail: bool,
    /// [`needed`] bits to set if the call is refused.
    pub what: u32,
}

const fn of(need: Need, what: u32, nr: u32) -> Row {
    Row { need, nr, args: [None; 6], may_fail: false, what }
}

const fn any(need: Need, nr: u32) -> Row {
    of(need, needed::OTHERS, nr)
}

impl Row {
    const fn with(self, args: [Option<u64>; 6]) -> Row {
        Row { args, ..self }
    }

    const fn may_fail(self) -> Row {
        Row { may_fail: true, ..self }
    }

    /// Returns true if these arguments are among those that filters are asked about.
    pub fn allows(&self, args: &[u64; 6]) -> bool {
        self.args.iter().zip(args).all(|(known, arg)| known.is_none_or(|known| known == *arg))
    }
}

const ZERO: Option<u64> = Some(0);
const RWX: Option<u64> = Some(7);
const RX: Option<u64> = Some(5);
const RW: Option<u64> = Some(3);
const READ: Option<u64> = Some(1);

const SHARED: u32 = raw::MAP_SHARED | raw::MAP_NORESERVE;
const PRIVATE: u32 = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS;

const fn flags(flags: u32) -> Option<u64> {
    Some(flags as u64)
}

/// An mmap of private anonymous memory.
const fn memory_of(need: Need, prot: Option<u64>, more: u32) -> Row {
    let args = [None, None, prot, flags(PRIVATE | more), Some(u64::MAX), ZERO];
    any(need, raw::__NR_mmap).with(args)
}

/// An mmap of a file.
const fn file_of(need: Need, prot: Option<u64>, how: u32, offset: Option<u64>) -> Row {
    any(need, raw::__NR_mmap).with([None, None, prot, flags(how), None, offset])
}

/// A prctl: the operation and the second argument.
const fn prctl_of(need: Need, op: u32, second: Option<u64>, rest: Option<u64>) -> Row {
    any(need, raw::__NR_prctl).with([flags(op), second, rest, rest, rest, ZERO])
}

const fn protect_of(need: Need, prot: Option<u64>) -> Row {
    any(need, raw::__NR_mprotect).with([None, None, prot, ZERO, ZERO, ZERO])
}

const fn advice_of(need: Need, advice: u32) -> Row {
    let args = [None, None, flags(advice), ZERO, ZERO, ZERO];
    any(need, raw::__NR_madvise).with(args).may_fail()
}

const fn helped(need: Need, nr: u32) -> Row {
    of(need, needed::HELPERS, nr).may_fail()
}

const fn for_rings(need: Need, nr: u32) -> Row {
    of(need, needed::RINGS, nr).may_fail()
}

const fn a_timer(need: Need, nr: u32) -> Row {
    of(need, needed::TIMERS, nr).may_fail()
}

const fn unasked(need: Need, nr: u32) -> Row {
    of(need, needed::UNASKED, nr)
}

const fn for_times(need: Need, what: u32, nr: u32) -> Row {
    of(need, what, nr).may_fail()
}

/// Flags of an ordinary thread. The first thing a helper does is to unshare the descriptors.
pub const HELPER_FLAGS: u64 = (raw::CLONE_VM
    | raw::CLONE_FS
    | raw::CLONE_FILES
    | raw::CLONE_SIGHAND
    | raw::CLONE_THREAD
    | raw::CLONE_VFORK
    | raw::CLONE_UNTRACED) as u64;

/// Filters may look at which clock is asked for.
pub const OWN_CPU_CLOCK: u64 = raw::CLOCK_THREAD_CPUTIME_ID as u64;

/// All of them, in the order of [`Need`].
pub const ALL: [Row; Need::Usage as usize + 1] = [
    of(Need::SetMask, needed::MASKS, raw::__NR_rt_sigprocmask),
    of(Need::SetAction, needed::ACTIONS, raw::__NR_rt_sigaction),
    any(Need::ReturnFromSignal, raw::__NR_rt_sigreturn),
    of(Need::SetStack, needed::STACKS, raw::__NR_sigaltstack),
    any(Need::Futex, raw::__NR_futex),
    any(Need::Pid, raw::__NR_getpid),
    any(Need::Tid, raw::__NR_gettid),
    any(Need::ParentPid, raw::__NR_getppid),
    any(Need::EffectiveUser, raw::__NR_geteuid),
    any(Need::EffectiveGroup, raw::__NR_getegid),
    any(Need::SendSignal, raw::__NR_tgkill),
    any(Need::QueueSignal, raw::__NR_rt_tgsigqueueinfo),
    any(Need::StatPath, raw::__NR_newfstatat),
    any(Need::StatDescriptor, raw::__NR_fstat),
    any(Need::AttachSegment, raw::__NR_shmat),
    of(Need::Unmap, needed::UNMAPPING, raw::__NR_munmap),
    memory_of(Need::MapMemory, RW, raw::MAP_NORESERVE),
    memory_of(Need::MapMemoryOver, RW, raw::MAP_NORESERVE | raw::MAP_FIXED),
    memory_of(Need::MapCode, RX, 0),
    memory_of(Need::MapCodeAt, RX, raw::MAP_FIXED_NOREPLACE),
    memory_of(Need::MapWritableCode, RWX, 0),
    any(Need::SocketPair, raw::__NR_socketpair),
    any(Need::ReceiveMessage, raw::__NR_recvmsg),
    any(Need::Close, raw::__NR_close),
    file_of(Need::MapArena, RW, SHARED, ZERO),
    file_of(Need::MapCatalog, READ, SHARED, None),
    file_of(Need::MapImage, RX, raw::MAP_PRIVATE | raw::MAP_FIXED, None),
    protect_of(Need::ProtectCode, RX),
    protect_of(Need::ProtectWritable, RWX),
    prctl_of(
        Need::DispatchOn,
        prctl::PR_SET_SYSCALL_USER_DISPATCH,
        flags(prctl::PR_SYS_DISPATCH_ON),
        None,
    ),
    prctl_of(
        Need::DispatchOff,
        prctl::PR_SET_SYSCALL_USER_DISPATCH,
        flags(prctl::PR_SYS_DISPATCH_OFF),
        ZERO,
    ),
    prctl_of(Need::RefusesCode, prctl::PR_GET_MDWE, ZERO, ZERO),
    any(Need::SetGs, raw::__NR_arch_prctl).with([flags(ARCH_SET_GS), None, ZERO, ZERO, ZERO, ZERO]),
    prctl_of(Need::GainsNoRights, prctl::PR_GET_NO_NEW_PRIVS, ZERO, ZERO),
    any(Need::Users, raw::__NR_getresuid).may_fail(),
    advice_of(Need::KeepOutOfCores, raw::MADV_DONTDUMP),
    advice_of(Need::MapPages, raw::MADV_POPULATE_READ),
    any(Need::Unlock, raw::__NR_munlock).may_fail(),
    any(Need::Yield, raw::__NR_sched_yield).may_fail(),
    any(Need::Xattr, raw::__NR_getxattr).may_fail(),
    any(Need::ReadMemory, raw::__NR_process_vm_readv).may_fail(),
    any(Need::WriteMemory, raw::__NR_process_vm_writev).may_fail(),
    any(Need::FileSystem, raw::__NR_fstatfs).may_fail(),
    any(Need::Position, raw::__NR_lseek).may_fail(),
    any(Need::ReadAt, raw::__NR_pread64).may_fail(),
    helped(Need::StartHelper, raw::__NR_clone).with([
        Some(HELPER_FLAGS),
        None,
        None,
        None,
        None,
        None,
    ]),
    helped(Need::LeaveDescriptors, raw::__NR_close_range).with([
        None,
        None,
        Some(CLOSE_RANGE_UNSHARE),
        ZERO,
        ZERO,
        ZERO,
    ]),
    helped(Need::Open, raw::__NR_openat),
    helped(Need::OpenBy, raw::__NR_openat2),
    helped(Need::Read, raw::__NR_read),
    helped(Need::Limits, raw::__NR_prlimit64),
    helped(Need::LookForEnd, raw::__NR_waitid),
    helped(Need::Lock, raw::__NR_mlock2),
    helped(Need::LockAll, raw::__NR_mlockall),
    helped(Need::UnlockAll, raw::__NR_munlockall),
    of(Need::ExitHelper, needed::HELPERS, raw::__NR_exit),
    unasked(Need::Sleep, raw::__NR_nanosleep),
    of(Need::NoticeStores, needed::STORES, raw::__NR_userfaultfd).may_fail().with([
        Some(USERFAULTFD_FLAGS),
        None,
        None,
        None,
        None,
        None,
    ]),
    of(Need::OpenFlags, needed::STORES, raw::__NR_fcntl).may_fail().with([
        None,
        Some(F_GETFL),
        ZERO,
        ZERO,
        ZERO,
        ZERO,
    ]),
    for_times(Need::OwnClock, needed::OWN_CLOCK, raw::__NR_clock_gettime).with([
        Some(OWN_CPU_CLOCK),
        None,
        None,
        None,
        None,
        None,
    ]),
    for_times(Need::ClockOf, needed::CLOCKS, raw::__NR_clock_gettime),
    for_times(Need::WatchCpu, needed::CPU_AREAS, raw::__NR_rseq),
    for_rings(Need::MapRing, raw::__NR_mmap).with([
        ZERO,
        None,
        RW,
        flags(raw::MAP_SHARED | raw::MAP_POPULATE),
        None,
        None,
    ]),
    for_rings(Need::MapShared, raw::__NR_mmap).with([
        ZERO,
        None,
        RW,
        flags(raw::MAP_SHARED | raw::MAP_ANONYMOUS),
        Some(u64::MAX),
        ZERO,
    ]),
    for_rings(Need::MapAgain, raw::__NR_mremap).with([
        None,
        ZERO,
        None,
        flags(raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED),
        None,
        ZERO,
    ]),
    for_rings(Need::SameFile, raw::__NR_kcmp).with([None, None, ZERO, None, None, ZERO]),
    for_rings(Need::CancelInRing, raw::__NR_io_uring_register).with([
        None,
        Some(REGISTER_SYNC_CANCEL),
        None,
        Some(1),
        ZERO,
        ZERO,
    ]),
    for_rings(Need::MakeRing, raw::__NR_io_uring_setup),
    for_rings(Need::PlaceRing, raw::__NR_dup3).with([
        None,
        None,
        Some(O_CLOEXEC),
        ZERO,
        ZERO,
        ZERO,
    ]),
    for_rings(Need::NumberRing, raw::__NR_io_uring_register).with([
        None,
        None,
        None,
        Some(1),
        ZERO,
        ZERO,
    ]),
    unasked(Need::EnterDirectory, raw::__NR_chdir),
    unasked(Need::EndProcess, raw::__NR_exit_group),
    a_timer(Need::MakeTimer, raw::__NR_timer_create),
    a_timer(Need::SetTimer, raw::__NR_timer_settime),
    a_timer(Need::EndTimer, raw::__NR_timer_delete),
    a_timer(Need::WaitAgain, raw::__NR_io_uring_enter).with([None, ZERO, None, None, None, None]),
    unasked(Need::LetTrace, raw::__NR_prctl),
    of(Need::SemaphoreSet, needed::SEMAPHORES, raw::__NR_semctl).may_fail().with([
        None,
        None,
        Some(IPC_STAT),
        None,
        None,
        None,
    ]),
    unasked(Need::Usage, raw::__NR_getrusage),
];

const _: () = {
    let mut at = 0;
    while at < ALL.len() {
        assert!(ALL[at].need as usize == at, "rows in another order");
        at += 1;
    }
};

impl Need {
    #[inline(always)]
    pub const fn row(self) -> &'static Row {
        &ALL[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_arguments_are_compared() {
        let row = Need::ProtectCode.row();
        assert!(row.allows(&[0x1000, 0x2000, 5, 0, 0, 0]));
        assert!(!row.allows(&[0x1000, 0x2000, 7, 0, 0, 0]));
        assert!(Need::Futex.row().allows(&[1, 2, 3, 4, 5, 6]));
    }
}
