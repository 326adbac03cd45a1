//! Parses words that stand for numbers.

use syscalls::abi::signals;
use syscalls::shape::FlagSet;

use crate::spelling;
use crate::words::FILE_TYPES;

/// Named mode bits other than file types.
const MODE_BITS: &[(u32, &str)] = &[(0o4000, "S_ISUID"), (0o2000, "S_ISGID"), (0o1000, "S_ISVTX")];

/// Parses a number in C notation.
pub fn plain(word: &str) -> Option<i128> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        i128::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with(['-', '+']))?
    } else if digits.len() > 1 && digits.starts_with('0') {
        i128::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    let value = if negative { -value } else { value };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

/// Parses a number, a product of numbers, or a name that is valid for many arguments.
pub fn any(word: &str) -> Option<u64> {
    const NAMES: &[(&str, u64)] = &[
        ("NULL", 0),
        ("AT_FDCWD", -100i64 as u64),
        ("FUTEX_BITSET_MATCH_ANY", 0xffff_ffff),
        ("RLIM64_INFINITY", u64::MAX),
        ("RLIM_INFINITY", u64::MAX),
    ];
    if let Some((_, value)) = NAMES.iter().find(|(name, _)| *name == word) {
        return Some(*value);
    }
    let mut product = 1i128;
    for factor in word.split('*') {
        product = product.checked_mul(plain(factor)?)?;
    }
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&product).then_some(product as u64)
}

/// Parses names of a flag set and numbers, joined by bars.
pub fn of_set(word: &str, set: &FlagSet) -> Option<u64> {
    let mut value = 0;
    for part in word.split('|') {
        value |= any(part).or_else(|| member(part, set)).or_else(|| Some(signal(part)? as u64))?;
    }
    Some(value)
}

fn member(name: &str, set: &FlagSet) -> Option<u64> {
    let ours = spelling::NAMES.iter().find(|(_, theirs)| *theirs == name).map(|(ours, _)| *ours);
    set.pairs().find(|(_, n)| *n == name || Some(*n) == ours).map(|(value, _)| value)
}

/// Parses a mode, with or without file type.
pub fn mode(word: &str) -> Option<u64> {
    let mut value = 0;
    for part in word.split('|') {
        let named = FILE_TYPES.iter().chain(MODE_BITS).find(|(_, name)| *name == part);
        value |= match named {
            Some((bits, _)) => u64::from(*bits),
            None => any(part)?,
        };
    }
    Some(value)
}

/// Returns the number of a signal, named with or without `SIG`.
pub fn signal(name: &str) -> Option<i32> {
    let name = name.strip_prefix("SIG").unwrap_or(name);
    (1..=64)
        .find(|n| signals::name(*n).is_some_and(|known| known.strip_prefix("SIG") == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_writes_them() {
        for (word, value) in [
            ("0", 0),
            ("-1", u64::MAX),
            ("0x1f", 31),
            ("0644", 0o644),
            ("8192*1024", 8192 * 1024),
            ("18446744073709551615", u64::MAX),
            ("NULL", 0),
        ] {
            assert_eq!(any(word), Some(value), "{word}");
        }
        for bad in ["", "x", "--1", "0x", "0x-1", "18446744073709551616", "9*", "08"] {
            assert_eq!(any(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_of_sets() {
        let flags = &syscalls::flags::OPEN;
        assert_eq!(of_set("O_RDWR|O_CREAT|0x1", flags), Some(0o103));
        assert_eq!(of_set("O_RDWR|O_NONSENSE", flags), None);
        assert_eq!(
            of_set("BTRFS_IOC_CLONE or FICLONE", &syscalls::table::REQUESTS),
            Some(0x4004_9409)
        );
        assert_eq!(mode("S_IFREG|S_ISUID|0755"), Some(0o104_755));
        assert_eq!(signal("SIGCHLD"), Some(17));
        assert_eq!(signal("RT_1"), Some(33));
        assert_eq!(signal("SIGNAL"), None);
    }
}
