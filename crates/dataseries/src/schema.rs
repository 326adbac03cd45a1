//! The types of exported files: those of SNIA, and our own for what SNIA's cannot hold.

use std::sync::LazyLock;

use syscalls::shape::{ArgKind, Syscall};

use crate::calls;
use crate::columns;
use crate::file::types::{FieldType, Type};

/// The 103 types of SNIA and their fields.
const SNIA_TABLE: &str = include_str!("schema/snia.table");
/// Prefix of the names of SNIA's types.
pub const SNIA: &str = "IOTTAFSL::Trace::Syscall::";
/// Prefix of the names of our types for other calls.
pub const OTHER: &str = "Reenact::Trace::Syscall::";
/// The type of calls that are not in the table.
pub const UNKNOWN: &str = "Reenact::Trace::Syscall::unknown";

/// Positions of the fields common to all types of SNIA.
pub mod common {
    /// Bytes of a buffer are missing.
    pub const BUFFER_NOT_CAPTURED: usize = 0;
    /// Error number, 0 for none.
    pub const ERRNO_NUMBER: usize = 1;
    /// Process group.
    pub const EXECUTING_PGID: usize = 3;
    /// Process id.
    pub const EXECUTING_PID: usize = 4;
    /// Id of the parent.
    pub const EXECUTING_PPID: usize = 5;
    /// Session.
    pub const EXECUTING_SID: usize = 6;
    /// Thread id.
    pub const EXECUTING_TID: usize = 7;
    /// User id.
    pub const EXECUTING_UID: usize = 8;
    /// Result, -1 for an error.
    pub const RETURN_VALUE: usize = 9;
    /// Time of the call.
    pub const TIME_CALLED: usize = 10;
    /// Time of the return.
    pub const TIME_RETURNED: usize = 12;
    /// Position among all records.
    pub const UNIQUE_ID: usize = 13;
    /// Number of common fields.
    pub const COUNT: usize = 14;
}

/// Names and XML of all types, in file order.
pub static TYPES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut all = snia();
    let tables = syscalls::table::ROWS.iter().flat_map(|rows| rows.iter());
    all.extend(tables.filter(|row| calls::by_number(row.nr).is_none()).map(other));
    all.push((UNKNOWN.into(), unknown()));
    all.extend(columns::declarations());
    all.sort();
    all
});

/// [`TYPES`], parsed.
pub static PARSED: LazyLock<Vec<Type>> = LazyLock::new(|| {
    // Tests check that all of them parse.
    TYPES.iter().map(|(_, xml)| Type::parse(xml).unwrap_or_default()).collect()
});

/// Returns the position of a type in [`TYPES`].
pub fn position(name: &str) -> Option<usize> {
    TYPES.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()
}

/// Returns the name of a call's type.
pub fn of_call(nr: u16) -> String {
    match (calls::by_number(nr), syscalls::by_number(nr.into())) {
        (Some(row), _) => format!("{SNIA}{}", row.name),
        (None, Some(row)) => format!("{OTHER}{}", row.name),
        (None, None) => UNKNOWN.into(),
    }
}

/// Returns SNIA's types byte for byte as Re-Animator writes them: readers compare the XML.
fn snia() -> Vec<(String, String)> {
    let mut common = String::new();
    let mut all: Vec<(String, String)> = Vec::new();
    for line in SNIA_TABLE.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None if line == "common" => {}
            None => {
                let head = format!(
                    "<ExtentType name=\"{SNIA}{line}\" namespace=\"iotta.snia.org\" \
                     version=\"1.00\">\n{common}"
                );
                all.push((format!("{SNIA}{line}"), head));
            }
            Some(field) => {
                let words: Vec<&str> = field.split(' ').collect();
                let null = if words.get(3).is_some() { "yes" } else { "no" };
                let field = format!(
                    "  <field field_id=\"{}\" name=\"{}\" type=\"{}\" opt_nullable=\"{null}\"/>\n",
                    words[0], words[1], words[2]
                );
                match all.last_mut() {
                    Some((_, xml)) => xml.push_str(&field),
                    None => common.push_str(&field),
                }
            }
        }
    }
    all.iter_mut().for_each(|(_, xml)| xml.push_str("</ExtentType>\n"));
    all
}

/// Declares the common fields of SNIA's types.
fn common_fields(xml: &mut columns::Declare) {
    // They keep their positions, so that all types are filled alike.
    let line = |line: &'static str| -> Option<(&'static str, &'static str, bool)> {
        let mut words = line.strip_prefix("  ")?.split(' ').skip(1);
        Some((words.next()?, words.next()?, words.next().is_some()))
    };
    let lines = SNIA_TABLE.lines().skip_while(|line| *line != "common").skip(1);
    for (name, kind, null) in lines.map_while(line).take(common::COUNT) {
        xml.field(name, kind, null);
    }
}

/// Declares the type of a call that is not in SNIA's schema. Its arguments keep their names:
/// integers as integers, memory behind pointers as bytes.
fn other(row: &Syscall) -> (String, String) {
    let name = format!("{OTHER}{}", row.name);
    let mut xml = columns::Declare::new(&name);
    common_fields(&mut xml);
    for arg in row.args {
        match is_bytes(arg.kind) {
            true => xml.field(arg.name, FieldType::Variable.name(), true),
            false => xml.field(arg.name, FieldType::Int64.name(), true),
        }
    }
    (name, xml.end())
}

/// Returns whether an argument is stored as the memory that it points to.
pub fn is_bytes(kind: ArgKind) -> bool {
    matches!(kind, ArgKind::Path | ArgKind::Str | ArgKind::Buf(..))
}

fn unknown() -> String {
    let mut xml = columns::Declare::new(UNKNOWN);
    common_fields(&mut xml);
    for name in ["number", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5"] {
        xml.field(name, FieldType::Int64.name(), true);
    }
    xml.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_are_sound() {
        assert_eq!(TYPES.iter().filter(|(name, _)| name.starts_with(SNIA)).count(), 103);
        for (name, xml) in TYPES.iter() {
            let of = Type::parse(xml).unwrap_or_else(|what| panic!("{name}: {what}"));
            assert_eq!(of.name, *name);
            if name.starts_with(SNIA) || name.starts_with(OTHER) {
                let at = |field: &str| of.field(field).unwrap();
                assert_eq!(at("executing_pgid"), common::EXECUTING_PGID);
                assert_eq!(at("executing_ppid"), common::EXECUTING_PPID);
                assert_eq!(at("executing_sid"), common::EXECUTING_SID);
                assert_eq!(at("executing_tid"), common::EXECUTING_TID);
                assert_eq!(at("executing_uid"), common::EXECUTING_UID);
                assert_eq!(at("time_returned"), common::TIME_RETURNED);
                assert_eq!(at("unique_id"), common::UNIQUE_ID);
            }
        }
    }

    #[test]
    fn every_call_has_a_type() {
        for row in syscalls::table::ROWS.iter().flat_map(|rows| rows.iter()) {
            let name = of_call(row.nr);
            assert!(position(&name).is_some(), "{name}");
        }
    }
}
