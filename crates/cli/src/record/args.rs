//! The command line of `reenact record`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use model::CallChoice;
use recorder::Choice;
use render::origin::{CALL, PATH};
use ring::Mappings;

use super::stack;
use super::whom::Whom;
use crate::units;

/// Record everything that PROGRAM, its threads and its children ask of the kernel.
///
/// PROGRAM runs unmodified and keeps its standard streams, its exit code and its signals. Nothing
/// is printed while it runs; one line to standard error at the end sums the recording up, and more
/// say what is missing, if anything is.
///
/// Recording ends when all processes have ended that PROGRAM has left. Signals that are sent to
/// reenact alone are passed on to PROGRAM. A second SIGTERM or SIGINT, or one that comes when PROGRAM
/// has ended, ends the recording at once: what is left runs on unrecorded.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "reenact record [OPTIONS] [--] PROGRAM [ARGS...]\n       \
                      reenact record --kernel[=CLASSES] [OPTIONS]",
    after_long_help = "\
Examples:
  reenact record -- make -j2
  reenact record -o sort.rnt --data hash sort words.txt
  reenact record --data-for '*/.ssh/*=none' -- ./deploy
  reenact record --call fsync,fdatasync,rename -- ./import.sh
  reenact record --path '/var/lib/app/*' -- ./server
  reenact record --repeat 5 -o before.rnt -- ./import.sh
  reenact record --kernel -- make -j2
  reenact record --kernel=sched,block,fs --duration 30s -o machine.rnt
  reenact record -o - ./server | ssh backup 'cat > server.rnt'"
)]
pub struct Args {
    /// Where to write the trace; `-` is standard output, and PROGRAM's own then goes to standard
    /// error [default: PROGRAM.rnt in the current directory]
    #[arg(short, long, value_name = "FILE", overrides_with = "output")]
    pub output: Option<PathBuf>,

    /// Replace FILE if it exists, as soon as PROGRAM has started; without this, an earlier recording
    /// becomes FILE.old, and nothing else is replaced
    #[arg(long)]
    pub force: bool,

    /// Record PROGRAM this many times, one run after the other, into NAME.1.rnt, NAME.2.rnt ...; ends as the
    /// last run
    ///
    /// Each run finds the files as the one before it left them. At the end it prints the times of the runs:
    /// `reenact diff` compares them with runs of another version. A run that is ended by a signal is the
    /// last one.
    #[arg(long, value_name = "COUNT", overrides_with = "repeat", default_value_t = 1,
          hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(super::repeat::REPEATS_MAX)))]
    pub repeat: u32,

    /// Stop recording when PROGRAM itself ends; what it leaves behind runs on unrecorded
    #[arg(long)]
    pub until_exit: bool,

    /// What to keep of the buffers that calls read and write
    #[arg(long, value_enum, default_value_t = DataMode::Full, value_name = "WHAT")]
    pub data: DataMode,

    /// What to keep of the buffers of files whose path matches GLOB (`*` also matches slashes); may
    /// be given several times, the last one that matches applies
    ///
    /// GLOB is matched against the absolute path under which a file was opened or, for descriptors
    /// that a program begins with, the path in /proc. Another name of the same file, by a link or
    /// after a rename, needs a rule of its own. Where the path behind a descriptor is not known
    /// (/dev/stdin, /proc/self/fd, descriptors received from others), no more than hashes are kept
    /// once any rule is stricter than --data.
    ///
    /// Rules are about buffers of calls on files. What PROGRAM passes on through pipes, sockets or
    /// other files follows the rules of those; arguments, environments and paths are always kept. What
    /// is stored to mapped files follows them too. Bytes that a rule withholds do pass through the
    /// memory that PROGRAM shares with the recorder, but not to the trace.
    #[arg(long, value_name = "GLOB=WHAT", value_parser = data_rule)]
    pub data_for: Vec<DataRule>,

    /// Record these calls alone: names and %classes, separated by commas; with `!` in front, all others
    ///
    /// Beside them those are kept without contents by which readers follow processes, descriptors and
    /// directories (clone, execve, open, dup, close, chdir ...). Of other calls there is nothing, and their
    /// contents are not copied. The trace says so; it is complete if nothing else is missing, and cannot be
    /// replayed.
    #[arg(long, value_name = "CALLS", value_parser = CallChoice::parse, allow_hyphen_values = true)]
    pub call: Option<CallChoice>,

    /// Record only calls on paths that match GLOB, or on descriptors of such (`*` also matches slashes); may
    /// be given several times. Else as --call; with both, calls that fit both
    #[arg(long, value_name = "GLOB")]
    pub path: Vec<String>,

    /// Keep at most this much of each buffer; what is cut is marked and keeps its length and hash
    #[arg(long, value_name = "BYTES", value_parser = units::size)]
    pub max_data: Option<u64>,

    /// Store existing files whole before PROGRAM first opens them to be changed, for replays that
    /// need every byte of what was there
    ///
    /// Without it a replay knows of a file what PROGRAM read before it was overwritten. Files are
    /// stored as --data-for allows, whatever --max-data says, and up to 4 GiB of each; the opening
    /// call takes as long as that takes. Those that PROGRAM may write but not read are not stored.
    /// Neither are those that it finds open when it starts, gets from others, opens by a handle or
    /// by io_uring, or changes under a seccomp filter of its own that forbids what is needed; nor
    /// those that it only reads. A program that watches its own files (inotify) sees them read.
    #[arg(long)]
    pub snapshot: bool,

    /// What becomes of io_uring: `capture`; `refuse`: io_uring_setup fails with ENOSYS, and most
    /// programs then do the same by plain calls; `pass`: rings stay as they are, and what moves
    /// through them is not in the trace
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        default_value = "capture",
        hide_possible_values = true
    )]
    pub io_uring: Rings,
    /// What to record of files that PROGRAM maps into its memory
    ///
    /// Stores are collected by the page: before a call that makes them durable or takes the mapping
    /// away, at the end of each process, and from time to time. Of a process that is killed, those
    /// since the last time are missing.
    /// This needs Linux 6.9. A mapping that cannot be watched is among what `reenact info` calls
    /// data that moved unseen.
    #[arg(long, value_enum, default_value_t = MmapMode::Writes, value_name = "WHAT")]
    pub mmap: MmapMode,

    /// Collect stores to mapped files at least this often [default: as often as takes PROGRAM no
    /// more than a tenth of its time]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub mmap_every: Option<Duration>,

    /// Where the times of what PROGRAM reads of mapped files come from, and the threads, with `--mmap
    /// all`
    ///
    /// `reenact info` says which it was.
    #[arg(long, value_enum, default_value_t = MmapTimes::Faults, value_name = "SOURCE")]
    pub mmap_times: MmapTimes,

    /// Note how long threads compute between calls: the default
    ///
    /// It is known where the C library registers an area for restartable sequences (glibc 2.35 and
    /// later), with an error of what recording itself takes, some 50 ns a call. `reenact info` says of
    /// which calls it is known, and by what.
    #[arg(long, overrides_with = "no_cpu_time")]
    pub cpu_time: bool,

    /// Do not note it
    #[arg(long, overrides_with = "cpu_time")]
    pub no_cpu_time: bool,

    /// Record what `reenact rerun` needs to execute PROGRAM again as it was
    ///
    /// PROGRAM runs without random addresses, reads clocks by real calls, finds no io_uring, and the
    /// files that it maps are noted with a hash of their contents; of those that are no code, what is mapped
    /// is stored. It goes with no option that leaves data out.
    #[arg(long)]
    pub rerunnable: bool,

    /// With --rerunnable: let one thread of a process run at a time, so that programs with threads can be
    /// executed again
    ///
    /// Threads take turns at calls. One that computes for 250 ms without a call while others wait lets them run
    /// where it is, which is marked; a re-execution may then differ.
    #[arg(long, requires = "rerunnable")]
    pub serialize: bool,

    #[command(flatten)]
    pub callers: stack::Options,

    /// Stop recording when the trace reaches this size; PROGRAM runs on
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub max_size: Option<u64>,

    /// Stop recording after this time; PROGRAM runs on
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,

    /// How to compress the trace: `zstd`, `zstd:LEVEL` (1 to 19), `lz4`, `none`, or `auto`: zstd
    /// as long as that keeps up with PROGRAM, else lz4, or whichever of lz4 and nothing is done
    /// sooner where PROGRAM would have to wait
    #[arg(long, value_name = "HOW", value_parser = compression, default_value = "auto")]
    pub compress: Compression,

    /// Memory between PROGRAM and the recorder, for all threads of one user together, from 64K to
    /// 4G; when it is full, threads wait
    #[arg(long, value_name = "SIZE", value_parser = buffer, default_value = "64M")]
    pub buffer: u64,

    /// Do not look, at the end, at what became of the files that PROGRAM changed: their types,
    /// attributes, links and hashes of their contents, for replays to be compared with
    #[arg(long)]
    pub no_manifest: bool,

    #[arg(long, value_name = "CLASSES", num_args = 0..=1, require_equals = true,
          default_missing_value = ftrace::classes::DEFAULT, help = kernel_help())]
    pub kernel: Option<String>,

    /// Record events of the kernel of the whole machine, also where there is a PROGRAM
    #[arg(long)]
    pub system: bool,

    /// Whose events of the kernel to record: `program` and what it makes (the default where there is
    /// one), `pid=N` and what it makes, `pgid=N`, `uid=USER`, `gid=GROUP`, `cgroup=PATH`; may be given
    /// several times, or separated by commas. `cpu=LIST` (0+2-3) leaves out all other CPUs
    #[arg(long, value_name = "WHOM", value_delimiter = ',', value_parser = Whom::parse,
          conflicts_with = "system")]
    pub kernel_for: Vec<Whom>,

    /// Classes and events of the kernel, named as for `--kernel`, whose fields are kept; of all others only
    /// that they happened: when, on which CPU, while which thread ran. `none` keeps no fields. Without the
    /// fields of switches and wakeups, `stat cpu` and `stat waits` have nothing to show
    #[arg(long, value_name = "CLASSES", value_delimiter = ',')]
    pub kernel_details: Vec<String>,

    /// The kernel's memory for its events, for each CPU, to begin with: where events were lost, it grows up
    /// to eight times of that
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "8M")]
    pub kernel_buffer: u64,

    /// Print the calls to standard error while they are made
    #[arg(long)]
    pub live: bool,

    /// At the end, print to standard error what `reenact stat` shows: calls, errors and times
    #[arg(long)]
    pub summary: bool,

    /// Children are always followed: what users of strace type changes nothing.
    #[arg(short = 'f', long = "follow-forks", hide = true, action = clap::ArgAction::Count)]
    pub follow_forks: u8,

    /// Print no summary and no warnings
    #[arg(short, long, conflicts_with = "summary")]
    pub quiet: bool,

    /// The program to record, and its arguments
    #[arg(
        required_unless_present_any = ["kernel", "system"],
        trailing_var_arg = true,
        value_name = "PROGRAM"
    )]
    pub command: Vec<OsString>,
}

impl Args {
    /// The classes and events of the kernel that are wanted, if any are.
    pub fn kernel_events(&self) -> Option<Vec<String>> {
        let usual = self.system.then_some(ftrace::classes::DEFAULT);
        let words = self.kernel.as_deref().or(usual)?;
        Some(words.split(',').map(String::from).collect())
    }

    /// The classes and events of the kernel whose fields are wanted; `None`: all of them.
    pub fn kernel_details(&self) -> Option<Vec<String>> {
        let words = self.kernel_details.iter().filter(|word| *word != NO_DETAILS);
        (!self.kernel_details.is_empty()).then(|| words.cloned().collect())
    }

    /// Returns true if events of the kernel are those of the whole machine.
    pub fn is_whole_machine(&self) -> bool {
        let is_for_threads = self.kernel_for.iter().any(|whom| matches!(whom, Whom::Threads(_)));
        self.system || (self.command.is_empty() && !is_for_threads)
    }

    /// Returns true if events of the kernel are recorded that are about PROGRAM.
    pub fn follows_program(&self) -> bool {
        let is_for_threads = self.kernel_for.iter().any(|whom| matches!(whom, Whom::Threads(_)));
        !is_for_threads || self.kernel_for.contains(&Whom::Program)
    }

    /// Returns the calls to be recorded.
    pub fn choice(&self) -> Choice {
        Choice { calls: self.call.clone(), paths: self.path.clone() }
    }

    /// Returns what is recorded of mapped files: nothing where only some calls are.
    pub fn mappings(&self) -> Mappings {
        if self.choice().is_all() { self.mmap.mappings() } else { Mappings::Unwatched }
    }

    /// Returns the options that affect the content of the trace, in command line syntax.
    pub fn words(&self) -> String {
        let quoted = |text: &str| text.replace('\'', "'\\''");
        let calls = self.call.iter().map(|choice| format!("{CALL} {choice} "));
        let paths = self.path.iter().map(|glob| format!("{PATH} '{}' ", quoted(glob)));
        let mut words = calls.chain(paths).collect::<String>();
        words += &format!(
            "--data {} --compress {} --buffer {}",
            self.data,
            self.compress,
            units::size_word(self.buffer)
        );
        let mut add = |word: &str| {
            words.push(' ');
            words.push_str(word);
        };
        for DataRule { glob, mode } in &self.data_for {
            add(&format!("--data-for '{}={mode}'", quoted(glob)));
        }
        if let Some(bytes) = self.max_data {
            add(&format!("--max-data {}", units::size_word(bytes)));
        }
        match self.io_uring {
            Rings::Capture => {}
            Rings::Refuse => add("--io-uring refuse"),
            Rings::Pass => add("--io-uring pass"),
        }
        if let Some(bytes) = self.max_size {
            add(&format!("--max-size {}", units::size_word(bytes)));
        }
        if let Some(time) = self.duration {
            add(&format!("--duration {}", units::time_word(time)));
        }
        if self.mmap != MmapMode::Writes {
            add(&format!("--mmap {}", self.mmap));
        }
        if let Some(time) = self.mmap_every {
            add(&format!("--mmap-every {}", units::time_word(time)));
        }
        if self.mmap_times == MmapTimes::Looks {
            add("--mmap-times looks");
        }
        let flags = [
            (self.no_cpu_time, "--no-cpu-time"),
            (self.rerunnable, "--rerunnable"),
            (self.serialize, "--serialize"),
            (self.snapshot, "--snapshot"),
            (self.until_exit, "--until-exit"),
            (self.no_manifest, "--no-manifest"),
            (self.system, "--system"),
        ];
        if let Some(classes) = &self.kernel {
            add(&format!(
                "--kernel={classes} --kernel-buffer {}",
                units::size_word(self.kernel_buffer)
            ));
        }
        if !self.kernel_details.is_empty() {
            add(&format!("--kernel-details {}", self.kernel_details.join(",")));
        }
        let callers = self.callers.to_string();
        if !callers.is_empty() {
            add(&callers);
        }
        for whom in &self.kernel_for {
            add(&format!("--kernel-for {whom}"));
        }
        flags.iter().filter(|(given, _)| *given).for_each(|(_, word)| add(word));
        words
    }
}

/// What becomes of io_uring.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rings {
    /// Programs have rings
    Capture,
    /// They have none
    Refuse,
    /// They have rings that nobody looks into
    Pass,
}

/// Returns the help of `--kernel`, with the classes that there are.
fn kernel_help() -> String {
    let classes = ftrace::classes::CLASSES.iter();
    let classes: Vec<String> =
        classes.map(|class| format!("{} ({})", class.name, class.about)).collect();
    format!(
        "Record events of the kernel as well, beside the calls and on their clock. CLASSES, separated \
         by commas, are those below, or single events as SYSTEM:EVENT with `*` for any characters; \
         `core` if none is named.\n\nClasses: {}.\n\n\
         Without PROGRAM, or with --system, events of the whole machine are recorded; without PROGRAM \
         until Ctrl-C or --duration, and `core` then has the calls of all processes as the kernel \
         sees them. Otherwise those that PROGRAM has to do with: while it or a process that it made \
         runs, and those that name one.\n\n\
         Needs root, or write access to tracefs",
        classes.join("; ")
    )
}

/// What is kept of a buffer.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataMode {
    /// Every byte
    Full,
    /// Length and hash
    Hash,
    /// Length alone
    None,
}

impl fmt::Display for DataMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataMode::Full => "full",
            DataMode::Hash => "hash",
            DataMode::None => "none",
        })
    }
}

/// What is recorded of mapped files.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MmapMode {
    /// Nothing
    None,
    /// What is stored to shared mappings
    Writes,
    /// That, and each page that is read, when it is read for the first time; programs and libraries
    /// are left out
    All,
}

/// Where times of touches of mapped files come from.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MmapTimes {
    /// Page faults, where the kernel lets them be seen (perf_event_open): exact; each takes PROGRAM
    /// some 0.5 us longer
    Faults,
    /// Looks at the memory: they say between which two of them it was
    Looks,
}

impl fmt::Display for MmapTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MmapTimes::Faults => "faults",
            MmapTimes::Looks => "looks",
        })
    }
}

impl MmapMode {
    /// The same for the recorder.
    pub fn mappings(self) -> Mappings {
        match self {
            MmapMode::None => Mappings::Unwatched,
            MmapMode::Writes => Mappings::Stores,
            MmapMode::All => Mappings::All,
        }
    }
}

impl fmt::Display for MmapMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MmapMode::None => "none",
            MmapMode::Writes => "writes",
            MmapMode::All => "all",
        })
    }
}

/// An exception from `--data`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRule {
    /// Pattern for paths.
    pub glob: String,
    /// Part of their buffers that is kept.
    pub mode: DataMode,
}

/// Compression of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// zstd while it keeps up with the program, else lz4 or none.
    Auto,
    /// zstd with this level.
    Zstd(i32),
    /// lz4.
    Lz4,
    /// No compression.
    None,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::Auto => f.write_str("auto"),
            Compression::Zstd(level) => write!(f, "zstd:{level}"),
            Compression::Lz4 => f.write_str("lz4"),
            Compression::None => f.write_str("none"),
        }
    }
}

/// The word for no classes.
const NO_DETAILS: &str = "none";

/// The fastest level.
const ZSTD_LEVEL_DEFAULT: i32 = 1;

fn data_rule(text: &str) -> Result<DataRule, String> {
    let (glob, mode) = text.rsplit_once('=').ok_or_else(|| {
        format!("'{text}' names no mode; write GLOB=full, GLOB=hash or GLOB=none")
    })?;
    let mode = <DataMode as clap::ValueEnum>::from_str(mode, false)
        .map_err(|_| format!("'{mode}' is not one of full, hash, none"))?;
    if glob.is_empty() {
        return Err("the pattern before '=' is empty".into());
    }
    Ok(DataRule { glob: glob.to_string(), mode })
}

/// Parses the size of the memory between programs and the recorder.
fn buffer(text: &str) -> Result<u64, String> {
    let (least, most) = (ring::POOL_BYTES as u64, (ring::POOL_MAX * ring::POOL_BYTES) as u64);
    let bad = || {
        let [least, most] = [least, most].map(units::size_word);
        format!("the buffer can have {least} to {most}")
    };
    units::size(text).and_then(
        |size| {
            if (least..=most).contains(&size) { Ok(size) } else { Err(bad()) }
        },
    )
}

fn compression(text: &str) -> Result<Compression, String> {
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    match (name, level) {
        ("auto", None) => Ok(Compression::Auto),
        ("lz4", None) => Ok(Compression::Lz4),
        ("none", None) => Ok(Compression::None),
        ("zstd", None) => Ok(Compression::Zstd(ZSTD_LEVEL_DEFAULT)),
        ("zstd", Some(level)) => match level.parse() {
            Ok(level @ 1..=19) => Ok(Compression::Zstd(level)),
            _ => Err(format!("'{level}' is not a level of zstd; levels are 1 to 19")),
        },
        _ => Err(format!("'{text}' is not one of auto, zstd, zstd:LEVEL, lz4, none")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn rules_split_at_the_last_equals_sign() {
        let rule = data_rule("/a=b/*=hash").unwrap();
        assert_eq!(rule, DataRule { glob: "/a=b/*".into(), mode: DataMode::Hash });
        for bad in ["/a", "=full", "/a=some"] {
            assert!(data_rule(bad).is_err(), "{bad}");
        }
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn words_are_options_that_may_be_given_again() {
        let words = |line: &str| {
            let line = ["record"].into_iter().chain(line.split_whitespace()).chain(["true"]);
            Line::parse_from(line).args.words()
        };
        assert_eq!(words(""), "--data full --compress auto --buffer 64M");
        let all = "--data none --compress zstd:3 --buffer 1500K --data-for '*.key=hash' \
                   --max-data 0 --io-uring refuse --max-size 1G --duration 1500ms --snapshot --until-exit \
                   --no-manifest";
        let part = "--call openat,%desc --path '/a b/*' --data full --compress auto --buffer 64M";
        let parts = ["record", "--call", "openat,%desc", "--path", "/a b/*", "true"];
        assert_eq!(Line::parse_from(parts).args.words(), part);
        assert_eq!(words(&all.replace('\'', "")), all);
        assert_eq!(
            words(&words("--max-data 100 --duration 2")),
            words("--max-data 100 --duration 2s")
        );
    }

    #[test]
    fn a_buffer_has_a_size_that_works() {
        assert_eq!(buffer("64K"), Ok(64 << 10));
        assert_eq!(buffer("4G"), Ok(4 << 30));
        for bad in ["0", "1", "65535", "100G", "4097M"] {
            assert_eq!(buffer(bad), Err("the buffer can have 64K to 4G".into()), "{bad}");
        }
        assert!(buffer("much").is_err_and(|said| said.contains("is not a size")));
    }

    #[test]
    fn compression_specifications() {
        assert_eq!(compression("zstd"), Ok(Compression::Zstd(1)));
        assert_eq!(compression("zstd:19"), Ok(Compression::Zstd(19)));
        assert_eq!(compression("auto"), Ok(Compression::Auto));
        assert_eq!(compression("lz4"), Ok(Compression::Lz4));
        for bad in ["zstd:", "zstd:0", "zstd:20", "lz4:1", "auto:1", "gzip", ""] {
            assert!(compression(bad).is_err(), "{bad}");
        }
    }
}
