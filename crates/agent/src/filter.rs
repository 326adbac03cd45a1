//! Checks whether the program's seccomp filters let the agent make the calls that it needs.
//!
//! Before a filter is installed, it is interpreted for each of those calls. Arguments that vary are
//! unknown: if a filter branches on one, both branches must be fine. Filters stack and persist over
//! fork and exec, so one that allows everything need not be remembered.

use syscalls::abi::errno;

use crate::arch::frames::AUDIT_ARCH;
use crate::context::{Context, space};
use crate::memory;
use crate::needs::{self, Need, Row};

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

/// A filter: its length, and a function that reads an instruction.
struct Filter<R: Fn(u32) -> Option<u64>> {
    len: u32,
    read: R,
}

/// Returns what this `struct sock_fprog` denies the agent: [`needed`](crate::needs::needed) bits;
/// 0: nothing.
pub fn denied(context: &Context, program: u64) -> u32 {
    // The kernel refuses a filter that cannot be read.
    let Some([len, instructions]) = memory::read::<[u64; 2]>(context, program) else { return 0 };
    let read = |at: u32| memory::read::<u64>(context, instructions + u64::from(at) * 8);
    let filter = Filter { len: u32::from(len as u16), read };
    needs::ALL.iter().fold(0, |denied, row| {
        let is_made = row.nr != Need::SetGs.row().nr || !space().can_write_gs.get();
        let is_known = denied | row.what == denied || !is_made;
        if is_known || filter.lets_through(row).is_some() { denied } else { denied | row.what }
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

impl<R: Fn(u32) -> Option<u64>> Filter<R> {
    /// Follows all paths that a call may take; `None` if the call is refused on one of them.
    fn lets_through(&self, need: &Row) -> Option<()> {
        let zero = Some(0);
        let mut way = Way { at: 0, a: zero, x: zero, store: [zero; 16] };
        let mut others = [way; WAYS];
        let mut left = 0;
        for _ in 0..STEPS {
            if way.at >= self.len {
                return None;
            }
            let word = (self.read)(way.at)?;
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
    fn step(&mut self, code: u16, k: u32, need: &Row) -> Option<()> {
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
fn load(offset: u32, need: &Row) -> Option<Value> {
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

fn is_fine(verdict: u32, need: &Row) -> bool {
    match verdict & ACTION {
        ALLOW | LOG => true,
        // The agent would take EFAULT for a bad pointer of the program.
        ERRNO => need.may_fail && verdict & !ACTION != errno::EFAULT as u32,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use linux_raw_sys::general as raw;

    use super::*;
    use crate::needs::needed;

    const KILL: u32 = 0;
    const NUMBER: u32 = 0;
    const ARCH: u32 = 4;
    const ARGS: u32 = 16;
    const EQUAL: u16 = 0x15;
    const AND: u16 = 0x54;

    fn instruction(code: u16, yes: u8, no: u8, k: u32) -> u64 {
        u64::from(code) | u64::from(yes) << 16 | u64::from(no) << 24 | u64::from(k) << 32
    }

    fn simple(code: u16, k: u32) -> u64 {
        instruction(code, 0, 0, k)
    }

    fn lets_through(program: &[u64], need: Need) -> bool {
        let read = |at: u32| program.get(at as usize).copied();
        let filter = Filter { len: program.len() as u32, read };
        filter.lets_through(need.row()).is_some()
    }

    /// Returns a filter that gives `verdict` to calls with this number, and allows others.
    fn only(number: u32, verdict: u32) -> [u64; 4] {
        [
            simple(op::LD_ABS, NUMBER),
            instruction(EQUAL, 0, 1, number),
            simple(op::RET_K, verdict),
            simple(op::RET_K, ALLOW),
        ]
    }

    #[test]
    fn a_number_is_compared() {
        let program = only(raw::__NR_rt_sigprocmask, KILL);
        assert!(!lets_through(&program, Need::SetMask));
        assert!(lets_through(&program, Need::SetAction));
        assert!(lets_through(&only(raw::__NR_rt_sigprocmask, LOG), Need::SetMask));
    }

    #[test]
    fn an_error_is_fine_for_what_may_fail() {
        let refused = |number, error| only(number, ERRNO | error);
        assert!(lets_through(&refused(raw::__NR_madvise, errno::EPERM as u32), Need::MapPages));
        assert!(!lets_through(&refused(raw::__NR_madvise, errno::EFAULT as u32), Need::MapPages));
        assert!(!lets_through(&refused(raw::__NR_futex, errno::EPERM as u32), Need::Futex));
    }

    #[test]
    fn both_ways_of_an_unknown_argument_must_be_fine() {
        let by_argument = |argument: u32, bits: u32| {
            [
                simple(op::LD_ABS, ARGS + 8 * argument),
                simple(AND, bits),
                instruction(EQUAL, 0, 1, bits),
                simple(op::RET_K, KILL),
                simple(op::RET_K, ALLOW),
            ]
        };
        let writable = raw::PROT_WRITE;
        assert!(!lets_through(&by_argument(0, 1), Need::MapMemory), "any address");
        assert!(!lets_through(&by_argument(2, writable), Need::MapMemory));
        assert!(lets_through(&by_argument(2, writable), Need::MapCode));
        assert!(lets_through(&by_argument(2, raw::PROT_EXEC), Need::MapMemory));
    }

    #[test]
    fn registers_and_memory_are_followed() {
        let program = [
            simple(op::LD_ABS, ARCH),
            simple(op::ST, 3),
            simple(op::LDX_IMM, 0),
            simple(op::LD_MEM, 3),
            simple(op::TAX, 0),
            simple(op::LD_IMM, AUDIT_ARCH),
            simple(0x1c, 0), // a -= x
            instruction(EQUAL, 0, 1, 0),
            simple(op::RET_K, ALLOW),
            simple(op::RET_K, KILL),
        ];
        assert!(lets_through(&program, Need::Pid));
        let returned = [simple(op::LD_IMM, ALLOW), simple(op::RET_A, 0)];
        assert!(lets_through(&returned, Need::Pid));
    }

    #[test]
    fn what_few_need_may_fail() {
        let of_few = needs::ALL.iter().filter(|row| row.what & needed::ALL == 0);
        assert!(of_few.clone().filter(|row| row.what == needed::RINGS).count() > 5);
        assert!(
            of_few
                .filter(|row| row.what != needed::UNASKED)
                .all(|row| row.may_fail || row.nr == Need::ExitHelper.row().nr)
        );
        let no_timers = only(raw::__NR_timer_settime, KILL);
        assert!(
            !lets_through(&no_timers, Need::SetTimer) && lets_through(&no_timers, Need::MapRing)
        );
        let no_code = [
            simple(op::LD_ABS, NUMBER),
            instruction(EQUAL, 0, 3, raw::__NR_mmap),
            simple(op::LD_ABS, ARGS + 16),
            simple(AND, raw::PROT_EXEC),
            instruction(EQUAL, 1, 0, raw::PROT_EXEC),
            simple(op::RET_K, ALLOW),
            simple(op::RET_K, KILL),
        ];
        assert!(lets_through(&no_code, Need::MapRing) && lets_through(&no_code, Need::MapShared));
    }

    #[test]
    fn the_own_clock_may_be_let_through_where_others_are_not() {
        let program = [
            simple(op::LD_ABS, NUMBER),
            instruction(EQUAL, 0, 3, raw::__NR_clock_gettime),
            simple(op::LD_ABS, ARGS),
            instruction(EQUAL, 1, 0, raw::CLOCK_THREAD_CPUTIME_ID),
            simple(op::RET_K, KILL),
            simple(op::RET_K, ALLOW),
        ];
        assert!(lets_through(&program, Need::OwnClock) && !lets_through(&program, Need::ClockOf));
    }

    #[test]
    fn what_makes_no_sense_denies() {
        let allow = simple(op::RET_K, ALLOW);
        assert!(lets_through(&[allow], Need::Pid));
        for program in [
            &[][..],
            &[simple(op::LD_IMM, 1)],
            &[simple(op::LD_ABS, 8), allow], // the instruction pointer
            &[simple(op::LD_ABS, 64), allow],
            &[simple(op::LD_ABS, 2), allow],
            &[simple(op::LD_MEM, 16), allow],
            &[simple(op::JUMP, u32::MAX), allow],
            &[simple(0x34, 0), allow], // a /= 0
            &[simple(0xffff, 0), allow],
        ] {
            assert!(!lets_through(program, Need::Pid), "{program:x?}");
        }
    }

    #[test]
    fn work_is_bounded() {
        // Every instruction doubles the ways.
        let mut program: Vec<u64> = Vec::new();
        for _ in 0..40 {
            program.push(simple(op::LD_ABS, ARGS));
            program.push(instruction(EQUAL, 1, 0, 7));
            program.push(simple(op::TAX, 0));
        }
        program.push(simple(op::RET_K, ALLOW));
        assert!(!lets_through(&program, Need::MapMemory));
    }
}
