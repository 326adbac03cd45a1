//! Options on the callers of calls.

use std::fmt;

use recorder::{CALLERS_MAX, Kept, StackOptions};
use syscalls::record::STACK_BYTES_MAX;

use crate::units;

/// Which callers of each call are recorded.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Record the chain of callers of each call, N at most
    ///
    /// They are found in a copy of the stack, by the tables (.eh_frame) of the files that are mapped, or by
    /// frame pointers. Programs take longer: some microseconds a call.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true,
          default_missing_value = "64", value_parser = depth)]
    stack: Option<usize>,

    /// Record one caller of each call: that at this depth, 0 being the call's own
    #[arg(long, value_name = "N", conflicts_with = "stack", value_parser = depth)]
    site_depth: Option<usize>,

    /// Record one caller of each call: the first in a file (`libc` for `libc.so.6`, or its path), or
    /// between two addresses (0x1000-0x2000)
    #[arg(long, value_name = "MODULE|RANGE", conflicts_with_all = ["stack", "site_depth"],
          value_parser = site_in)]
    site_in: Option<Kept>,

    /// Bytes that are copied of each stack
    #[arg(long, value_name = "SIZE", default_value = "8K", value_parser = bytes)]
    stack_bytes: u32,
}

fn depth(text: &str) -> Result<usize, String> {
    let number: usize = units::number(text)?;
    if number < CALLERS_MAX { Ok(number) } else { Err(format!("at most {}", CALLERS_MAX - 1)) }
}

fn bytes(text: &str) -> Result<u32, String> {
    let bytes = units::size(text)?;
    let fits = u32::try_from(bytes).ok().filter(|bytes| (256..=STACK_BYTES_MAX).contains(bytes));
    fits.map(|bytes| bytes & !7).ok_or_else(|| "it is 256 to 64K".into())
}

fn site_in(text: &str) -> Result<Kept, String> {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    match text.split_once('-').map(|(from, to)| (hex(from), hex(to))) {
        Some((Some(from), Some(to))) if from < to => Ok(Kept::Range(from, to)),
        Some((Some(_), Some(_))) => Err(format!("'{text}' is not a range of addresses")),
        _ if text.is_empty() => Err("a name, or a range of addresses, is missing".into()),
        _ => Ok(Kept::Module(text.into())),
    }
}

impl Options {
    /// What is recorded, if anything.
    pub fn stacks(&self) -> Option<StackOptions> {
        let kept = match (self.stack, self.site_depth, &self.site_in) {
            (Some(most), ..) => Kept::Chain(most.max(1)),
            (_, Some(depth), _) => Kept::Depth(depth),
            (.., Some(kept)) => kept.clone(),
            _ => return None,
        };
        Some(StackOptions { bytes: self.stack_bytes, kept })
    }
}

/// As options that may be given again.
impl fmt::Display for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(StackOptions { bytes, kept }) = self.stacks() else { return Ok(()) };
        match kept {
            Kept::Chain(most) => write!(out, "--stack={most}")?,
            Kept::Depth(depth) => write!(out, "--site-depth {depth}")?,
            Kept::Module(name) => write!(out, "--site-in '{}'", name.replace('\'', "'\\''"))?,
            Kept::Range(from, to) => write!(out, "--site-in {from:#x}-{to:#x}")?,
        }
        write!(out, " --stack-bytes {}", units::size_word(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_modules_or_ranges() {
        assert_eq!(site_in("libc"), Ok(Kept::Module("libc".into())));
        assert_eq!(site_in("my-app"), Ok(Kept::Module("my-app".into())));
        assert_eq!(site_in("0x10-0xff"), Ok(Kept::Range(0x10, 0xff)));
        assert!(site_in("0xff-0x10").is_err() && site_in("").is_err());
        assert_eq!(bytes("1K"), Ok(1024));
        assert!(bytes("100").is_err() && bytes("1M").is_err() && depth("256").is_err());
    }
}
