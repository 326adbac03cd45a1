//! Conversion of decoded values to columns.

use std::borrow::Cow;

use model::Value;
use model::decode::symbols;
use syscalls::abi::signals;

use crate::column::{Column, Place};

/// Adds a value to a column, or null if the types do not match.
pub fn put(column: &mut Column, place: Place, value: &Value) {
    match (&mut *column, value) {
        (_, Value::Changed(before, _)) => put(column, place, before),
        (Column::List(_), Value::Array { items, .. }) => column.list(place, items.iter(), put),
        (Column::List(_), Value::FdSet(fds)) => {
            column.list(place, fds.iter(), |column, place, fd| column.number(place, (*fd).into()));
        }
        // A single struct where there may be several.
        (Column::List(_), Value::Struct { .. }) => column.list(place, [value].into_iter(), put),
        (Column::Struct(_), Value::Struct { fields, .. }) => put_fields(column, place, fields),
        (Column::Leaf(_), Value::Array { items, .. }) => match &items[..] {
            [only] => put(column, place, only),
            _ => column.null(place),
        },
        (Column::Leaf(_), Value::Text { bytes, .. }) => column.text(place, bytes),
        (Column::Leaf(_), Value::Bytes(bytes)) if bytes.at == 0 => {
            column.bytes(place, &bytes.head);
        }
        (Column::Leaf(_), _) => match number(value) {
            Some(number) => column.number(place, number),
            None => column.null(place),
        },
        _ => column.null(place),
    }
}

fn put_fields(column: &mut Column, place: Place, fields: &[(&'static str, Value)]) {
    // Fields are mostly in the order of the columns: continue the search at the last position.
    let mut at = 0;
    column.fields(place, |name, column, place| {
        let (before, after) = fields.split_at(at);
        let found = after.iter().chain(before).position(|(field, _)| *field == name);
        if let Some(found) = found {
            at = (at + found) % fields.len();
            return put(column, place, &fields[at].1);
        }
        let named = name.strip_suffix("_text").and_then(|name| {
            fields.get(at).filter(|(field, _)| *field == name).map(|(_, value)| value)
        });
        match named.and_then(symbolic) {
            Some(text) => column.text(place, text.as_bytes()),
            None => column.null(place),
        }
    });
}

/// Returns the number of a value. Unsigned 64-bit numbers keep their bits.
pub fn number(value: &Value) -> Option<i64> {
    Some(match value {
        Value::Int(n) => *n,
        Value::Uint(n) | Value::Hex(n) | Value::Dev(n) | Value::Address(n) | Value::SigSet(n) => {
            *n as i64
        }
        Value::Flags { value, .. } | Value::Enum { value, .. } => *value as i64,
        Value::Mode(mode) => (*mode).into(),
        Value::Signal(number) | Value::WaitStatus(number) => (*number).into(),
        Value::Fd { fd, .. } => (*fd).into(),
        Value::Named { value, .. } => *value,
        Value::Port(port) => (*port).into(),
        Value::Bytes(bytes) => bytes.at as i64,
        Value::Changed(before, _) => number(before)?,
        Value::Array { .. } | Value::Struct { .. } | Value::FdSet(_) | Value::Text { .. } => {
            return None;
        }
        // An address is no substitute for the value.
        Value::Fault(_) | Value::Damaged(..) | Value::Ip(_) => return None,
    })
}

/// Returns the symbolic names of a value in C notation.
pub fn symbolic(value: &Value) -> Option<Cow<'static, str>> {
    match value {
        Value::Flags { value, set } => {
            let (names, rest) = symbols::split(set, *value);
            match (&names[..], rest) {
                ([], 0) => None,
                ([one], 0) => Some((*one).into()),
                (names, 0) => Some(names.join("|").into()),
                ([], rest) => Some(format!("{rest:#x}").into()),
                (names, rest) => Some(format!("{}|{rest:#x}", names.join("|")).into()),
            }
        }
        Value::Enum { value, set } => symbols::name(set, *value).map(Cow::Borrowed),
        Value::Named { name, .. } => Some((*name).into()),
        Value::Signal(number) => signals::name(*number).map(Cow::Borrowed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{Leaf, Values};
    use crate::schema::{Field, Type};

    fn leaves(column: &mut Column) -> Vec<&mut Leaf> {
        let mut all = Vec::new();
        column.leaves(&mut all);
        all
    }

    #[test]
    fn fields_that_are_missing_are_null() {
        let fields = ["a", "kind", "kind_text", "b"].map(|name| {
            Field::new(name, if name == "kind_text" { Type::Text } else { Type::Long })
        });
        let mut column = Column::new(&Type::Struct(fields.into()));
        let kind = Value::Named { value: 4, name: "DT_DIR" };
        let whole = vec![("a", Value::Int(1)), ("kind", kind), ("b", Value::Uint(u64::MAX))];
        put(&mut column, Place::default(), &Value::fields(whole));
        let cut = Value::Struct { fields: vec![("a", Value::Int(2))], cut: true };
        put(&mut column, Place::default(), &cut);
        put(&mut column, Place::default(), &Value::Address(0));
        let leaves = leaves(&mut column);
        let defs: Vec<Vec<i16>> = leaves.iter().map(|leaf| leaf.defs.all()).collect();
        assert_eq!(defs, [[2, 2, 0], [2, 1, 0], [2, 1, 0], [2, 1, 0]]);
        let Values::Long(b) = &leaves[3].values else { panic!() };
        assert_eq!(b, &[-1]);
    }

    #[test]
    fn one_status_is_a_number() {
        let mut column = Column::new(&Type::Long);
        put(&mut column, Place::default(), &Value::list(vec![Value::WaitStatus(256)]));
        put(&mut column, Place::default(), &Value::Fault(4096));
        let leaf = &leaves(&mut column)[0];
        let Values::Long(values) = &leaf.values else { panic!() };
        assert_eq!((&values[..], &leaf.defs.all()[..]), (&[256][..], &[1, 0][..]));
    }
}
