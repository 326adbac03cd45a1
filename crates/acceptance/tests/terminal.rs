//! What commands print on a terminal of 80 columns: no line of a view or a help text is wrapped by the
//! terminal, every view has the columns there that are read first, and long output goes through a pager.

use std::path::Path;
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::screen::{self, Screen};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, kernel_events, trials};

/// Columns that a terminal has at least.
const COLUMNS: u16 = 80;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add("views_fit", Who::User, trials::missing(&["python3"]), views_fit);
        let no_events = (!kernel_events::are_there()).then_some(kernel_events::NEED);
        let missing = trials::missing(&["python3"]).or(no_events);
        trials.add("views_of_the_kernel_fit", Who::Root, missing, views_of_the_kernel_fit);
        trials.add("predictions_fit", Who::User, trials::missing(&["python3"]), predictions_fit);
        trials.add("kept_recordings_fit", Who::User, None, kept_recordings_fit);
        trials.add("help_fits", Who::User, None, help_fits);
        trials.add("pager", Who::User, None, pager);
        trials.add("the_summary_has_its_own_line", Who::User, None, own_line);
        trials.add("who_is_left_is_said", Who::User, None, who_is_left);
        Ok(())
    })
}

/// A command of `reenact` on a terminal, without a pager.
fn reenact(stage: &Stage, place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(&stage.reenact);
    command.args(words).env("PAGER", "cat").env("TERM", "xterm");
    command
}

fn run(stage: &Stage, place: &Place, words: &[&str]) -> Result<Screen, Complaint> {
    screen::run(&mut reenact(stage, place, words), COLUMNS)
}

/// Fails if a line of the command is wrapped.
fn fits(stage: &Stage, place: &Place, words: &[&str]) -> Result<Screen, Complaint> {
    let screen = run(stage, place, words)?;
    let wrapped = screen.wrapped(COLUMNS);
    ensure!(wrapped.is_empty(), "reenact {words:?}: these are wrapped: {wrapped:#?}");
    Ok(screen)
}

/// Returns the names of the views: the items of the list in the help of `stat`.
fn views(stage: &Stage, place: &Place) -> Result<Vec<String>, Complaint> {
    let help = run(stage, place, &["stat", "--help"])?;
    let items = help.lines.iter().filter_map(|line| line.trim_start().strip_prefix("- "));
    let words = items.filter_map(|item| item.split_whitespace().next());
    // Values of options have a colon.
    let names: Vec<String> = words.filter(|word| !word.ends_with(':')).map(String::from).collect();
    ensure!(names.len() >= 15, "stat has the views {names:?}");
    Ok(names)
}

/// Every way to look at a trace that prints tables.
fn looks(stage: &Stage, place: &Place, trace: &str) -> Result<(), Complaint> {
    for view in views(stage, place)? {
        fits(stage, place, &["stat", &view, trace])?;
    }
    let others: &[&[&str]] = &[
        &["stat", "calls", trace, "--by", "site"],
        &["stat", "calls", trace, "--where"],
        &["info", trace],
        &["info", "--verify", trace],
        &["diff", trace, trace],
        &["diff", trace, trace, "--by", "call"],
        &["diff", trace, trace, "--by", "file"],
        &["diff", trace, trace, "--by", "process"],
        &["diff", trace, trace, "--by", "site"],
    ];
    others.iter().try_for_each(|words| fits(stage, place, words).map(|_| ()))
}

/// Views, their tables by title, and the columns that are there on a terminal of 80 columns.
type Columns = &'static [(&'static str, &'static [(&'static str, &'static str)])];

/// Those of [`PROGRAM`], with two blanks between columns. Columns without any value are not shown.
const COLUMNS_OF_VIEWS: Columns = &[
    (
        "calls",
        &[
            ("Where the time went", "activity  time  share"),
            ("Whose time it was", "program  time  share  most of it"),
            ("Calls", "call  count  time  of time  errors  p50  p99"),
            ("Classes", "class  count  errors  time  of time  data"),
            ("Most frequent sizes of writes", "bytes  count  of writes  kind"),
        ],
    ),
    (
        "files",
        &[
            ("Files", "time  opens  read  written  syncs  lookups  file"),
            ("Directories", "time  opens  read  written  syncs  lookups  directory"),
            ("Mounts", "time  opens  read  written  syncs  lookups  mount"),
            ("Pipes, sockets and devices", "time  read  written  pipe, socket or device"),
        ],
    ),
    ("sizes", &[("Bytes moved by a call", "call  count  total  p50  p99  max")]),
    ("latency", &[("Time in a call", "call  count  total  p50  p99  max")]),
    ("time", &[("Over time", "from  calls  read  written  in flight  p99")]),
    ("processes", &[("Processes", "pid  life  calls  in calls  data  ended  command")]),
    ("threads", &[("Threads", "pid  tid  life  calls  in calls  of life in calls")]),
    (
        "network",
        &[
            ("Connections", "address  peer  role  in  out  replies  p50"),
            ("By listening address", "address  connections  in  out  replies  p50"),
            ("By peer", "address  connections  in  out  replies  p50"),
            ("Pipes", "read  written  calls  time  pid  pipe"),
        ],
    ),
    (
        "durability",
        &[
            ("Files", "written  synced  syncs  redundant  in syncs  unsynced  file"),
            ("Unsynced bytes over time", "from  at most  at its end"),
            ("Renamed before what was written was synced", "at  unsynced  from  to"),
        ],
    ),
    ("patterns", &[]),
    (
        "cache",
        &[
            ("Misses of a cache of this size", "size  misses"),
            ("Distinct data touched before the same page is touched again", "from  touches  share"),
            ("Working set over time", "from  distinct data  of it new"),
        ],
    ),
    ("sites", &[("Where calls were made", "call  count  time  share  place")]),
];

/// Those of events of the kernel.
const COLUMNS_OF_KERNEL_VIEWS: Columns = &[
    (
        "events",
        &[
            ("Events", "event  count"),
            ("Threads that ran", "tid  name  count"),
            ("CPUs", "cpu  count"),
            ("Events by thread and CPU", "event  tid  name  cpu  count"),
        ],
    ),
    (
        "cpu",
        &[
            ("Processes", "pid  name  on cpu  runnable  blocked  mostly on  asleep"),
            ("Threads", "tid  name  on cpu  runnable  blocked  mostly on  asleep"),
            ("CPUs", "cpu  user  kernel"),
        ],
    ),
    (
        "where",
        &[(
            "Where the time of calls went",
            "call  time  on cpu  runnable  blocked  mostly on  asleep",
        )],
    ),
    (
        "waits",
        &[
            (
                "Who waited for what, and who ended it",
                "thread  waits for  in  ended by  count  time",
            ),
            ("The longest, explained", "at  pid  tid  thread  call  time  ="),
            ("Critical path", "at  pid  tid  thread  does  time"),
        ],
    ),
    ("irq", &[("Interrupts", "kind  name  cpu  count  own  p99  share")]),
    ("block", &[("Requests, from issue to completion", "device  how  count  time  p50  p99")]),
    ("pages", &[("Files, in pages of 4 KiB", "brought in  read  touched  unused  file")]),
];

/// Fails if a table on a terminal of 80 columns lacks some of these columns, or has them in another order.
fn has_columns(screen: &Screen, title: &str, columns: &str) -> Result<(), Complaint> {
    let mut lines = screen.lines.iter().skip_while(|line| *line != title).skip(1);
    let head = lines.next().ok_or_else(|| format!("no table '{title}': {}", screen.text()))?;
    let mut there = head.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let mut wanted = columns.split("  ");
    let missing = wanted.find(|column| !there.any(|other| other == *column));
    ensure!(missing.is_none(), "'{title}' has no column {missing:?} in its place: {head}");
    Ok(())
}

/// Fails unless every view fits, with its columns. `others` are views that are left out.
fn views_have(
    stage: &Stage,
    place: &Place,
    trace: &str,
    columns: Columns,
    others: Columns,
) -> Result<(), Complaint> {
    let all = columns.iter().chain(others).map(|(view, _)| *view);
    let mut all: Vec<&str> = all.collect();
    let mut views = views(stage, place)?;
    all.sort_unstable();
    views.sort_unstable();
    ensure!(all == views, "the views are {views:?}, and columns are those of {all:?}");
    for (view, tables) in columns {
        let screen = fits(stage, place, &["stat", view, trace])?;
        for (title, columns) in *tables {
            has_columns(&screen, title, columns)
                .map_err(|error| format!("stat {view}: {error}"))?;
        }
    }
    Ok(())
}

/// Each column of [`COLUMNS_OF_VIEWS`] has a value in its recording: that of the kinds of sizes by writes of odd lengths.
const PROGRAM: &str = "
import os, socket, subprocess, threading, time
server = socket.create_server(('127.0.0.1', 0))
def serve():
    connection, _ = server.accept()
    connection.sendall(connection.recv(100) * 1000)
    connection.close()
thread = threading.Thread(target=serve)
thread.start()
client = socket.create_connection(server.getsockname())
client.sendall(b'question')
while client.recv(65536): pass
thread.join()
time.sleep(0.02)
with open('read-again', 'w+') as file:
    file.write('x' * 1000000)
    file.flush()
    os.fsync(file.fileno())
    os.fsync(file.fileno())
    for i in range(3): os.pread(file.fileno(), 1000000, 0)
    file.write('never synced')
with open('not-synced', 'w') as file: file.write('x' * 100000)
os.rename('not-synced', 'renamed')
for i in range(60):
    name = 'a-name-of-a-file-that-has-no-room-in-a-column-of-a-table-%d' % i
    with open(name, 'w') as file:
        file.write('x' * 1000001)
        file.flush()
        os.fsync(file.fileno())
    os.rename(name, name + '-and-a-longer-name')
def work():
    for i in range(300):
        try: os.stat('/no/such/file/%d' % i)
        except OSError: pass
threads = [threading.Thread(target=work) for i in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
subprocess.run(['ls', '-la', '/usr/lib'], stdout=subprocess.DEVNULL)
subprocess.check_output(['ls', '/'])
";

/// Every view of a recording with long names, big numbers, threads, children and callers, and what else
/// prints to a terminal.
fn views_fit(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let record = fits(
        stage,
        &place,
        &["record", "--stack", "--output", "run.rnt", "--", "python3", "-c", PROGRAM],
    )?;
    ensure!(record.status.success(), "record: {}", record.text());
    looks(stage, &place, "run.rnt")?;
    views_have(stage, &place, "run.rnt", COLUMNS_OF_VIEWS, COLUMNS_OF_KERNEL_VIEWS)?;
    let other = ["record", "--quiet", "-o", "other.rnt", "python3", "-c", "open('/no/such/file')"];
    run(stage, &place, &other)?;
    let diff = fits(stage, &place, &["diff", "run.rnt", "other.rnt"])?;
    for (title, columns) in [
        ("Runs", "time  calls  failed  data  recording  command"),
        ("In all", "A  B  change"),
        ("Where the time went", "activity  change  A  B"),
        ("Calls", "call  change  A  B  A calls  B calls"),
        ("Files", "change  A  B  A calls  B calls  file"),
        ("Errors that changed", "call  error  A  B  first of"),
    ] {
        has_columns(&diff, title, columns).map_err(|error| format!("diff: {error}"))?;
    }
    // What is left out of one is named, and is in the other.
    let narrow = fits(stage, &place, &["stat", "files", "run.rnt"])?;
    let named =
        narrow.lines.iter().find_map(|line| line.trim().strip_prefix("(--wide also shows "));
    let named = named.and_then(|names| names.split(&[',', ')']).next()).unwrap_or_default();
    let wide = run(stage, &place, &["stat", "files", "run.rnt", "--wide"])?;
    let head = wide.lines.iter().find(|line| line.contains("  lookups")).ok_or("no table")?;
    ensure!(named.len() > 2 && head.contains(named), "'{named}' is not in {head}");
    ensure!(!wide.text().contains("(--wide"), "{}", wide.text());
    let calls = run(stage, &place, &["stat", "run.rnt"])?;
    ensure!(calls.text().contains("fsync"), "{}", calls.text());
    // With several processes, each line says which program it is of; structs are cut short.
    let show = run(stage, &place, &["show", "run.rnt", "--call", "newfstatat,getdents64"])?.text();
    ensure!(show.contains("<ls> ") && show.contains("<python3"), "no names: {show}");
    ensure!(show.contains("st_size=") && !show.contains("st_ino="), "whole structs: {show}");
    let verbose = run(stage, &place, &["show", "-v", "run.rnt", "--call", "newfstatat"])?.text();
    ensure!(verbose.contains("st_ino="), "no whole structs: {verbose}");
    let wide = run(stage, &place, &["stat", "run.rnt", "--wide"])?;
    ensure!(!wide.wrapped(COLUMNS).is_empty(), "--wide is as narrow: {}", wide.text());
    let replay = fits(stage, &place, &["replay", "run.rnt"])?;
    ensure!(replay.text().contains("final state: identical"), "{}", replay.text());
    fits(stage, &place, &["doctor"])?;
    fits(stage, &place, &["stat", "nothing", "run.rnt"])?;
    fits(stage, &place, &["report", "run.rnt"])?;
    Ok(())
}

/// Views of events of the kernel.
fn views_of_the_kernel_fit(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let kernel = ["record", "--kernel=core,fs", "--output", "run.rnt", "--", "python3", "-c"];
    let words: Vec<&str> = kernel.into_iter().chain([PROGRAM]).collect();
    let record = run(stage, &place, &words)?;
    ensure!(record.status.success(), "record: {}", record.text());
    views_have(stage, &place, "run.rnt", COLUMNS_OF_KERNEL_VIEWS, COLUMNS_OF_VIEWS)?;
    fits(stage, &place, &["info", "run.rnt"])?;
    Ok(())
}

/// What predictions, re-executions and comparisons of files print, and errors in a command line.
fn predictions_fit(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    const WRITES: &str = "open('a-file-of-a-rather-long-name', 'w').write('x' * 100000)";
    let record = ["record", "--rerunnable", "-o", "run.rnt", "python3", "-c", WRITES];
    fits(stage, &place, &record)?;
    let on = "./a-directory-whose-name-is-so-long-that-no-terminal-has-room-for-much-beside-it";
    place.run(place.command(Path::new("mkdir")).arg(on))?.success("mkdir")?;
    let words = ["predict", "run.rnt", "--on", on, "--on", ".", "--repeat", "2"];
    let predicted = fits(stage, &place, &words)?;
    ensure!(predicted.status.success(), "{}", predicted.text());
    let first = "page cache warm at first";
    has_columns(&predicted, first, "on  method  time  to recorded")?;
    let wide: Vec<&str> = words.into_iter().chain(["--wide"]).collect();
    let wide = run(stage, &place, &wide)?;
    has_columns(&wide, first, "on  method  time  of runs  to recorded  user  system  disk")?;
    fits(stage, &place, &["rerun", "run.rnt"])?;
    fits(stage, &place, &["image", "run.rnt", "before"])?;
    fits(stage, &place, &["compare", "run.rnt", "before"])?;
    fits(stage, &place, &["cut", "run.rnt", "-o", "cut.rnt", "--pid", "999999"])?;
    let refused = fits(stage, &place, &["show", "run.rnt", "--call", "no_such_call_as_this"])?;
    ensure!(refused.status.code() == Some(2), "{}", refused.text());
    Ok(())
}

/// The same of recordings of many kinds.
fn kept_recordings_fit(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let kept = repository().join("tests/kept");
    let mut names: Vec<_> = std::fs::read_dir(&kept)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rnt"))
        .collect();
    names.sort();
    ensure!(names.len() > 20, "{} recordings", names.len());
    // Some in the short tier: each has more than twenty looks.
    let step = if acceptance::tier::is_long() { 1 } else { 12 };
    for path in names.iter().step_by(step) {
        let name = path.file_name().map(Path::new).ok_or("a file has a name")?;
        let content = std::fs::read(path).map_err(|error| error.to_string())?;
        let name = name.to_string_lossy().into_owned();
        place.write(&name, &content)?;
        looks(stage, &place, &name)?;
    }
    Ok(())
}

fn help_fits(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let whole = fits(stage, &place, &["--help"])?;
    fits(stage, &place, &["-h"])?;
    let list = whole.lines.iter().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let list = list.take_while(|line| !line.is_empty());
    let names: Vec<&str> = list
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    ensure!(names.len() >= 18, "{names:?}");
    for name in names {
        for option in ["-h", "--help"] {
            fits(stage, &place, &[name, option])?;
        }
    }
    Ok(())
}

/// Who waits for a recording is told for whom it goes on, and nothing where it does not.
fn who_is_left(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let record = |options: &[&str], script: &str| {
        let words = [&["record", "-f", "-o", "run.rnt"], options, &["sh", "-c", script]].concat();
        run(stage, &place, &words).map(|screen| screen.text())
    };
    let said = record(&[], "sleep 5 & echo $!")?;
    ensure!(said.contains("PROGRAM has ended, and sleep ("), "{said}");
    let silent = record(&["--quiet"], "sleep 4 & echo $!")? + &record(&[], "sleep 3")?;
    ensure!(!silent.contains("has ended"), "{silent}");
    Ok(())
}

/// What `record` prints begins on a line of its own, and no line is left empty for that.
fn own_line(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for script in [
        "printf hi",
        "printf hi | cat",
        "printf hi; sleep 0.01 > /dev/null",
        "echo hi",
        "printf 'h%s\\n' i",
    ] {
        let screen = run(stage, &place, &["record", "-o", "run.rnt", "sh", "-c", script])?;
        let lines: Vec<&str> = screen.lines.iter().map(String::as_str).collect();
        let is_apart = lines.len() > 1 && lines[0] == "hi" && lines[1].starts_with("reenact: ");
        ensure!(is_apart, "{script}: {}", screen.text());
    }
    Ok(())
}

/// Output goes through the pager that the environment names, with the terminal's width and colours, and
/// not into it where nobody looks.
fn pager(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let recorded = run(stage, &place, &["record", "--output", "run.rnt", "--", "sh", "-c", ":"])?;
    ensure!(recorded.status.success(), "{}", recorded.text());
    let alone = run(stage, &place, &["show", "run.rnt"])?.text();
    ensure!(
        !alone.lines().any(|line| line.contains('<') && line.find('<') < line.find(' ')),
        "{alone}"
    );
    for (words, paged) in [
        (&["show", "run.rnt"][..], true),
        (&["stat", "run.rnt"], true),
        (&["info", "run.rnt"], true),
        (&["diff", "run.rnt", "run.rnt"], true),
        (&["doctor"], false),
    ] {
        let mut command = reenact(stage, &place, words);
        command.env("REENACT_PAGER", "sed -e 's/^/: /'");
        let screen = screen::run(&mut command, COLUMNS + 2)?;
        let lines: Vec<&String> = screen.lines.iter().filter(|line| !line.is_empty()).collect();
        let through = lines.iter().all(|line| line.starts_with(": "));
        ensure!(through == paged && lines.len() > 3, "{words:?}: {}", screen.text());
    }
    // A pager that is left early, or that does not exist.
    for (name, least) in [("head -3", 3), ("/no/such/pager", 10)] {
        let mut command = reenact(stage, &place, &["show", "run.rnt"]);
        let screen = screen::run(command.env("PAGER", name), COLUMNS)?;
        ensure!(screen.status.success(), "{name}: {}: {}", screen.status, screen.text());
        ensure!(screen.lines.len() >= least, "{name}: {}", screen.text());
        let is_told = screen.text().contains("PAGER: cannot run '/no/such/pager'");
        ensure!(is_told == (name == "/no/such/pager"), "{name}: {}", screen.text());
    }
    let mut command = reenact(stage, &place, &["show", "run.rnt"]);
    let piped = place.run(command.env("PAGER", "sed -e 's/^/: /'"))?.success("show")?;
    ensure!(!piped.text().starts_with(": "), "it is paged into a file");
    Ok(())
}
