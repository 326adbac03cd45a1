//! The columns of all tables.

use crate::schema::{Field, Type};
use crate::table::{Choice, Kind};
use crate::{calls, files, kernel, plain, processes};

/// Returns the columns of a table, in order.
pub fn columns(kind: Kind) -> Vec<Field> {
    match kind {
        Kind::Calls => calls::columns(),
        Kind::Call(number) => calls::own_columns(number),
        Kind::Processes => processes::columns(),
        Kind::Files => files::columns(),
        Kind::Data => plain::data_columns(),
        Kind::Events => plain::event_columns(),
        Kind::Kernel => kernel::event_columns(),
        Kind::States => kernel::state_columns(),
    }
}

/// Returns them with those that were asked for.
pub fn columns_with(kind: Kind, choice: &Choice) -> Vec<Field> {
    let mut columns = columns(kind);
    if kind == Kind::Calls && choice.data {
        columns.push(Field::new(Choice::DATA, Type::Bytes));
    }
    columns
}
