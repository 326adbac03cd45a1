//! The table of system calls of x86_64, up to Linux 6.19, by family.

mod aio;
mod creds;
mod fcntl;
mod file;
mod futex;
mod gone;
mod io;
mod ioctl;
mod ipc;
mod keyctl;
mod memory;
mod mount;
mod network;
pub(crate) mod operations;
mod prctl;
mod process;
mod ptrace;
mod quota;
pub(crate) mod ring_operations;
mod signal;
mod system;
mod time;
mod words;

pub use ioctl::REQUESTS;

use crate::operations::OPERATIONS_FIRST;
use crate::shape::Syscall;
use crate::text;

/// One more than the highest number in the table, operations included.
pub const NUMBER_LIMIT: usize = {
    let (mut highest, mut group) = (0, 0);
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            if ROWS[group][i].nr > highest {
                highest = ROWS[group][i].nr;
            }
            i += 1;
        }
        group += 1;
    }
    highest as usize + 1
};

/// One more than the highest number of a call.
pub const CALL_LIMIT: usize = {
    let (mut highest, mut group) = (0, 0);
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            let nr = ROWS[group][i].nr;
            if nr > highest && nr < OPERATIONS_FIRST {
                highest = nr;
            }
            i += 1;
        }
        group += 1;
    }
    highest as usize + 1
};

/// Number of places in a table without the numbers between calls and operations.
pub const PLACES: usize = CALL_LIMIT + NUMBER_LIMIT - OPERATIONS_FIRST as usize;

/// Returns the place of a number in such a table.
pub const fn place(nr: u64) -> Option<usize> {
    let operations = OPERATIONS_FIRST as u64;
    if nr < CALL_LIMIT as u64 {
        return Some(nr as usize);
    }
    if nr < operations || nr >= NUMBER_LIMIT as u64 {
        return None;
    }
    Some(CALL_LIMIT + (nr - operations) as usize)
}

/// Numbers between these two are x32 calls or unused.
const LAST_OLD: usize = 336;
const FIRST_NEW: usize = 424;

/// All rows, family by family.
pub static ROWS: &[&[Syscall]] = &[
    io::ROWS,
    file::ROWS,
    mount::ROWS,
    memory::ROWS,
    process::ROWS,
    signal::ROWS,
    time::ROWS,
    network::ROWS,
    ipc::ROWS,
    creds::ROWS,
    aio::ROWS,
    operations::ROWS,
    ring_operations::ROWS,
    system::ROWS,
    gone::ROWS,
];

const fn index_rows() -> [Option<&'static Syscall>; NUMBER_LIMIT] {
    let mut index = [None; NUMBER_LIMIT];
    let mut group = 0;
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            index[ROWS[group][i].nr as usize] = Some(&ROWS[group][i]);
            i += 1;
        }
        group += 1;
    }
    let mut nr = 0;
    while nr < CALL_LIMIT {
        let unused = LAST_OLD < nr && nr < FIRST_NEW;
        assert!(index[nr].is_some() != unused, "a number of the kernel has no row");
        nr += 1;
    }
    index
}

static BY_NUMBER: [Option<&'static Syscall>; NUMBER_LIMIT] = index_rows();

/// Returns the row of a call number, if there is one.
pub fn by_number(nr: u64) -> Option<&'static Syscall> {
    BY_NUMBER.get(usize::try_from(nr).ok()?).copied().flatten()
}

/// Returns the number of a call name, if there is one. For tables that are made when the code is
/// compiled.
pub const fn number_of(name: &str) -> Option<u16> {
    let mut nr = 0;
    while nr < NUMBER_LIMIT {
        if let Some(row) = BY_NUMBER[nr]
            && text::are_equal(row.name, name)
        {
            return Some(row.nr);
        }
        nr += 1;
    }
    None
}

/// Returns the row of a call name, if there is one.
pub fn by_name(name: &str) -> Option<&'static Syscall> {
    BY_NUMBER.iter().flatten().copied().find(|call| call.name == name)
}
