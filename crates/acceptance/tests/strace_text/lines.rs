//! Makes lines of strace comparable: grouped by thread, without what differs between runs.

use std::collections::BTreeMap;

use acceptance::Complaint;

/// The calls of every thread. A thread is named by child numbers from the first one: `0.2.1`.
pub type Threads = BTreeMap<String, Vec<String>>;

/// Fields whose values differ between runs.
const UNSTEADY: &[&str] = &[
    "st_ino",
    "stx_ino",
    "d_ino",
    "d_off",
    "st_atime",
    "st_atime_nsec",
    "st_mtime",
    "st_mtime_nsec",
    "st_ctime",
    "st_ctime_nsec",
    "tv_sec",
    "tv_nsec",
    "tv_usec",
    "f_bfree",
    "f_bavail",
    "f_ffree",
    "uptime",
    "loads",
    "freeram",
    "sharedram",
    "bufferram",
    "procs",
    "freeswap",
    "ru_maxrss",
    "ru_minflt",
    "ru_majflt",
    "ru_inblock",
    "ru_oublock",
    "ru_nvcsw",
    "ru_nivcsw",
    "si_utime",
    "si_stime",
    "stx_mnt_id",
    "l_pid",
    "nl_pid",
    "u64",
];

/// Calls with process ids in arguments or results.
const WITH_IDS: &[&str] = &[
    "clone",
    "clone3",
    "fork",
    "vfork",
    "wait4",
    "waitid",
    "getpid",
    "gettid",
    "getppid",
    "getpgrp",
    "getpgid",
    "setpgid",
    "getsid",
    "set_tid_address",
    "kill",
    "tgkill",
    "rt_sigreturn",
    "pidfd_open",
    "SIGUSR1",
];

/// Calls whose data differs between runs.
const RANDOM: &[&str] = &["getrandom("];

/// Properties of a program's calls that cannot be compared.
pub struct Unsteady {
    /// Signals that the program handles; others are not recorded.
    pub signals: &'static [&'static str],
    /// Prefixes of calls with random data.
    pub random: &'static [&'static str],
    /// Prefixes of calls that are made by chance.
    pub by_chance: &'static [&'static str],
}

/// Parses a text and leaves out what cannot be compared.
pub fn threads(text: &str, unsteady: &Unsteady) -> Result<Threads, Complaint> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut children: BTreeMap<String, u32> = BTreeMap::new();
    let mut halves: BTreeMap<String, String> = BTreeMap::new();
    let mut calls: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let (id, rest) = line.split_once(' ').ok_or_else(|| format!("no id: {line}"))?;
        let (time, rest) =
            rest.trim_start().split_once(' ').ok_or_else(|| format!("no time: {line}"))?;
        if time.split_once('.').is_none_or(|(_, fraction)| fraction.len() != 6) {
            return Err(format!("no time: {line}"));
        }
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            halves.insert(id.to_string(), begun.to_string());
            continue;
        }
        let whole = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let (_, end) = resumed
                    .split_once(" resumed>")
                    .ok_or_else(|| format!("not resumed: {line}"))?;
                let begun = halves.remove(id).ok_or_else(|| format!("not begun: {line}"))?;
                format!("{begun}{end}")
            }
            None => rest.to_string(),
        };
        if let Some(signal) = whole.strip_prefix("--- ") {
            let name = signal.split(' ').next().unwrap_or_default();
            if !unsteady.signals.contains(&name) {
                continue;
            }
        }
        calls.push((id.to_string(), column(&whole, id, time, rest)?));
    }
    // A child is known when its parent's call has returned, which may be after its own children's.
    let makes =
        |call: &str| ["clone(", "clone3(", "fork(", "vfork("].iter().any(|c| call.starts_with(c));
    let born = calls.iter().filter(|(_, call)| makes(call));
    let mut born: Vec<(&str, &str)> =
        born.filter_map(|(parent, call)| Some((parent.as_str(), result(call)?))).collect();
    names.extend(calls.first().map(|(id, _)| (id.clone(), "0".to_string())));
    let mut left = born.len() + 1;
    while born.len() < left {
        left = born.len();
        born.retain(|(parent, child)| {
            let Some(parent) = names.get(*parent).cloned() else { return true };
            let count = children.entry(parent.clone()).or_default();
            *count += 1;
            names.insert(child.to_string(), format!("{parent}.{count}"));
            false
        });
    }
    let mut threads = Threads::new();
    for (id, call) in &calls {
        let name = names.get(id).ok_or_else(|| format!("{id} comes from nowhere"))?;
        let begins = |list: &[&str]| list.iter().any(|begin| call.starts_with(begin));
        if begins(unsteady.by_chance) {
            continue;
        }
        let random = begins(RANDOM) || begins(unsteady.random);
        threads.entry(name.clone()).or_default().push(normal(call, &names, random));
    }
    Ok(threads)
}

/// Removes the labels of descriptors that `-y` prints.
pub fn without_labels(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        // Strings are hexadecimal, so that every '<' begins a label, a duration or a note.
        while let Some(at) = rest.find('<') {
            let (before, label) = rest.split_at(at);
            let end = label.find('>').map_or(label.len(), |end| end + 1);
            let of_descriptor = before.ends_with(|c: char| c.is_ascii_digit() || c == 'D');
            out.push_str(before);
            if !of_descriptor {
                out.push_str(&label[..end]);
            }
            rest = &label[end..];
            if of_descriptor {
                rest = rest.strip_prefix("(deleted)").unwrap_or(rest);
            }
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}

/// Checks the column of the result, and removes blanks and duration.
fn column(whole: &str, id: &str, time: &str, line: &str) -> Result<String, Complaint> {
    const RESULT_COLUMN: usize = 40;

    let Some(at) = whole.rfind(") ") else { return Ok(whole.to_string()) };
    let (call, result) = (&whole[..=at], &whole[at + 1..]);
    // The last parenthesis may be in the description of an error.
    if !result.trim_start().starts_with('=') {
        let Some(at) = whole.find(") = ").or_else(|| whole.find(")  ")) else {
            return Ok(without_duration(whole).to_string());
        };
        return Ok(format!("{} {}", &whole[..=at], without_duration(whole[at + 1..].trim_start())));
    }
    if line == whole && result.starts_with("  ") {
        let column = id.len().max(5) + 1 + time.len() + 1 + whole.len() - result.trim_start().len();
        if column != RESULT_COLUMN {
            return Err(format!("the result stands in column {column}: {line}"));
        }
    }
    Ok(format!("{call} {}", without_duration(result.trim_start())))
}

fn without_duration(text: &str) -> &str {
    match text.rfind(" <") {
        Some(at) if text.ends_with('>') => &text[..at],
        _ => text,
    }
}

fn result(call: &str) -> Option<&str> {
    let result = call.rsplit_once("= ")?.1;
    result.bytes().all(|c| c.is_ascii_digit()).then_some(result)
}

/// Removes addresses, times, ids and random data from a call, and decodes strings.
fn normal(call: &str, names: &BTreeMap<String, String>, random: bool) -> String {
    let name = call.trim_start_matches("--- ").split(['(', ' ']).next().unwrap_or_default();
    let with_ids = WITH_IDS.contains(&name);
    let mut out = String::new();
    let mut rest = call;
    let mut field = String::new();
    while let Some(c) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix(" /* ")
            && let Some(end) = comment.find(" */")
            && !comment[..end].contains("???")
        {
            rest = &comment[end + 3..];
        } else if c == '"' {
            let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
            let digits = &rest[1..end - 1];
            let text = match random {
                true => format!("{} random bytes", digits.len() / 4),
                false => readable(digits),
            };
            out.push_str(&format!("\"{text}\""));
            rest = &rest[end..];
        } else if c.is_ascii_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let word = &rest[..end.unwrap_or(rest.len())];
            rest = &rest[word.len()..];
            let unsteady = UNSTEADY.contains(&&*field) || out.ends_with("htons(");
            let number = word.starts_with(|c: char| c.is_ascii_digit());
            let address = word.starts_with("0x") && word.len() >= 8;
            match names.get(word) {
                Some(thread) if with_ids => out.push_str(&format!("<{thread}>")),
                _ if number && with_ids && word.len() >= 3 && !address => out.push_str("<other>"),
                _ if number && unsteady => out.push('N'),
                _ if address => out.push_str("ADDRESS"),
                _ => out.push_str(word),
            }
            if rest.starts_with('=') {
                field = word.to_string();
            }
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// Decodes hexadecimal digits; random parts of temporary file names are removed.
fn readable(digits: &str) -> String {
    let bytes: Vec<u8> = digits
        .split("\\x")
        .skip(1)
        .filter_map(|digits| u8::from_str_radix(digits, 16).ok())
        .collect();
    let mut text = bytes.escape_ascii().to_string();
    // Addresses of mappings vary in length.
    if text.contains(" r-xp ") || text.contains("[stack]") {
        return "mappings".into();
    }
    for begin in ["/tmp/cc", "/sh-thd."] {
        let mut from = 0;
        while let Some(at) = text[from..].find(begin) {
            from += at + begin.len();
            let end = from + text[from..].chars().take_while(char::is_ascii_alphanumeric).count();
            text.replace_range(from..end, "RANDOM");
        }
    }
    text
}
