//! `reenact record --kernel`: events of the kernel, beside a program and of the whole machine.
//!
//! Where tracefs cannot be written, only refusals are tested.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use acceptance::place::{Place, Who};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, kernel_events, tier, trials};
use serde_json::Value;

const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// How long to wait for another process.
const WAIT: Duration = Duration::from_secs(30);

/// How long the machine is recorded while it is under stress, by a variable (3600 for an hour).
const STRESS_SECONDS: &str = "REENACT_STRESS_SECONDS";
const STRESS_USUAL: &str = "300";

type Check = fn(&Stage, &Place) -> Result<(), Complaint>;

/// Those that compare the kernel's numbers of processes with those that are seen here.
const BY_NUMBERS: &[(&str, Check)] = &[
    ("a_program_and_what_the_kernel_did", a_program_and_what_the_kernel_did),
    ("by_perf", by_perf),
    ("the_recorder_is_none_of_the_machine", the_recorder_is_none_of_the_machine),
    ("parts_and_gaps_are_not_made_up", parts_and_gaps_are_not_made_up),
    ("events_have_words_and_views_conditions", events_have_words_and_views_conditions),
    ("times_are_those_of_the_kernel", times_are_those_of_the_kernel),
    ("waits_are_explained_as_they_were_built", waits_are_explained_as_they_were_built),
    ("pages_of_files_are_moved_and_touched", pages_of_files),
    ("only_those_are_kept_that_were_asked_for", only_those_are_kept_that_were_asked_for),
];

/// Those that hold counts against another tool's: its name, and the script.
const BY_TOOLS: &[(&str, &str, &str)] = &[
    ("counts_are_those_that_trace_cmd_reads", "trace-cmd", "count.py"),
    ("counts_are_those_of_perf", "perf", "perf.py"),
];

const CHECKS: &[(&str, Check)] = &[
    ("losses_are_gaps", losses_are_gaps),
    ("buffers_grow_where_they_are_not_enough", buffers_grow),
    ("what_a_killed_recorder_left_is_removed", what_a_killed_recorder_left_is_removed),
    ("a_failed_start_leaves_nothing", a_failed_start_leaves_nothing),
];

fn main() -> ExitCode {
    trials::main(|trials| {
        let missing = (!kernel_events::can_be_used()).then_some("a tracefs that can be written");
        let has_numbers = kernel_events::is_first_namespace();
        let no_numbers = (!has_numbers).then_some("the machine's first PID namespace");
        for (name, check) in BY_NUMBERS {
            let check = |stage: &Stage, who| check(stage, &Place::new(stage, who)?);
            trials.add(name, Who::Root, missing.or(no_numbers), check);
        }
        for (name, tool, script) in BY_TOOLS {
            let no_tool = trials::missing(&[tool]);
            trials.add(name, Who::Root, missing.or(no_numbers).or(no_tool), |stage, who| {
                holds(stage, &Place::new(stage, who)?, script)
            });
        }
        let no_stress = trials::missing(&["stress-ng"]);
        let no_time = (!tier::is_long()).then_some("the long tier");
        trials.add("under_stress", Who::Root, missing.or(no_stress).or(no_time), |stage, who| {
            let seconds = std::env::var(STRESS_SECONDS).unwrap_or_else(|_| STRESS_USUAL.into());
            holds_with(stage, &Place::new(stage, who)?, "stress.py", &[&seconds])
        });
        for (name, check) in CHECKS {
            let check = |stage: &Stage, who| check(stage, &Place::new(stage, who)?);
            trials.add(name, Who::Root, missing, check);
        }
        let no_mounts =
            (!trials::succeeds("unshare", &["-m", "true"])).then_some("mounts of its own");
        trials.add("without_tracefs", Who::Root, no_mounts, |stage, who| {
            without_tracefs(stage, &Place::new(stage, who)?)
        });
        trials.add("refused", Who::User, None, |stage, who| {
            refused_with_a_reason(stage, &Place::new(stage, who)?)
        });
        Ok(())
    })
}

fn instances_of(pid: u32) -> Vec<String> {
    let prefix = format!("reenact-{pid}-");
    let all = fs::read_dir(INSTANCES).into_iter().flatten().flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// Whether the instances of a recorder have events, and are switched on, which it does last.
fn is_recording(pid: u32) -> bool {
    let instances = instances_of(pid);
    let is_on = |name: &String| {
        let read = |file| fs::read_to_string(Path::new(INSTANCES).join(name).join(file));
        read("set_event").is_ok_and(|events| !events.is_empty())
            && read("tracing_on").is_ok_and(|on| on.trim() == "1")
    };
    !instances.is_empty() && instances.iter().all(is_on)
}

/// What `show --json` says, and `info --json`.
fn shown(stage: &Stage, place: &Place, trace: &str) -> Result<(Vec<Value>, Value), Complaint> {
    let run = |words: &[&str]| {
        let outcome = place.run(place.command(&stage.reenact).args(words))?;
        ensure!(outcome.status.success(), "{words:?}: {}", outcome.errors());
        Ok::<_, Complaint>(String::from_utf8_lossy(&outcome.stdout).into_owned())
    };
    let parse = |line: &str| serde_json::from_str(line).map_err(|error| error.to_string());
    let events = run(&["show", trace, "--json"])?;
    let events = events.lines().map(parse).collect::<Result<_, _>>()?;
    Ok((events, parse(&run(&["info", "--json", trace])?)?))
}

/// A program that waits for a disk and for a time, the latter where another one works: kernels were seen
/// that do not tell any tracer of switches from an idle CPU.
const PROGRAM: &str = "dd if=/dev/zero of=file bs=64k count=16 conv=fsync 2>/dev/null
    taskset -c 0 sh -c 'while :; do :; done' & taskset -c 0 sleep 0.05; kill $!";
/// Mounts a tracefs that can only be read, or makes the one that is there so; there is no other.
const READ_ONLY: &str = "(test ! -d /sys/kernel/debug || mount -t tmpfs none /sys/kernel/debug) && \
                         (mount -t tracefs -o ro none /sys/kernel/tracing || \
                         mount -o remount,bind,ro /sys/kernel/tracing) 2>/dev/null";

fn a_program_and_what_the_kernel_did(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let words = ["record", "-q", "-o", "k.rnt", "--kernel", "--", "sh", "-c", PROGRAM];
    let outcome = place.run(place.command(&stage.reenact).args(words))?;
    ensure!(outcome.status.success(), "{}", outcome.errors());
    is_what_the_kernel_did(stage, place)
}

/// A table of `stat --json`.
fn table(
    stage: &Stage,
    place: &Place,
    words: &[&str],
    name: &str,
) -> Result<Vec<Value>, Complaint> {
    let words = [&["stat"], words, &["--json"]].concat();
    let outcome = place.run(place.command(&stage.reenact).args(&words))?;
    ensure!(outcome.status.success(), "{words:?}: {}", outcome.errors());
    let sheet: Value = serde_json::from_slice(&outcome.stdout).map_err(|e| e.to_string())?;
    Ok(sheet[name].as_array().cloned().unwrap_or_default())
}

fn record(stage: &Stage, place: &Place, words: &[&str]) -> Result<(), Complaint> {
    let words = [&["record", "-q", "-f", "-o", "k.rnt"], words].concat();
    let outcome = place.run(place.command(&stage.reenact).args(&words))?;
    ensure!(outcome.status.success(), "{words:?}: {}", outcome.errors());
    Ok(())
}

/// Its threads begin at all times, and what the kernel says of that is left out.
fn the_recorder_is_none_of_the_machine(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let work = "for i in 1 2 3 4 5 6 7 8 9; do sh -c 'head -c 1000000 /dev/zero | wc -c'; done";
    record(stage, place, &["--kernel=core", "--system", "--", "sh", "-c", work])?;
    let threads = table(stage, place, &["cpu", "k.rnt"], "cpu_threads")?;
    let (events, _) = shown(stage, place, "k.rnt")?;
    // A process is chosen by its number, also where the kernel alone tells of it.
    let counted = threads.iter().find(|thread| thread["name"] == "wc").ok_or("no wc")?;
    let pid = counted["pid"].to_string();
    let of_it = events.iter().filter(|event| event["type"] == "kernel");
    let of_it = of_it.filter(|event| event["pid"] == counted["pid"]).count();
    let counts = table(stage, place, &["events", "k.rnt", "--pid", &pid], "events")?;
    let count: u64 = counts.iter().filter_map(|row| row["count"].as_u64()).sum();
    ensure!(of_it > 10 && count == of_it as u64, "{of_it} events of {pid}, {count} counted");
    let scope = events.iter().find(|event| event["type"] == "kernel_scope");
    let recorder = &scope.ok_or("no scope")?["fields"]["recorder"];
    let told = |event: &&Value| event["type"] == "kernel_task";
    let own = events.iter().filter(told).filter(|event| event["fields"]["process"] == *recorder);
    let own: Vec<&Value> = own.map(|event| &event["fields"]["task"]).collect();
    ensure!(own.len() > 5, "the recorder's threads: {own:?}");
    // Other recorders may run meanwhile: the names of threads alone do not tell.
    let strangers = threads.iter().filter(|thread| own.contains(&&thread["tid"]));
    let strangers: Vec<&Value> = strangers.collect();
    ensure!(strangers.is_empty(), "{strangers:?}");
    Ok(())
}

/// What is not in a trace is unknown: it is neither guessed nor taken from another time.
fn parts_and_gaps_are_not_made_up(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let sum = |rows: &[Value], key: &str| -> u64 {
        rows.iter().filter_map(|row| row[key].as_u64()).sum()
    };
    record(stage, place, &["--kernel=exceptions", "--", "sh", "-c", PROGRAM])?;
    let threads = table(stage, place, &["cpu", "k.rnt"], "cpu_threads")?;
    ensure!(sum(&threads, "on_cpu_ns") == 0 && sum(&threads, "unknown_ns") > 0, "{threads:?}");

    // Another format does not tell of whom all is there.
    record(stage, place, &["--kernel=core", "--", "sh", "-c", PROGRAM])?;
    for words in [
        ["export", "k.rnt", "--to", "ctf", "--output", "k.ctf"].as_slice(),
        &["import", "k.ctf", "-o", "back.rnt"],
    ] {
        let outcome = place.run(place.command(&stage.reenact).args(words))?;
        ensure!(outcome.status.success(), "{words:?}: {}", outcome.errors());
    }
    let threads = table(stage, place, &["cpu", "back.rnt"], "cpu_threads")?;
    ensure!(sum(&threads, "on_cpu_ns") == 0 && sum(&threads, "unknown_ns") > 0, "{threads:?}");

    record(stage, place, &["--kernel=core", "--system", "--", "sh", "-c", PROGRAM])?;
    let calls = table(stage, place, &["where", "k.rnt", "--call", "fsync"], "call_states")?;
    ensure!(calls.len() == 1 && calls[0]["call"] == "fsync", "{calls:?}");
    let (events, _) = shown(stage, place, "k.rnt")?;
    let sleep = events.iter().find(|event| event["call"] == "clock_nanosleep");
    let from = sleep.and_then(|call| call["enter_ns"].as_u64()).ok_or("no call of sleep")?;
    let times = [format!("{from}ns"), format!("{}ns", from + 20_000_000)];
    let cut = ["cut", "k.rnt", "-f", "-o", "part.rnt", "--since", &times[0], "--until", &times[1]];
    let outcome = place.run(place.command(&stage.reenact).args(cut))?;
    ensure!(outcome.status.success(), "{}", outcome.errors());
    let cpus = table(stage, place, &["cpu", "part.rnt"], "cpus")?;
    let of_cpus: Vec<u64> = cpus
        .iter()
        .map(|cpu| {
            ["user_ns", "kernel_ns", "irq_ns", "softirq_ns", "idle_ns"]
                .map(|key| cpu[key].as_u64().unwrap_or(0))
                .iter()
                .sum()
        })
        .collect();
    ensure!(of_cpus.iter().all(|ns| *ns <= 21_000_000), "20 ms on each CPU: {of_cpus:?}");
    ensure!(of_cpus.iter().sum::<u64>() > 15_000_000, "{of_cpus:?}");
    Ok(())
}

/// Numbers have the kernel's own words, and views of events count what was asked for.
fn events_have_words_and_views_conditions(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    record(stage, place, &["--kernel=core,block", "--", "sh", "-c", PROGRAM])?;
    let lines = |words: &[&str]| {
        let outcome = place.run(place.command(&stage.reenact).arg("show").args(words))?;
        ensure!(outcome.status.success(), "{words:?}: {}", outcome.errors());
        Ok::<_, Complaint>(String::from_utf8_lossy(&outcome.stdout).into_owned())
    };
    let switches = lines(&["k.rnt", "--event", "sched_switch"])?;
    ensure!(
        switches.contains(" prev_state=R ") && switches.contains(" prev_state=S "),
        "{switches}"
    );
    let soft = lines(&["k.rnt", "--event", "softirq_entry"])?;
    let is_word =
        |line: &str| line.split("vec=").nth(1).is_some_and(|v| v.starts_with(char::is_uppercase));
    ensure!(soft.lines().all(is_word) && !soft.is_empty(), "{soft}");
    let requests = lines(&["k.rnt", "--event", "block_rq_issue"])?;
    let devices = table(stage, place, &["block", "k.rnt"], "devices")?;
    let device = devices.first().and_then(|row| row["device"].as_str()).ok_or("no device")?;
    let (number, name) = device.split_once(' ').ok_or(format!("no name: {device}"))?;
    ensure!(requests.contains(&format!(" dev={number}<{name}> ")), "{device}: {requests}");

    let (events, _) = shown(stage, place, "k.rnt")?;
    let kernel = || events.iter().filter(|event| event["type"] == "kernel");
    let counted = table(stage, place, &["events", "k.rnt"], "event_processes")?;
    for pid in counted.iter().filter(|row| row["pid"].as_u64() > Some(0)) {
        // Of a thread that changed its process, the last one counts.
        let count = kernel().filter(|event| event["pid"] == pid["pid"]).count() as u64;
        ensure!(pid["count"].as_u64() == Some(count), "{pid}: {count} are shown");
    }
    let asked = table(stage, place, &["block", "k.rnt"], "requesters")?;
    let of_dd = asked.iter().find(|row| row["name"] == "dd").ok_or("dd asked for nothing")?;
    let pid = of_dd["tid"].to_string();
    let of_it = table(stage, place, &["block", "k.rnt", "--pid", &pid], "requesters")?;
    ensure!(of_it.iter().all(|row| row["tid"] == of_dd["tid"]) && !of_it.is_empty(), "{of_it:?}");
    let waits = table(stage, place, &["waits", "k.rnt", "--call", "fsync"], "waits")?;
    ensure!(waits.iter().all(|row| row["call"] == "fsync") && !waits.is_empty(), "{waits:?}");
    let irqs = table(stage, place, &["irq", "k.rnt", "--event", "softirq_entry"], "interrupts")?;
    ensure!(irqs.iter().all(|row| row["kind"] == "softirq") && !irqs.is_empty(), "{irqs:?}");
    Ok(())
}

/// Where tracefs can only be read, perf has the events.
fn by_perf(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let run = |reenact: &str| {
        let mut command = place.command("unshare");
        let script = format!("{READ_ONLY} && exec \"$0\" {reenact}");
        command.args(["-m", "--propagation", "private", "sh", "-c", &script]);
        let outcome = place.run(command.arg(&stage.reenact).arg(PROGRAM))?;
        ensure!(outcome.status.success(), "{reenact}: {}", outcome.errors());
        Ok::<_, Complaint>(outcome)
    };
    let doctor = run("doctor")?;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(said.contains("perf_event_open"), "{said}");
    run("record -q -o k.rnt --kernel --kernel-buffer 32M -- sh -c \"$1\"")?;
    is_what_the_kernel_did(stage, place)?;
    // Filters go to the kernel; more events than there is room for are counted by it.
    let blocked = "--kernel='sched_switch:prev_state!=0' --duration 500ms";
    run(&format!("record -q -o blocked.rnt {blocked}"))?;
    let (events, _) = shown(stage, place, "blocked.rnt")?;
    let switches: Vec<&Value> = events.iter().filter(|event| event["type"] == "kernel").collect();
    let ran_on = switches.iter().filter(|event| event["fields"]["prev_state"] == 0).count();
    ensure!(!switches.is_empty() && ran_on == 0, "{ran_on} of {}", switches.len());
    Ok(())
}

fn is_what_the_kernel_did(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let (events, info) = shown(stage, place, "k.rnt")?;
    ensure!(info["complete"] == Value::Bool(true), "it is not complete: {info}");

    let is = |event: &Value, kind: &str| event["type"] == kind;
    let tids: Vec<u64> = events
        .iter()
        .filter(|event| is(event, "start"))
        .filter_map(|e| e["tid"].as_u64())
        .collect();
    ensure!(tids.len() >= 3, "sh and its programs: {tids:?}");
    let kernel: Vec<&Value> = events.iter().filter(|event| is(event, "kernel")).collect();
    let ours = |event: &&&Value| event["tid"].as_u64().is_some_and(|tid| tids.contains(&tid));
    for name in ["sched_switch", "page_fault_user", "sched_process_exec", "sched_process_exit"] {
        let found = kernel.iter().filter(|event| event["event"] == name).filter(ours).count();
        ensure!(found > 0, "no {name} of the program among {} events", kernel.len());
    }
    // Each program that was begun is told by both; the first is known only by its exec.
    let execs = kernel.iter().filter(|event| event["event"] == "sched_process_exec").count();
    let images = events.iter().filter(|event| is(event, "exec")).count();
    ensure!(execs + 1 == images, "{execs} execs by the kernel, {images} by the agent");

    // `sleep` was switched away from within its call, and woken before that returned.
    let call = events.iter().find(|event| is(event, "call") && event["call"] == "clock_nanosleep");
    let call = call.ok_or("no call of sleep")?;
    let (tid, from) = (call["tid"].as_u64(), call["enter_ns"].as_u64().unwrap_or(0));
    let until = call["exit_ns"].as_u64().unwrap_or(0);
    let within = |event: &&&Value| {
        event["time_ns"].as_u64().is_some_and(|time| (from..=until).contains(&time))
    };
    let count = |name: &str, field: &str| {
        let named = kernel.iter().filter(within).filter(|event| event["event"] == name);
        named.filter(|event| event["fields"][field].as_u64() == tid).count()
    };
    let found = [
        count("sched_switch", "prev_pid"),
        count("sched_waking", "pid"),
        count("sched_switch", "next_pid"),
    ];
    ensure!(found.iter().all(|count| *count >= 1), "within the sleep: {found:?}");

    // The events are picked by name, by class and by CPU, and counted.
    let of_class =
        |event: &Value| ["irq", "irq_vectors"].iter().any(|name| event["system"] == *name);
    let is_picked = |words: &[&str], fits: &dyn Fn(&Value) -> bool| {
        let all = ["show", "k.rnt", "--json"];
        let outcome = place.run(place.command(&stage.reenact).args(all).args(words))?;
        let picked = String::from_utf8_lossy(&outcome.stdout).lines().count();
        let expected = kernel.iter().filter(|event| fits(event)).count();
        ensure!(picked == expected, "{words:?}: {picked} picked of {expected}");
        Ok::<_, Complaint>(())
    };
    is_picked(&["--event", "sched:sched_sw*"], &|event| event["event"] == "sched_switch")?;
    is_picked(&["--event", "%irq"], &of_class)?;
    is_picked(&["--cpu", "0"], &|event| event["cpu"] == 0)?;
    is_picked(&["--cpu", "1", "--event", "%irq,%sched"], &|event| {
        let is_of_sched = ["sched", "task"].iter().any(|name| event["system"] == *name);
        event["cpu"] == 1 && (of_class(event) || is_of_sched)
    })?;
    let outcome =
        place.run(place.command(&stage.reenact).args(["stat", "events", "k.rnt", "--json"]))?;
    let stat: Value = serde_json::from_slice(&outcome.stdout).map_err(|error| error.to_string())?;
    ensure!(stat["event_count"].as_u64() == Some(kernel.len() as u64), "{}", stat["event_count"]);
    times_of_some(stage, place)
}

/// Processes, threads and CPUs are chosen of those whose time is told.
fn times_of_some(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let told = |words: &[&str]| {
        let all = ["stat", "cpu", "k.rnt", "--json"];
        let outcome = place.run(place.command(&stage.reenact).args(all).args(words))?;
        serde_json::from_slice::<Value>(&outcome.stdout).map_err(|error| error.to_string())
    };
    let ids = |stat: &Value, table: &str, id: &str| -> Vec<u64> {
        let rows = stat[table].as_array().into_iter().flatten();
        rows.filter_map(|row| row[id].as_u64()).collect()
    };
    let (whole, of_cpu) = (told(&[])?, told(&["--cpu", "0"])?);
    let cpus = |stat: &Value| stat["cpus"].as_array().map_or(0, Vec::len);
    ensure!(cpus(&whole) > 1, "{}", whole["cpus"]);
    ensure!(cpus(&of_cpu) == 1 && of_cpu["cpus"][0]["cpu"] == "cpu0", "{}", of_cpu["cpus"]);
    let pid = ids(&whole, "cpu_processes", "pid").first().copied().ok_or("no process")?;
    let of_one = told(&["--pid", &pid.to_string()])?;
    ensure!(ids(&of_one, "cpu_processes", "pid") == [pid], "{}", of_one["cpu_processes"]);
    let threads = ids(&of_one, "cpu_threads", "pid");
    ensure!(!threads.is_empty() && threads.iter().all(|of| *of == pid), "{threads:?}");
    Ok(())
}

fn times_are_those_of_the_kernel(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    holds(stage, place, "times.py")
}

fn waits_are_explained_as_they_were_built(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    holds(stage, place, "waits.py")
}

fn pages_of_files(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    holds(stage, place, "pages.py")
}

fn only_those_are_kept_that_were_asked_for(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    holds(stage, place, "whom.py")
}

/// Runs a script that records with `reenact` and complains if something is not as it should be.
fn holds(stage: &Stage, place: &Place, script: &str) -> Result<(), Complaint> {
    holds_with(stage, place, script, &[])
}

fn holds_with(
    stage: &Stage,
    place: &Place,
    script: &str,
    options: &[&str],
) -> Result<(), Complaint> {
    let script = repository().join("tests/kernel").join(script);
    let mut command = place.command("python3");
    command.arg("-B").arg(script).arg(&stage.reenact).arg(".").args(options);
    // As long as it takes.
    let ran = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ran.stdout);
    ensure!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    eprint!("{said}");
    Ok(())
}

/// A recorder that does not come to read loses events, as many as the kernel says.
fn losses_are_gaps(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let mut command = place.command(&stage.reenact);
    command.args(["record", "-q", "-o", "lost.rnt", "--kernel=raw_syscalls:*"]);
    command.args(["--kernel-buffer", "16K", "--duration", "20s"]);
    let mut recorder = command.spawn().map_err(|error| error.to_string())?;
    let pid = recorder.id();
    wait_for(|| is_recording(pid))?;
    let signal = |signal| {
        // SAFETY: the process is our child, and was not waited for.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
    };
    signal(libc::SIGSTOP);
    let made = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=1", "count=20000"])
        .stderr(Stdio::null())
        .status();
    // Nothing more is taken, so the kernel's own count is that of the whole recording.
    let instances = instances_of(pid);
    let counted = instances.iter().map(|name| stop_and_count(name)).sum::<Result<u64, Complaint>>();
    signal(libc::SIGCONT);
    signal(libc::SIGTERM);
    let ended = recorder.wait().map_err(|error| error.to_string())?;
    ensure!(made.is_ok_and(|made| made.success()) && ended.success(), "{ended}");
    let counted = counted?;
    let (events, info) = shown(stage, place, "lost.rnt")?;
    ensure!(info["complete"] == Value::Bool(false), "it is complete");
    let gaps = events.iter().filter(|event| event["type"] == "gap");
    let lost: u64 = gaps
        .filter(|gap| gap["why"] == "kernel-events" && gap["cpu"].is_u64())
        .filter_map(|gap| gap["detail"].as_u64())
        .sum();
    // 40,000 calls with two events each, and a buffer for some hundred.
    ensure!(lost > 50_000, "{lost} events are told as lost");
    ensure!(lost == counted, "{lost} events are told as lost, the kernel counted {counted}");
    let words = ["stat", "events", "lost.rnt", "--json"];
    let outcome = place.run(place.command(&stage.reenact).args(words))?;
    let stat: Value = serde_json::from_slice(&outcome.stdout).map_err(|error| error.to_string())?;
    ensure!(stat["event_lost"].as_u64() == Some(counted), "stat says {}", stat["event_lost"]);
    Ok(())
}

/// Buffers that were full are larger from then on.
fn buffers_grow(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let mut command = place.command(&stage.reenact);
    command.args(["record", "-q", "-o", "grown.rnt", "--kernel=raw_syscalls:*"]);
    command.args(["--kernel-buffer", "64K", "--duration", "120s"]);
    let mut recorder = command.spawn().map_err(|error| error.to_string())?;
    let pid = recorder.id();
    wait_for(|| is_recording(pid))?;
    let signal = |signal| {
        // SAFETY: the process is our child, and was not waited for.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
    };
    signal(libc::SIGSTOP);
    let made = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=1", "count=20000"])
        .stderr(Stdio::null())
        .status();
    let sizes = || -> Vec<u64> {
        let instances = instances_of(pid).into_iter().map(|name| Path::new(INSTANCES).join(name));
        let cpus =
            instances.flat_map(|path| fs::read_dir(path.join("per_cpu")).into_iter().flatten());
        let files = cpus.flatten().map(|cpu| cpu.path().join("buffer_size_kb"));
        let sizes = files.filter_map(|file| fs::read_to_string(file).ok());
        sizes.filter_map(|size| size.trim().parse().ok()).collect()
    };
    signal(libc::SIGCONT);
    let grew = wait_for(|| sizes().iter().any(|size| *size >= 128));
    signal(libc::SIGTERM);
    let ended = recorder.wait().map_err(|error| error.to_string())?;
    ensure!(made.is_ok_and(|made| made.success()) && ended.success(), "{ended}");
    grew
}

/// Stops an instance, and counts what its buffers have lost.
fn stop_and_count(instance: &str) -> Result<u64, Complaint> {
    let folder = Path::new(INSTANCES).join(instance);
    let failed = |error: std::io::Error| format!("{instance}: {error}");
    fs::write(folder.join("tracing_on"), "0").map_err(failed)?;
    let mut lost = 0;
    for cpu in fs::read_dir(folder.join("per_cpu")).map_err(failed)?.flatten() {
        let stats = fs::read_to_string(cpu.path().join("stats")).map_err(failed)?;
        let counts = stats.lines().filter_map(|line| line.split_once(": "));
        let of_losses = counts
            .filter(|(name, _)| ["overrun", "commit overrun", "dropped events"].contains(name));
        lost += of_losses.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum::<u64>();
    }
    Ok(lost)
}

fn what_a_killed_recorder_left_is_removed(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let mut command = place.command(&stage.reenact);
    command.args(["record", "-q", "-o", "killed.rnt", "--kernel", "--duration", "60s"]);
    let mut recorder = command.spawn().map_err(|error| error.to_string())?;
    let pid = recorder.id();
    // The recorder writes what it has every second.
    let trace = place.work().join("killed.rnt");
    wait_for(|| fs::metadata(&trace).is_ok_and(|found| found.len() > 4096))?;
    let doctor = || {
        let outcome = place.run(place.command(&stage.reenact).arg("doctor"))?;
        Ok::<_, Complaint>(String::from_utf8_lossy(&outcome.stdout).into_owned())
    };
    let name = instances_of(pid).remove(0);
    ensure!(!doctor()?.contains(&name), "one that is in use is called a leftover");
    recorder.kill().and_then(|()| recorder.wait()).map_err(|error| error.to_string())?;
    // Another recording of these tests may have removed it.
    if !instances_of(pid).is_empty() {
        let said = doctor()?;
        ensure!(said.contains(&name) || instances_of(pid).is_empty(), "doctor: {said}");
    }
    let words = ["record", "-q", "-o", "next.rnt", "--", "true"];
    let outcome = place.run(place.command(&stage.reenact).args(words))?;
    ensure!(outcome.status.success(), "{}", outcome.errors());
    ensure!(instances_of(pid).is_empty(), "{name} is still there");
    // What the killed one had written can be read.
    let (events, info) = shown(stage, place, "killed.rnt")?;
    ensure!(!events.is_empty() && info["complete"] == Value::Bool(false), "{info}");
    Ok(())
}

fn a_failed_start_leaves_nothing(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    fs::write(place.work().join("none"), "#!/no/such/interpreter\n").map_err(|e| e.to_string())?;
    acceptance::stage::open_to_all(&place.work().join("none"))?;
    for words in [
        &["record", "-o", "x.rnt", "--kernel", "--", "./none"][..],
        &["record", "-o", "x.rnt", "--kernel=nothing", "--", "true"],
        &["record", "-o", "x.rnt", "--kernel=no:such", "--", "true"],
        &["record", "-o", "/no/such/folder/x.rnt", "--kernel"],
    ] {
        let mut command = place.command(&stage.reenact);
        let child = command.args(words).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let pid = child.id();
        let ended = child.wait().map_err(|error| error.to_string())?;
        ensure!(!ended.success(), "{words:?} succeeded");
        ensure!(instances_of(pid).is_empty(), "{words:?} left {:?}", instances_of(pid));
        ensure!(!place.work().join("x.rnt").exists(), "{words:?} left a trace");
    }
    Ok(())
}

fn refused_with_a_reason(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    for words in [&["--kernel", "--", "true"][..], &["--kernel", "--duration", "1s"]] {
        let mut command = place.command(&stage.reenact);
        let outcome = place.run(command.args(["record", "-o", "x.rnt"]).args(words))?;
        let said = outcome.errors();
        ensure!(outcome.status.code() == Some(125), "{:?}: {said}", outcome.status);
        ensure!(said.contains("no kernel events") && said.contains("tracefs"), "{said}");
        ensure!(!place.work().join("x.rnt").exists(), "a trace was left");
    }
    Ok(())
}

/// In a container that hides tracefs, and where it refuses what a lockdown refuses, there is a reason and
/// nothing half done: neither a trace nor an instance.
fn without_tracefs(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    // What is there of tracefs may be mounted at either place, or at none.
    let hide = "mount -t tmpfs none /sys/kernel";
    let refuse = format!("({READ_ONLY} || mount -t tmpfs none /sys/kernel)");
    // Nor are we to have them by perf.
    let without = "-perfmon,-sys_admin";
    let powerless = &format!("setpriv --inh-caps={without} --bounding-set={without}");
    for (how, words, by) in [(hide, "mount -t tracefs", ""), (&refuse, "tracefs", powerless)] {
        for options in ["--kernel -- true", "--kernel --duration 1s", "--system -- true"] {
            let script = format!("{how} && exec {by} \"$0\" record -o x.rnt {options}");
            let mut command = place.command("unshare");
            command.args(["-m", "--propagation", "private", "sh", "-c", &script]);
            let outcome = place.run(command.arg(&stage.reenact))?;
            let said = outcome.errors();
            ensure!(outcome.status.code() == Some(125), "{how}: {:?}: {said}", outcome.status);
            ensure!(said.contains("no kernel events") && said.contains(words), "{how}: {said}");
            ensure!(!place.work().join("x.rnt").exists(), "{how}: a trace was left");
        }
        // Without events of the kernel, all is as ever.
        let script = format!("{how} && exec {by} \"$0\" record -q -o y.rnt -- true");
        let mut command = place.command("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", &script]);
        let outcome = place.run(command.arg(&stage.reenact))?;
        ensure!(outcome.status.success(), "{how}: {}", outcome.errors());
        fs::remove_file(place.work().join("y.rnt")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn wait_for(is_so: impl Fn() -> bool) -> Result<(), Complaint> {
    let since = Instant::now();
    while !is_so() {
        ensure!(since.elapsed() < WAIT, "nothing happened");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
