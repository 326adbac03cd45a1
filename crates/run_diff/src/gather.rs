//! One pass over a recording: all that a comparison needs of it.

use std::collections::{BTreeMap, HashMap};

use model::{Conditions, Contents, FileId, Moment, Namespace, Paths, Unread, file_use};
use stats::activity::{Activities, Activity, Shares, WallTime};
use stats::call_name;
use stats::calls::errno_name;
use stats::chains::{Chains, Spelled};
use stats::pass::{self, Visit, Watch};
use stats::sites::SiteId;
use syscalls::shape::Classes;
use trace::Trace;
use trace::event::{Call, EventKind};

use crate::amounts::{Amounts, Counted, Groups};
use crate::mixing::Map;
use crate::names::{Naming, Same, object};
use crate::parting::Course;
use crate::starts::{self, Beginnings, Starts};

/// Limit for the threads whose calls are known at a time.
const THREADS_MAX: usize = 1 << 16;
/// Limit for programs that are told apart.
const PROGRAMS_MAX: usize = 1 << 12;
/// Limit for pairs of call and file, and for kinds of errors.
const PAIRS_MAX: usize = 1 << 17;
const ERRORS_MAX: usize = 1 << 12;

/// By what calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By their name.
    Call,
    /// By the file that they are about.
    File,
    /// By the program that made them.
    Process,
    /// By where in the program they were made.
    Site,
}

/// Amounts by name.
pub type Named = BTreeMap<Vec<u8>, Amounts>;

/// Names of a call and of the file that it is about.
pub type CallAndFile = (Vec<u8>, Vec<u8>);

/// An error of a call.
#[derive(Clone, Debug, Default)]
pub struct Failed {
    /// How often.
    pub count: u64,
    /// Number of the first such call.
    pub seq: Option<u64>,
    /// What it was about, if it was about a file.
    pub path: Vec<u8>,
}

/// What a comparison needs of a recording.
#[derive(Debug, Default)]
pub struct Run {
    /// The command line that was recorded.
    pub command: Vec<Vec<u8>>,
    /// The time of the run and what it went to; `None` if not all events count.
    pub wall: Option<WallTime>,
    /// Amounts by name of the call.
    pub calls: Named,
    /// Amounts by path.
    pub files: Named,
    /// Amounts by program.
    pub programs: Named,
    /// Amounts by call and place in the program, if asked for.
    pub sites: Named,
    /// What calls on files were of the time of the run.
    pub pairs: BTreeMap<CallAndFile, f64>,
    /// What the time between calls was of that of the run, by program.
    pub outside: BTreeMap<Vec<u8>, f64>,
    /// Errors by call and name.
    pub errors: BTreeMap<(Vec<u8>, Vec<u8>), Failed>,
    /// Programs that it started.
    pub starts: Starts,
    /// Name of the program that the recording began with.
    pub first_program: Option<Vec<u8>>,
    /// Processes and threads.
    pub tasks: [u64; 2],
    /// What its names mean.
    pub naming: Naming,
    /// The calls of each thread, as hashes, if asked for.
    pub course: Option<Course>,
    /// Calls that are in no group.
    pub left_out: u64,
    /// What could not be read.
    pub unread: Unread,
}

impl Run {
    /// Returns the amounts by something.
    pub fn by(&self, by: By) -> &Named {
        match by {
            By::Call => &self.calls,
            By::File => &self.files,
            By::Process => &self.programs,
            By::Site => &self.sites,
        }
    }

    /// Returns the amounts of all calls.
    pub fn all(&self) -> Amounts {
        let mut all = Amounts::default();
        self.calls.values().for_each(|of| all.merge(of));
        all
    }

    /// Returns the time of the run, or of what counts of it.
    pub fn run_ns(&self) -> f64 {
        match &self.wall {
            Some(wall) => wall.run_ns as f64,
            None => self.all().run_ns,
        }
    }
}

/// What is wanted beside what every comparison needs.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Places in programs.
    pub sites: bool,
    /// The order of calls.
    pub course: bool,
    /// Files that have other names on the other side.
    pub same: Vec<Same>,
}

/// Reads a recording.
pub fn gather(trace: &Trace, conditions: &Conditions, wanted: &Wanted) -> Run {
    let parts = Parts { chains: wanted.sites.then(Chains::default), ..Parts::default() };
    let mut pass = Pass {
        activities: Activities::telling(parts),
        errors: HashMap::new(),
        beginnings: Beginnings::default(),
        starts: Starts::default(),
        naming: Naming::saying(wanted.same.clone()),
        tasks: [0; 2],
        course: wanted.course.then(Course::default),
    };
    let (files, unread) = pass::in_order(trace, conditions, &mut pass);
    let is_whole = conditions.accepts_all();
    let Pass { activities, errors, naming, starts, tasks, course, .. } = pass;
    let (wall, parts) = activities.finish_telling();
    let errors = errors.into_iter().map(|((nr, errno), failed)| {
        ((word(nr), errno_name(errno).into_owned().into_bytes()), failed)
    });
    let errors = errors.collect();
    let command = trace.preamble().command.clone();
    let wall = is_whole.then_some(wall);
    parts.into_run(
        &files,
        Run {
            command,
            wall,
            calls: Named::new(),
            files: Named::new(),
            programs: Named::new(),
            sites: Named::new(),
            pairs: BTreeMap::new(),
            outside: BTreeMap::new(),
            errors,
            starts,
            first_program: None,
            tasks,
            naming,
            course,
            left_out: 0,
            unread,
        },
    )
}

fn word(nr: u16) -> Vec<u8> {
    call_name(nr).into_owned().into_bytes()
}

/// What a thread does.
#[derive(Clone, Copy, Debug, Default)]
struct Label {
    process: u32,
    program: Option<u32>,
    /// Its call, if that counts.
    call: Option<Doing>,
}

/// A call that a thread is in.
#[derive(Clone, Copy, Debug)]
struct Doing {
    nr: u16,
    file: Option<FileId>,
    site: Option<Place>,
}

/// A call and where it was made.
type Place = (u16, SiteId, bool);

/// Calls by groups, and whose the time of the run was.
#[derive(Default)]
struct Parts {
    labels: HashMap<u32, Label>,
    programs_known: HashMap<Vec<u8>, u32>,
    calls: Groups<u16>,
    files: Groups<FileId>,
    pairs: Map<(u16, FileId), f64>,
    programs: Groups<u32>,
    outside: Map<u32, f64>,
    sites: Groups<Place>,
    chains: Option<Chains>,
    first_program: Option<u32>,
}

impl Shares for Parts {
    fn spent(&mut self, thread: u32, activity: Activity, ns: f64) {
        let Some(label) = self.labels.get(&thread) else { return };
        if activity == Activity::Outside {
            if let Some(program) = label.program {
                self.programs.spend(program, ns);
                *self.outside.entry(program).or_default() += ns;
            }
            return;
        }
        let Some(Doing { nr, file, site }) = label.call else { return };
        self.calls.spend(nr, ns);
        if let Some(program) = label.program {
            self.programs.spend(program, ns);
        }
        if let Some(site) = site {
            self.sites.spend(site, ns);
        }
        if let Some(file) = file {
            self.files.spend(file, ns);
            if self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&(nr, file)) {
                *self.pairs.entry((nr, file)).or_default() += ns;
            }
        }
    }
}

impl Parts {
    /// Notes which program the thread of an event runs, unless that is known.
    fn knows_program(&mut self, moment: &Moment<'_>) {
        let number = moment.event.thread;
        if self.labels.get(&number).is_some_and(|label| label.program.is_some()) {
            return;
        }
        let Some(thread) = moment.world.thread(number) else { return };
        let process = thread.process;
        let program = self.program(moment);
        if let Some(label) = self.label(number) {
            (label.process, label.program) = (process, program);
        }
    }

    /// Returns the program that a thread runs.
    fn program(&mut self, moment: &Moment<'_>) -> Option<u32> {
        let name = starts::program(moment.world, moment.event.thread)?;
        let next = self.programs_known.len();
        if let Some(known) = self.programs_known.get(name) {
            return Some(*known);
        }
        if next >= PROGRAMS_MAX {
            return None;
        }
        self.programs_known.insert(name.to_vec(), next as u32);
        Some(next as u32)
    }

    fn label(&mut self, thread: u32) -> Option<&mut Label> {
        if self.labels.len() >= THREADS_MAX && !self.labels.contains_key(&thread) {
            return None;
        }
        Some(self.labels.entry(thread).or_default())
    }

    /// Returns the place of a call in its program, if that is asked for.
    fn place(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        contents: &mut dyn Contents,
    ) -> Option<Place> {
        let chains = self.chains.as_mut()?;
        let chain = chains.of(moment, contents);
        let own = (chains.own(moment, call), false);
        let (site, returns) = chain.and_then(|chain| chains.telling(&chain)).unwrap_or(own);
        Some((call.nr, site, returns))
    }

    /// Counts a call, and returns what its thread does.
    fn count(&mut self, moment: &Moment<'_>, call: &Call, contents: &mut dyn Contents) -> Doing {
        let used = file_use::of(call.nr);
        let counted = Counted {
            failed: call.error().is_some(),
            ns: moment.duration_ns(),
            bytes: used.moved(call).unwrap_or(0),
            syncs: used.is(Classes::SYNC),
        };
        self.calls.count(call.nr, &counted);
        let program = self.labels.get(&moment.event.thread).and_then(|label| label.program);
        if let Some(program) = program {
            self.programs.count(program, &counted);
        }
        let site = self.place(moment, call, contents);
        if let Some(site) = site {
            self.sites.count(site, &counted);
        }
        let touch = moment.touch;
        let accesses = || touch.accesses.iter().flatten();
        let named = touch.by_path.iter().flatten().copied();
        let held = accesses().map(|access| access.file);
        let mut files = [None; 5];
        let mut first = None;
        let all = named.chain(touch.by_fd.map(|(file, _)| file)).chain(held);
        for (place, file) in files.iter_mut().zip(all) {
            first = first.or(Some(file));
            *place = Some(file);
        }
        files.sort_unstable();
        for (at, file) in files.iter().enumerate() {
            let Some(file) = file.filter(|_| at == 0 || files[at - 1] != *file) else { continue };
            let bytes = accesses().filter(|access| access.file == file).map(|access| access.bytes);
            let bytes = bytes.fold(0, u64::saturating_add);
            self.files.count(file, &Counted { bytes, ..counted });
        }
        Doing { nr: call.nr, file: first, site }
    }

    /// Gives all groups their names.
    fn into_run(mut self, files: &Namespace, run: Run) -> Run {
        let (mut paths, naming) = (Paths::of(files), run.naming.clone());
        let mut known: HashMap<FileId, Vec<u8>> = HashMap::new();
        let mut path = |id: FileId| {
            known.entry(id).or_insert_with(|| naming.renamed(object(&paths.next(id)))).clone()
        };
        let programs: HashMap<u32, Vec<u8>> =
            self.programs_known.into_iter().map(|(name, id)| (id, name)).collect();
        let program = |id: u32| programs.get(&id).cloned().unwrap_or_default();
        let left_out = self.files.left_out + self.sites.left_out;
        let mut pairs = BTreeMap::new();
        for ((nr, file), ns) in self.pairs {
            *pairs.entry((word(nr), path(file))).or_default() += ns;
        }
        let mut outside = BTreeMap::new();
        for (id, ns) in self.outside {
            *outside.entry(program(id)).or_default() += ns;
        }
        let mut chains = self.chains.take();
        let spell = |(nr, site, returns): Place| {
            let spelled = chains.as_mut().map(|chains| chains.spell(site, returns));
            place_name(nr, &spelled.unwrap_or_default())
        };
        Run {
            calls: summed(self.calls, word),
            files: summed(self.files, &mut path),
            programs: summed(self.programs, program),
            sites: summed(self.sites, spell),
            pairs,
            outside,
            first_program: self.first_program.map(program),
            left_out,
            ..run
        }
    }
}

/// Sums up the groups that have one name.
fn summed<K: Eq + std::hash::Hash>(groups: Groups<K>, mut name: impl FnMut(K) -> Vec<u8>) -> Named {
    let mut named = Named::new();
    for (key, amounts) in groups.into_each() {
        named.entry(name(key)).or_default().merge(&amounts);
    }
    named
}

/// Names a place so that it is the same in another version of the program, where the function is known.
fn place_name(nr: u16, spelled: &Spelled) -> Vec<u8> {
    let place = String::from_utf8_lossy(&spelled.place);
    let file = place.rsplit('/').next().unwrap_or_default();
    let name = match &spelled.function {
        Some(function) => {
            let module = file.rsplit_once('+').map_or(file, |(module, _)| module);
            format!("{} in {function} ({module})", call_name(nr))
        }
        None => format!("{} at {file}", call_name(nr)),
    };
    name.into_bytes()
}

/// The pass.
struct Pass {
    activities: Activities<Parts>,
    errors: HashMap<(u16, i32), Failed>,
    beginnings: Beginnings,
    starts: Starts,
    naming: Naming,
    tasks: [u64; 2],
    course: Option<Course>,
}

impl Pass {
    /// Notes an error.
    fn fails(&mut self, moment: &Moment<'_>, call: &Call, errno: i32) {
        let key = (call.nr, errno);
        if self.errors.len() >= ERRORS_MAX && !self.errors.contains_key(&key) {
            return;
        }
        let failed = self.errors.entry(key).or_insert_with(|| Failed {
            count: 0,
            seq: moment.seq,
            path: match moment.step.paths.first() {
                Some((_, path)) => path.clone(),
                None => {
                    moment.touch.by_fd.map(|(file, _)| moment.files.path(file)).unwrap_or_default()
                }
            },
        });
        failed.count += 1;
    }

    /// Notes who there is.
    fn task(&mut self, moment: &Moment<'_>) {
        match &moment.event.kind {
            EventKind::Start { how, .. } => {
                let is_thread = *how == trace::event::StartHow::Thread;
                self.tasks[0] += u64::from(!is_thread);
                self.tasks[1] += 1;
            }
            EventKind::State(state) => {
                let parts = self.activities.shares();
                let labels = parts.labels.values_mut();
                let same = labels.filter(|label| label.process == state.process);
                same.for_each(|label| label.program = None);
            }
            EventKind::Image { .. } => {
                if let Some(label) = self.activities.shares().label(moment.event.thread) {
                    label.program = None;
                }
            }
            _ => {}
        }
    }
}

impl Watch for Pass {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        let thread = moment.event.thread;
        self.activities.shares().knows_program(moment);
        // What the thread did until now is told of before it does something else.
        self.activities.add(visit);
        self.task(moment);
        self.naming.note(&moment.event.kind);
        let begun = self.beginnings.note(moment, &self.naming);
        if let Some(course) = &mut self.course {
            course.add(moment, visit.wanted, &self.naming, begun.as_ref());
        }
        if let Some(line) = begun {
            self.starts.add(line);
        }
        let parts = self.activities.shares();
        if let Some(chains) = &mut parts.chains {
            chains.add(moment, visit.contents);
        }
        let EventKind::Call(call) = &moment.event.kind else { return };
        if parts.first_program.is_none() {
            parts.first_program = parts.labels.get(&thread).and_then(|label| label.program);
        }
        let doing = visit.wanted.then(|| parts.count(moment, call, visit.contents));
        if moment.submitted_ns.is_none()
            && let Some(label) = parts.label(thread)
        {
            label.call = doing;
        }
        if let Some(errno) = call.error().filter(|_| visit.wanted) {
            self.fails(moment, call, errno);
        }
    }
}
