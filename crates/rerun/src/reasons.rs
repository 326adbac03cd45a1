//! Why a program may leave its recording: what can be seen of it.

use std::fs;
use std::io::{self, Read};
use std::time::Duration;

use render::escape::escaped;

use crate::first_image::{ImageStack, STACK_END};
use crate::memory::Memory;

/// Maximum size of a text of /proc/PID/maps.
const MAPS_MAX: u64 = 16 << 20;
/// Maximum number of bytes of a stack that a program begins with.
const BEGINNING_MAX: u64 = 1 << 20;
/// A limit of open files below this was lowered on purpose: 1024 is usual.
const FILES_WANTED: u32 = 256;
/// Who has a CPU for this part of the time computes.
const COMPUTES: f64 = 0.1;

/// What was recorded of a thread, and cannot be repeated to the instruction.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Interrupted {
    /// How often it was stopped between two calls, for others to run.
    pub slices: u64,
    /// How often a signal arrived between two calls.
    pub signals: u64,
}

/// Why a program may begin otherwise than it did: its stack begins here.
pub(crate) fn why_otherwise(
    expected: &ImageStack,
    memory: Memory,
    pid: i32,
    stack: u64,
) -> Vec<String> {
    let mut all = Vec::new();
    let text = maps(pid).unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n');
    let of_stack = lines.find(|line| line.ends_with(b"[stack]"));
    let end = of_stack.and_then(|line| {
        let range = line.split(|byte| *byte == b' ').next()?;
        let (_, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
        u64::from_str_radix(end, 16).ok()
    });
    let Some(end) = end else { return all };
    if end != STACK_END {
        all.push("its addresses are random, which cannot be turned off here".into());
    }
    let size = end.saturating_sub(stack).min(BEGINNING_MAX) as usize;
    let Ok(bytes) = memory.read(stack, size) else { return all };
    let found = ImageStack { bytes, at: stack };
    if let (Some(was), Some(is)) = (expected.first_argument(), found.first_argument())
        && was != is
    {
        let [was, is] = [was, is].map(|word| escaped(word.as_bytes()));
        all.push(format!(
            "it is executed as {is}, and was as {was}, as the first line of a script may say (#!)"
        ));
    }
    all
}

/// Why a program may be stuck that had so much CPU time meanwhile.
pub(crate) fn why_stuck(seconds: u64, had: Duration) -> String {
    let had = had.as_secs_f64();
    match had >= seconds as f64 * COMPUTES {
        true => format!(
            "it computes ({had:.1} s of CPU time meanwhile): for something in its memory that no call changes, \
             or much longer than when it was recorded"
        ),
        false => format!(
            "it hardly computes ({had:.1} s of CPU time meanwhile): it is stopped, or has no CPU"
        ),
    }
}

/// Why there may have been too few descriptors, by /proc/PID/limits: what answers the program has some as well.
pub(crate) fn why_too_few_files(limits: io::Result<String>) -> Option<String> {
    let limits = match limits {
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            return Some("no more files may be open here (ulimit -n)".into());
        }
        limits => limits.ok()?,
    };
    let most = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let most: u32 = most.split_whitespace().next()?.parse().ok()?;
    (most < FILES_WANTED)
        .then(|| format!("perhaps that only {most} files may be open here (ulimit -n)"))
}

/// What /proc says of the memory of a process.
pub(crate) fn maps(pid: i32) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/maps")).ok()?;
    file.take(MAPS_MAX).read_to_end(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Device and inode of what is mapped to be written to and shared, but for our own memory.
pub(crate) fn writable_shared(maps: &[u8]) -> impl Iterator<Item = &[u8]> {
    // No program is executed again that has segments of its own.
    const SEGMENT: &[u8] = b"/SYSV";
    maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let (_, rights, _) = (words.next()?, words.next()?, words.next()?);
        let (device, inode, path) = (words.next()?, words.next()?, words.next().unwrap_or(b""));
        let is_it = rights.starts_with(b"rw") && rights.get(3) == Some(&b's');
        if !is_it || path.trim_ascii_start().starts_with(SEGMENT) {
            return None;
        }
        // Both stand beside each other.
        let from = device.as_ptr() as usize - line.as_ptr() as usize;
        line.get(from..from + device.len() + 1 + inode.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_told_from_private_and_own_memory() {
        let text = b"1000-2000 rw-s 00000000 00:01 77   /dev/zero (deleted)\n\
            2000-3000 rw-p 00000000 08:01 78   /lib/a\n3000-4000 r--s 00000000 08:01 79   /lib/b\n\
            4000-5000 rw-s 00000000 00:01 80   /SYSV00000000 (deleted)\nnothing\n";
        assert_eq!(writable_shared(text).collect::<Vec<_>>(), [b"00:01 77"]);
    }

    #[test]
    fn few_open_files_are_a_reason() {
        let told = |most: &str| {
            why_too_few_files(Ok(format!(
                "Max processes  9  9\nMax open files   {most}  4096  files\n"
            )))
        };
        assert!(told("20").is_some_and(|text| text.contains("only 20 files")));
        assert_eq!([told("1024"), told("unlimited")], [None, None]);
        let none = why_too_few_files(Err(io::Error::from_raw_os_error(libc::EMFILE)));
        assert!(none.is_some_and(|text| text.contains("no more files")));
        assert_eq!(why_too_few_files(Err(io::Error::from_raw_os_error(libc::ENOENT))), None);
    }

    #[test]
    fn who_is_stuck_computes_or_not() {
        assert!(why_stuck(10, Duration::from_secs(9)).starts_with("it computes (9.0 s"));
        assert!(why_stuck(10, Duration::from_millis(900)).starts_with("it hardly computes"));
    }
}
