//! Splits a line into thread, time and contents.

use super::error::{Wrong, shown};

/// A parsed line.
pub struct Line<'a> {
    /// Thread id, if the line has one.
    pub tid: Option<u32>,
    /// Time in nanoseconds of the text's clock, if the line has one.
    pub time_ns: Option<u64>,
    /// Contents of the line.
    pub what: What<'a>,
}

/// Contents of a line.
pub enum What<'a> {
    /// A complete call.
    Call {
        /// Its name.
        name: &'a str,
        /// The text after the opening parenthesis: arguments, result and duration.
        rest: &'a [u8],
    },
    /// The beginning of a call that is resumed later.
    Unfinished {
        /// Its name.
        name: &'a str,
        /// The arguments printed so far.
        rest: &'a [u8],
    },
    /// The rest of an unfinished call.
    Resumed {
        /// Its name.
        name: &'a str,
        /// The text that follows.
        rest: &'a [u8],
    },
    /// A delivered signal.
    Signal {
        /// Its name.
        name: &'a str,
        /// Its siginfo struct.
        rest: &'a [u8],
    },
    /// The thread ended, with this wait status.
    Ended(i32),
    /// The exec of that thread replaced this one.
    Superseded(u32),
    /// No event: a message of strace itself, or a stop.
    Nothing,
}

const SECOND_NS: u64 = 1_000_000_000;

/// Parses a line.
pub fn split(line: &[u8]) -> Result<Line<'_>, Wrong> {
    let nothing = Line { tid: None, time_ns: None, what: What::Nothing };
    let mut rest = line.trim_ascii_start();
    let words_of_its_own: [&[u8]; 3] = [b"strace: ", b"/usr/bin/strace: ", b"> "];
    if rest.is_empty() || words_of_its_own.iter().any(|words| rest.starts_with(words)) {
        return Ok(nothing);
    }
    let mut tid = None;
    if let Some(inner) = rest.strip_prefix(b"[pid") {
        let end = inner.iter().position(|&c| c == b']').ok_or("a bracket that is not closed")?;
        tid = Some(number(inner[..end].trim_ascii()).ok_or("'[pid' without a number")?);
        rest = inner[end + 1..].trim_ascii_start();
    } else if let Some((word, after)) = word(rest)
        && let Some(id) = number(word)
    {
        tid = Some(id);
        rest = after;
    }
    let mut time_ns = None;
    if let Some((word, after)) = word(rest)
        && let Some(time) = time(word)
    {
        time_ns = Some(time);
        rest = after;
    }
    Ok(Line { tid, time_ns, what: what(rest)? })
}

/// Splits off the first word and the blanks after it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&c| c == b' ')?;
    Some((&bytes[..end], bytes[end..].trim_ascii_start()))
}

fn number(bytes: &[u8]) -> Option<u32> {
    if !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Parses `1234.567890`, `12:34:56` or `12:34:56.789012` into nanoseconds.
fn time(word: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(word).ok()?;
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let seconds = match whole.split(':').collect::<Vec<_>>()[..] {
        [hours, minutes, seconds] => {
            let part = |text: &str| text.parse::<u64>().ok().filter(|n| *n < 100);
            part(hours)? * 3600 + part(minutes)? * 60 + part(seconds)?
        }
        [_] if fraction.is_some() => whole.parse().ok()?,
        _ => return None,
    };
    let ns = match fraction {
        None => 0,
        Some(fraction) => nanoseconds(fraction)?,
    };
    seconds.checked_mul(SECOND_NS)?.checked_add(ns)
}

/// Parses the digits after the decimal point.
pub fn nanoseconds(fraction: &str) -> Option<u64> {
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    Some(fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32))
}

fn what(rest: &[u8]) -> Result<What<'_>, Wrong> {
    if let Some(inner) = rest.strip_prefix(b"+++ ") {
        return end(inner);
    }
    if let Some(inner) = rest.strip_prefix(b"--- ") {
        let inner = inner.trim_ascii_end();
        let inner = inner.strip_suffix(b" ---").ok_or("'---' at one end alone")?;
        return Ok(match word(inner) {
            Some((name, rest)) if name.starts_with(b"SIG") => {
                What::Signal { name: text(name)?, rest }
            }
            _ => What::Nothing,
        });
    }
    if let Some(inner) = rest.strip_prefix(b"<... ") {
        let (name, after) = word(inner).ok_or("'<...' without a name")?;
        let after = after.strip_prefix(b"resumed>").ok_or("'<...' without 'resumed>'")?;
        return Ok(What::Resumed { name: text(name)?, rest: after });
    }
    let end = rest.iter().position(|c| !(c.is_ascii_alphanumeric() || *c == b'_'));
    let end = end.filter(|&end| end > 0 && rest[end] == b'(');
    let Some(end) = end else {
        return Err(format!("a call was expected, not {}", shown(rest)));
    };
    let (name, rest) = (text(&rest[..end])?, &rest[end + 1..]);
    let trimmed = rest.trim_ascii_end();
    match trimmed.strip_suffix(b"<unfinished ...>") {
        Some(begun) => Ok(What::Unfinished { name, rest: begun }),
        None => Ok(What::Call { name, rest: trimmed }),
    }
}

fn end(inner: &[u8]) -> Result<What<'_>, Wrong> {
    let inner = inner.trim_ascii_end();
    let inner = inner.strip_suffix(b" +++").ok_or("'+++' at one end alone")?;
    let words: Vec<&str> = text(inner)?.split(' ').collect();
    match words[..] {
        ["exited", "with", code] => {
            let code: i32 = code.parse().map_err(|_| format!("'{code}' is not an exit code"))?;
            Ok(What::Ended((code & 0xff) << 8))
        }
        ["killed", "by", signal] | ["killed", "by", signal, "(core", "dumped)"] => {
            let number = super::number::signal(signal);
            let number = number.ok_or_else(|| format!("'{signal}' is not a signal"))?;
            let core = if words.len() > 3 { 0x80 } else { 0 };
            Ok(What::Ended(number & 0x7f | core))
        }
        ["superseded", "by", "execve", "in", "pid", tid] => {
            let tid =
                number(tid.as_bytes()).ok_or_else(|| format!("'{tid}' is not a thread id"))?;
            Ok(What::Superseded(tid))
        }
        _ => Err(format!("what ended is unknown: {}", shown(inner))),
    }
}

fn text(bytes: &[u8]) -> Result<&str, Wrong> {
    std::str::from_utf8(bytes).map_err(|_| format!("{} is not text", shown(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(line: &str) -> (Option<u32>, Option<u64>) {
        let line = split(line.as_bytes()).expect("a line");
        (line.tid, line.time_ns)
    }

    #[test]
    fn whose_and_when() {
        let second = SECOND_NS;
        assert_eq!(times("12 1.500000 close(3) = 0"), (Some(12), Some(second * 3 / 2)));
        assert_eq!(times("[pid  7] 00:01:02 close(3) = 0"), (Some(7), Some(62 * second)));
        assert_eq!(times("[pid  7] 00:00:00.25 close(3) = 0"), (Some(7), Some(second / 4)));
        assert_eq!(times("9     close(3) = 0"), (Some(9), None));
        assert_eq!(times("close(3) = 0"), (None, None));
        assert_eq!(times("12.5 close(3) = 0"), (None, Some(second * 25 / 2)));
    }

    #[test]
    fn what_happened() {
        let what = |line: &'static str| split(line.as_bytes()).expect("a line").what;
        assert!(matches!(
            what("read(3,  <unfinished ...>"),
            What::Unfinished { name: "read", rest: b"3,  " }
        ));
        assert!(matches!(
            what("<... read resumed>\"\", 5) = 0"),
            What::Resumed { name: "read", .. }
        ));
        assert!(matches!(
            what("--- SIGCHLD {si_signo=SIGCHLD} ---"),
            What::Signal { name: "SIGCHLD", .. }
        ));
        assert!(matches!(what("--- stopped by SIGSTOP ---"), What::Nothing));
        assert!(matches!(what("+++ exited with 3 +++"), What::Ended(0x300)));
        assert!(matches!(what("+++ killed by SIGSEGV (core dumped) +++"), What::Ended(0x8b)));
        assert!(matches!(what("strace: Process 12 attached"), What::Nothing));
        assert!(matches!(what(" > /lib/libc.so.6(read+0x4) [0xfb1e4]"), What::Nothing));
        for bad in ["+++ exited with x +++", "<... read", "nonsense", "+++ what +++", "3 ("] {
            assert!(split(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
