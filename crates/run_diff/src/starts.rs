//! Programs that a run starts, and with which arguments.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use model::{Moment, World};
use render::escape::in_shell;
use trace::event::EventKind;

use crate::mixing::Mixer;
use crate::names::{Kin, Naming};

/// Limit for command lines that are told apart, and for the bytes and words of one.
const LINES_MAX: usize = 1 << 13;
const LINE_BYTES_MAX: usize = 1 << 12;
const LINE_WORDS_MAX: usize = 1 << 9;
/// Limit for programs.
const PROGRAMS_MAX: usize = 1 << 12;
/// Limit for threads that have begun a program and made no call yet.
const WAITING_MAX: usize = 1 << 12;
/// What a program is called whose path is not known.
const UNKNOWN: &[u8] = b"(unknown)";

/// A command line: the program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommandLine {
    /// Name of the program, without folders.
    pub program: Vec<u8>,
    /// Its arguments, the first of which is its name; without what differs by chance.
    pub words: Vec<Vec<u8>>,
}

impl CommandLine {
    /// Returns it as one line.
    pub fn text(&self) -> Vec<u8> {
        in_shell(&self.words)
    }

    /// Returns hashes of the program and of the whole line.
    pub fn hashes(&self) -> (u64, u64) {
        let of = |hash: &dyn Fn(&mut Mixer)| {
            let mut hasher = Mixer::default();
            hash(&mut hasher);
            hasher.finish()
        };
        (of(&|hasher| self.program.hash(hasher)), of(&|hasher| self.hash(hasher)))
    }
}

/// How often something was started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Started {
    /// How often.
    pub count: u64,
    /// Its place in the order in which programs were started first.
    pub place: u64,
}

/// The programs that a run starts.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    /// How often each is.
    pub programs: BTreeMap<Vec<u8>, u64>,
    /// How often each command line is; not all if there are very many.
    pub lines: HashMap<CommandLine, Started>,
}

impl Starts {
    /// Adds one.
    pub fn add(&mut self, line: CommandLine) {
        if self.programs.len() < PROGRAMS_MAX || self.programs.contains_key(&line.program) {
            *self.programs.entry(line.program.clone()).or_default() += 1;
        }
        let place = self.lines.len() as u64;
        if self.lines.len() < LINES_MAX || self.lines.contains_key(&line) {
            self.lines.entry(line).or_insert(Started { count: 0, place }).count += 1;
        }
    }

    /// Returns all, with other names of programs.
    pub fn renamed(self, name: &dyn Fn(Vec<u8>) -> Vec<u8>) -> Starts {
        let mut programs = BTreeMap::new();
        for (program, count) in self.programs {
            *programs.entry(name(program)).or_default() += count;
        }
        let line = |line: CommandLine| CommandLine { program: name(line.program), ..line };
        let lines = self.lines.into_iter().map(|(of, started)| (line(of), started)).collect();
        Starts { programs, lines }
    }
}

/// Sees programs begin.
#[derive(Clone, Debug, Default)]
pub struct Beginnings {
    /// Threads of which it is not known yet what they begin.
    waiting: HashSet<u32>,
}

impl Beginnings {
    /// Notes an event. Returns what its thread has begun: that is known at its first call.
    pub fn note(&mut self, moment: &Moment<'_>, naming: &Naming) -> Option<CommandLine> {
        let thread = moment.event.thread;
        match moment.event.kind {
            EventKind::Image { .. } if self.waiting.len() < WAITING_MAX => {
                self.waiting.insert(thread);
                None
            }
            EventKind::Call(_) | EventKind::End { .. } if self.waiting.remove(&thread) => {
                command_line(moment.world, thread, naming)
            }
            _ => None,
        }
    }
}

fn command_line(world: &World, thread: u32, naming: &Naming) -> Option<CommandLine> {
    let process = world.process(world.thread(thread)?.process)?;
    let kin = Kin::of(world, thread);
    let mut left = LINE_BYTES_MAX;
    let mut words = Vec::new();
    for word in process.argv.iter().take(LINE_WORDS_MAX) {
        let word = &word[..word.len().min(left)];
        left -= word.len();
        words.push(naming.word(word, &kin));
        if left == 0 {
            break;
        }
    }
    Some(CommandLine { program: program(world, thread)?.to_vec(), words })
}

/// Returns the name of the program that a thread runs.
pub fn program(world: &World, thread: u32) -> Option<&[u8]> {
    let exe = &world.process(world.thread(thread)?.process)?.exe;
    let name = exe.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    Some(if name.is_empty() { UNKNOWN } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(program: &str, words: &[&str]) -> CommandLine {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        CommandLine { program: program.into(), words }
    }

    #[test]
    fn starts_are_counted_by_program_and_line() {
        let mut starts = Starts::default();
        let lines = [line("cc", &["cc", "a.c"]), line("ld", &["ld"]), line("cc", &["cc", "b.c"])];
        lines.iter().chain(&lines[..1]).for_each(|line| starts.add(line.clone()));
        assert_eq!(starts.programs[&b"cc"[..]], 3);
        let of = |line: &CommandLine| (starts.lines[line].count, starts.lines[line].place);
        assert_eq!([of(&lines[0]), of(&lines[1]), of(&lines[2])], [(2, 0), (1, 1), (1, 2)]);
        assert_eq!(lines[0].hashes().0, lines[2].hashes().0);
        assert_ne!(lines[0].hashes().1, lines[2].hashes().1);
    }
}
