//! Programs that one side starts more often, or with other arguments.
//!
//! What the commands that were recorded differ in is what the user did, and no cause of anything: neither
//! in the recorded program nor where a wrapper (a shell, `env`, `timeout`) hands it on.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::comparison::{Comparison, Pair};
use crate::names::Kin;
use crate::starts::{CommandLine, Started, Starts};

/// What changed in how a program is started.
#[derive(Clone, Debug)]
pub struct Change {
    /// Name of the program.
    pub program: Vec<u8>,
    /// How often each side starts it so.
    pub starts: Pair,
    /// Arguments that one side alone has; nothing where it is started more or less often.
    pub words: [Vec<Vec<u8>>; 2],
    /// A command line of it: of the second side if that has one.
    pub example: CommandLine,
}

impl Change {
    /// Returns true if it is in the arguments.
    pub fn is_in_arguments(&self) -> bool {
        self.words.iter().any(|words| !words.is_empty())
    }

    /// So many starts differ.
    fn weight(&self) -> f64 {
        if self.is_in_arguments() { self.starts.sides[1] } else { self.starts.change().abs() }
    }
}

/// The words in which the recorded commands of two sides differ.
pub struct Asked([Vec<Vec<u8>>; 2]);

impl Asked {
    /// Returns those of the first runs.
    pub fn of(comparison: &Comparison) -> Asked {
        let words = [0, 1].map(|side| {
            let run = comparison.sides[side].first();
            run.map_or(Vec::new(), |run| {
                let plain = Kin::default();
                run.command.iter().map(|word| run.naming.word(word, &plain)).collect::<Vec<_>>()
            })
        });
        let [a, b] = &words;
        Asked([only_in(a, b), only_in(b, a)])
    }

    /// Returns true if all that a change is about stands in the commands themselves.
    pub fn is_all_of(&self, change: &Change) -> bool {
        let names = |side: usize, name: &[u8]| self.0[side].iter().any(|word| is_named(word, name));
        if change.is_in_arguments() {
            return [0, 1]
                .into_iter()
                .all(|side| change.words[side].iter().all(|word| names(side, word)));
        }
        // A program that one side alone starts, since the user said so.
        let side = usize::from(change.starts.change() > 0.0);
        let is_of_one = change.starts.sides == [[1.0, 0.0], [0.0, 1.0]][side];
        let name = |word: &Vec<u8>| file_name(word) == change.program;
        is_of_one && self.0[side].iter().any(name)
    }
}

/// Returns true if a word of a command stands for another one, which may be the path that a search found.
fn is_named(word: &[u8], by: &[u8]) -> bool {
    let plain = |word: &[u8]| word.strip_prefix(b"./").unwrap_or(word).to_vec();
    let (word, by) = (plain(word), plain(by));
    word == by || (!word.is_empty() && by.ends_with(&[b"/", &word[..]].concat()))
}

fn file_name(word: &[u8]) -> &[u8] {
    word.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Returns what changed, that which concerns most starts first.
pub fn changes(comparison: &Comparison) -> Vec<Change> {
    let [Some(a), Some(b)] = [0, 1].map(|side| comparison.sides[side].first()) else {
        return Vec::new();
    };
    let programs: BTreeSet<&Vec<u8>> =
        comparison.runs().flat_map(|run| run.starts.programs.keys()).collect();
    let mut changes = Vec::new();
    for program in programs {
        let of = |starts: &Starts| starts.programs.get(program).copied().unwrap_or(0) as f64;
        let starts = comparison.pair(|run| of(&run.starts));
        let mut left = left_over(program, &a.starts, &b.starts);
        changes.extend(other_arguments(program, &mut left));
        if starts.change() != 0.0 {
            let more = usize::from(starts.change() > 0.0);
            let example = left[more].front().map(|(line, _)| line.clone());
            let example = example.or_else(|| any(program, &[b, a].map(|run| &run.starts)));
            let Some(example) = example else { continue };
            let (program, words) = (program.clone(), Default::default());
            changes.push(Change { program, starts, words, example });
        }
    }
    changes.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    changes
}

/// Command lines that one side has more often than the other, and how much more.
type LeftOver = VecDeque<(CommandLine, u64)>;

/// Returns those of a program, in the order of each side.
fn left_over(program: &[u8], a: &Starts, b: &Starts) -> [LeftOver; 2] {
    [(a, b), (b, a)].map(|(here, there)| {
        let mut lines: Vec<_> =
            here.lines.iter().filter(|(line, _)| line.program == program).collect();
        lines.sort_by_key(|(_, started)| started.place);
        let more = |(line, started): (&CommandLine, &Started)| {
            let others = there.lines.get(line).map_or(0, |started| started.count);
            let more = started.count.saturating_sub(others);
            (more > 0).then(|| (line.clone(), more))
        };
        lines.into_iter().filter_map(more).collect()
    })
}

/// Takes out command lines that one side has in the place of the other's, in the order of the runs, and
/// returns what differs in them.
fn other_arguments(program: &[u8], left: &mut [LeftOver; 2]) -> Vec<Change> {
    let mut groups: BTreeMap<[Vec<Vec<u8>>; 2], (u64, CommandLine)> = BTreeMap::new();
    let [of_a, of_b] = left;
    while let (Some((a, of_a_left)), Some((b, of_b_left))) = (of_a.front_mut(), of_b.front_mut()) {
        let words = [only_in(&a.words, &b.words), only_in(&b.words, &a.words)];
        let times = (*of_a_left).min(*of_b_left);
        groups.entry(words).or_insert((0, b.clone())).0 += times;
        (*of_a_left, *of_b_left) = (*of_a_left - times, *of_b_left - times);
        for left in [&mut *of_a, &mut *of_b] {
            while left.front().is_some_and(|(_, count)| *count == 0) {
                left.pop_front();
            }
        }
    }
    let change = |(words, (count, example)): (_, (u64, CommandLine))| {
        let of = count as f64;
        let starts = Pair { sides: [of; 2], spread: [[of; 2]; 2], p: None };
        Change { program: program.to_vec(), starts, words, example }
    };
    // The same words in another order are no other arguments.
    groups.into_iter().map(change).filter(Change::is_in_arguments).collect()
}

/// Returns the words that one command line has and another has not, in its order.
fn only_in(here: &[Vec<u8>], there: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut others: HashMap<&[u8], usize> = HashMap::new();
    there.iter().for_each(|word| *others.entry(word).or_default() += 1);
    let mut only = Vec::new();
    for word in here {
        match others.get_mut(&word[..]).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => only.push(word.clone()),
        }
    }
    only
}

/// Returns any command line of a program.
fn any(program: &[u8], of: &[&Starts; 2]) -> Option<CommandLine> {
    let lines = |starts: &'_ Starts| {
        let of_it = starts.lines.iter().filter(|(line, _)| line.program == program);
        of_it.min_by_key(|(_, started)| started.place).map(|(line, _)| line.clone())
    };
    of.iter().find_map(|starts| lines(starts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(lines: &[(&str, u64)]) -> Starts {
        let mut starts = Starts::default();
        for (line, count) in lines {
            let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.into()).collect();
            (0..*count).for_each(|_| {
                starts.add(CommandLine { program: words[0].clone(), words: words.clone() });
            });
        }
        starts
    }

    fn found(program: &str, a: &[(&str, u64)], b: &[(&str, u64)]) -> (Vec<String>, [usize; 2]) {
        let mut left = left_over(program.as_bytes(), &starts(a), &starts(b));
        let changes = other_arguments(program.as_bytes(), &mut left);
        let text = |words: &Vec<Vec<u8>>| String::from_utf8(words.join(&b' ')).unwrap();
        let told = |change: &Change| {
            let [a, b] = change.words.each_ref().map(text);
            format!("{} x {a} -> {b}", change.starts.sides[1])
        };
        let rest = left.each_ref().map(|left| left.iter().map(|(_, count)| *count as usize).sum());
        (changes.iter().map(told).collect(), rest)
    }

    #[test]
    fn what_differs_in_arguments_is_told_once() {
        let a = [("cc -O0 a.c", 1), ("cc -O0 b.c", 1), ("gzip x", 2)];
        let b = [("cc -O2 a.c", 1), ("cc -O2 b.c", 1), ("gzip -9 x", 1), ("gzip x", 1)];
        assert_eq!(found("cc", &a, &b), (vec!["2 x -O0 -> -O2".into()], [0, 0]));
        assert_eq!(found("gzip", &a, &b), (vec!["1 x  -> -9".into()], [0, 0]));
    }

    #[test]
    fn what_the_commands_differ_in_is_what_the_user_did() {
        let words = |text: &str| -> Vec<Vec<u8>> {
            text.split(' ').filter(|word| !word.is_empty()).map(|word| word.into()).collect()
        };
        let asked = Asked([words("./v1.sh 20"), words("./v2.sh new/prog")]);
        let pair = |sides| Pair { sides, spread: [[0.0; 2]; 2], p: None };
        let change = |program: &str, sides, a: &str, b: &str| Change {
            program: program.into(),
            starts: pair(sides),
            words: [words(a), words(b)],
            example: CommandLine { program: program.into(), words: Vec::new() },
        };
        for (change, expected) in [
            (change("bash", [1.0; 2], "./v1.sh", "./v2.sh"), true),
            (change("bash", [1.0; 2], "/home/a/v1.sh", "v2.sh"), true),
            (change("python3", [1.0; 2], "20", ""), true),
            // The script itself does something else.
            (change("python3", [1.0; 2], "2", "40"), false),
            (change("python3", [1.0; 2], "./v1.sh -a", "./v2.sh"), false),
            (change("prog", [0.0, 1.0], "", ""), true),
            (change("prog", [0.0, 2.0], "", ""), false),
            (change("prog", [1.0, 0.0], "", ""), false),
            (change("grep", [0.0, 1.0], "", ""), false),
        ] {
            assert_eq!(asked.is_all_of(&change), expected, "{change:?}");
        }
    }

    #[test]
    fn what_is_started_more_often_is_left() {
        let (a, b) = ([("grep x f", 1)], [("grep x f", 4), ("grep y f", 2)]);
        assert_eq!(found("grep", &a, &b), (vec![], [0, 5]));
        assert_eq!(found("grep", &b, &a), (vec![], [5, 0]));
        // Another order is nothing.
        assert_eq!(found("ls", &[("ls -l a", 1)], &[("ls a -l", 1)]), (vec![], [0, 0]));
    }
}
