//! Parsing and formatting of sizes, times and numbers.

/// Parses a size: a number, with K, M, G or T for powers of 1024 (`64M`, `1GiB`, `4096`).
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let bad = || format!("'{text}' is not a size; write 4096, 64K, 64M or 1G");
    if number.is_empty() {
        return Err(bad());
    }
    let unit = unit.strip_suffix("iB").or(unit.strip_suffix('B')).unwrap_or(unit);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(format!("'{unit}' is not a unit of size; known are K, M, G and T")),
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("'{text}' is more than {} bytes", u64::MAX))
}

/// Parses a time in seconds, or with ns, us, ms, s, m or h (`1.5`, `10s`, `200us`).
pub fn time_ns(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let bad = || format!("'{text}' is not a time; write 1.5, 10s, 200ms or 5m");
    if number.is_empty() {
        return Err(bad());
    }
    let unit_ns: f64 = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "" | "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => {
            return Err(format!(
                "'{unit}' is not a unit of time; known are ns, us, ms, s, m and h"
            ));
        }
    };
    // Whole numbers are converted exactly.
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit_ns as u64).ok_or_else(|| format!("'{text}' is too long"));
    }
    let value: f64 = number.parse().map_err(|_| bad())?;
    let ns = value * unit_ns;
    if !ns.is_finite() || ns < 0.0 || ns >= u64::MAX as f64 {
        return Err(bad());
    }
    Ok(ns.round() as u64)
}

/// Parses a time as [`time_ns`] does, into a duration.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    time_ns(text).map(std::time::Duration::from_nanos)
}

/// Parses a whole number that fits in `T`.
pub fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().and_then(|number: u64| T::try_from(number).ok());
    number.ok_or_else(|| match u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>()) {
        // Nobody needs to know how far they go.
        u64::MAX => format!("'{text}' is not a whole number, such as 20"),
        most => format!("'{text}' is not a whole number from 0 to {most}"),
    })
}

/// Parses bytes in hexadecimal digits (`00ff`).
pub fn hex(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("'{text}' is not a row of bytes; write two hexadecimal digits for each");
    let digits = text.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err(bad());
    }
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or_else(bad)
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// Formats a size exactly, for [`size`] to parse.
pub fn size_word(bytes: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let fits = |(_, shift): &&(&str, u32)| bytes != 0 && bytes.trailing_zeros() >= *shift;
    match units.iter().find(fits) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Formats a time exactly, for [`duration`] to parse.
pub fn time_word(time: std::time::Duration) -> String {
    let ns = time.as_nanos();
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    match units.iter().find(|(_, length)| ns.is_multiple_of(*length)) {
        Some((unit, length)) => format!("{}{unit}", ns / length),
        None => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(size("1kB"), Ok(1024));
        for bad in ["", "M", "1X", "-1", "1.5M", "99999999999T"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(time_ns("10"), Ok(10_000_000_000));
        assert_eq!(time_ns("1.5"), Ok(1_500_000_000));
        assert_eq!(time_ns("5m"), Ok(300_000_000_000));
        assert_eq!(time_ns("200us"), Ok(200_000));
        assert_eq!(time_ns("18446744073709551615ns"), Ok(u64::MAX));
        for bad in ["", "s", "1x", "-1", "1.2.3s", "99999999999999h"] {
            assert!(time_ns(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(number::<u32>("4294967295"), Ok(u32::MAX));
        assert_eq!(number::<u64>("18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "x", "-1", "1.5", "4294967296"] {
            let said = number::<u32>(bad).unwrap_err();
            assert_eq!(said, format!("'{bad}' is not a whole number from 0 to 4294967295"));
        }
        for bad in ["x", "-1", "18446744073709551616"] {
            let said = number::<usize>(bad).unwrap_err();
            assert_eq!(said, format!("'{bad}' is not a whole number, such as 20"));
        }
    }

    #[test]
    fn what_is_needed_is_said() {
        for bad in ["-1", "x", ""] {
            assert!(size(bad).is_err_and(|said| said.contains("is not a size; write")), "{bad}");
            assert!(time_ns(bad).is_err_and(|said| said.contains("is not a time; write")), "{bad}");
        }
    }
}
