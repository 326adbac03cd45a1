//! The table is complete and consistent.

use std::collections::HashSet;

use syscalls::Operand;
use syscalls::capture::{self, OPS_MAX};
use syscalls::layout::FieldKind;
use syscalls::operations::{AIO_FIRST, NOTHING, OPERATIONS_FIRST};
use syscalls::shape::{Arg, ArgKind, Dir, Extent, Gives, Len, Of, Ret};
use syscalls::table::{NUMBER_LIMIT, ROWS};
use syscalls::{Act, Classes, Replay, Syscall, by_name, by_number};

/// Numbers on x86_64, present and former: the gap has x32 calls and reserved numbers. A new call
/// raises the last one, and that of the call that `acceptance/tests/one_row.rs` makes up.
fn known_numbers() -> impl Iterator<Item = u64> {
    (0..=336).chain(424..=470).chain(operations())
}

/// Numbers of operations: by the opcodes of Linux AIO.
fn operations() -> impl Iterator<Item = u64> {
    let of_aio = [0, 1, 2, 3, 5, 6, 7, 8].into_iter().map(|opcode| u64::from(AIO_FIRST) + opcode);
    (0..=64).chain([127]).map(|opcode| u64::from(OPERATIONS_FIRST) + opcode).chain(of_aio)
}

fn rows() -> impl Iterator<Item = &'static Syscall> {
    ROWS.iter().flat_map(|group| group.iter())
}

/// Returns the arguments of every row and variant, with a name for messages.
fn argument_lists() -> impl Iterator<Item = (String, &'static [Arg])> {
    rows().flat_map(|call| {
        let variants = call.variants.iter().map(|v| {
            (format!("{} with {:#x} in argument {}", call.name, v.value, v.key_arg), v.args)
        });
        std::iter::once((call.name.to_string(), call.args)).chain(variants)
    })
}

#[test]
fn every_number_has_exactly_one_row() {
    let mut seen = HashSet::new();
    for call in rows() {
        assert!(seen.insert(u64::from(call.nr)), "two rows for {}", call.nr);
    }
    let wanted: HashSet<u64> = known_numbers().collect();
    let missing: Vec<_> = wanted.difference(&seen).collect();
    let odd: Vec<_> = seen.difference(&wanted).collect();
    assert!(
        missing.is_empty() && odd.is_empty(),
        "missing {missing:?}, not in `known_numbers` {odd:?}"
    );
}

#[test]
fn rows_are_found_by_number_and_by_name() {
    let mut names = HashSet::new();
    for call in rows() {
        assert!(names.insert(call.name), "two rows named {}", call.name);
        assert_eq!(by_number(u64::from(call.nr)).unwrap().name, call.name);
        assert_eq!(by_name(call.name).unwrap().nr, call.nr);
    }
    for unknown in [337, 423, NUMBER_LIMIT as u64, u64::MAX] {
        assert!(by_number(unknown).is_none(), "{unknown}");
    }
    assert!(by_name("no_such_call").is_none());
}

#[test]
fn arguments_have_distinct_names_and_fit_the_registers() {
    for (name, args) in argument_lists() {
        assert!(args.len() <= 6, "{name} has {} arguments", args.len());
        let distinct: HashSet<_> = args.iter().map(|a| a.name).collect();
        assert_eq!(distinct.len(), args.len(), "{name} has two arguments of one name");
    }
}

/// Returns whether a length can be taken from an argument of this kind.
fn is_number(kind: ArgKind) -> bool {
    matches!(kind, ArgKind::Int | ArgKind::Uint | ArgKind::Long | ArgKind::Ulong | ArgKind::Size)
}

#[test]
fn lengths_come_from_arguments_that_hold_one() {
    for (name, args) in argument_lists() {
        for arg in args {
            let ArgKind::Buf(dir, of, len) = arg.kind else { continue };
            let what = format!("{name}: {} ({len:?})", arg.name);
            match len {
                Len::Arg(i)
                | Len::ArgTimes(i, _)
                | Len::ArgPlus(i, _)
                | Len::BitsArg(i)
                | Len::PagesArg(i)
                | Len::RetAtMost(i, _) => {
                    let source = args.get(usize::from(i)).unwrap_or_else(|| panic!("{what}"));
                    assert!(is_number(source.kind), "{what}: {} is not a number", source.name);
                }
                Len::Pointee(i) => {
                    let source = args.get(usize::from(i)).unwrap_or_else(|| panic!("{what}"));
                    assert!(
                        matches!(
                            source.kind,
                            ArgKind::Buf(Dir::InOut, Of::I32 | Of::U32, Len::Fixed(4))
                        ),
                        "{what}: {} does not point to a length",
                        source.name
                    );
                }
                Len::FixedIfRet(_)
                | Len::Ret
                | Len::RetPath
                | Len::RetTimes(_)
                | Len::RetPlus(_) => {
                    assert_eq!(dir, Dir::Out, "{what}: no result is known before the call");
                }
                Len::Fixed(bytes) => assert!(bytes > 0, "{what}"),
                Len::Counted { unit, .. } => assert!(unit > 0, "{what}"),
                Len::SelfSized => {}
                // The kernel writes as much as it likes: no replay makes such a call.
                Len::OfSet(i) => {
                    assert!(is_number(args[usize::from(i)].kind), "{what}");
                    let row = syscalls::by_name(name.split(' ').next().unwrap_or(&name));
                    let replay = row.map(|row| row.replay);
                    assert_eq!(replay, Some(syscalls::Replay::Ignored), "{what}");
                }
            }
            if matches!(len, Len::RetAtMost(..)) {
                assert_eq!(dir, Dir::Out, "{what}: no result is known before the call");
            }
            if let Of::Holder(holder) = of {
                assert!(!matches!(holder.of, Of::Holder(_) | Of::Iovec | Of::Msghdr | Of::Mmsghdr));
                assert!(matches!(holder.pointer.length_bytes, 2 | 4 | 8), "{what}");
                assert!(u32::from(holder.pointer.at) + 8 <= holder.layout.size, "{what}");
            }
        }
    }
}

#[test]
fn structs_are_captured_whole() {
    for (name, args) in argument_lists() {
        for arg in args {
            if let ArgKind::Buf(_, Of::Struct(layout), Len::Fixed(bytes)) = arg.kind {
                let rest = bytes % layout.size;
                assert_eq!(rest, 0, "{name}: {} cuts a struct {}", arg.name, layout.name);
            }
            if let ArgKind::Buf(
                _,
                Of::Struct(layout),
                Len::ArgTimes(_, bytes) | Len::RetTimes(bytes),
            ) = arg.kind
            {
                assert_eq!(bytes, layout.size, "{name}: {}", arg.name);
            }
        }
    }
}

#[test]
fn variants_can_be_reached() {
    for call in rows() {
        for (i, variant) in call.variants.iter().enumerate() {
            let what = format!("{}, variant {i}", call.name);
            assert!(usize::from(variant.key_arg) < call.args.len(), "{what}: key out of range");
            assert_eq!(variant.value & !variant.mask, 0, "{what}: the value is outside the mask");
            for earlier in &call.variants[..i] {
                let hidden = earlier.key_arg == variant.key_arg
                    && earlier.mask & !variant.mask == 0
                    && variant.value & earlier.mask == earlier.value;
                assert!(!hidden, "{what} ({:#x}) is hidden by an earlier one", variant.value);
            }
        }
    }
}

#[test]
fn a_variant_that_takes_other_arguments_is_captured_differently() {
    const F_GETLK: u64 = 5;
    const F_GETFD: u64 = 1;
    let fcntl = u64::from(by_name("fcntl").unwrap().nr);
    let (row, unknown) = capture::row(fcntl, &[3, F_GETLK, 0x1000, 0, 0, 0]);
    assert!(!unknown && row.has_in && row.has_out && row.nargs == 3);
    let (row, unknown) = capture::row(fcntl, &[3, F_GETFD, 0x1000, 0, 0, 0]);
    assert!(!unknown && !row.has_in && !row.has_out && row.nargs == 2);
    let (row, unknown) = capture::row(fcntl, &[3, 0xabcdef, 0x1000, 0, 0, 0]);
    assert!(unknown && row.nops == 0 && row.nargs == 3);
}

#[test]
fn variants_are_chosen_by_the_32_bits_that_the_kernel_looks_at() {
    const TCGETS: u64 = 0x5401;
    let ioctl = u64::from(by_name("ioctl").unwrap().nr);
    let (row, unknown) = capture::row(ioctl, &[0, TCGETS | 0xdead << 32, 0, 0, 0, 0]);
    assert!(!unknown && row.nops == 1);
}

#[test]
fn a_mode_is_an_argument_only_when_a_file_may_be_made() {
    const O_CREAT: u64 = 0o100;
    const O_TMPFILE: u64 = 0o20200000;
    let openat = u64::from(by_name("openat").unwrap().nr);
    for (flags, nargs) in [(0, 3), (O_CREAT, 4), (O_TMPFILE, 4)] {
        let (row, unknown) = capture::row(openat, &[0, 0, flags, 0, 0, 0]);
        assert!(!unknown && row.nargs == nargs, "{flags:o}");
    }
}

#[test]
fn the_capture_rows_follow_the_table() {
    for call in rows() {
        let buffers = |args: &[Arg]| {
            args.iter()
                .filter(|a| {
                    matches!(
                        a.kind,
                        ArgKind::Path | ArgKind::Str | ArgKind::StrArray | ArgKind::Buf(..)
                    )
                })
                .count()
        };
        for variant in call.variants {
            assert!(buffers(variant.args) <= OPS_MAX, "{}", call.name);
        }
        if call.variants.is_empty() {
            let (row, unknown) = match call.queue {
                Some(_) => (capture::operation(call.nr, &[0; 6]), false),
                None => capture::row(u64::from(call.nr), &[0; 6]),
            };
            assert!(row.known && !unknown, "{}", call.name);
            let more = |arg: &Arg| match arg.kind {
                ArgKind::Buf(_, Of::Mmsghdr, _) => 1,
                _ => usize::from(arg.told_on_error),
            };
            let behind = usize::from(matches!(call.gives, Gives::ObjectBehind(..)));
            let ops = buffers(call.args) + call.args.iter().map(more).sum::<usize>() + behind;
            assert_eq!(usize::from(row.nops), ops, "{}", call.name);
            assert_eq!(usize::from(row.nargs), call.args.len(), "{}", call.name);
        }
    }
    let (row, unknown) = capture::row(400, &[0; 6]);
    assert!(!row.known && !unknown && row.nargs == 6);
    let (row, _) = capture::row(u64::MAX, &[0; 6]);
    assert!(!row.known);
    // Programs may call the number of an operation, which is none of the kernel's.
    let (row, _) = capture::row(u64::from(AIO_FIRST), &[0; 6]);
    assert!(!row.known && !capture::operation(0, &[0; 6]).known);
    let recorded = [0, 470, 0x3ff, OPERATIONS_FIRST.into(), 0x9999, u64::MAX];
    let recorded = recorded.map(capture::recorded_number);
    assert_eq!(recorded, [0, 470, 0x3ff, u16::MAX, 0x9999, u16::MAX]);
}

/// A replay makes the call instead, with these arguments.
#[test]
fn operations_have_the_arguments_of_the_call_that_does_the_same() {
    let mut count = 0;
    for row in rows().filter(|row| row.queue.is_some()) {
        let Some(cousin) = row.cousin else {
            assert_ne!(row.replay, Replay::Real, "{}: how would it be made?", row.name);
            continue;
        };
        let call = by_number(cousin.nr.into()).unwrap();
        assert_eq!((call.replay, call.ret), (row.replay, row.ret), "{}", row.name);
        // Memory that is lent to the kernel is sent by a call that copies it.
        let act = if row.act == Act::LendMemory { Act::Plain } else { row.act };
        assert_eq!((call.act, call.classes), (act, row.classes), "{}", row.name);
        for (arg, from) in call.args.iter().zip(cousin.args) {
            if from == NOTHING {
                continue;
            }
            let given = &row.args[usize::from(from)];
            let name = format!("{}: {}", row.name, given.name);
            assert_eq!(arg.operand, given.operand, "{name}");
            let is_offset = matches!(arg.operand, Operand::SourceAt | Operand::TargetAt);
            if cousin.offsets_behind && is_offset {
                assert!(matches!(given.kind, ArgKind::Offset), "{name}");
                continue;
            }
            assert_eq!(kind_of(arg), kind_of(given), "{name}");
        }
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

fn kind_of(arg: &Arg) -> String {
    match arg.kind {
        ArgKind::Buf(dir, of, len) => {
            format!("{dir:?} {:?} {len:?}", std::mem::discriminant(&of))
        }
        kind => format!("{:?}", std::mem::discriminant(&kind)),
    }
}

#[test]
fn classes_say_what_a_call_takes() {
    for call in rows() {
        let paths = call.args.iter().any(|a| matches!(a.kind, ArgKind::Path));
        if paths {
            assert!(call.classes.intersects(Classes::FILE), "{} takes a path", call.name);
        }
        let takes =
            |args: &[Arg]| args.iter().any(|a| matches!(a.kind, ArgKind::Fd | ArgKind::DirFd));
        if takes(call.args) || call.ret == Ret::Fd {
            assert!(call.classes.intersects(Classes::DESC), "{} is about descriptors", call.name);
        }
    }
}

/// A replay rebuilds every argument, so it must know the meaning of each.
#[test]
fn what_is_made_again_has_no_argument_of_unknown_meaning() {
    for (call, args) in made_again() {
        for arg in args {
            let unknown = matches!(arg.kind, ArgKind::Address | ArgKind::Hex | ArgKind::StrArray);
            assert!(!unknown, "{}: {} may point anywhere", call.name, arg.name);
        }
    }
}

/// Returns the calls that a replay repeats, and their arguments.
fn made_again() -> impl Iterator<Item = (&'static Syscall, &'static [Arg])> {
    let is_made = |replay| matches!(replay, Replay::Real | Replay::Numbers);
    rows().flat_map(move |call| {
        // A row whose variants are exhaustive is not used by itself.
        let own = (call.variants.is_empty() && is_made(call.replay)).then_some(call.args);
        let variants = call.variants.iter();
        let variants = variants.filter(move |v| is_made(v.replay.unwrap_or(call.replay)));
        own.into_iter().chain(variants.map(|v| v.args)).map(move |args| (call, args))
    })
}

/// A replay limits how far the kernel may read or write, so it must know the argument that says so.
#[test]
fn what_is_made_again_says_how_far_the_kernel_goes() {
    for (call, args) in made_again() {
        let mut counted = HashSet::new();
        for (number, arg) in args.iter().enumerate() {
            let ArgKind::Buf(_, of, len) = arg.kind else { continue };
            let what = format!("{}: {} ({len:?})", call.name, arg.name);
            let extent = len.extent(number as u8);
            if let Extent::Argument { number, .. } | Extent::Bits(number) | Extent::Pages(number) =
                extent
            {
                let counter = args.get(usize::from(number));
                let counter = counter.unwrap_or_else(|| panic!("{what} ends with the row"));
                assert!(is_number(counter.kind), "{what}: {} is not a number", counter.name);
                counted.insert(number);
            }
            match of {
                Of::Iovec | Of::Mmsghdr => {
                    assert!(matches!(extent, Extent::Argument { .. }), "{what} is not counted");
                }
                Of::Msghdr => assert_eq!(extent, Extent::Fixed(56), "{what}"),
                _ => {}
            }
        }
        let moves_memory = |arg: &Arg| matches!(arg.kind, ArgKind::Buf(_, Of::Bytes | Of::Text, _));
        if args.iter().any(moves_memory) {
            for (number, arg) in args.iter().enumerate() {
                let size = matches!(arg.kind, ArgKind::Size) && !counted.contains(&(number as u8));
                assert!(!size, "{}: of what is {} the size?", call.name, arg.name);
            }
        }
    }
}

/// Structs that the kernel reads are passed as they were recorded.
#[test]
fn what_is_made_again_gives_no_address_in_a_struct() {
    let is_address = |kind: FieldKind| matches!(kind, FieldKind::Hex(8));
    for (call, args) in made_again() {
        for (arg, number) in args.iter().zip(0u8..) {
            let ArgKind::Buf(Dir::In | Dir::InOut, Of::Struct(layout), _) = arg.kind else {
                continue;
            };
            if call.cousin.is_some_and(|cousin| !cousin.args.contains(&number)) {
                continue;
            }
            let address = layout.fields.iter().find(|field| is_address(field.kind));
            let address = address.map(|field| field.name);
            assert_eq!(address, None, "{}: {}", call.name, arg.name);
        }
    }
}

#[test]
fn plain_writes_are_known() {
    let plain: Vec<&str> =
        rows().filter(|row| row.writes_at_own_offset()).map(|row| row.name).collect();
    assert_eq!(plain, ["write", "writev"]);
}
