//! Spellings and number formats that reading and writing share.

use syscalls::abi::files::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG, S_IFSOCK};
use syscalls::abi::signals;

/// Structs of which only some fields are printed unless all are asked for, by their first field.
const BRIEF: &[(&str, &[&str])] = &[
    ("st_dev", &["st_mode", "st_size"]),
    ("stx_mask", &["stx_mask", "stx_attributes", "stx_mode", "stx_size"]),
    ("ru_utime", &["ru_utime", "ru_stime"]),
    ("sysname", &["sysname", "nodename"]),
    ("uptime", &["uptime", "loads", "totalram", "freeram"]),
    ("d_ino", &["d_name"]),
];

/// Returns the fields that are printed of a struct that begins with this field; `None`: all.
pub fn brief(first: &str) -> Option<&'static [&'static str]> {
    BRIEF.iter().find(|(name, _)| *name == first).map(|(_, fields)| *fields)
}

/// Names of the file types in a mode.
pub const FILE_TYPES: &[(u32, &str)] = &[
    (S_IFIFO, "S_IFIFO"),
    (S_IFCHR, "S_IFCHR"),
    (S_IFDIR, "S_IFDIR"),
    (S_IFBLK, "S_IFBLK"),
    (S_IFREG, "S_IFREG"),
    (S_IFLNK, "S_IFLNK"),
    (S_IFSOCK, "S_IFSOCK"),
];

/// Returns a signal's name, or its number if it has none.
pub fn signal(number: i32) -> String {
    signals::name(number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Formats a set of signals, without `SIG`. Sets of `from` or more signals are printed inverted.
pub fn signal_set(set: u64, from: u32) -> String {
    let inverted = set.count_ones() >= from;
    let shown = if inverted { !set } else { set };
    let names = (1..=64).filter(|n| shown >> (n - 1) & 1 != 0).map(|number| {
        let name = signals::name(number).unwrap_or_default();
        name.strip_prefix("SIG").unwrap_or(name).to_string()
    });
    let names: Vec<String> = names.collect();
    format!("{}[{}]", if inverted { "~" } else { "" }, names.join(" "))
}

/// Formats a wait status with the macros that decode it.
pub fn wait_status(status: i32) -> String {
    match (status & 0x7f, status >> 8 & 0xff) {
        _ if status == 0xffff => "{WIFCONTINUED(s)}".into(),
        (0, code) => format!("{{WIFEXITED(s) && WEXITSTATUS(s) == {code}}}"),
        (0x7f, stop) => format!("{{WIFSTOPPED(s) && WSTOPSIG(s) == {}}}", signal(stop)),
        (number, _) => {
            let core = if status & 0x80 != 0 { " && WCOREDUMP(s)" } else { "" };
            format!("{{WIFSIGNALED(s) && WTERMSIG(s) == {}{core}}}", signal(number))
        }
    }
}

/// Formats the end of a process.
pub fn end_of_process(status: i32) -> String {
    match status & 0x7f {
        0 => format!("exited with {}", status >> 8 & 0xff),
        number => {
            let core = if status & 0x80 != 0 { " (core dumped)" } else { "" };
            format!("killed by {}{core}", signal(number))
        }
    }
}

/// Formats a time as a date in UTC; returns `None` for time 0, which stands for no time.
pub fn date(seconds: i64, nanoseconds: u64) -> Option<String> {
    const DAY: i64 = 86_400;
    const YEARS_MAX: i64 = 9999;
    if seconds == 0 && nanoseconds == 0 {
        return None;
    }
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // Days are counted from the first of March of year 0, in eras of 400 years.
    let shifted = days.checked_add(719_468)?;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if !(-YEARS_MAX..=YEARS_MAX).contains(&year) {
        return None;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match nanoseconds {
        0 => String::new(),
        ns => format!(".{ns:09}"),
    };
    Some(format!(
        "{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}{fraction}+0000"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let date = |seconds, ns| date(seconds, ns).expect("a date");
        assert_eq!(date(1_795_270_356, 750_445_279), "2026-11-21T14:12:36.750445279+0000");
        assert_eq!(date(1_672_587_846, 0), "2023-01-01T15:44:06+0000");
        assert_eq!(date(951_782_400, 0), "2000-02-29T00:00:00+0000");
        assert_eq!(date(-1, 5), "1969-12-31T23:59:59.000000005+0000");
        assert_eq!(super::date(0, 0), None);
        assert_eq!(super::date(i64::MAX, 0), None);
        assert_eq!(super::date(i64::MIN, 0), None);
    }

    #[test]
    fn signal_sets() {
        assert_eq!(signal_set(0, 42), "[]");
        assert_eq!(signal_set(1 << 1 | 1 << 14, 42), "[INT TERM]");
        assert_eq!(signal_set(!(1 << 8 | 1 << 31), 42), "~[KILL RTMIN]");
        assert_eq!(signal_set(u64::MAX, 42), "~[]");
    }
}
