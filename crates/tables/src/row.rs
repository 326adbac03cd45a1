//! The columns of each call's own table, derived from its row in the table of system calls.

use model::decode::holds_many;
use syscalls::layout::{FieldKind, Layout};
use syscalls::shape::{Arg, ArgKind, Dir, Of, Syscall};

use crate::schema::{Field, Type};

/// Name of the column with the number of bytes in a buffer.
pub const LENGTH: &str = "length";

/// A column of a call's table, which shows an aspect of one argument.
#[derive(Clone, PartialEq, Debug)]
pub struct ArgumentColumn {
    /// Name of the argument.
    pub arg: &'static str,
    /// Number of the argument in most variants of the call.
    pub number: u8,
    /// Aspect of the argument.
    pub take: Take,
    /// Name and type of the column.
    pub column: Field,
}

/// Aspect of an argument that a column shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// The value; for plain data, the address.
    Value,
    /// The pointed-to value.
    Pointee,
    /// The pointed-to value before the call, if it is captured after it as well.
    Before,
    /// The pointed-to value after the call, if it is captured before it as well.
    After,
    /// Symbolic names of flags, signals etc.
    Names,
    /// The path of a descriptor, or the absolute form of a path.
    Path,
    /// Length of the captured data in the program.
    Length(When),
    /// Hash of the captured data.
    Hash(When),
    /// Length and hash of each message's data.
    Messages,
    /// The value as JSON.
    Json,
}

/// Time of capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before or after the call, captured once.
    Once,
    /// Before the call, of data captured twice.
    Before,
    /// After the call, of data captured twice.
    After,
}

/// The columns before the arguments.
pub const HEAD: [&str; 6] = ["seq", "pid", "enter", "duration_ns", "ret", "errno"];
/// The partition column, which is not in the files.
const RUN: &str = "run";

/// Returns the columns of a row's arguments in all its variants.
pub fn views(row: &Syscall) -> Vec<ArgumentColumn> {
    let variants = row.variants.iter().map(|variant| variant.args);
    let mut all: Vec<ArgumentColumn> = Vec::new();
    let mut clashing: Vec<&'static str> = Vec::new();
    for args in [row.args].into_iter().chain(variants) {
        for (arg, number) in args.iter().zip(0..) {
            for view in of_argument(arg, number) {
                let known = all.iter_mut().find(|known| known.column.name == view.column.name);
                match known {
                    Some(known) => {
                        if !join(known, &view) {
                            clashing.push(view.arg);
                            clashing.push(known.arg);
                        }
                    }
                    None => all.push(view),
                }
            }
        }
    }
    for arg in clashing {
        // Variants that disagree about an argument share a text column.
        let Some(first) = all.iter().position(|view| view.arg == arg) else { continue };
        if all[first].take == Take::Json {
            continue;
        }
        let number = all[first].number;
        let of_data = |take| matches!(take, Take::Length(_) | Take::Hash(_) | Take::Messages);
        all.retain(|view| view.arg != arg || of_data(view.take));
        all.insert(first, view(arg, number, Take::Json, "", Type::Text));
    }
    all
}

/// Returns the columns of a call without a row.
pub fn bare(args: &'static [Arg]) -> Vec<ArgumentColumn> {
    args.iter().zip(0..).flat_map(|(arg, number)| of_argument(arg, number)).collect()
}

/// Merges two columns if possible; numbers get the wider type. Returns false otherwise.
fn join(known: &mut ArgumentColumn, other: &ArgumentColumn) -> bool {
    if known.arg != other.arg || known.take != other.take {
        return false;
    }
    if known.column.ty == other.column.ty {
        return true;
    }
    let is_number = |ty: &Type| matches!(ty, Type::Int | Type::Long);
    if is_number(&known.column.ty) && is_number(&other.column.ty) {
        known.column.ty = Type::Long;
        return true;
    }
    false
}

fn view(arg: &'static str, number: u8, take: Take, suffix: &str, ty: Type) -> ArgumentColumn {
    let mut name = format!("{arg}{suffix}");
    if name == RUN || HEAD.contains(&name.as_str()) {
        name.insert_str(0, "arg_");
    }
    ArgumentColumn { arg, number, take, column: Field::new(name, ty) }
}

fn of_argument(arg: &'static Arg, number: u8) -> Vec<ArgumentColumn> {
    let view = |take, suffix: &str, ty| view(arg.name, number, take, suffix, ty);
    let value = |ty| view(Take::Value, "", ty);
    match arg.kind {
        ArgKind::Int | ArgKind::Pid => vec![value(Type::Int)],
        ArgKind::Uint
        | ArgKind::Long
        | ArgKind::Ulong
        | ArgKind::Hex
        | ArgKind::Mode
        | ArgKind::Address => {
            vec![value(Type::Long)]
        }
        ArgKind::Uid | ArgKind::Gid | ArgKind::Dev | ArgKind::Offset | ArgKind::Size => {
            vec![value(Type::Long)]
        }
        ArgKind::Fd | ArgKind::DirFd => {
            vec![value(Type::Int), view(Take::Path, "_path", Type::Text)]
        }
        ArgKind::Signal => vec![value(Type::Int), view(Take::Names, "_text", Type::Text)],
        ArgKind::Flags(_) | ArgKind::Enum(_) => {
            vec![value(Type::Long), view(Take::Names, "_text", Type::Text)]
        }
        ArgKind::Path => vec![value(Type::Text), view(Take::Path, "_path", Type::Text)],
        ArgKind::Str => vec![value(Type::Text)],
        ArgKind::StrArray => vec![value(list(Type::Text))],
        ArgKind::Buf(dir, of, len) => {
            let (ty, take) = match memory(of) {
                Some(ty) if matches!(of, Of::Bytes) => (ty, Take::Value),
                Some(ty) if matches!(of, Of::Struct(_)) && holds_many(of, len) => {
                    (list(ty), Take::Pointee)
                }
                Some(ty) => (ty, Take::Pointee),
                None => (Type::Text, Take::Json),
            };
            let twice = is_twice(dir, of);
            let mut views = Vec::new();
            if twice && take == Take::Pointee {
                views.push(view(Take::Before, "", ty.clone()));
                views.push(view(Take::After, "_out", ty));
            } else {
                views.push(view(take, "", ty));
            }
            match data_of(of) {
                None => {}
                Some(Carries::Messages) => {
                    let fields =
                        vec![Field::new(LENGTH, Type::Long), Field::new("hash", Type::Hash)];
                    views.push(view(Take::Messages, "_data", list(Type::Struct(fields))));
                }
                Some(_) => {
                    let when = if twice { When::Before } else { When::Once };
                    views.push(view(Take::Length(when), "_length", Type::Long));
                    views.push(view(Take::Hash(when), "_hash", Type::Hash));
                    if twice {
                        let when = When::After;
                        views.push(view(Take::Length(when), "_out_length", Type::Long));
                        views.push(view(Take::Hash(when), "_out_hash", Type::Hash));
                    }
                }
            }
            views
        }
    }
}

/// Returns true if memory is captured before and after the call, and both are shown.
pub fn is_twice(dir: Dir, of: Of) -> bool {
    dir == Dir::InOut && !matches!(of, Of::Iovec | Of::Msghdr | Of::Mmsghdr)
}

/// Relation of a kind of memory to transferred data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carries {
    /// The memory is the data.
    Itself,
    /// The memory points to the data.
    Content,
    /// The memory points to several messages with data.
    Messages,
}

/// Returns how memory of a kind carries plain data, if it does.
pub fn data_of(of: Of) -> Option<Carries> {
    match of {
        Of::Bytes => Some(Carries::Itself),
        Of::Iovec | Of::Msghdr | Of::Holder(_) => Some(Carries::Content),
        Of::Mmsghdr => Some(Carries::Messages),
        _ => None,
    }
}

fn list(item: Type) -> Type {
    Type::List(Box::new(item))
}

/// Returns the type of memory, `None` if it differs between calls.
fn memory(of: Of) -> Option<Type> {
    Some(match of {
        Of::Bytes | Of::SigSet | Of::WaitStatus => Type::Long,
        Of::Text => Type::Text,
        Of::Struct(layout) => Type::Struct(fields(layout)),
        Of::I32 | Of::Fds | Of::FdSet | Of::Bits => list(Type::Int),
        Of::U32 | Of::I64 | Of::U64 => list(Type::Long),
        Of::Iovec => list(Type::Struct(vec![
            Field::new("iov_base", Type::Long),
            Field::new("iov_len", Type::Long),
        ])),
        Of::Dirents | Of::Dirents64 => list(Type::Struct(vec![
            Field::new("d_ino", Type::Long),
            Field::new("d_off", Type::Long),
            Field::new("d_reclen", Type::Long),
            Field::new("d_type", Type::Long),
            Field::new("d_type_text", Type::Text),
            Field::new("d_name", Type::Text),
        ])),
        Of::Siginfo | Of::Sockaddr | Of::Msghdr | Of::Mmsghdr | Of::Holder(_) => return None,
    })
}

/// Returns the fields of a struct. Those with symbolic names have a text field as well.
fn fields(layout: &Layout) -> Vec<Field> {
    let mut all: Vec<Field> = Vec::new();
    for field in layout.fields {
        // Structs may repeat a name (reserved words); keep the first.
        if all.iter().any(|known| known.name.eq_ignore_ascii_case(field.name)) {
            continue;
        }
        all.push(Field::new(field.name, of_field(field.kind)));
        if has_names(field.kind) {
            all.push(Field::new(format!("{}_text", field.name), Type::Text));
        }
    }
    all
}

fn of_field(kind: FieldKind) -> Type {
    match kind {
        FieldKind::Signed(1 | 2 | 4) | FieldKind::Unsigned(1 | 2) => Type::Int,
        FieldKind::Signal | FieldKind::Fd => Type::Int,
        FieldKind::Text(_) => Type::Text,
        FieldKind::Bytes(_) => Type::Bytes,
        FieldKind::Struct(layout) => Type::Struct(fields(layout)),
        FieldKind::Array(_, kind) => list(of_field(*kind)),
        _ => Type::Long,
    }
}

fn has_names(kind: FieldKind) -> bool {
    matches!(
        kind,
        FieldKind::Flags(..) | FieldKind::Enum(..) | FieldKind::Named(..) | FieldKind::Signal
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn named(name: &str) -> Vec<ArgumentColumn> {
        views(syscalls::by_name(name).expect("a row"))
    }

    fn names(views: &[ArgumentColumn]) -> Vec<&str> {
        views.iter().map(|view| view.column.name.as_str()).collect()
    }

    #[test]
    fn columns_come_from_rows() {
        assert_eq!(
            names(&named("pwrite64")),
            ["fd", "fd_path", "buf", "buf_length", "buf_hash", "count", "offset"]
        );
        let renameat = named("renameat2");
        assert_eq!(names(&renameat)[2..4], ["oldpath", "oldpath_path"]);
        assert_eq!(names(&named("kill")), ["arg_pid", "sig", "sig_text"]);
        let stat = named("fstat");
        let Some(Type::Struct(fields)) = stat.last().map(|view| view.column.ty.clone()) else {
            panic!("{stat:?}")
        };
        assert!(fields.contains(&Field::new("st_size", Type::Long)));
    }

    #[test]
    fn variants_that_disagree_share_text() {
        let ioctl = named("ioctl");
        let of = |arg: &str| ioctl.iter().filter(|view| view.arg == arg).collect::<Vec<_>>();
        let shared = ArgumentColumn {
            arg: "argp",
            number: 2,
            take: Take::Json,
            column: Field::new("argp", Type::Text),
        };
        assert_eq!(of("argp")[0], &shared);
        let data = |view: &&ArgumentColumn| matches!(view.take, Take::Length(_) | Take::Hash(_));
        assert!(of("argp")[1..].iter().all(data), "{ioctl:?}");
        assert_eq!(of("fd").len(), 2, "{ioctl:?}");
    }

    #[test]
    fn every_row_makes_a_table() {
        for row in syscalls::table::ROWS.iter().flat_map(|rows| rows.iter()) {
            let views = views(row);
            let mut seen: BTreeSet<String> = HEAD.iter().map(|name| name.to_string()).collect();
            seen.insert(RUN.into());
            for view in &views {
                let name = view.column.name.to_ascii_lowercase();
                assert!(seen.insert(name), "{}: {} stands twice", row.name, view.column.name);
            }
        }
    }
}
