//! Sizes, times and counts for people.

/// Formats a size for people: `1.5 MiB`.
pub fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a time for people: `1.500 s`, `12.3 us`.
pub fn show_time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

/// Formats a count for people: `1,234,567`.
pub fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with the name of what was counted: `1 call`, `2,000 calls`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", show_count(count), if count == 1 { one } else { many })
}

/// Formats a share for people: `12.3%`.
pub fn show_share(share: f64) -> String {
    match share {
        0.0 => "0%".into(),
        0.0..0.0005 => "<0.1%".into(),
        _ => format!("{:.1}%", share * 100.0),
    }
}

/// Formats a change for people: `+1.5 KiB`, `-3`.
pub fn show_change(change: i64, show: impl Fn(u64) -> String) -> String {
    match change {
        0 => "0".into(),
        1.. => format!("+{}", show(change.unsigned_abs())),
        _ => format!("-{}", show(change.unsigned_abs())),
    }
}

/// Formats a change relative to what there was: `+28%`, `-0.4%`.
pub fn show_change_share(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        0.0 => "0%".into(),
        0.0..9.95 => format!("{percent:+.1}%"),
        0.0..1e9 => {
            let sign = if percent < 0.0 { '-' } else { '+' };
            format!("{sign}{}%", show_count(percent.abs().round() as u64))
        }
        _ => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_people() {
        // What the page must print too: the acceptance test `formats_as_the_commands` has the same.
        let times = [0, 999, 1500, 22_000_000, 376_000, 1_329_000_000].map(show_time);
        assert_eq!(times, ["0 ns", "999 ns", "1.5 us", "22.0 ms", "376.0 us", "1.329 s"]);
        let sizes = [0, 1023, 1024, 10_485_760, 99_136].map(show_size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "10.0 MiB", "96.8 KiB"]);
        let shares = [0.0, 0.0004, 0.123, 1.0].map(show_share);
        assert_eq!(shares, ["0%", "<0.1%", "12.3%", "100.0%"]);
        assert_eq!([0, 1_234_567].map(show_count), ["0", "1,234,567"]);
        assert_eq!(show_size(512), "512 B");
        assert_eq!(show_size(1536), "1.5 KiB");
        assert_eq!(show_count(999), "999");
        assert_eq!(show_count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "process", "processes"), "1 process");
        assert_eq!(counted(2000, "process", "processes"), "2,000 processes");
        assert_eq!(show_change(-1536, show_size), "-1.5 KiB");
        assert_eq!(show_change(2, show_count), "+2");
        assert_eq!(show_change(i64::MIN, |n| n.to_string()), "-9223372036854775808");
        assert_eq!(show_change_share(0.279), "+28%");
        assert_eq!(show_change_share(-0.004), "-0.4%");
        assert_eq!(show_change_share(20.0), "+2,000%");
        assert_eq!(show_change_share(f64::INFINITY), "-");
        assert_eq!(show_time(1500), "1.5 us");
        assert_eq!(show_time(2_500_000_000), "2.500 s");
    }
}
