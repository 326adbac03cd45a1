//! Names of files that differ from run to run, and stand for the same.
//!
//! A name that several runs have is the same file. One that a single run has is replaced by its
//! pattern if another run has such a name of the same pattern too; what has one pattern is summed up, and
//! nothing is claimed of which of them is which. Rules of the pattern, all of which need a reason why the
//! name differs by chance:
//!
//! - pipes, sockets and other objects of the kernel: their number;
//! - a path below the run's first working directory: it begins with `.` instead;
//! - a number that is the id of a process or thread of that very run; of what a process itself names, its own
//!   id or that of one it descends from: others would be found in `python311.zip` and `-j40` too;
//! - below a directory for temporary files: the part of the first name that looks random, at least six
//!   letters and digits, in which letters and digits, or small and capital letters, are mixed; or `tmp` and
//!   eight of them, as Python has it.

use std::collections::HashSet;

use model::World;
use trace::event::EventKind;

/// What stands for what differs.
const ANY: u8 = b'*';
/// Directories for temporary files.
const TEMPORARY: [&[u8]; 4] = [b"/tmp/", b"/var/tmp/", b"/dev/shm/", b"/run/user/"];
/// Characters of a random part, at least.
const RANDOM_LEAST: usize = 6;
/// Digits of an id, at least: fewer are often something else.
const ID_DIGITS_LEAST: usize = 2;
/// Limit for the processes of one line of descent.
const KIN_MAX: usize = 16;
/// Limit for the ids of a run.
const IDS_MAX: usize = 1 << 16;

/// What is known of a run, by which its names are understood.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// The working directory that the first process began in.
    pub directory: Vec<u8>,
    ids: HashSet<u64>,
    /// How names begin, and how they are to begin: what a user says is the same.
    same: Vec<Same>,
}

/// How names of one side begin, and how those of the same files on the other side do.
pub type Same = (Vec<u8>, Vec<u8>);

impl Naming {
    /// Begins with what a user says is the same.
    pub fn saying(same: Vec<Same>) -> Naming {
        Naming { same, ..Naming::default() }
    }

    /// Begins anew, with what a user says.
    pub fn anew(&self) -> Naming {
        Naming::saying(self.same.clone())
    }

    /// Returns a name as the other side has it, if a user says so.
    pub fn renamed(&self, name: Vec<u8>) -> Vec<u8> {
        for (from, to) in &self.same {
            let [from, to] = [from, to].map(|name| self.absolute(name));
            if let Some(rest) = name.strip_prefix(&from[..]) {
                return [&to[..], rest].concat();
            }
        }
        name
    }

    fn absolute(&self, name: &[u8]) -> Vec<u8> {
        match name.first() {
            Some(b'/') => name.to_vec(),
            _ => [&self.directory[..], b"/", name].concat(),
        }
    }

    /// Notes what an event tells.
    pub fn note(&mut self, event: &EventKind) {
        match event {
            EventKind::Start { pid, tid, .. } => {
                [*pid, *tid].into_iter().for_each(|id| self.id(id))
            }
            EventKind::State(state) if self.directory.is_empty() => {
                self.directory.clone_from(&state.cwd);
            }
            _ => {}
        }
    }

    fn id(&mut self, id: u32) {
        if self.ids.len() < IDS_MAX {
            self.ids.insert(id.into());
        }
    }

    /// Returns the pattern of a name, the name itself if nothing in it differs by chance.
    pub fn pattern(&self, name: &[u8]) -> Vec<u8> {
        self.pattern_of(name, &|number| self.ids.contains(&number))
    }

    /// Returns the pattern of a name that a process uses.
    pub fn pattern_by(&self, name: &[u8], kin: &Kin) -> Vec<u8> {
        self.pattern_of(name, &|number| kin.0.contains(&number))
    }

    fn pattern_of(&self, name: &[u8], is_id: &dyn Fn(u64) -> bool) -> Vec<u8> {
        if !name.starts_with(b"/") {
            return object(name);
        }
        let name = self.renamed(name.to_vec());
        let name = self.relative(&name);
        without_ids(&without_random(&name), is_id)
    }

    /// Returns an argument of a process's command line without what differs by chance: it may be a path, or
    /// end in one, as `-I/usr/include` and `--file=/tmp/x` do.
    pub fn word(&self, word: &[u8], kin: &Kin) -> Vec<u8> {
        let begins = word.iter().position(|byte| *byte == b'/').unwrap_or(word.len());
        let (before, path) = word.split_at(begins);
        match before.last() {
            None if !path.is_empty() => self.pattern_by(path, kin),
            Some(last) if !path.is_empty() && (before[0] == b'-' || *last == b'=') => {
                [before, &self.pattern_by(path, kin)].concat()
            }
            _ => without_ids(&self.renamed_relative(word), &|number| kin.0.contains(&number)),
        }
    }

    /// Returns a name that may count from the first working directory as the other side has it.
    fn renamed_relative(&self, name: &[u8]) -> Vec<u8> {
        let whole = self.absolute(name);
        let renamed = self.renamed(whole.clone());
        if renamed == whole {
            return name.to_vec();
        }
        let below = [&self.directory[..], b"/"].concat();
        renamed.strip_prefix(&below[..]).unwrap_or(&renamed).to_vec()
    }

    fn relative(&self, name: &[u8]) -> Vec<u8> {
        let below = name.strip_prefix(&self.directory[..]).filter(|_| self.directory.len() > 1);
        match below {
            Some(rest) if rest.is_empty() || rest.starts_with(b"/") => [b".", rest].concat(),
            _ => name.to_vec(),
        }
    }
}

/// Returns a name without the numbers that are ids.
fn without_ids(name: &[u8], is_id: &dyn Fn(u64) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    for run in runs(name) {
        if is_id_of(run, is_id) { out.push(ANY) } else { out.extend_from_slice(run) }
    }
    out
}

/// Returns the parts of a text that are all digits, or have none.
fn runs(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
}

fn is_id_of(run: &[u8], is_id: &dyn Fn(u64) -> bool) -> bool {
    run.len() >= ID_DIGITS_LEAST
        && run[0].is_ascii_digit()
        && std::str::from_utf8(run).ok().and_then(|text| text.parse().ok()).is_some_and(is_id)
}

/// The ids of a thread, its process, and those that this descends from.
#[derive(Clone, Debug, Default)]
pub struct Kin(Vec<u64>);

impl Kin {
    /// Returns those of a thread and its process.
    pub fn of(world: &World, thread: u32) -> Kin {
        let Some(thread) = world.thread(thread) else { return Kin::default() };
        let processes = std::iter::successors(world.process(thread.process), |process| {
            world.process(process.parent?)
        });
        let pids = processes.take(KIN_MAX).map(|process| process.pid);
        Kin(pids.chain([thread.tid]).map(u64::from).collect())
    }

    /// Returns how many bytes of a text are digits of these ids.
    pub fn bytes_in(&self, text: &[u8]) -> u64 {
        let is_kin = |digits: &&[u8]| is_id_of(digits, &|number| self.0.contains(&number));
        runs(text).filter(is_kin).map(|digits| digits.len() as u64).sum()
    }
}

/// Returns the name of an object of the kernel without its number: `pipe:[17]`.
pub fn object(name: &[u8]) -> Vec<u8> {
    let number = |inner: &[u8]| !inner.is_empty() && inner.iter().all(u8::is_ascii_digit);
    if let Some(at) = name.iter().rposition(|byte| *byte == b'[')
        && let Some(inner) = name[at + 1..].strip_suffix(b"]")
        && number(inner)
        && !name.starts_with(b"/")
    {
        return [&name[..at], b"[*]"].concat();
    }
    name.to_vec()
}

/// Replaces what looks random in the first name below a directory for temporary files.
fn without_random(name: &[u8]) -> Vec<u8> {
    let Some(prefix) = TEMPORARY.iter().find(|prefix| name.starts_with(prefix)) else {
        return name.to_vec();
    };
    let (first, rest) = split(&name[prefix.len()..]);
    // Below /run/user there is a directory for each user.
    if prefix.starts_with(b"/run") {
        let (second, rest) = split(rest.strip_prefix(b"/").unwrap_or(rest));
        return [*prefix, first, b"/", &masked(second), rest].concat();
    }
    [*prefix, &masked(first), rest].concat()
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().position(|byte| *byte == b'/').unwrap_or(path.len()))
}

fn masked(name: &[u8]) -> Vec<u8> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut out = Vec::new();
    for part in name.chunk_by(|a, b| is_letter(a) == is_letter(b)) {
        let has = |fits: fn(&u8) -> bool| part.iter().any(fits);
        let is_mixed = (has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic))
            || (has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
        let is_pythons = part.len() == 11 && part.starts_with(b"tmp");
        let is_random =
            part.len() >= RANDOM_LEAST && is_letter(&part[0]) && (is_mixed || is_pythons);
        if is_random { out.push(ANY) } else { out.extend_from_slice(part) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &str) {
        let mut naming = Naming { directory: b"/home/a/shop".to_vec(), ..Naming::default() };
        naming.id(4711);
        naming.id(7);
        let found = naming.pattern(name.as_bytes());
        assert_eq!(String::from_utf8_lossy(&found), expected);
    }

    #[test]
    fn what_differs_by_chance_is_replaced() {
        check("/tmp/ccAb12Xy.s", "/tmp/*.s");
        check("/tmp/tmp.Xa3bQ9kL12/out/data", "/tmp/tmp.*/out/data");
        check("/var/tmp/etilqs_3f9a0b2c", "/var/tmp/*");
        check("/tmp/tmpqwertyui/x", "/tmp/*/x");
        check("/run/user/1000/dbus-aB3dE5fG", "/run/user/1000/dbus-*");
        check("/home/a/shop/x/log.4711", "./x/log.*");
        check("/proc/4711/stat", "/proc/*/stat");
        check("pipe:[123456]", "pipe:[*]");
        check("anon_inode:[eventfd]", "anon_inode:[eventfd]");
    }

    #[test]
    fn what_a_user_calls_the_same_is() {
        let mut naming = Naming::saying(vec![
            (b"a.db".to_vec(), b"b.db".to_vec()),
            (b"/opt/v1/".to_vec(), b"/opt/v2/".to_vec()),
        ]);
        naming.directory = b"/place".to_vec();
        let renamed = |name: &str| String::from_utf8(naming.renamed(name.into())).unwrap();
        assert_eq!(renamed("/place/a.db-journal"), "/place/b.db-journal");
        assert_eq!(renamed("/opt/v1/lib/x"), "/opt/v2/lib/x");
        assert_eq!(renamed("/a.db"), "/a.db");
        assert_eq!(naming.pattern(b"/place/a.db"), naming.pattern(b"/place/b.db"));
    }

    #[test]
    fn arguments_may_have_paths_in_them() {
        let mut naming = Naming::saying(vec![(b"a.db".to_vec(), b"b.db".to_vec())]);
        naming.directory = b"/place".to_vec();
        let kin = Kin(vec![4711]);
        for (word, expected) in [
            ("-O2", "-O2"),
            ("/tmp/ccAb12Xy.s", "/tmp/*.s"),
            ("-I/place/include", "-I./include"),
            ("--file=/tmp/ccAb12Xy.s", "--file=/tmp/*.s"),
            ("out.4711/x", "out.*/x"),
            ("a.db", "b.db"),
            ("s/a/b/", "s/a/b/"),
            ("", ""),
        ] {
            let found = naming.word(word.as_bytes(), &kin);
            assert_eq!(String::from_utf8_lossy(&found), expected);
        }
    }

    #[test]
    fn numbers_of_other_processes_are_no_ids_in_what_a_process_names() {
        let mut naming = Naming::default();
        [311, 40, 4711].into_iter().for_each(|id| naming.id(id));
        let kin = Kin(vec![4711]);
        let zip = b"/usr/lib/python311.zip";
        assert_eq!(naming.pattern_by(zip, &kin), zip);
        assert_eq!(naming.word(b"-j40", &kin), b"-j40");
        assert_eq!(naming.pattern_by(b"/data/log.4711", &kin), b"/data/log.*");
        assert_eq!(kin.bytes_in(b"x.4711 40 311 14711 4711\n"), 8);
        // Of files alone it is not known who named them.
        assert_eq!(naming.pattern(b"/data/log.40"), b"/data/log.*");
    }

    #[test]
    fn what_differs_for_a_reason_stays() {
        check("/home/a/shops/x", "/home/a/shops/x");
        check("/usr/lib/libx-1.2.so", "/usr/lib/libx-1.2.so");
        check("/tmp/download/part7", "/tmp/download/part7");
        check("/tmp/out", "/tmp/out");
        check("/data/14711", "/data/14711");
        check("/var/lib/aB12cD34/x", "/var/lib/aB12cD34/x");
        check("", "");
    }
}
