//! `--kernel-for`: whose events of the kernel are wanted.

use std::ffi::CString;
use std::{fmt, fs};

use recorder::Condition;

/// A word of `--kernel-for`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whom {
    /// PROGRAM, and what it makes.
    Program,
    /// Threads of which this holds.
    Threads(Condition),
    /// What happens on these CPUs.
    Cpus(Vec<u32>),
}

/// CPUs that can be named.
const CPUS_MAX: u32 = 8192;

impl Whom {
    /// Reads a word.
    pub fn parse(text: &str) -> Result<Whom, String> {
        if text == "program" {
            return Ok(Whom::Program);
        }
        let number = |value: &str| {
            value.parse::<u32>().map_err(|_| format!("'{value}' in '{text}' is not a number"))
        };
        Ok(match text.split_once('=') {
            Some(("pid", "0")) => return Err("0 is no process, but a CPU that idles".into()),
            Some(("pid", value)) => Whom::Threads(Condition::Process(number(value)?)),
            Some(("pgid", value)) => Whom::Threads(Condition::Group(number(value)?)),
            Some(("uid", value)) => {
                let id = user(value).map_or_else(|| number(value), Ok);
                let user = id.map_err(|_| format!("there is no user '{value}'"))?;
                Whom::Threads(Condition::User(user))
            }
            Some(("gid", value)) => {
                let id = group(value).map_or_else(|| number(value), Ok);
                let group = id.map_err(|_| format!("there is no group '{value}'"))?;
                Whom::Threads(Condition::GroupId(group))
            }
            Some(("cgroup", value)) => {
                if !value.starts_with('/') {
                    return Err(format!("'{text}': the path of a cgroup begins with /"));
                }
                let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
                Whom::Threads(Condition::Cgroup(cgroup(value, &mounts).into()))
            }
            Some(("cpu", value)) => Whom::Cpus(cpus(value)?),
            None if cpus(text).is_ok() => {
                return Err(format!("'{text}': several CPUs are joined by +, as in cpu=0+2-3"));
            }
            _ => {
                return Err(format!(
                    "'{text}' is none of program, pid=N, pgid=N, uid=USER, gid=GROUP, cpu=LIST, \
                     cgroup=PATH"
                ));
            }
        })
    }
}

/// A cgroup as the kernel names it: below the hierarchy's own folder, if it is named by its folder.
fn cgroup<'a>(path: &'a str, mounts: &str) -> &'a str {
    let places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        matches!(kind, "cgroup" | "cgroup2").then_some(place)
    });
    let below = |place: &str| {
        let rest = path.strip_prefix(place)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let rest = places.filter_map(below).min_by_key(|rest| rest.len()).unwrap_or(path);
    if rest.is_empty() { "/" } else { rest }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whom::Program => f.write_str("program"),
            Whom::Threads(condition) => condition.fmt(f),
            Whom::Cpus(cpus) => {
                let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
                write!(f, "cpu={}", cpus.join("+"))
            }
        }
    }
}

/// Conditions on threads, and the CPUs that are wanted.
pub fn conditions(words: &[Whom]) -> Result<(Vec<Condition>, Vec<u32>), String> {
    let (mut conditions, mut all) = (Vec::new(), Vec::new());
    for word in words {
        match word {
            Whom::Program => {}
            Whom::Threads(condition) => conditions.push(condition.clone()),
            Whom::Cpus(cpus) => all.extend(cpus),
        }
    }
    // SAFETY: the call takes a number and returns one.
    let there = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    match all.iter().find(|cpu| i64::from(**cpu) >= there) {
        Some(cpu) => Err(format!("there is no CPU {cpu}, but 0 to {}", there - 1)),
        None => Ok((conditions, all)),
    }
}

fn cpus(list: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    let bad = || format!("'{list}' is not a list of CPUs, such as 0+2-3");
    for range in list.split('+') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            return Err(bad());
        };
        if first > last || last >= CPUS_MAX {
            return Err(bad());
        }
        all.extend(first..=last);
    }
    Ok(all)
}

fn user(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a string; what is returned is read before the next such call, on this thread
    // alone.
    unsafe { libc::getpwnam(name.as_ptr()).as_ref() }.map(|entry| entry.pw_uid)
}

fn group(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: as for users.
    unsafe { libc::getgrnam(name.as_ptr()).as_ref() }.map(|entry| entry.gr_gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_threads_and_cpus() {
        let threads = |condition| Ok(Whom::Threads(condition));
        assert_eq!(Whom::parse("program"), Ok(Whom::Program));
        assert_eq!(Whom::parse("pid=7"), threads(Condition::Process(7)));
        assert_eq!(Whom::parse("uid=root"), threads(Condition::User(0)));
        assert_eq!(Whom::parse("gid=65000"), threads(Condition::GroupId(65000)));
        assert_eq!(Whom::parse("cgroup=/a"), threads(Condition::Cgroup(b"/a".into())));
        assert_eq!(Whom::parse("cpu=0+2-3"), Ok(Whom::Cpus(vec![0, 2, 3])));
        for bad in [
            "",
            "pid",
            "pid=x",
            "pid=0",
            "2-3",
            "uid=no-such-user",
            "cpu=3-2",
            "cpu=99999",
            "cgroup=a",
            "x=1",
        ] {
            assert!(Whom::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cgroups_are_named_by_their_folders_too() {
        let mounts =
            "none /c tmpfs rw 0 0\nnone /c/cpu cgroup rw 0 0\nnone /c/cpu/two cgroup2 rw 0 0\n";
        for (path, name) in [
            ("/c/cpu/a/b", "/a/b"),
            ("/c/cpu/two/a", "/a"),
            ("/c/cpu", "/"),
            ("/c/cpux", "/c/cpux"),
            ("/a", "/a"),
        ] {
            assert_eq!(cgroup(path, mounts), name);
        }
    }
}
