//! The types of the files that are written: those of SNIA, and our own for what those cannot hold.

use std::sync::LazyLock;

use events::shape::{Kind as ArgKind, Syscall};

use crate::calls;
use crate::columns;
use crate::file::types::{Kind, Type};

/// The 103 types with their fields.
const SNIA_TABLE: &str = include_str!("schema/snia.table");
/// What the names of those types begin with.
pub const SNIA: &str = "IOTTAFSL::Trace::Syscall::";
/// What the names of our types for other calls begin with.
pub const OTHER: &str = "Reenact::Trace::Syscall::";
/// The type of calls that the table does not know.
pub const UNKNOWN: &str = "Reenact::Trace::Syscall::unknown";

/// Positions of the fields that every type of SNIA has.
pub mod common {
    /// Something that the call carried is not here.
    pub const BUFFER_NOT_CAPTURED: usize = 0;
    /// The error, 0 for none.
    pub const ERRNO_NUMBER: usize = 1;
    /// The process.
    pub const EXECUTING_PID: usize = 4;
    /// The thread.
    pub const EXECUTING_TID: usize = 7;
    /// The result, -1 for an error.
    pub const RETURN_VALUE: usize = 9;
    /// When the call began.
    pub const TIME_CALLED: usize = 10;
    /// When the call returned.
    pub const TIME_RETURNED: usize = 12;
    /// The record's place among all records.
    pub const UNIQUE_ID: usize = 13;
    /// How many there are.
    pub const COUNT: usize = 14;
}

/// The types in the order of the file: their names and XML.
pub static TYPES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut all = snia();
    let tables = events::table::ROWS.iter().flat_map(|rows| rows.iter());
    all.extend(tables.filter(|row| calls::by_number(row.nr).is_none()).map(other));
    all.push((UNKNOWN.into(), unknown()));
    all.extend(columns::declarations());
    all.sort();
    all
});

/// The same, worked out.
pub static PARSED: LazyLock<Vec<Type>> = LazyLock::new(|| {
    // The tests parse all of them.
    TYPES.iter().map(|(_, xml)| Type::parse(xml).unwrap_or_default()).collect()
});

/// The position of a type among [`TYPES`].
pub fn position(name: &str) -> Option<usize> {
    TYPES.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()
}

/// The name of the type of a call.
pub fn of_call(nr: u16) -> String {
    match (calls::by_number(nr), events::by_number(nr.into())) {
        (Some(row), _) => format!("{SNIA}{}", row.name),
        (None, Some(row)) => format!("{OTHER}{}", row.name),
        (None, None) => UNKNOWN.into(),
    }
}

/// Byte for byte as Re-Animator writes them: readers compare types by their text.
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

/// The fields of a SNIA type that are not common to all, in the type's order.
fn common_fields(xml: &mut columns::Declare) {
    // The same fields at the same positions, so that both kinds of types are filled alike.
    let line = |line: &'static str| -> Option<(&'static str, &'static str, bool)> {
        let mut words = line.strip_prefix("  ")?.split(' ').skip(1);
        Some((words.next()?, words.next()?, words.next().is_some()))
    };
    let lines = SNIA_TABLE.lines().skip_while(|line| *line != "common").skip(1);
    for (name, kind, null) in lines.map_while(line).take(common::COUNT) {
        xml.field(name, kind, null);
    }
}

/// The type of a call that SNIA's schema does not have: its arguments under their names, numbers
/// as numbers, and what pointers lead to as bytes.
fn other(row: &Syscall) -> (String, String) {
    let name = format!("{OTHER}{}", row.name);
    let mut xml = columns::Declare::new(&name);
    common_fields(&mut xml);
    for arg in row.args {
        match is_bytes(arg.kind) {
            true => xml.field(arg.name, Kind::Variable.name(), true),
            false => xml.field(arg.name, Kind::Int64.name(), true),
        }
    }
    (name, xml.end())
}

/// Whether an argument is told by the memory that it points to.
pub fn is_bytes(kind: ArgKind) -> bool {
    matches!(kind, ArgKind::Path | ArgKind::Str | ArgKind::Buf(..))
}

fn unknown() -> String {
    let mut xml = columns::Declare::new(UNKNOWN);
    common_fields(&mut xml);
    for name in ["number", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5"] {
        xml.field(name, Kind::Int64.name(), true);
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
                assert_eq!(at("executing_tid"), common::EXECUTING_TID);
                assert_eq!(at("time_returned"), common::TIME_RETURNED);
                assert_eq!(at("unique_id"), common::UNIQUE_ID);
            }
        }
    }

    #[test]
    fn every_call_has_a_type() {
        for row in events::table::ROWS.iter().flat_map(|rows| rows.iter()) {
            let name = of_call(row.nr);
            assert!(position(&name).is_some(), "{name}");
        }
    }
}
