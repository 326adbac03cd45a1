//! Origin of a recording in words; "not known" for what an import lacks. Texts from the trace are
//! not escaped unless stated.

use trace::event::Preamble;

use crate::amounts::show_size;
use crate::escape::command_line;

const UNKNOWN: &str = "not known";
const DAY_SECONDS: u64 = 86_400;

/// Options of `record` by which it keeps some calls alone. They begin the options of such a recording.
pub const CALL: &str = "--call";
/// The same, by path.
pub const PATH: &str = "--path";

/// Returns the options that say which calls were recorded, if it was not all of them.
pub fn selection(preamble: &Preamble) -> Option<&str> {
    let options = &preamble.options;
    let is_partial = [CALL, PATH]
        .iter()
        .any(|word| options.strip_prefix(word).is_some_and(|rest| rest.starts_with(' ')));
    is_partial.then(|| options.split_once(" --data ").map_or(&options[..], |(before, _)| before))
}

fn known(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}

/// Returns the command line quoted for a shell and escaped for a terminal.
pub fn command(preamble: &Preamble) -> String {
    if preamble.command.is_empty() {
        return UNKNOWN.into();
    }
    command_line(&preamble.command)
}

/// Returns date and host.
pub fn when(preamble: &Preamble) -> String {
    let seconds = preamble.epoch_ns / 1_000_000_000;
    // A time below one day has no date: strace may print only the time of day.
    let date = if seconds < DAY_SECONDS { "date not known".into() } else { date(seconds) };
    let host = match known(&preamble.host) {
        host if preamble.host.is_empty() => format!(", host {host}"),
        host => format!(" on {host}"),
    };
    format!("{date}{host}")
}

/// Returns date, host and recorder.
pub fn recorded(preamble: &Preamble) -> String {
    // Names of other recorders are in brackets.
    let by = match &preamble.recorder_version {
        other if other.starts_with('(') => format!(", by {}", other.trim_matches(['(', ')'])),
        version => format!(" by reenact {version}"),
    };
    format!("{}{by}", when(preamble))
}

/// Returns the kernel's release and version.
pub fn kernel(preamble: &Preamble) -> &str {
    known(&preamble.kernel)
}

/// Returns CPUs and memory.
pub fn machine(preamble: &Preamble) -> String {
    if preamble.cpu.is_empty() && preamble.cpus == 0 && preamble.memory_bytes == 0 {
        return UNKNOWN.into();
    }
    let memory = show_size(preamble.memory_bytes);
    format!("{}, {} CPUs, {memory} memory", known(&preamble.cpu), preamble.cpus)
}

/// Formats a time as `2026-01-31 23:59:59 UTC`.
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that a leap day is the last day of a year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + carry;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{:02} UTC", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(date(4_102_444_799), "2099-12-31 23:59:59 UTC");
    }

    #[test]
    fn a_part_is_told_by_the_options() {
        let of = |text: &str| {
            let preamble = Preamble { options: text.into(), ..Preamble::default() };
            selection(&preamble).map(String::from)
        };
        assert_eq!(of("--data full --compress auto"), None);
        assert_eq!(of("--calls of nobody"), None);
        assert_eq!(of("--call read --data full").as_deref(), Some("--call read"));
        assert_eq!(of("--path '/a*'").as_deref(), Some("--path '/a*'"));
    }

    #[test]
    fn what_an_import_does_not_know_is_said() {
        let mut preamble = Preamble { recorder_version: "(strace)".into(), ..Preamble::default() };
        assert_eq!(recorded(&preamble), "date not known, host not known, by strace");
        preamble.epoch_ns = 1_700_000_000_000_000_000;
        assert_eq!(recorded(&preamble), "2023-11-14 22:13:20 UTC, host not known, by strace");
        let rest = [&*command(&preamble), kernel(&preamble), &machine(&preamble)];
        assert_eq!(rest, [UNKNOWN; 3]);
        let own =
            Preamble { host: "here".into(), recorder_version: "1.2".into(), cpus: 2, ..preamble };
        assert_eq!(recorded(&own), "2023-11-14 22:13:20 UTC on here by reenact 1.2");
        assert_eq!(machine(&own), "not known, 2 CPUs, 0 B memory");
    }
}
