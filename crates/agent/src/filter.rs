//! Checks whether the program's seccomp filters let the agent make the calls that it needs.
//!
//! Before a filter is installed, it is interpreted for each of those calls. Arguments that vary are
//! unknown: if a filter branches on one, both branches must be fine. Filters stack and persist over
//! fork and exec, so one that allows everything need not be remembered.

use linux_raw_sys::general as raw;
use linux_raw_sys::prctl;

use crate::arch::frames::AUDIT_ARCH;
use crate::context::{Context, space};
use crate::sys::needed;
use crate::{exec, helper, memory, snapshot, threads, users};

/// A system call that the agent makes for itself.
struct Need {
    nr: u32,
    /// Arguments; `None`: any value.
    args: [Option<u64>; 6],
    /// If the call fails with an error, the agent can do without it.
    may_fail: bool,
    /// [`needed`] bits to set if the call is refused.
    what: u32,
}

const fn of(what: u32, nr: u32) -> Need {
    Need { nr, args: [None; 6], may_fail: false, what }
}

const fn any(nr: u32) -> Need {
    of(needed::OTHERS, nr)
}

const fn may_fail(nr: u32) -> Need {
    Need { may_fail: true, ..any(nr) }
}

const fn with(nr: u32, args: [Option<u64>; 6]) -> Need {
    Need { args, ..any(nr) }
}

const fn may_fail_with(nr: u32, args: [Option<u64>; 6]) -> Need {
    Need { args, ..may_fail(nr) }
}

const ZERO: Option<u64> = Some(0);
const RWX: Option<u64> = Some(7);
const RX: Option<u64> = Some(5);
const RW: Option<u64> = Some(3);
const READ: Option<u64> = Some(1);

const SHARED: Option<u64> = Some((raw::MAP_SHARED | raw::MAP_NORESERVE) as u64);
const IMAGE: Option<u64> = Some((raw::MAP_PRIVATE | raw::MAP_FIXED) as u64);

/// An mmap of private anonymous memory.
const fn memory_of(prot: Option<u64>, more_flags: u32) -> Need {
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS | more_flags;
    with(raw::__NR_mmap, [None, None, prot, Some(flags as u64), Some(u64::MAX), ZERO])
}

const DISPATCH: Option<u64> = Some(prctl::PR_SET_SYSCALL_USER_DISPATCH as u64);
const DISPATCH_ON: Option<u64> = Some(prctl::PR_SYS_DISPATCH_ON as u64);
const DISPATCH_OFF: Option<u64> = Some(prctl::PR_SYS_DISPATCH_OFF as u64);
const DONT_DUMP: Option<u64> = Some(raw::MADV_DONTDUMP as u64);
const MAP_PAGES: Option<u64> = Some(raw::MADV_POPULATE_READ as u64);
const NO_NEW_PRIVS: Option<u64> = Some(prctl::PR_GET_NO_NEW_PRIVS as u64);
const SET_GS: Option<u64> = Some(threads::ARCH_SET_GS as u64);

/// Calls made for new threads, signals, patching and execs, including those of the agent in a new
/// image.
const NEEDED: &[Need] = &[
    of(needed::MASKS, raw::__NR_rt_sigprocmask),
    of(needed::ACTIONS, raw::__NR_rt_sigaction),
    any(raw::__NR_rt_sigreturn),
    of(needed::STACKS, raw::__NR_sigaltstack),
    any(raw::__NR_futex),
    any(raw::__NR_getpid),
    any(raw::__NR_gettid),
    any(raw::__NR_getppid),
    any(raw::__NR_geteuid),
    any(raw::__NR_getegid),
    any(raw::__NR_tgkill),
    any(raw::__NR_rt_tgsigqueueinfo),
    any(raw::__NR_newfstatat),
    any(raw::__NR_fstat),
    any(raw::__NR_shmat),
    of(needed::UNMAPPING, raw::__NR_munmap),
    memory_of(RW, raw::MAP_NORESERVE),
    memory_of(RW, raw::MAP_NORESERVE | raw::MAP_FIXED),
    memory_of(RX, 0),
    memory_of(RX, raw::MAP_FIXED_NOREPLACE),
    memory_of(RWX, 0),
    // For an image in another IPC namespace.
    any(raw::__NR_socketpair),
    any(raw::__NR_recvmsg),
    any(raw::__NR_close),
    with(raw::__NR_mmap, [None, None, RW, SHARED, None, ZERO]),
    with(raw::__NR_mmap, [None, None, READ, SHARED, None, None]),
    with(raw::__NR_mmap, [None, None, RX, IMAGE, None, None]),
    with(raw::__NR_mprotect, [None, None, RX, ZERO, ZERO, ZERO]),
    with(raw::__NR_mprotect, [None, None, RWX, ZERO, ZERO, ZERO]),
    with(raw::__NR_prctl, [DISPATCH, DISPATCH_ON, None, None, None, ZERO]),
    with(raw::__NR_prctl, [DISPATCH, DISPATCH_OFF, ZERO, ZERO, ZERO, ZERO]),
    with(raw::__NR_prctl, [Some(exec::PR_GET_MDWE), ZERO, ZERO, ZERO, ZERO, ZERO]),
    with(raw::__NR_arch_prctl, [SET_GS, None, ZERO, ZERO, ZERO, ZERO]),
    with(raw::__NR_prctl, [NO_NEW_PRIVS, ZERO, ZERO, ZERO, ZERO, ZERO]),
    may_fail(raw::__NR_getresuid),
    may_fail_with(raw::__NR_madvise, [None, None, DONT_DUMP, ZERO, ZERO, ZERO]),
    may_fail_with(raw::__NR_madvise, [None, None, MAP_PAGES, ZERO, ZERO, ZERO]),
    may_fail(raw::__NR_munlock),
    may_fail(raw::__NR_sched_yield),
    may_fail(raw::__NR_getxattr),
    may_fail(raw::__NR_process_vm_readv),
    may_fail(raw::__NR_process_vm_writev),
    may_fail(raw::__NR_fstatfs),
    may_fail(raw::__NR_lseek),
    may_fail(raw::__NR_pread64),
];

/// Further calls, made if files are stored before they change, and in threads that may become
/// another user.
const NEEDED_BY_HELPERS: &[Need] = &[
    may_fail_with(raw::__NR_clone, [Some(helper::FLAGS), None, None, None, None, None]),
    may_fail_with(raw::__NR_close_range, [None, None, UNSHARE, ZERO, ZERO, ZERO]),
    may_fail(raw::__NR_openat),
    may_fail(raw::__NR_openat2),
    may_fail(raw::__NR_read),
    may_fail(raw::__NR_prlimit64),
    may_fail(raw::__NR_waitid),
    may_fail(raw::__NR_mlock2),
    may_fail(raw::__NR_mlockall),
    may_fail(raw::__NR_munlockall),
    any(raw::__NR_exit),
];
const UNSHARE: Option<u64> = Some(helper::CLOSE_RANGE_UNSHARE);

/// Error that the agent would take for a bad pointer of the program.
const EFAULT: u32 = 14;
/// Results of a filter, from linux/seccomp.h.
const ACTION: u32 = 0xffff_0000;
const ALLOW: u32 = 0x7fff_0000;
const LOG: u32 = 0x7ffc_0000;
const ERRNO: u32 = 0x0005_0000;
/// Limits for pending branches and steps per call: a filter that exceeds them denies the call.
const WAYS: usize = 16;
const STEPS: u32 = 100_000;

/// Opcodes, from linux/bpf_common.h: class, size or operation, source.
mod op {
    pub const LD_ABS: u16 = 0x20;
    pub const LD_IMM: u16 = 0x00;
    pub const LD_LEN: u16 = 0x80;
    pub const LD_MEM: u16 = 0x60;
    pub const LDX_IMM: u16 = 0x01;
    pub const LDX_LEN: u16 = 0x81;
    pub const LDX_MEM: u16 = 0x61;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const RET_K: u16 = 0x06;
    pub const RET_A: u16 = 0x16;
    pub const TAX: u16 = 0x07;
    pub const TXA: u16 = 0x87;
    pub const JUMP: u16 = 0x05;
    pub const CLASS: u16 = 0x07;
    pub const CLASS_ALU: u16 = 0x04;
    pub const CLASS_JUMP: u16 = 0x05;
    pub const SOURCE_X: u16 = 0x08;
    pub const WHAT: u16 = 0xf0;
}

/// A filter in the program's memory.
struct Filter<'a> {
    context: &'a Context,
    len: u16,
    instructions: u64,
}

/// Returns what this `struct sock_fprog` denies the agent: [`needed`] bits; 0: nothing.
pub fn denied(context: &Context, program: u64) -> u32 {
    // The kernel refuses a filter that cannot be read.
    let Some([len, instructions]) = memory::read::<[u64; 2]>(context, program) else { return 0 };
    let filter = Filter { context, len: len as u16, instructions };
    let with_helpers = snapshot::is_on(context) || users::may_change();
    let helpers = if with_helpers { NEEDED_BY_HELPERS } else { &[] };
    NEEDED.iter().chain(helpers).fold(0, |denied, need| {
        let not_needed = need.nr == raw::__NR_arch_prctl && space().can_write_gs;
        let lets_through =
            denied & need.what != 0 || not_needed || filter.lets_through(need).is_some();
        if lets_through { denied } else { denied | need.what }
    })
}

/// A number; `None`: unknown.
type Value = Option<u32>;

/// A path through the filter: the position and all registers.
#[derive(Clone, Copy)]
struct Way {
    at: u32,
    a: Value,
    x: Value,
    store: [Value; 16],
}

impl Filter<'_> {
    /// Follows all paths that a call may take; `None` if the call is refused on one of them.
    fn lets_through(&self, need: &Need) -> Option<()> {
        let zero = Some(0);
        let mut way = Way { at: 0, a: zero, x: zero, store: [zero; 16] };
        let mut others = [way; WAYS];
        let mut left = 0;
        for _ in 0..STEPS {
            if way.at >= u32::from(self.len) {
                return None;
            }
            let at = self.instructions + u64::from(way.at) * 8;
            let word = memory::read::<u64>(self.context, at)?;
            let (code, k) = (word as u16, (word >> 32) as u32);
            way.at += 1;
            match code {
                op::RET_K | op::RET_A => {
                    let verdict = if code == op::RET_K { k } else { way.a? };
                    if !is_fine(verdict, need) {
                        return None;
                    }
                    if left == 0 {
                        return Some(());
                    }
                    left -= 1;
                    way = others[left];
                }
                op::JUMP => way.at = way.at.checked_add(k)?,
                _ if code & op::CLASS == op::CLASS_JUMP => {
                    let yes = way.at + (word >> 16 & 0xff) as u32;
                    let no = way.at + (word >> 24 & 0xff) as u32;
                    let operand = if code & op::SOURCE_X != 0 { way.x } else { Some(k) };
                    way.at = match way.a.zip(operand) {
                        Some((a, b)) => {
                            if compare(code, a, b)? {
                                yes
                            } else {
                                no
                            }
                        }
                        None => {
                            *others.get_mut(left)? = Way { at: no, ..way };
                            left += 1;
                            yes
                        }
                    };
                }
                _ if code & op::CLASS == op::CLASS_ALU => {
                    let operand = if code & op::SOURCE_X != 0 { way.x } else { Some(k) };
                    way.a = match way.a.zip(operand) {
                        Some((a, b)) => Some(compute(code, a, b)?),
                        None => None,
                    };
                }
                _ => way.step(code, k, need)?,
            }
        }
        None
    }
}

impl Way {
    /// Executes an instruction that moves values.
    fn step(&mut self, code: u16, k: u32, need: &Need) -> Option<()> {
        const DATA_BYTES: u32 = size_of::<[u64; 8]>() as u32;
        match code {
            op::LD_ABS => self.a = load(k, need)?,
            op::LD_IMM => self.a = Some(k),
            op::LDX_IMM => self.x = Some(k),
            op::LD_LEN => self.a = Some(DATA_BYTES),
            op::LDX_LEN => self.x = Some(DATA_BYTES),
            op::LD_MEM => self.a = *self.store.get(k as usize)?,
            op::LDX_MEM => self.x = *self.store.get(k as usize)?,
            op::ST => *self.store.get_mut(k as usize)? = self.a,
            op::STX => *self.store.get_mut(k as usize)? = self.x,
            op::TAX => self.x = self.a,
            op::TXA => self.a = self.x,
            _ => return None,
        }
        Some(())
    }
}

/// Loads a word of `struct seccomp_data`; `None` for the instruction pointer or a bad offset.
fn load(offset: u32, need: &Need) -> Option<Value> {
    Some(match offset {
        0 => Some(need.nr),
        4 => Some(AUDIT_ARCH),
        16..64 if offset.is_multiple_of(4) => {
            let arg = need.args[(offset as usize - 16) / 8];
            arg.map(|arg| (arg >> (8 * (offset & 4))) as u32)
        }
        _ => return None,
    })
}

fn compare(code: u16, a: u32, b: u32) -> Option<bool> {
    Some(match code & op::WHAT {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        _ => return None,
    })
}

fn compute(code: u16, a: u32, b: u32) -> Option<u32> {
    Some(match code & op::WHAT {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 => a.checked_div(b)?,
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.checked_shl(b)?,
        0x70 => a.checked_shr(b)?,
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ b,
        _ => return None,
    })
}

fn is_fine(verdict: u32, need: &Need) -> bool {
    match verdict & ACTION {
        ALLOW | LOG => true,
        ERRNO => need.may_fail && verdict & !ACTION != EFAULT,
        _ => false,
    }
}
