//! Maps the types of SNIA's schema to system calls, and their fields to parts of a call. Export
//! fills records by these rows, import makes calls from records by them.

mod bits;
mod row;
mod rows;

use std::sync::LazyLock;

pub use row::{Form, Row, Source};
pub use rows::ROWS;

/// Types that more is known of than their rows say.
pub const CLONE: &str = "clone";
pub const FORK: &str = "fork";
pub const UMASK: &str = "umask";
pub const VFORK: &str = "vfork";

/// Returns the row of a call.
pub fn by_number(nr: u16) -> Option<&'static Row> {
    BY_NUMBER.get(usize::from(nr)).copied().flatten()
}

/// Returns the row of a type.
pub fn by_name(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

static BY_NUMBER: LazyLock<Vec<Option<&'static Row>>> = LazyLock::new(|| {
    let mut all = vec![None; syscalls::table::NUMBER_LIMIT];
    for row in ROWS {
        for call in row.calls.into_iter().flatten() {
            all[usize::from(call)] = Some(row);
        }
    }
    all
});
