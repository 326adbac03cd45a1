//! Counts calls in the output of `strace -f`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Complaint;

/// Number of calls by name.
pub type Counts = BTreeMap<String, u64>;

/// Returns true if a name in a recording is that of a call. Operations of queues (`aio:PREAD`) are
/// none: strace does not see them.
pub fn is_call(name: &str) -> bool {
    !name.contains(':')
}

/// Counts the calls in a file written by `strace -f -o`. The execve that starts the program is left
/// out: a recording begins with the first instruction of the image.
pub fn count(path: &Path) -> Result<Counts, Complaint> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut counts = Counts::new();
    for line in bytes.split(|&b| b == b'\n') {
        if let Some(name) = call_of(line) {
            *counts.entry(name).or_default() += 1;
        }
    }
    match counts.get_mut("execve") {
        Some(count) => *count -= 1,
        None => return Err(format!("{}: not even an execve", path.display())),
    }
    counts.retain(|_, count| *count > 0);
    Ok(counts)
}

/// Returns the call that begins on a line; `None` for resumed calls, signals and exits.
fn call_of(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(&line[..line.len().min(100)]).unwrap_or_else(|error| {
        std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default()
    });
    let (pid, rest) = text.split_once(' ')?;
    if pid.is_empty() || !pid.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (name, _) = rest.trim_start().split_once('(')?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || !name.bytes().all(plain) {
        return None;
    }
    // Unnamed calls have a hexadecimal number in strace, and a decimal one in `reenact`.
    let number = name.strip_prefix("syscall_0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    Some(number.map_or_else(|| name.to_string(), |number| format!("syscall_{number}")))
}

/// Largest percentage of calls that may be left out because they differ from run to run.
const UNSTEADY_PERCENT_MAX: u64 = 5;

/// Comparison of the counts in traces with those of runs under strace.
pub struct Comparison {
    /// Names whose counts are equal in all strace runs, but differ in every trace.
    pub wrong: Vec<String>,
    /// Names whose counts differ between strace runs; they are left out.
    pub unsteady: Vec<String>,
    /// Percentage of calls left out.
    pub unsteady_percent: u64,
}

impl Comparison {
    /// Compares the counts of traces with those of several runs under strace.
    pub fn new(straced: &[Counts], traced: &[Counts]) -> Comparison {
        let names: BTreeSet<&String> =
            straced.iter().chain(traced).flat_map(Counts::keys).collect();
        let of = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or(0);
        let line = |name: &str| {
            let all = |runs: &[Counts]| -> Vec<u64> {
                runs.iter().map(|counts| of(counts, name)).collect()
            };
            format!("{name}: strace {:?}, reenact {:?}", all(straced), all(traced))
        };
        let mut comparison = Comparison { wrong: vec![], unsteady: vec![], unsteady_percent: 0 };
        // If a trace equals a strace run in all counts, nothing needs to be left out.
        let same = |one: &Counts, other: &Counts| {
            names.iter().all(|name| of(one, name) == of(other, name))
        };
        if straced.iter().any(|run| traced.iter().any(|trace| same(run, trace))) {
            return comparison;
        }
        let mut left_out = 0;
        for name in names {
            let counts = || straced.iter().map(|counts| of(counts, name));
            let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
            if least != most {
                comparison.unsteady.push(line(name));
                left_out += most;
            } else if traced.iter().all(|counts| of(counts, name) != least) {
                comparison.wrong.push(line(name));
            }
        }
        let total: u64 = straced.iter().map(|counts| counts.values().sum()).max().unwrap_or(0);
        comparison.unsteady_percent = (left_out * 100).div_ceil(total.max(1));
        comparison
    }

    /// Returns whether nothing is wrong and little is left out.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.unsteady_percent <= UNSTEADY_PERCENT_MAX
    }

    /// Returns what was left out, or fails with what is wrong.
    pub fn verdict(&self) -> Result<String, Complaint> {
        if !self.wrong.is_empty() {
            return Err(format!("counts differ:\n{}", self.wrong.join("\n")));
        }
        let unsteady = self.unsteady.join("\n");
        if self.unsteady_percent > UNSTEADY_PERCENT_MAX {
            let share = self.unsteady_percent;
            return Err(format!("{share}% of the calls differ from run to run:\n{unsteady}"));
        }
        Ok(unsteady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_strace() {
        let call = |line: &str| call_of(line.as_bytes());
        assert_eq!(call("12 read(3, \"x\", 1) = 1").as_deref(), Some("read"));
        assert_eq!(call("1234 wait4(-1,  <unfinished ...>").as_deref(), Some("wait4"));
        assert_eq!(call("12 syscall_0x1fe(0x1) = -1 ENOSYS").as_deref(), Some("syscall_510"));
        assert_eq!(call("12 <... wait4 resumed>0x0) = 5"), None);
        assert_eq!(call("12 --- SIGCHLD {si_signo=SIGCHLD} ---"), None);
        assert_eq!(call("12 +++ exited with 0 +++"), None);
        assert_eq!(call("strace: Process 5 attached"), None);
        assert_eq!(call(""), None);
    }

    #[test]
    fn what_differs_between_runs_is_left_out_up_to_a_limit() {
        let counts = |list: &[(&str, u64)]| -> Counts {
            list.iter().map(|(name, count)| (name.to_string(), *count)).collect()
        };
        let a = counts(&[("read", 100), ("futex", 3)]);
        let b = counts(&[("read", 100), ("futex", 4)]);
        let verdict = |second: &Counts, traced: &Counts| {
            Comparison::new(&[a.clone(), second.clone()], std::slice::from_ref(traced)).verdict()
        };
        let traced = counts(&[("read", 100), ("futex", 9)]);
        assert!(verdict(&b, &traced).unwrap().contains("futex"));
        assert!(verdict(&a, &traced).is_err());
        assert!(
            Comparison::new(std::slice::from_ref(&a), &[traced.clone(), a.clone()])
                .wrong
                .is_empty()
        );
        assert!(verdict(&b, &counts(&[("read", 99), ("futex", 3)])).is_err());
        assert!(verdict(&b, &counts(&[("read", 100), ("mmap", 1)])).is_err());
        let unlike = counts(&[("read", 100), ("futex", 30)]);
        assert!(verdict(&unlike, &counts(&[("read", 100), ("futex", 5)])).is_err());
        assert_eq!(verdict(&unlike, &a).as_deref(), Ok(""), "all of it is as in one run");
    }
}
