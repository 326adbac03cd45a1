//! Runs the recorded programs' own seccomp filters again, to find the calls that they answered and
//! the kernel never made. A filter is a program over a call's number and arguments, which are in
//! the trace.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use syscalls::abi::tasks::SECCOMP_FILTER_FLAG_TSYNC;
use syscalls::record::part;
use syscalls::shape::of_set;
use syscalls::{flags, layout};
use trace::event::{Call, Outcome};

use crate::contents::{Contents, piece};
use crate::decode::shape::shape_of;

/// Limit for the instructions of all filters of a thread, as in the kernel.
const INSTRUCTIONS_MAX: usize = 32_768;
/// Bytes of an instruction: code, two jump offsets, a constant.
const INSTRUCTION_BYTES: usize = 8;
/// `AUDIT_ARCH_X86_64`.
const ARCH: u32 = 0xc000_003e;
/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const POINTER_AT: u32 = 8;
const ARGS_AT: u32 = 16;
const DATA_BYTES: u32 = 64;

/// Verdicts of linux/seccomp.h. The lowest one of all filters counts, compared as signed numbers.
const ACTION: u32 = 0xffff_0000;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;
const USER_NOTIF: u32 = 0x7fc0_0000;
const TRACE: u32 = 0x7ff0_0000;
const ALLOW: u32 = 0x7fff_0000;

/// The filters of a thread, most recent first.
#[derive(Debug)]
pub struct Filters {
    program: Vec<Instruction>,
    before: Option<Rc<Filters>>,
    /// Number of instructions in this and all earlier filters.
    sum: usize,
    /// Cached verdicts that depend on the call number alone.
    known: RefCell<HashMap<u16, u32>>,
}

/// One instruction.
#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

/// Verdict of filters on a call.
struct Verdict {
    action: u32,
    by_number: bool,
}

/// Returns the program that a call installs, and true if it applies to all threads.
pub fn installed(call: &Call, contents: &mut dyn Contents) -> Option<(Vec<u8>, bool)> {
    call.data.iter().find(|data| data.part == part::CONTENT)?;
    let shape = shape_of(call);
    let number = shape.args.iter().position(|arg| arg.holds(&layout::FILTER))?;
    let data = piece(&call.data, number as u8, part::CONTENT, 0, false)?;
    let bytes = contents.read(&data.content, INSTRUCTIONS_MAX * INSTRUCTION_BYTES).ok()?;
    let flags = of_set(shape.args, &flags::SECCOMP_FLAGS).map(|arg| call.args[usize::from(arg)]);
    Some((bytes, flags.is_some_and(|flags| flags & SECCOMP_FILTER_FLAG_TSYNC != 0)))
}

impl Filters {
    /// Adds a filter on top of the existing ones.
    pub fn add(bytes: &[u8], before: Option<Rc<Filters>>) -> Option<Rc<Filters>> {
        let (all, _) = bytes.as_chunks::<INSTRUCTION_BYTES>();
        let program: Vec<Instruction> = all.iter().map(Instruction::of).collect();
        let sum = program.len() + before.as_ref().map_or(0, |before| before.sum);
        if program.is_empty() || sum > INSTRUCTIONS_MAX {
            return before;
        }
        Some(Rc::new(Filters { program, before, sum, known: RefCell::default() }))
    }

    /// Returns true if the filters answered a call, so that the kernel did not make it: with an
    /// error, or by SIGSYS. If a tracer or a listener decided, an error may come from it or from
    /// the kernel. It counts as an answer, since a failed call need not be made again.
    pub fn answer(&self, call: &Call) -> bool {
        let known = self.known.borrow().get(&call.nr).copied();
        let action = known.unwrap_or_else(|| {
            let verdict = self.verdict(call);
            if verdict.by_number {
                self.known.borrow_mut().insert(call.nr, verdict.action);
            }
            verdict.action
        });
        match action & ACTION {
            TRAP | ERRNO => true,
            USER_NOTIF | TRACE => matches!(call.outcome, Outcome::Returned { ret, .. } if ret < 0),
            _ => false,
        }
    }

    fn verdict(&self, call: &Call) -> Verdict {
        let mut all = Verdict { action: ALLOW, by_number: true };
        let mut next = Some(self);
        while let Some(filter) = next {
            let Verdict { action, by_number } = run(&filter.program, call);
            all.by_number &= by_number;
            if ((action & ACTION) as i32) < (all.action & ACTION) as i32 {
                all.action = action;
            }
            next = filter.before.as_deref();
        }
        all
    }
}

impl Instruction {
    fn of(bytes: &[u8; INSTRUCTION_BYTES]) -> Instruction {
        let [a, b, if_true, if_false, k @ ..] = *bytes;
        Instruction {
            code: u16::from_le_bytes([a, b]),
            if_true,
            if_false,
            k: u32::from_le_bytes(k),
        }
    }
}

/// Instruction codes of linux/bpf_common.h.
mod op {
    pub const CLASS: u16 = 0x07;
    pub const LD: u16 = 0x00;
    pub const LDX: u16 = 0x01;
    pub const ST: u16 = 0x02;
    pub const STX: u16 = 0x03;
    pub const ALU: u16 = 0x04;
    pub const JUMP: u16 = 0x05;
    pub const RET: u16 = 0x06;
    pub const MISC: u16 = 0x07;
    /// Source of a load.
    pub const MODE: u16 = 0xe0;
    pub const IMM: u16 = 0x00;
    pub const ABS: u16 = 0x20;
    pub const MEM: u16 = 0x60;
    pub const LEN: u16 = 0x80;
    /// Operation or comparison, and its second operand.
    pub const WHAT: u16 = 0xf0;
    pub const SOURCE_X: u16 = 0x08;
    pub const RETURNS_A: u16 = 0x10;
    pub const TXA: u16 = 0x80;
}

/// Runs a filter. An invalid filter lets every call through, and so does one that reads the
/// instruction pointer, which the recording changed.
fn run(program: &[Instruction], call: &Call) -> Verdict {
    let (mut a, mut x, mut store) = (0u32, 0u32, [0u32; 16]);
    let mut by_number = true;
    let mut at = 0;
    let unknown = |by_number| Verdict { action: ALLOW, by_number };
    // Jumps only lead forward, so the loop ends.
    while let Some(&Instruction { code, if_true, if_false, k }) = program.get(at) {
        at += 1;
        let slot = store.get(k as usize).copied();
        match code & op::CLASS {
            class @ (op::LD | op::LDX) => {
                let value = match code & op::MODE {
                    op::IMM => Some(k),
                    op::LEN => Some(DATA_BYTES),
                    op::MEM => slot,
                    op::ABS if class == op::LD => {
                        by_number &= k < POINTER_AT;
                        word(call, k)
                    }
                    _ => None,
                };
                let Some(value) = value else { return unknown(by_number) };
                *(if class == op::LD { &mut a } else { &mut x }) = value;
            }
            class @ (op::ST | op::STX) => {
                let Some(slot) = store.get_mut(k as usize) else { return unknown(by_number) };
                *slot = if class == op::ST { a } else { x };
            }
            op::ALU => {
                let with = if code & op::SOURCE_X != 0 { x } else { k };
                let Some(value) = compute(code & op::WHAT, a, with) else {
                    return unknown(by_number);
                };
                a = value;
            }
            op::JUMP => {
                let with = if code & op::SOURCE_X != 0 { x } else { k };
                let holds = match code & op::WHAT {
                    0x00 => {
                        at = at.saturating_add(k as usize);
                        continue;
                    }
                    0x10 => a == with,
                    0x20 => a > with,
                    0x30 => a >= with,
                    0x40 => a & with != 0,
                    _ => return unknown(by_number),
                };
                at += usize::from(if holds { if_true } else { if_false });
            }
            op::RET => {
                let action = if code & op::RETURNS_A != 0 { a } else { k };
                return Verdict { action, by_number };
            }
            op::MISC => {
                if code & op::TXA != 0 {
                    a = x;
                } else {
                    x = a;
                }
            }
            _ => {}
        }
    }
    unknown(by_number)
}

/// Reads a word of `struct seccomp_data`, without the instruction pointer.
fn word(call: &Call, at: u32) -> Option<u32> {
    match at {
        NUMBER_AT => Some(call.nr.into()),
        ARCH_AT => Some(ARCH),
        ARGS_AT.. if at.is_multiple_of(4) && at < DATA_BYTES => {
            let arg = call.args[((at - ARGS_AT) / 8) as usize];
            Some(if at.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 })
        }
        _ => None,
    }
}

fn compute(what: u16, a: u32, with: u32) -> Option<u32> {
    Some(match what {
        0x00 => a.wrapping_add(with),
        0x10 => a.wrapping_sub(with),
        0x20 => a.wrapping_mul(with),
        0x30 => a.checked_div(with)?,
        0x40 => a | with,
        0x50 => a & with,
        0x60 => a.checked_shl(with).unwrap_or(0),
        0x70 => a.checked_shr(with).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ with,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, args: [u64; 6]) -> Call {
        Call {
            nr: syscalls::by_name(name).unwrap().nr,
            flags: 0,
            site: 0x1000,
            nargs: 6,
            args,
            outcome: Outcome::Returned { exit_tsc: 0, ret: 0 },
            data: Vec::new(),
            identities: Vec::new(),
        }
    }

    fn bytes(program: &[(u16, u8, u8, u32)]) -> Vec<u8> {
        let one = |&(code, if_true, if_false, k): &(u16, u8, u8, u32)| {
            let [a, b] = code.to_le_bytes();
            let [c, d, e, f] = k.to_le_bytes();
            [a, b, if_true, if_false, c, d, e, f]
        };
        program.iter().flat_map(one).collect()
    }

    const LOAD: u16 = 0x20;
    const IS: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const PIPE2: u32 = 293;

    #[test]
    fn what_a_filter_answers_is_told_from_what_it_lets_through() {
        let program = bytes(&[
            (LOAD, 0, 0, NUMBER_AT),
            (IS, 0, 1, PIPE2),
            (RETURN, 0, 0, ERRNO | 1),
            (RETURN, 0, 0, ALLOW),
        ]);
        let filters = Filters::add(&program, None).unwrap();
        for _ in 0..2 {
            assert!(filters.answer(&call("pipe2", [0; 6])));
            assert!(!filters.answer(&call("pipe", [0; 6])));
        }
        // A second filter, which reads the upper half of an argument.
        let program = bytes(&[
            (LOAD, 0, 0, NUMBER_AT),
            (IS, 0, 3, 0),
            (LOAD, 0, 0, ARGS_AT + 8 + 4),
            (0x45, 0, 1, 0b100),
            (RETURN, 0, 0, TRAP),
            (RETURN, 0, 0, ALLOW),
        ]);
        let both = Filters::add(&program, Some(filters)).unwrap();
        assert!(both.answer(&call("pipe2", [0; 6])));
        assert!(both.answer(&call("read", [0, 5 << 32, 0, 0, 0, 0])));
        assert!(!both.answer(&call("read", [0, 1 << 32, 0, 0, 0, 0])));
        assert!(both.answer(&call("read", [0, 4 << 32, 0, 0, 0, 0])), "it is not remembered");
    }

    #[test]
    fn what_others_answer_is_known_by_its_failure() {
        let program = bytes(&[
            (LOAD, 0, 0, NUMBER_AT),
            (IS, 0, 1, PIPE2),
            (RETURN, 0, 0, USER_NOTIF),
            (RETURN, 0, 0, TRACE),
        ]);
        let filters = Filters::add(&program, None).unwrap();
        let with = |name, ret| Call {
            outcome: Outcome::Returned { exit_tsc: 0, ret },
            ..call(name, [0; 6])
        };
        for name in ["pipe2", "pipe"] {
            assert!(filters.answer(&with(name, -13)));
            assert!(!filters.answer(&with(name, 0)));
            assert!(!filters.answer(&Call { outcome: Outcome::Unfinished, ..with(name, 0) }));
        }
    }

    #[test]
    fn all_instructions_are_known() {
        // ((nr * 3 + 1) ^ 5) >> 1, computed via memory and X, is 2 for read.
        let program = bytes(&[
            (LOAD, 0, 0, NUMBER_AT),
            (0x24, 0, 0, 3),
            (0x04, 0, 0, 1),
            (0xa4, 0, 0, 5),
            (0x74, 0, 0, 1),
            (0x02, 0, 0, 3),
            (0x00, 0, 0, 9),
            (0x61, 0, 0, 3),
            (0x87, 0, 0, 0),
            (0x07, 0, 0, 0),
            (0x1d, 0, 2, 0),
            (IS, 0, 1, 2),
            (RETURN, 0, 0, ERRNO),
            (RETURN, 0, 0, ALLOW),
        ]);
        let filters = Filters::add(&program, None).unwrap();
        assert!(filters.answer(&call("read", [0; 6])));
        assert!(!filters.answer(&call("close", [0; 6])));
    }

    #[test]
    fn nonsense_answers_nothing() {
        for program in [
            &[(LOAD, 0, 0, 3)][..],
            &[(LOAD, 0, 0, 64)],
            &[(0x05, 0, 0, u32::MAX)],
            &[(0x34, 0, 0, 0)],
            &[(0x02, 0, 0, 16)],
            &[(0xffff, 255, 255, u32::MAX)],
            &[(LOAD, 0, 0, POINTER_AT), (RETURN, 0, 0, ERRNO)],
        ] {
            let filters = Filters::add(&bytes(program), None).unwrap();
            assert!(!filters.answer(&call("read", [0; 6])), "{program:?}");
        }
        assert!(Filters::add(&[0; 7], None).is_none());
        let much = vec![0; (INSTRUCTIONS_MAX + 1) * INSTRUCTION_BYTES];
        assert!(Filters::add(&much, None).is_none());
    }
}
