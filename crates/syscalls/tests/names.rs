//! Names of flags, values, errors and signals, and the layouts of structs.

use std::collections::HashSet;

use syscalls::abi::errno;
use syscalls::abi::signals::name as signal_name;
use syscalls::flags;
use syscalls::layout::{Field, FieldKind, Layout};
use syscalls::shape::{Arg, ArgKind, FlagSet, Of};
use syscalls::table::ROWS;

fn args() -> impl Iterator<Item = &'static Arg> {
    ROWS.iter().flat_map(|group| group.iter()).flat_map(|call| {
        call.args.iter().chain(call.variants.iter().flat_map(|variant| variant.args))
    })
}

fn add_layout(layout: &'static Layout, to: &mut Vec<&'static Layout>) {
    if !to.iter().any(|known| std::ptr::eq(*known, layout)) {
        to.push(layout);
        for field in layout.fields {
            add_field(field.kind, to);
        }
    }
}

fn add_field(kind: FieldKind, to: &mut Vec<&'static Layout>) {
    match kind {
        FieldKind::Struct(inner) => add_layout(inner, to),
        FieldKind::Array(_, element) => add_field(*element, to),
        _ => {}
    }
}

/// Returns all layouts used by the table.
fn layouts() -> Vec<&'static Layout> {
    let mut found = Vec::new();
    for arg in args() {
        match arg.kind {
            ArgKind::Buf(_, Of::Struct(layout), _) => add_layout(layout, &mut found),
            ArgKind::Buf(_, Of::Holder(holder), _) => {
                add_layout(holder.layout, &mut found);
                if let Of::Struct(layout) = holder.of {
                    add_layout(layout, &mut found);
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns all flag sets used by the table.
fn sets() -> Vec<&'static FlagSet> {
    let mut found: Vec<&'static FlagSet> = args()
        .filter_map(|arg| match arg.kind {
            ArgKind::Flags(set) | ArgKind::Enum(set) => Some(set),
            _ => None,
        })
        .collect();
    for field in layouts().iter().flat_map(|layout| layout.fields) {
        if let FieldKind::Flags(_, set) | FieldKind::Enum(_, set) | FieldKind::Named(_, set) =
            field.kind
        {
            found.push(set);
        }
    }
    found
}

#[test]
fn names_in_a_set_are_distinct() {
    for set in sets() {
        let names: HashSet<_> = set.members.iter().map(|m| m.1).collect();
        assert_eq!(names.len(), set.members.len(), "{} has a name twice", set.name);
        let values: HashSet<_> = set.members.iter().map(|m| m.0).collect();
        assert_eq!(values.len(), set.members.len(), "{} has a value twice", set.name);
    }
}

#[test]
fn members_of_a_field_stand_within_its_mask() {
    for set in sets() {
        if set.value_mask != 0 {
            for (value, name) in set.members {
                let inside = value & !set.value_mask == 0;
                let outside = value & set.value_mask == 0;
                assert!(inside || outside, "{name} straddles the mask of {}", set.name);
            }
        }
    }
}

#[test]
fn flags_that_contain_others_come_first() {
    for arg in args() {
        let ArgKind::Flags(set) = arg.kind else { continue };
        for (i, (value, name)) in set.members.iter().enumerate() {
            if value & !set.value_mask == 0 {
                continue;
            }
            for (earlier, earlier_name) in &set.members[..i] {
                let flag = earlier & !set.value_mask != 0;
                let contained = flag && earlier & !value == 0;
                assert!(!contained, "{earlier_name} comes before {name} in {}", set.name);
            }
        }
    }
}

fn size(kind: FieldKind) -> u32 {
    match kind {
        FieldKind::Signed(bytes)
        | FieldKind::Unsigned(bytes)
        | FieldKind::Hex(bytes)
        | FieldKind::Mode(bytes)
        | FieldKind::Dev(bytes)
        | FieldKind::Flags(bytes, _)
        | FieldKind::Enum(bytes, _)
        | FieldKind::Named(bytes, _) => u32::from(bytes),
        FieldKind::Signal | FieldKind::Fd => 4,
        FieldKind::SigSet => 8,
        FieldKind::Text(bytes) | FieldKind::Bytes(bytes) => u32::from(bytes),
        FieldKind::Struct(layout) => layout.size,
        FieldKind::Array(count, kind) => u32::from(count) * size(*kind),
    }
}

#[test]
fn fields_follow_each_other_within_their_struct() {
    let layouts = layouts();
    assert!(layouts.len() > 80, "only {} layouts found", layouts.len());
    for layout in layouts {
        let mut end = 0;
        let mut names = HashSet::new();
        for Field { name, offset, kind, .. } in layout.fields {
            assert!(names.insert(name), "{} has {name} twice", layout.name);
            assert!(*offset >= end, "{}.{name} overlaps what is before it", layout.name);
            end = offset + size(*kind);
        }
        assert!(end > 0 && end <= layout.size, "{} ends at {end}", layout.name);
    }
}

fn split(set: &'static FlagSet, value: u64) -> (Vec<&'static str>, u64) {
    let mut names = set.split(value);
    let list = names.by_ref().collect();
    (list, names.left())
}

#[test]
fn open_flags_are_an_access_mode_and_flags() {
    let names = |value| split(&flags::OPEN, value);
    assert_eq!(names(0), (vec!["O_RDONLY"], 0));
    assert_eq!(names(0o2101), (vec!["O_WRONLY", "O_CREAT", "O_APPEND"], 0));
    assert_eq!(names(0o4010002), (vec!["O_RDWR", "O_SYNC"], 0));
    assert_eq!(names(0o10002), (vec!["O_RDWR", "O_DSYNC"], 0));
    assert_eq!(names(0o20200002), (vec!["O_RDWR", "O_TMPFILE"], 0));
    assert_eq!(names(0o200000), (vec!["O_RDONLY", "O_DIRECTORY"], 0));
    assert_eq!(names(0x4000_0003), (vec![], 0x4000_0003));
}

#[test]
fn clone_flags_end_with_a_signal() {
    let names = |value| split(&flags::CLONE, value);
    assert_eq!(
        names(0x0120_0011),
        (vec!["CLONE_CHILD_CLEARTID", "CLONE_CHILD_SETTID", "SIGCHLD"], 0)
    );
    assert_eq!(names(0x4100), (vec!["CLONE_VM", "CLONE_VFORK"], 0));
    assert_eq!(names(17), (vec!["SIGCHLD"], 0));
}

#[test]
fn a_value_without_a_name_stays_whole() {
    assert_eq!(split(&flags::PROT, 0), (vec!["PROT_NONE"], 0));
    assert_eq!(split(&flags::PROT, 5), (vec!["PROT_READ", "PROT_EXEC"], 0));
    assert_eq!(split(&flags::PROT, 0x41), (vec!["PROT_READ"], 0x40));
    assert_eq!(split(&flags::NO_FLAGS, 7), (vec![], 7));
    assert_eq!(
        split(&flags::FUTEX, 0x189),
        (vec!["FUTEX_WAIT_BITSET_PRIVATE", "FUTEX_CLOCK_REALTIME"], 0)
    );
}

#[test]
fn negative_values_are_found_however_they_were_extended() {
    let name = |value| flags::RUSAGE.name_of(value);
    assert_eq!(name(0xffff_ffff), Some("RUSAGE_CHILDREN"));
    assert_eq!(name(u64::MAX), Some("RUSAGE_CHILDREN"));
    assert_eq!(name(77), None);
    assert_eq!(flags::RLIM.name_of(u64::MAX), Some("RLIM64_INFINITY"));
    assert_eq!(flags::RLIM.name_of(0xffff_ffff), None);
}

#[test]
fn errors_have_names() {
    let name_of = |number| errno::describe(number).map(|(name, _)| name);
    assert_eq!(name_of(1), Some("EPERM"));
    assert_eq!(errno::describe(2), Some(("ENOENT", "No such file or directory")));
    assert_eq!(name_of(11), Some("EAGAIN"));
    assert_eq!(name_of(133), Some("EHWPOISON"));
    assert_eq!(name_of(512), Some("ERESTARTSYS"));
    assert_eq!(name_of(516), Some("ERESTART_RESTARTBLOCK"));
    for nothing in [-1, 0, 41, 58, 134, 511, i32::MAX] {
        assert_eq!(name_of(nothing), None, "{nothing}");
    }
    for number in (1..=133).filter(|number| ![41, 58].contains(number)) {
        assert!(name_of(number).is_some(), "no name for {number}");
    }
    let numbers = errno::ERRORS.iter().map(|error| error.0);
    assert!(numbers.is_sorted_by(|a, b| a < b), "errors are looked up by bisection");
}

#[test]
fn signals_have_names() {
    assert_eq!(signal_name(0), None);
    assert_eq!(signal_name(9), Some("SIGKILL"));
    assert_eq!(signal_name(31), Some("SIGSYS"));
    assert_eq!(signal_name(32), Some("SIGRTMIN"));
    assert_eq!(signal_name(34), Some("SIGRT_2"));
    assert_eq!(signal_name(64), Some("SIGRT_32"));
    assert_eq!(signal_name(65), None);
    assert_eq!(signal_name(i32::MIN), None);
    use syscalls::abi::signals::{SIGCHLD, SIGSEGV, code_name};
    assert_eq!(code_name(SIGCHLD, 1), Some("CLD_EXITED"));
    assert_eq!(code_name(SIGSEGV, 99), None);
    assert_eq!(code_name(SIGSEGV, -1), Some("SI_QUEUE"));
}

#[test]
fn every_value_that_selects_a_variant_has_a_name() {
    const WHOLE: u64 = 0xffff_ffff;
    let mut checked = 0;
    for call in ROWS.iter().flat_map(|group| group.iter()) {
        for variant in call.variants.iter().filter(|variant| variant.mask == WHOLE) {
            let (ArgKind::Enum(set) | ArgKind::Flags(set)) =
                call.args[usize::from(variant.key_arg)].kind
            else {
                continue;
            };
            if set.name != "PER_" {
                let name = set.name_of(variant.value);
                assert!(name.is_some(), "{}: {:#x} has no name", call.name, variant.value);
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "only {checked} variants are selected by a named value");
}

#[test]
fn every_named_operation_of_fcntl_and_prctl_is_understood() {
    for (call, set) in [("fcntl", &flags::FCNTL), ("prctl", &flags::PRCTL)] {
        let variants = syscalls::by_name(call).unwrap().variants;
        for (value, name) in set.members {
            assert!(variants.iter().any(|v| value & v.mask == v.value), "{call} {name}");
        }
    }
}
