//! Parses what follows the arguments of a call: result and duration.

use syscalls::abi::errno;

use super::error::{Wrong, shown};
use super::line::nanoseconds;
use super::number;

/// Parses the result of a call from the text after the closing parenthesis, if there is one.
pub fn result(text: &[u8]) -> Result<Option<i64>, Wrong> {
    let text = text.trim_ascii();
    let fail = || format!("a result was expected, not {}", shown(text));
    if text.is_empty() {
        return Ok(None);
    }
    let rest = text.strip_prefix(b"=").ok_or_else(fail)?.trim_ascii_start();
    let word = rest.split(|c| c.is_ascii_whitespace() || *c == b'<').next().unwrap_or_default();
    let word = std::str::from_utf8(word).map_err(|_| fail())?;
    let second = rest[word.len()..].trim_ascii_start();
    let second = second.split(|c| c.is_ascii_whitespace()).next().unwrap_or_default();
    let second = std::str::from_utf8(second).unwrap_or_default();
    Ok(match word {
        "?" => errno::by_name(second)
            .filter(|number| errno::asks_for_restart(*number))
            .map(|number| -i64::from(number)),
        "-1" if second.starts_with('E') => {
            Some(-i64::from(errno::by_name(second).ok_or_else(fail)?))
        }
        _ => Some(number::any(word).ok_or_else(fail)? as i64),
    })
}

/// Parses the duration of a call: `<0.000123>` at the end.
pub fn duration(text: &[u8]) -> Option<u64> {
    let inner = text.trim_ascii_end().strip_suffix(b">")?;
    let begin = inner.iter().rposition(|&c| c == b'<')?;
    let (seconds, fraction) = std::str::from_utf8(&inner[begin + 1..]).ok()?.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds(fraction)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, ret: Option<i64>, took_ns: Option<u64>) {
        assert_eq!(result(text.as_bytes()), Ok(ret), "{text}");
        assert_eq!(duration(text.as_bytes()), took_ns, "{text}");
    }

    #[test]
    fn results() {
        check("= 3 <0.000012>", Some(3), Some(12_000));
        check(
            "        = -1 ENOENT (No such file or directory) <1.5>",
            Some(-2),
            Some(1_500_000_000),
        );
        check("= ?", None, None);
        check(
            "= ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.1>",
            Some(-512),
            Some(100_000_000),
        );
        check("= 0x28800 (flags O_RDONLY|O_NOFOLLOW)", Some(0x28800), None);
        check("= 3</tmp/x> <0.000001>", Some(3), Some(1000));
        check("= 1 ([{fd=3, revents=POLLIN}])", Some(1), None);
        check("= -1", Some(-1), None);
        check("", None, None);
        for bad in ["3", "= ", "= x", "= -1 ENOTHING"] {
            assert!(result(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
