//! Compares the table with the kernel's header of numbers and its trace events for system calls.
//! Either may be absent; what was compared is printed.

use std::fs;

use syscalls::shape::{Arg, ArgKind, Dir, Of};
use syscalls::{by_name, by_number};

const HEADER: &str = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";
const EVENTS: &str = "/sys/kernel/tracing/events/syscalls";

/// Trace events are named after kernel functions; these differ from the names of the calls.
const FUNCTION_NAMES: &[(&str, &str)] = &[
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
];

/// An argument in the description of a trace event.
struct Field {
    kind: String,
    name: String,
}

#[test]
fn numbers_and_names_are_those_of_the_header() {
    let Ok(text) = fs::read_to_string(HEADER) else {
        println!("nothing to compare with: {HEADER} is missing");
        return;
    };
    let mut compared = 0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("#define __NR_") else { continue };
        let Some((name, nr)) = rest.split_once(' ') else { continue };
        let Ok(nr) = nr.trim().parse() else { continue };
        let row = by_number(nr).unwrap_or_else(|| panic!("{nr} ({name}) has no row"));
        assert_eq!(row.name, name, "the name of {nr}");
        compared += 1;
    }
    assert!(compared > 300, "only {compared} numbers in {HEADER}");
    println!("compared {compared} numbers");
}

#[test]
fn arguments_are_those_of_the_trace_events() {
    let Ok(events) = fs::read_dir(EVENTS) else {
        println!("nothing to compare with: {EVENTS} cannot be read (mount tracefs, be root)");
        return;
    };
    let mut compared = 0;
    let mut differences = Vec::new();
    for event in events.flatten() {
        let event = event.file_name().into_string().unwrap();
        let Some(function) = event.strip_prefix("sys_enter_") else { continue };
        let Ok(format) = fs::read_to_string(format!("{EVENTS}/{event}/format")) else { continue };
        let renamed = FUNCTION_NAMES.iter().find(|n| n.0 == function);
        let name = renamed.map_or(function, |n| n.1);
        let Some(row) = by_name(name) else {
            differences.push(format!("{name} has no row"));
            continue;
        };
        compare(name, row.args, &fields(&format), &mut differences);
        compared += 1;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    println!("compared {compared} trace events");
}

/// Parses the arguments in a `format` file.
fn fields(format: &str) -> Vec<Field> {
    format
        .lines()
        .filter_map(|line| line.trim().strip_prefix("field:")?.split_once(';'))
        .filter_map(|(declaration, _)| declaration.rsplit_once(' '))
        .filter(|(_, name)| !name.starts_with("common_") && *name != "__syscall_nr")
        .map(|(kind, name)| Field { kind: kind.to_string(), name: name.to_string() })
        .collect()
}

fn compare(call: &str, args: &[Arg], fields: &[Field], differences: &mut Vec<String>) {
    if args.len() != fields.len() {
        let names: Vec<_> = fields.iter().map(|f| f.name.as_str()).collect();
        differences.push(format!(
            "{call} has {} arguments in the table, {} in the kernel ({})",
            args.len(),
            fields.len(),
            names.join(", ")
        ));
        return;
    }
    for (arg, field) in args.iter().zip(fields) {
        if let Some(why) = contradiction(arg.kind, &field.kind) {
            differences.push(format!(
                "{call}: {} {why}, and is `{} {}` in the kernel",
                arg.name, field.kind, field.name
            ));
        }
    }
}

/// Returns what the C type of an argument contradicts in its kind.
fn contradiction(kind: ArgKind, c: &str) -> Option<&'static str> {
    let captured =
        matches!(kind, ArgKind::Path | ArgKind::Str | ArgKind::StrArray | ArgKind::Buf(..));
    let pointer = c.contains('*') || c.contains("cap_user_");
    // The buffers of a constant vector may be written.
    let vector = matches!(kind, ArgKind::Buf(_, Of::Iovec, _));
    let written = matches!(kind, ArgKind::Buf(Dir::Out | Dir::InOut | Dir::OutOnError, ..));
    if captured && !pointer {
        Some("is captured")
    } else if pointer && !captured && !matches!(kind, ArgKind::Address | ArgKind::Hex) {
        Some("is no pointer")
    } else if written && !vector && c.starts_with("const ") {
        Some("is written")
    } else {
        None
    }
}

#[test]
fn contradictions_are_seen() {
    assert!(contradiction(ArgKind::Path, "int").is_some());
    assert!(contradiction(ArgKind::Int, "const char *").is_some());
    assert!(contradiction(ArgKind::Path, "const char *").is_none());
    let format = "\tfield:int __syscall_nr;\toffset:8;\n\tfield:const char * name;\toffset:16;\n";
    let fields = fields(format);
    assert_eq!(fields.len(), 1);
    assert_eq!((fields[0].kind.as_str(), fields[0].name.as_str()), ("const char *", "name"));
}
