//! Breakpoints of a debugger: they are in the memory of children as well, which nobody traces.

use std::fs::{File, OpenOptions, read_to_string};
use std::io;
use std::os::unix::fs::FileExt;

/// The instruction that debuggers put in the place of others.
const BREAKPOINT: u8 = 0xcc;
/// Maximum number of bytes that are looked at.
const TEXT_MAX: u64 = 1 << 30;
const PIECE: usize = 1 << 16;

/// Whether somebody traces a process.
pub(crate) fn is_traced(pid: i32) -> bool {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// Takes all breakpoints out of the text of a process: it becomes what the files have.
pub(crate) fn remove(pid: i32) -> io::Result<()> {
    let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
    let mut left = TEXT_MAX;
    for line in read_to_string(format!("/proc/{pid}/maps"))?.lines() {
        let Some((start, end, offset, path)) = text_of(line) else { continue };
        let Ok(file) = File::open(path) else { continue };
        if end - start > left {
            break;
        }
        left -= end - start;
        restore(&memory, &file, start, end, offset)?;
    }
    Ok(())
}

/// The text of a file that a line of /proc/PID/maps describes: where it is, and its offset.
fn text_of(line: &str) -> Option<(u64, u64, u64, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (rights, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let path = rest.split_once('/').map(|(_, path)| &rest[rest.len() - path.len() - 1..])?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let found = (number(start)?, number(end)?, number(offset)?, path);
    (rights.starts_with("r-x") && found.0 < found.1).then_some(found)
}

fn restore(memory: &File, file: &File, start: u64, end: u64, offset: u64) -> io::Result<()> {
    let (mut is, mut was) = (vec![0; PIECE], vec![0; PIECE]);
    for at in (start..end).step_by(PIECE) {
        let len = PIECE.min((end - at) as usize);
        let read = file.read_at(&mut was[..len], offset + (at - start))?;
        memory.read_exact_at(&mut is[..read], at)?;
        for (n, (is, was)) in is[..read].iter().zip(&was).enumerate() {
            if *is == BREAKPOINT && *was != BREAKPOINT {
                memory.write_all_at(&[*was], at + n as u64)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_files_is_found() {
        let line = "7f00-7f80 r-xp 00001000 08:01 123    /usr/lib/a b.so";
        assert_eq!(text_of(line), Some((0x7f00, 0x7f80, 0x1000, "/usr/lib/a b.so")));
        for other in
            ["7f00-7f80 rw-p 00000000 00:00 0 ", "7f00-7f80 r-xp 00000000 00:00 0 [vdso]", ""]
        {
            assert_eq!(text_of(other), None);
        }
    }
}
