//! Calls counted from the lines of `strace -f`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Complaint;

/// Calls by name.
pub type Counts = BTreeMap<String, u64>;

/// Counts the calls in a file that `strace -f -o` wrote. The execve that starts the program is left
/// out: a recording begins with the image's first instruction.
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

/// The call that a line begins; none for resumed calls, signals and ends.
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
    // A number without a name: hexadecimal there, decimal here.
    let number = name.strip_prefix("syscall_0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    Some(number.map_or_else(|| name.to_string(), |number| format!("syscall_{number}")))
}

/// Most of the calls that may be left out because they differ from run to run, in percent.
const UNSTEADY_PERCENT_MAX: u64 = 5;

/// How a trace's counts compare with those of runs under strace.
pub struct Comparison {
    /// Names whose counts are the same in every run under strace, but in no trace.
    pub wrong: Vec<String>,
    /// Names whose counts differ between the runs under strace, which are left out.
    pub unsteady: Vec<String>,
    /// Share of the calls that is left out.
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
        // The same in all names as one run under strace: there is nothing to be left out.
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

    /// Whether nothing is wrong, and little left out.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.unsteady_percent <= UNSTEADY_PERCENT_MAX
    }

    /// What was left out, or what is wrong.
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
