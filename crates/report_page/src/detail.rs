//! Ranges of time in detail: each stretch of what threads did, and each event. What there is no room
//! for is left out in the middle, since what ended a wait stands at its end.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use model::Conditions;
use model::scheduling::{Doing, Interruption, Piece, Scheduling, Sink, Thread, Waker};
use render::amounts::show_time;
use render::lines::{self, Look};
use render::text::Style;
use stats::pass::{self, Visit, Watch};
use stats::waits::Told;
use trace::Trace;
use trace::event::{Call, EventKind, Outcome};

use crate::tables::shown;

/// Waits that are shown in detail.
const WAITS_SHOWN: usize = 10;
/// Ranges that a user may ask for.
pub const ASKED_MAX: usize = 8;
/// Events and stretches that are kept of a wait, and of all ranges that were asked for together.
const OF_WAIT: [usize; 2] = [2_000, 4_000];
const ASKED: [usize; 2] = [24_000, 48_000];
/// Bytes of the text of an event.
const TEXT_BYTES_MAX: usize = 240;
/// Bytes of strings and data in the text of an event.
const STRING_LIMIT: usize = 32;

/// A range of time.
#[derive(Clone, Debug)]
pub struct Range {
    /// Since when.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// What it is.
    pub title: String,
    /// What its time went to, if it is a wait.
    pub explained: String,
    /// The thread that it is about.
    pub tid: Option<u32>,
}

/// What is kept of many: the first ones, and more of the last ones.
#[derive(Debug)]
pub struct Kept<T> {
    first: Vec<T>,
    last: VecDeque<T>,
    room: usize,
    /// How many there were.
    pub count: u64,
}

impl<T> Kept<T> {
    fn new(room: usize) -> Kept<T> {
        Kept { first: Vec::new(), last: VecDeque::new(), room, count: 0 }
    }

    fn add(&mut self, one: T) {
        self.count += 1;
        if self.first.len() < self.room / 4 {
            self.first.push(one);
            return;
        }
        self.last.push_back(one);
        if self.last.len() > self.room - self.room / 4 {
            self.last.pop_front();
        }
    }

    /// Those that are kept, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.last)
    }

    /// How many are left out, and after how many of those that are kept.
    pub fn left_out(&self) -> (u64, usize) {
        (self.count - (self.first.len() + self.last.len()) as u64, self.first.len())
    }
}

/// An event, ready to be shown.
#[derive(Debug)]
pub struct Row {
    /// When it began.
    pub at: u64,
    /// The CPU, if known.
    pub cpu: Option<u32>,
    /// The thread, by id and name.
    pub thread: String,
    /// Its kind.
    pub event: String,
    /// How long it took.
    pub took: Option<u64>,
    /// All that is known of it.
    pub text: String,
}

/// A stretch of what a thread did, or of interrupts of an idle CPU.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Its place in the threads of the range.
    pub thread: u32,
    /// What it did.
    pub doing: Doing,
    /// Since when.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// Where.
    pub cpu: u32,
    /// The call that it was in.
    pub call: Option<u16>,
    /// Who ended a wait.
    pub waker: Waker,
}

/// A thread of a range, or a CPU that is idle there.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its id; of a CPU, none.
    pub tid: Option<u32>,
    /// Its process, if known.
    pub pid: Option<u32>,
    /// Its name.
    pub name: String,
    /// It is one of the kernel's own.
    pub is_kernel: bool,
}

/// A range in detail.
#[derive(Debug)]
pub struct Detail {
    /// The range.
    pub range: Range,
    /// Who did something in it.
    pub lines: Vec<Line>,
    numbers: HashMap<(Option<u32>, u32), u32>,
    /// What they did.
    pub flows: Kept<Flow>,
    /// What happened.
    pub rows: Kept<Rc<Row>>,
}

/// Threads of a range.
const LINES_MAX: usize = 400;

impl Detail {
    fn new(range: Range, [rows, flows]: [usize; 2]) -> Detail {
        Detail {
            range,
            lines: Vec::new(),
            numbers: HashMap::new(),
            flows: Kept::new(flows),
            rows: Kept::new(rows),
        }
    }

    fn flow(&mut self, key: (Option<u32>, u32), line: impl Fn() -> Line, flow: Flow) {
        let (from, to) = (flow.from.max(self.range.from), flow.to.min(self.range.to));
        // What lasts longer than the range says nothing of it, but of the thread that it is about.
        let is_all = from == self.range.from && to == self.range.to && !flow.doing.is_on_cpu();
        if from >= to || (is_all && self.range.tid != key.0) {
            return;
        }
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if self.lines.len() >= LINES_MAX => return,
            None => {
                let number = self.lines.len() as u32;
                self.numbers.insert(key, number);
                self.lines.push(line());
                number
            }
        };
        self.flows.add(Flow { thread: number, from, to, ..flow });
    }
}

/// The ranges in which the longest waits are, and those that were asked for.
pub fn ranges(asked: &[(u64, u64)], told: &[Told]) -> Vec<Range> {
    let of_waits = told.iter().take(WAITS_SHOWN).map(|told| {
        // A little before and after, for what led to it and what followed.
        let around = (told.ns / 20).clamp(2_000, 200_000);
        let call = match told.call_name() {
            stats::sheet::Cell::Word(word) => word.into_owned(),
            _ => String::new(),
        };
        Range {
            from: told.from.saturating_sub(around),
            to: told.from.saturating_add(told.ns).saturating_add(around),
            title: format!("{} {} {}, {}", told.tid, shown(&told.name), call, show_time(told.ns)),
            explained: shown(told.explained.as_bytes()),
            tid: Some(told.tid),
        }
    });
    let asked = asked.iter().map(|&(from, to)| Range {
        from,
        to,
        title: format!("from {} to {}", show_time(from), show_time(to)),
        explained: String::new(),
        tid: None,
    });
    asked.chain(of_waits).collect()
}

/// The fold.
struct Details {
    scheduling: Scheduling,
    all: Found,
}

struct Found(Vec<Detail>);

impl Sink for Found {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        let Piece { doing, from, to, cpu, waker, .. } = piece;
        if doing == Doing::Unknown {
            return;
        }
        let call = thread.call_at(from).map(|call| call.nr);
        for detail in &mut self.0 {
            if to <= detail.range.from || from >= detail.range.to {
                continue;
            }
            let line = || Line {
                tid: Some(thread.id),
                pid: thread.pid,
                name: shown(&thread.name),
                is_kernel: thread.is_kernel,
            };
            let flow = Flow { thread: 0, doing, from, to, cpu, call, waker };
            detail.flow((Some(thread.id), 0), line, flow);
        }
    }

    fn interrupted(&mut self, interruption: &Interruption) {
        let &Interruption { cpu, task, from, to, .. } = interruption;
        if task != 0 {
            return;
        }
        for detail in &mut self.0 {
            let line =
                || Line { tid: None, pid: None, name: format!("cpu{cpu}, idle"), is_kernel: true };
            let doing = Doing::Interrupted;
            let flow = Flow { thread: 0, doing, from, to, cpu, call: None, waker: Waker::Nobody };
            detail.flow((None, cpu), line, flow);
        }
    }
}

impl Details {
    /// Makes a row of an event.
    fn row(&self, visit: &mut Visit<'_>) -> Option<Row> {
        let moment = visit.moment;
        let mut text = String::new();
        let style = Style { string_limit: STRING_LIMIT, data: true, verbose: false };
        let look = Look { style, hex: false, colour: false, seq: false, names: false };
        if !lines::told(&mut text, moment, visit.contents, look) {
            return None;
        }
        let (task, event) = match &moment.event.kind {
            EventKind::Kernel(event) => {
                let layout = moment.world.kernel_layouts().get(event.layout);
                (
                    Some(event.task),
                    layout.map_or_else(String::new, |layout| layout.name.to_string()),
                )
            }
            EventKind::Call(call) => (moment.tid, stats::call_name(call.nr).into_owned()),
            kind => (moment.tid, kind.row().map_or("", |row| row.name).to_string()),
        };
        let name = task.and_then(|id| self.scheduling.thread(id)).map(|thread| &*thread.name);
        let took = match &moment.event.kind {
            EventKind::Call(Call { outcome: Outcome::Returned { .. }, .. }) => {
                moment.exit_ns.map(|exit| exit.saturating_sub(moment.enter_ns))
            }
            _ => None,
        };
        let mut text = shown_text(&text);
        if matches!(moment.event.kind, EventKind::Kernel(_)) {
            // The thread and the name of the event have columns of their own.
            let after = text.split_once("> ").and_then(|(_, rest)| rest.split_once(' '));
            text = after.map_or_else(String::new, |(_, rest)| rest.to_string());
        }
        Some(Row {
            at: moment.enter_ns,
            cpu: moment.event.cpu(),
            thread: match (task, name) {
                (Some(0), _) => "idle".into(),
                (Some(id), Some(name)) => format!("{id} {}", shown(name)),
                (Some(id), None) => id.to_string(),
                (None, _) => String::new(),
            },
            event,
            took,
            text,
        })
    }
}

/// Cuts a line, whose escapes are escaped already.
fn shown_text(line: &str) -> String {
    match line.char_indices().nth(TEXT_BYTES_MAX) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line.to_string(),
    }
}

impl Watch for Details {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        let (enter, exit) = (moment.enter_ns, moment.exit_ns);
        self.scheduling.event(moment.event, enter, exit, moment.tid, &mut self.all);
        let mut row = None;
        for place in 0..self.all.0.len() {
            let range = &self.all.0[place].range;
            if enter > range.to || exit.unwrap_or(enter) < range.from {
                continue;
            }
            if row.is_none() {
                row = self.row(visit).map(Rc::new);
            }
            let Some(row) = &row else { return };
            self.all.0[place].rows.add(Rc::clone(row));
        }
    }
}

/// Reads the trace again for details of these ranges, of which the first ones were asked for.
pub fn gather(trace: &Trace, ranges: Vec<Range>, asked: usize) -> Vec<Detail> {
    let last = ranges.iter().map(|range| range.to).max();
    let Some(last) = last else { return Vec::new() };
    let share = |room: [usize; 2]| room.map(|room| room / asked.max(1));
    let details = ranges.into_iter().enumerate();
    let details = details
        .map(|(at, range)| Detail::new(range, if at < asked { share(ASKED) } else { OF_WAIT }));
    let scheduling = Scheduling::new(&model::kernel_layouts(trace));
    let mut details = Details { scheduling, all: Found(details.collect()) };
    let conditions = Conditions { until_ns: Some(last), ..Conditions::default() };
    pass::in_order(trace, &conditions, &mut details);
    let Details { mut scheduling, mut all } = details;
    scheduling.finish(&mut all);
    all.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_more_of_the_last_are_kept() {
        let mut kept = Kept::new(8);
        (0..20).for_each(|one| kept.add(one));
        assert_eq!(kept.iter().copied().collect::<Vec<i32>>(), [0, 1, 14, 15, 16, 17, 18, 19]);
        assert_eq!(kept.left_out(), (12, 2));
    }
}
