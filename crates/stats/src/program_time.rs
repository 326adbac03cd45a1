//! Which programs the time of a run belongs to: a launcher, a shell, and what they start.

use std::collections::HashMap;

use model::{Conditions, Moment};
use render::escape::escape;
use trace::event::EventKind;

use crate::activity::{ACTIVITIES, Activities, Activity, COUNT, Shares, WallTime};
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Table, ratio};

/// Limit for the programs that are told apart.
const PROGRAMS_MAX: usize = 1 << 12;
/// Limit for the numbers of threads whose program is remembered.
const THREADS_MAX: usize = 1 << 20;
/// Of a thread whose program is not known.
const NONE: u32 = u32::MAX;
/// Characters of a name.
const NAME_MAX: usize = 64;
/// Programs that are told in a line.
const TOLD_MAX: usize = 6;
/// Those below this share of the run are not.
const TOLD_SHARE: f64 = 0.005;

/// Parts of the time by program and activity.
#[derive(Debug, Default)]
struct Parts {
    numbers: HashMap<Vec<u8>, u32>,
    /// What each thread runs, by its number, and since which of the news that is known.
    runs: Vec<(u32, u32)>,
    /// Number of times that a process may have got another name.
    news: u32,
    /// By the number of the program, and by activity.
    spent: Vec<[f64; COUNT]>,
}

impl Shares for Parts {
    fn spent(&mut self, thread: u32, activity: Activity, ns: f64) {
        let program = self.runs.get(thread as usize).map_or(NONE, |(program, _)| *program);
        if let Some(of) = self.spent.get_mut(program as usize) {
            of[activity as usize] += ns;
        }
    }
}

impl Parts {
    /// Notes which program the thread of an event runs.
    fn runs(&mut self, moment: &Moment<'_>) {
        let number = moment.event.thread;
        let at = number as usize;
        if self.runs.get(at).is_some_and(|(program, known)| *program != NONE && *known == self.news)
        {
            return;
        }
        let process = moment.world.thread(number).map(|thread| thread.process);
        let Some(process) = process.and_then(|number| moment.world.process(number)) else { return };
        if at >= THREADS_MAX {
            return;
        }
        let name = process.exe.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if name.is_empty() {
            return;
        }
        let known = self.numbers.len() as u32;
        let program = match self.numbers.get(name) {
            Some(program) => *program,
            None if self.numbers.len() < PROGRAMS_MAX => {
                self.spent.push([0.0; COUNT]);
                *self.numbers.entry(name.to_vec()).or_insert(known)
            }
            None => return,
        };
        if at >= self.runs.len() {
            self.runs.resize(at + 1, (NONE, 0));
        }
        self.runs[at] = (program, self.news);
    }
}

/// The fold: what the time went to, and whose it was.
#[derive(Debug)]
pub struct ProgramTime {
    activities: Activities<Parts>,
}

impl ProgramTime {
    /// Makes a fold for the threads that conditions choose.
    pub fn of_chosen(conditions: &Conditions) -> ProgramTime {
        ProgramTime { activities: Activities::telling(Parts::default()).of_chosen(conditions) }
    }

    /// Returns what the time went to, and the programs.
    pub fn finish(self) -> (WallTime, Programs) {
        let (wall, parts) = self.activities.finish_telling();
        let mut programs: Vec<Program> = parts
            .numbers
            .into_iter()
            .map(|(name, number)| {
                let spent = parts.spent.get(number as usize).copied().unwrap_or([0.0; COUNT]);
                let activities = ACTIVITIES.iter().map(|(activity, ..)| *activity);
                let each: Vec<(Activity, f64)> = activities.zip(spent).collect();
                let ns = each.iter().map(|(_, ns)| ns).sum::<f64>().round() as u64;
                let most = each.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
                Program { name, ns, most: most.map(|(activity, ns)| (activity, ns as u64)) }
            })
            .collect();
        programs.retain(|of| of.ns > 0);
        programs.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
        let run_ns = wall.run_ns;
        (wall, Programs { programs, run_ns })
    }
}

impl Watch for ProgramTime {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        match &moment.event.kind {
            // The model has the new program already; what was until now was the old one's.
            EventKind::Image { .. } => {
                self.activities.part(moment);
                self.activities.shares().news += 1;
            }
            EventKind::State(_) => self.activities.shares().news += 1,
            _ => {}
        }
        let is_its_own = matches!(
            moment.event.kind,
            EventKind::Call(_) | EventKind::Start { .. } | EventKind::Image { .. }
        );
        if is_its_own {
            self.activities.shares().runs(moment);
        }
        self.activities.add(visit);
    }
}

/// A program of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The file name of its executable.
    pub name: Vec<u8>,
    /// Its part of the time of the run.
    pub ns: u64,
    /// What most of that went to.
    pub most: Option<(Activity, u64)>,
}

/// The programs of a run, that with most of the time first.
#[derive(Clone, Debug, PartialEq)]
pub struct Programs {
    /// The programs.
    pub programs: Vec<Program>,
    run_ns: u64,
}

impl Programs {
    /// Returns the programs in a line, if there are several: `python3.12 92%, bash 8%`.
    pub fn line(&self) -> Option<String> {
        if self.programs.len() < 2 {
            return None;
        }
        let share = |of: &Program| ratio(of.ns, self.run_ns);
        let told = self.programs.iter().take(TOLD_MAX).filter(|of| share(of) >= TOLD_SHARE);
        let mut words: Vec<String> =
            told.map(|of| format!("{} {:.0}%", shown(&of.name), share(of) * 100.0)).collect();
        let more = self.programs.len() - words.len();
        if more > 0 {
            words.push(format!("{more} more"));
        }
        Some(words.join(", "))
    }

    /// Returns them as a table.
    pub fn table(&self) -> Table {
        let columns = [
            ("program", "program"),
            ("wall_ns", "time"),
            ("wall_share", "share"),
            ("most", "most of it"),
            ("most_ns", ""),
            ("", " "),
        ];
        let mut table = Table::new("programs", "Whose time it was", &columns);
        for of in &self.programs {
            let share = ratio(of.ns, self.run_ns);
            let (most, most_ns) = of.most.map_or(("", 0), |(most, ns)| (most.name(), ns));
            table.row(vec![
                Cell::Name(of.name.clone()),
                Cell::Ns(of.ns),
                Cell::Share(share),
                Cell::word(most),
                Cell::Ns(most_ns),
                Cell::Bar(share),
            ]);
        }
        table
    }
}

fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    escape(&mut text, name, &[]);
    text.chars().take(NAME_MAX).collect()
}

#[cfg(test)]
mod tests {
    use syscalls::record::{IMAGE_ARG, part};
    use trace::event::{Content, Data, Event};

    use super::*;
    use crate::sample::{begin, call, events, watch_events};

    fn image(tsc: u64, name: &str) -> Event {
        let data = Data {
            arg: IMAGE_ARG,
            part: part::ARGV,
            index: 0,
            flags: 0,
            true_len: name.len() as u64 + 1,
            hash: None,
            content: Content::Inline([name.as_bytes(), b"\0"].concat()),
        };
        Event::new(1, tsc, EventKind::Image { tid: 100, data: vec![data] })
    }

    fn of(all: &[Event]) -> (WallTime, Programs) {
        watch_events(ProgramTime::of_chosen(&Conditions::default()), all).0.finish()
    }

    #[test]
    fn the_time_until_an_exec_is_the_launchers() {
        let mut all = begin();
        // The second thread is gone before.
        all.push(Event::new(2, 2, EventKind::End { calls: 0 }));
        all.extend(events(&[
            call("read", &[0, 0, 10], 10).lasts(1000),
            call("execve", &[0], 0).never(),
        ]));
        let exec_ns = all.last().map_or(0, |event| event.tsc);
        all.push(image(exec_ns + 500, "/opt/bin/python3.12"));
        all.push(Event::new(1, exec_ns + 10_000, EventKind::End { calls: 2 }));
        let (wall, programs) = of(&all);
        let names: Vec<&[u8]> = programs.programs.iter().map(|of| &of.name[..]).collect();
        assert_eq!(names, [&b"python3.12"[..], b"program"], "{wall:?}");
        let [own_ns, launchers_ns] = [0, 1].map(|at| programs.programs[at].ns);
        assert_eq!(own_ns, 9500);
        assert!(launchers_ns.abs_diff(exec_ns + 500) < 10, "{launchers_ns} until {exec_ns}");
        let line = programs.line().unwrap();
        assert!(line.starts_with("python3.12 7") && line.contains(", program 2"), "{line}");
    }

    #[test]
    fn one_program_is_not_told() {
        let mut all = begin();
        all.extend(events(&[call("read", &[0, 0, 10], 10).lasts(1000)]));
        let (_, programs) = of(&all);
        assert_eq!((programs.line(), programs.programs.len()), (None, 1));
    }
}
