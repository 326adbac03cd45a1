//! Options that select events.

use model::{CallChoice, Conditions, EventChoice, class_names};
use render::amounts::show_time;
use trace::event_table::EventClass;

use crate::failure::Failure;
use crate::{message, units};

/// The conditions as options of a command.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only these processes (process ids, separated by commas)
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = units::number::<u32>)]
    pid: Vec<u32>,

    /// Only these threads (thread ids, separated by commas)
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = units::number::<u32>)]
    tid: Vec<u32>,

    /// Only what processes of these process groups did
    #[arg(long, value_name = "PGID", value_delimiter = ',', value_parser = units::number::<u32>)]
    pgid: Vec<u32>,

    /// Only what processes of these sessions did
    #[arg(long, value_name = "SID", value_delimiter = ',', value_parser = units::number::<u32>)]
    sid: Vec<u32>,

    /// Only what threads with these real user ids did
    #[arg(long, value_name = "UID", value_delimiter = ',', value_parser = units::number::<u32>)]
    uid: Vec<u32>,

    /// Only what threads with these effective user ids did
    #[arg(long, value_name = "UID", value_delimiter = ',', value_parser = units::number::<u32>)]
    euid: Vec<u32>,

    /// Only what processes did while they ran this program: its file name, as in `python3*`, or its path;
    /// several times for several. A script is run by its interpreter
    #[arg(long, value_name = "GLOB")]
    program: Vec<String>,

    /// Only events of the kernel that happened on these CPUs
    #[arg(long, value_name = "CPU", value_delimiter = ',', value_parser = units::number::<u32>)]
    cpu: Vec<u32>,

    #[arg(long, value_name = "CALLS", value_parser = CallChoice::parse, allow_hyphen_values = true,
          help = call_help())]
    call: Option<CallChoice>,

    /// Only these events, and no calls unless they are asked for as well: kinds (start, image, end,
    /// signal, stall, gap, state, exit, kernel ...), classes (%task, %signal, %recording, %kernel, and
    /// those of `record --kernel`: %sched, %irq, %block ...), and events of the kernel as SYSTEM:EVENT
    /// with `*` for any characters, separated by commas; with `!` in front, all others
    #[arg(long, value_name = "EVENTS", value_parser = events, allow_hyphen_values = true)]
    event: Option<EventChoice>,

    /// Only calls on paths that match GLOB, or on descriptors of such (`*` also matches slashes);
    /// may be given several times
    #[arg(long, value_name = "GLOB")]
    path: Vec<String>,

    /// Only calls that returned an error
    #[arg(long)]
    failed: bool,

    /// Only what began at this time from the start or later (seconds, or with a unit: 200ms)
    #[arg(long, value_name = "TIME", value_parser = units::time_ns)]
    since: Option<u64>,

    /// Only what began up to this time from the start
    #[arg(long, value_name = "TIME", value_parser = units::time_ns)]
    until: Option<u64>,

    /// Only calls that took longer
    #[arg(long, value_name = "TIME", value_parser = units::time_ns)]
    slower_than: Option<u64>,
}

/// Returns the help of `--call`, with the classes that the table has.
fn call_help() -> String {
    let classes = class_names();
    format!(
        "Only these calls: names and classes ({classes}), separated by commas; with `!` in front, \
         all others. `open` also selects openat, and so on for other families of calls"
    )
}

/// Reads what `--event` asks for: a class of events of the kernel stands for those that it has.
fn events(text: &str) -> Result<EventChoice, String> {
    let (negation, list) = text.split_at(usize::from(text.starts_with('!')));
    let mut words: Vec<String> = Vec::new();
    for word in list.split(',') {
        let class = word.strip_prefix('%').and_then(ftrace::classes::class);
        let of_kernel = class.map_or(&[][..], |class| class.events);
        words.extend(of_kernel.iter().map(|event| event.replace('/', ":")));
        if class.is_none() || EventClass::NAMES.iter().any(|(name, _)| word[1..] == **name) {
            words.push(word.to_string());
        }
    }
    EventChoice::parse(&format!("{negation}{}", words.join(",")))
}

impl Options {
    /// Returns the conditions set by the options, and notes what names in them stand for. Fails if no
    /// time can meet them.
    pub fn conditions(&self) -> Result<Conditions, Failure> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since > until
        {
            let [since, until] = [since, until].map(show_time);
            let text =
                format!("--since {since} is later than --until {until}: nothing lies between");
            return Err(Failure::Usage(text));
        }
        for note in self.call.iter().flat_map(CallChoice::notes) {
            message::note(&note);
        }
        Ok(self.chosen())
    }

    /// Returns the same without a check or a note.
    pub fn chosen(&self) -> Conditions {
        Conditions {
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            pgids: self.pgid.clone(),
            sids: self.sid.clone(),
            uids: self.uid.clone(),
            euids: self.euid.clone(),
            programs: self.program.clone(),
            cpus: self.cpu.clone(),
            calls: self.call.clone(),
            events: self.event.clone(),
            paths: self.path.clone(),
            failed: self.failed,
            since_ns: self.since,
            until_ns: self.until,
            slower_ns: self.slower_than,
        }
    }
}
