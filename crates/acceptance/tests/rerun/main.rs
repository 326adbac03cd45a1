//! `record --rerunnable` and `reenact rerun`, on programs of the repository and on real ones.

mod busy_machine;
mod threaded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::place::{Outcome, Place, Who};
use acceptance::program::Need;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, tier, trials};

/// Exit codes.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const DIFFERENT: i32 = 4;
const STUCK: i32 = 5;
const OURS: i32 = 125;

/// Scripts of real programs: their name in trials, what they need, and the script.
const WORKS: &[(&str, &[&str], &str)] = &[
    ("true", &[], "exec /bin/true"),
    ("ls", &[], "exec ls -la /usr /proc/self"),
    ("cat", &[], "exec cat /proc/self/stat /proc/uptime"),
    (
        "sqlite3",
        &["sqlite3"],
        "exec sqlite3 new.db \"create table t(a); insert into t values(1),(2); \
         select random(), datetime('now'), a from t\"",
    ),
    (
        "python3",
        &["python3"],
        "exec python3 -c 'import os, random, time, subprocess; print(hash(\"a\"), random.random(), \
         time.time(), os.urandom(4), os.getpid(), id(os)); \
         print(subprocess.run([\"ls\", \"/\"], capture_output=True).stdout)'",
    ),
    (
        "perl",
        &["perl"],
        "exec perl -e 'print time, \" \", rand, \" $$\\n\"; my %h = map {$_ => 1} 1..20; \
         print join(\",\", keys %h), \"\\n\"; print `date +%N`'",
    ),
    ("awk", &["awk"], "exec awk 'BEGIN { srand(); print rand(), \"x\" | \"cat\" }'"),
    (
        "bash",
        &["bash"],
        "exec bash -c 'echo $RANDOM $$ $BASHPID; for i in 1 2 3; do echo $i; done | sort -r | \
         while read x; do echo \"got $x\"; done; (exit 5); echo $? $(date +%N); ls / | wc -l'",
    ),
    (
        "pipeline",
        &["find", "xargs", "gzip"],
        "find /usr/include -name 'std*.h' | sort | xargs wc -l | tail -3; echo done | gzip | zcat",
    ),
    (
        "gcc",
        &["gcc"],
        "printf '#include <stdio.h>\\nint main(void) { return puts(\"x\") < 0; }' > x.c; \
         gcc -O2 -v -o x x.c",
    ),
    (
        "make",
        &["make", "gcc"],
        "for i in 1 2 3 4 5 6; do echo \"int f$i;\" > $i.c; done; \
         printf 'all: 1.o 2.o 3.o 4.o 5.o 6.o\\n' > Makefile; make -j2",
    ),
    (
        "python_sockets",
        &["python3"],
        "exec python3 -c 'import os, socket\n\
         server = socket.create_server((\"127.0.0.1\", 0))\n\
         if os.fork() == 0:\n  peer = socket.create_connection(server.getsockname())\n  \
         peer.sendall(os.urandom(100000)); peer.shutdown(socket.SHUT_WR); os._exit(len(peer.recv(9)))\n\
         peer, name = server.accept()\nprint(name)\ntotal = 0\n\
         while (piece := peer.recv(4096)): total += sum(piece)\n\
         peer.sendall(b\"answer\")\nprint(total, os.wait())'",
    ),
    ("nginx", &["nginx", "curl"], NGINX),
    ("httpd", &["apache2", "curl"], HTTPD),
    (
        "pdflatex",
        &["pdflatex"],
        "printf '\\\\documentclass{article}\\\\begin{document}%s$x^2$\\\\end{document}' \
         \"$(seq 3000)\" > a.tex; exec pdflatex -interaction=batchmode a",
    ),
    (
        "streams_opened_again",
        &[],
        "echo 1; echo 2 >>/dev/stdout; echo 3 >&2; echo 4 >>/proc/self/fd/1; echo 5 >>/dev/stderr; \
         (echo 6 >>/proc/$$/fd/2); exec 3>>/dev/fd/2; sh -c 'echo 7 >&3; echo 8 >>/dev/fd/3'",
    ),
    ("tar", &["tar", "gzip"], "tar -C /usr/include -czf x.tar.gz linux; exec tar tzvf x.tar.gz"),
    (
        "git",
        &["git"],
        "git init -q . && git config core.preloadIndex false && git config pack.threads 1 && \
         echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && \
         git log --stat && git status",
    ),
];

/// Servers with their clients, in scripts that run both.
const NGINX: &str = "mkdir -p logs html t; for i in 1 2 3; do seq $((i * 5000)) > html/$i; done; \
    printf 'daemon off; master_process off; error_log logs/error; pid logs/pid;\n\
    events { worker_connections 64; }\n\
    http { access_log logs/access; client_body_temp_path t/a; proxy_temp_path t/b; \
    fastcgi_temp_path t/c; uwsgi_temp_path t/d; scgi_temp_path t/e;\n\
    server { listen unix:%s/socket; root %s/html; } }\n' \"$PWD\" \"$PWD\" > conf; \
    nginx -p \"$PWD\" -e logs/first -c \"$PWD/conf\" & server=$!; \
    until curl -sf --unix-socket socket http://x/1 | md5sum; [ -s logs/access ]; do sleep 0.1; done; \
    for i in 1 2 3 nothing; do curl -s --unix-socket socket http://x/$i | md5sum; done; \
    kill -QUIT $server; wait $server; echo $?";
const HTTPD: &str = "mkdir -p logs html; for i in 1 2 3; do seq $((i * 5000)) > html/$i; done; \
    port=$((20000 + $$ % 20000)); modules=/usr/lib/apache2/modules; \
    printf \"ServerRoot $PWD\\nServerName localhost\\nListen 127.0.0.1:$port\\nPidFile logs/pid\\n\
    ErrorLog logs/error\\nLoadModule mpm_prefork_module $modules/mod_mpm_prefork.so\\n\
    LoadModule authz_core_module $modules/mod_authz_core.so\\nDocumentRoot $PWD/html\\n\
    Mutex file:$PWD/logs\\nUser nobody\\nGroup nogroup\\n\" > conf; \
    apache2 -X -f \"$PWD/conf\" & server=$!; \
    until curl -sf http://127.0.0.1:$port/1 > first; do sleep 0.1; done; md5sum < first; \
    for i in 1 2 3 nothing; do curl -s http://127.0.0.1:$port/$i | md5sum; done; \
    kill -TERM $server; wait $server; echo $?";

fn main() -> ExitCode {
    trials::main(|trials| {
        for name in [
            "facts",
            "signals",
            "signal_then_wait",
            "timer_and_maps",
            "shares",
            "message_lengths",
            "told_on_errors",
            "stored_elsewhere",
        ] {
            trials.add_for_both(name, None, move |stage: &Stage, who| {
                let place = Place::new(stage, who)?;
                let program = built(stage, name)?;
                again(stage, &place, &[], &[&program.display().to_string(), "a word"])
            });
        }
        trials.add_for_both("condition", None, |stage: &Stage, who| {
            let place = Place::new(stage, who)?;
            let program = built(stage, "condition")?.display().to_string();
            again(stage, &place, SERIAL, &[&program])
        });
        trials.add_for_both("threads_under_a_filter", None, threads_under_a_filter);
        for &(name, needed, script) in threaded::WORKS {
            let is_long = name == "javac" && !tier::is_long();
            let missing = trials::missing(needed).or(is_long.then_some("the long tier"));
            trials.add_for_both(name, missing, move |stage: &Stage, who| {
                let place = Place::new(stage, who)?;
                equal_or_told(stage, &place, &["sh", "-c", script])
            });
        }
        let missing = (!trials::has(Need::Go, Who::User)).then_some("go");
        trials.add_for_both("go", missing, |stage: &Stage, who| {
            let place = Place::new(stage, who)?;
            let program = built(stage, "goroutine_says_hello")?.display().to_string();
            equal_or_told(stage, &place, &[&program])
        });
        trials.add_for_both("static", None, |stage: &Stage, who| {
            let place = Place::new(stage, who)?;
            let program = static_facts(stage)?.display().to_string();
            again(stage, &place, &[], &[&program, "a word"])
        });
        trials.add_for_both("racing", None, |stage: &Stage, who| {
            let place = Place::new(stage, who)?;
            let program = built(stage, "racing")?.display().to_string();
            equal_or_told(stage, &place, &[&program])
        });
        for &(name, needed, script) in WORKS {
            let missing = trials::missing(needed);
            trials.add_for_both(name, missing, move |stage: &Stage, who| {
                let place = Place::new(stage, who)?;
                again(stage, &place, &[], &["sh", "-c", script])
            });
        }
        trials.add_for_both("signals_are_ignored_as_they_were", None, ignored);
        trials.add("busy_machine/signals", Who::User, None, busy_machine::signals);
        trials.add("busy_machine/turns", Who::User, None, busy_machine::turns);
        let long = (!tier::is_long()).then_some("the long tier");
        trials.add_for_both("every_test_program", long, every_program);
        trials.add_for_both("nothing_is_changed", None, nothing_is_changed);
        trials.add_for_both("files_are_made_in_the_root", None, real_files);
        let missing = trials::missing(&["sqlite3"]);
        trials.add_for_both("a_database_on_real_files", missing, real_database);
        trials.add_for_both("waits_for_the_outside_are_told", None, outside);
        trials.add_for_both("what_no_call_gives_is_found", None, counter);
        trials.add_for_both("reasons_have_evidence", None, reasons);
        trials.add_for_both("directories_below_the_longest_path", None, deep);
        trials.add_for_both("what_cannot_be_executed_again_is_refused", None, refused);
        trials.add("a_set_user_id_program_is_refused", Who::Root, None, set_user_id);
        trials.add_for_both("where_it_differs_is_told", None, where_told);
        trials.add_for_both("pages_that_cannot_be_written", None, |stage: &Stage, who| {
            let place = Place::new(stage, who)?;
            let program = built(stage, "gives_pages")?.display().to_string();
            again(stage, &place, &[], &[&program])
        });
        trials.add_for_both("a_changed_program_is_refused", None, changed);
        trials.add_for_both("stop_at_ends_it_before_a_call", None, stop_at);
        Ok(())
    })
}

fn text(error: impl std::fmt::Display) -> Complaint {
    error.to_string()
}

/// Builds a program of tests/rerun.
fn built(stage: &Stage, name: &str) -> Result<PathBuf, Complaint> {
    program::named_in("tests/rerun", name)?.build(stage)
}

/// Builds the program of facts without libraries.
fn static_facts(stage: &Stage) -> Result<PathBuf, Complaint> {
    let mut facts = program::named_in("tests/rerun", "facts")?;
    facts.name.push_str("_static");
    facts.flags.push("-static".into());
    facts.build(stage)
}

/// Options of `record` for programs with threads.
const SERIAL: &[&str] = &["--serialize"];

fn recorded(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    command: &[&str],
) -> Result<(PathBuf, Outcome), Complaint> {
    let trace = place.trace("rerun.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--force", "--rerunnable"]).args(options);
    record.arg("--output").arg(&trace);
    let outcome = place.run(record.arg("--").args(command))?;
    ensure!(outcome.status.code() != Some(125), "record: {}", outcome.errors());
    Ok((trace, outcome))
}

fn rerun(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    trace: &Path,
) -> Result<Outcome, Complaint> {
    let mut command = place.command(&stage.reenact);
    place.run(command.arg("rerun").args(options).arg(trace))
}

/// What the program wrote, without what reenact says at the end.
fn written(outcome: &Outcome) -> (String, String) {
    let errors = outcome.errors();
    let lines = errors.lines().filter(|line| !line.starts_with("reenact: "));
    (outcome.text(), lines.collect::<Vec<_>>().join("\n"))
}

/// Records a command, and executes it again some times, after its files are gone.
fn again(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    command: &[&str],
) -> Result<(), Complaint> {
    let (trace, outcome) = recorded(stage, place, options, command)?;
    let expected = written(&outcome);
    place.clear()?;
    for round in 0..tier::rounds(3, 100) {
        let outcome = rerun(stage, place, &[], &trace)?;
        let code = outcome.status.code();
        ensure!(code == Some(0), "round {round}: {code:?}: {}", outcome.errors());
        let found = written(&outcome);
        ensure!(found == expected, "round {round}: {found:?}, not {expected:?}");
    }
    let files = place.files()?;
    ensure!(files.is_empty(), "it left {files:?}");
    Ok(())
}

/// Executes a program with threads again some times. Each time its output is the same, or it is said what
/// differs; at least half of the times it is the same, unless threads were interrupted between calls, or it asks the
/// processor's counter itself (Go before 1.22 chooses by that who runs next).
fn equal_or_told(stage: &Stage, place: &Place, command: &[&str]) -> Result<(), Complaint> {
    let (trace, outcome) = recorded(stage, place, SERIAL, command)?;
    let expected = written(&outcome);
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--event", "time_slice"]).arg(&trace);
    let slices = place.run(&mut show)?.success("show")?.text().lines().count();
    let rounds = tier::rounds(2, 100);
    let name = Path::new(command[0]).file_name().unwrap_or_default().to_string_lossy();
    let counter = format!("asks the processor, which no call gives: {name} (rdtsc");
    let (mut same, mut asks_processor) = (0, false);
    for round in 0..rounds {
        let outcome = rerun(stage, place, &["--stuck-after", "30"], &trace)?;
        match outcome.status.code() {
            Some(0) => {
                same += 1;
                let found = written(&outcome);
                ensure!(found == expected, "round {round}: {found:?}, not {expected:?}");
            }
            Some(DIFFERENT | STUCK) => {
                ensure!(outcome.errors().contains("likely reason"), "{}", outcome.errors());
                asks_processor |= outcome.errors().contains(&counter);
            }
            code => return Err(format!("round {round}: {code:?}: {}", outcome.errors())),
        }
    }
    println!("{command:?}: {same} of {rounds} the same, with {slices} time slices");
    let may_differ = slices > 0 || asks_processor;
    ensure!(may_differ || same * 2 >= rounds, "only {same} of {rounds} are the same");
    Ok(())
}

/// Nothing is asked for that the filter of a program would kill it for, also where a thread is interrupted.
fn threads_under_a_filter(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let program = built(stage, "filtered_threads")?.display().to_string();
    let (_, outcome) = recorded(stage, &place, SERIAL, &[&program])?;
    let (output, status) = (outcome.text(), outcome.status);
    ensure!(status.success() && output.contains("seen"), "{status}: {output:?}");
    again(stage, &place, SERIAL, &[&program])
}

/// A program finds the signals ignored and blocked that it found when it was recorded.
fn ignored(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("ignored.rnt");
    let mut record = place.command("sh");
    record.args(["-c", "trap '' INT USR1; exec \"$0\" record -q --rerunnable -o \"$@\""]);
    record.arg(&stage.reenact).arg(&trace).args(["grep", "Sig", "/proc/self/status"]);
    let expected = place.run(&mut record)?.success("record")?;
    let found = rerun(stage, &place, &[], &trace)?.success("rerun")?;
    ensure!(found.text() == expected.text(), "{}", found.text());
    let mut record = place.command("sh");
    record.args(["-c", "trap '' INT USR1; exec \"$0\" record -q --force --rerunnable -o \"$@\""]);
    record.arg(&stage.reenact).arg(&trace).args(["sh", "-c", "trap 'echo x' INT; kill -INT $$"]);
    let expected = place.run(&mut record)?.success("record")?;
    let found = rerun(stage, &place, &[], &trace)?.success("rerun")?;
    ensure!(found.text() == expected.text(), "{}", found.text());
    Ok(())
}

/// Each test program is either executed again with the same output, or it is said why not.
fn every_program(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let mut same = 0;
    for program in program::all()? {
        let is_c = program.source.extension().is_some_and(|end| end == "c");
        if !is_c || program.needs.iter().any(|need| !trials::has(*need, who)) {
            continue;
        }
        let place = Place::new(stage, who)?;
        let name = program.build(stage)?.display().to_string();
        let mut command = vec![name.as_str(), "7"];
        command.extend(program.args.iter().map(String::as_str));
        let (trace, outcome) = recorded(stage, &place, &[], &command)?;
        let found = rerun(stage, &place, &[], &trace)?;
        match found.status.code() {
            Some(0) => {
                same += 1;
                let (found, expected) = (found.text(), outcome.text());
                ensure!(found == expected, "{name}: it writes {found:?}, not {expected:?}");
            }
            Some(FAILED | DIFFERENT) => ensure!(found.errors().len() > 20, "{name}: not told why"),
            other => return Err(format!("{name}: {other:?}: {}", found.errors())),
        }
    }
    ensure!(same > 40, "only {same} of them are executed again");
    Ok(())
}

/// Files are neither read nor written.
fn nothing_is_changed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("input", b"input\n")?;
    let script = "read line < input; echo $line > output; rm input; mkdir d; echo $line; pwd";
    let (trace, outcome) = recorded(stage, &place, &[], &["sh", "-c", script])?;
    ensure!(outcome.text().starts_with("input\n"), "{}", outcome.text());
    fs::write(place.work().join("output"), "other\n").map_err(text)?;
    let before = place.files()?;
    let found = rerun(stage, &place, &[], &trace)?.success("rerun")?;
    ensure!(found.text() == outcome.text(), "{}", found.text());
    ensure!(place.files()? == before, "the files are others");
    let quiet = rerun(stage, &place, &["--quiet"], &trace)?.success("rerun")?;
    ensure!(quiet.text().is_empty(), "{}", quiet.text());
    // What it takes is told, and what it waited for.
    ensure!(quiet.errors().contains("waits for the outside"), "{}", quiet.errors());
    Ok(())
}

/// What `rerun --json` says.
fn said(outcome: Outcome) -> Result<serde_json::Value, Complaint> {
    let outcome = outcome.success("rerun")?;
    serde_json::from_str(&outcome.text()).map_err(text)
}

/// Calls on files are made in the root alone, and verified.
fn real_files(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("input", b"input\n")?;
    let script = "read line < input; echo $line > output; mkdir d; echo more >> d/file; \
                  (echo from a child >> output); rm input; read all < output; echo $all; echo error >&2";
    let (trace, outcome) = recorded(stage, &place, &[], &["sh", "-c", script])?;
    place.clear()?;
    let root = place.path("root");
    fs::create_dir(&root).map_err(text)?;
    place.give(&root)?;
    let name = root.display().to_string();
    let found = rerun(stage, &place, &["--files", "real", "--root", &name], &trace)?;
    let found = found.success("rerun")?;
    ensure!(found.text() == outcome.text(), "{}", found.text());
    ensure!(found.errors().contains("0 not verifiable"), "{}", found.errors());
    let files = place.files()?;
    ensure!(files.is_empty(), "it left {files:?}");
    let inside = root.join(place.work().strip_prefix("/").map_err(text)?);
    let output = fs::read(inside.join("output")).map_err(text)?;
    ensure!(output == b"input\nfrom a child\n", "{}", String::from_utf8_lossy(&output));
    ensure!(fs::read(inside.join("d/file")).map_err(text)? == b"more\n", "d/file");
    ensure!(!inside.join("input").exists(), "input is there");
    // A root that is not empty, and one that nobody needs.
    let again = rerun(stage, &place, &["--files", "real", "--root", &name], &trace)?;
    ensure!(again.status.code() == Some(USAGE), "{}", again.errors());
    let told = again.errors();
    ensure!(told.contains("--overwrite") && !told.contains("--image"), "{told}");
    let useless = rerun(stage, &place, &["--root", &name], &trace)?;
    ensure!(useless.status.code() == Some(USAGE), "{}", useless.errors());
    // Where it stops, the replay does as well.
    let stopped = rerun(stage, &place, &["--files", "real", "--stop-at", "40"], &trace)?;
    ensure!(stopped.status.code() == Some(0), "{}", stopped.errors());
    Ok(())
}

fn real_database(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let statement = "create table t(a, b); with recursive n(x) as (select 1 union all select x + 1 \
                     from n limit 5000) insert into t select x, hex(randomblob(100)) from n; \
                     create index i on t(b); select count(*), sum(a) from t where b > 'A'";
    let (trace, _) = recorded(stage, &place, &[], &["sqlite3", "new.db", statement])?;
    place.clear()?;
    let json = said(rerun(stage, &place, &["--files", "real", "--json"], &trace)?)?;
    let number = |key: &str| json[key].as_u64().unwrap_or(0);
    for key in ["elapsed_ns", "user_ns", "system_ns", "files_ns", "files_calls", "wall_ns"] {
        ensure!(number(key) > 0, "{key}: {json}");
    }
    ensure!(json["ok"] == true && json["diverged"] == false, "{json}");
    ensure!(json["files"]["mismatches"] == 0 && json["files"]["verified"] != 0, "{json}");
    ensure!(number("elapsed_ns") <= number("wall_ns"), "{json}");
    // Nearly all that it does is on its own files, which wait for nobody.
    let made = json["files"]["replayed"].as_u64().unwrap_or(0);
    ensure!(number("files_calls") * 10 >= made * 8, "{json}");
    let parts = number("user_ns") + number("files_ns");
    ensure!(number("elapsed_ns") >= parts / 2, "{json}");
    // Without files, their calls take what they took.
    let json = said(rerun(stage, &place, &["--json"], &trace)?)?;
    ensure!(json["files"].is_null() && json["files_calls"] == 0, "{json}");
    Ok(())
}

/// A sleep and a time-out count or not, as wanted.
fn outside(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    // One waits for the other, which waits for nobody but the clock.
    let script = "sleep 0.3; (sleep 0.3; echo late) | cat";
    let (trace, _) = recorded(stage, &place, &[], &["sh", "-c", script])?;
    const SLEPT_NS: u64 = 600_000_000;
    for (stimuli, counts) in [("asap", false), ("recorded", true)] {
        let json = said(rerun(stage, &place, &["--json", "--stimuli", stimuli], &trace)?)?;
        let number = |key: &str| json[key].as_u64().unwrap_or(0);
        ensure!(number("outside_recorded_ns") >= SLEPT_NS, "{json}");
        ensure!((number("outside_ns") >= SLEPT_NS) == counts, "{stimuli}: {json}");
        ensure!((number("elapsed_ns") >= SLEPT_NS) == counts, "{stimuli}: {json}");
    }
    Ok(())
}

fn counter(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let program = built(stage, "counter")?.display().to_string();
    let (trace, _) = recorded(stage, &place, &["--stack"], &[&program])?;
    let found = rerun(stage, &place, &[], &trace)?;
    ensure!(found.status.code() == Some(DIFFERENT), "{}", found.errors());
    for word in [
        "write: the bytes of buf differ",
        "its code asks the processor, which no call gives: rdtsc in main",
        "getppid()",
        "where its thread is now, and its callers:\n  > ",
        "it was called from:\n  > ",
    ] {
        ensure!(found.errors().contains(word), "no {word}: {}", found.errors());
    }
    // Nobody else was asked for the stack of now.
    let (trace, _) = recorded(stage, &place, &[], &[&program])?;
    let found = rerun(stage, &place, &["--json"], &trace)?;
    let json: serde_json::Value = serde_json::from_str(&found.text()).map_err(text)?;
    let told = &json["divergence"];
    let stack = told["stack"].as_array().ok_or_else(|| format!("no stack: {told}"))?;
    let is_main = |frame: &serde_json::Value| frame.as_str().is_some_and(|at| at.contains("main"));
    ensure!(stack.len() > 2 && stack.iter().any(is_main), "{told}");
    ensure!(stack[0].as_str().is_some_and(|at| at.contains("libc")), "{told}");
    ensure!(told["recorded_stack"].as_array().is_some_and(Vec::is_empty), "{told}");
    Ok(())
}

/// Where nothing was seen that may be why, no reason is made up; what was seen is said.
fn reasons(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    // The same instruction is in code that the program has made itself, which is nobody's file.
    let program = built(stage, "no_reason")?.display().to_string();
    let (trace, _) = recorded(stage, &place, &[], &[&program])?;
    let found = rerun(stage, &place, &[], &trace)?;
    ensure!(found.status.code() == Some(DIFFERENT), "{}", found.errors());
    let told = found.errors();
    ensure!(told.contains("likely reason: none was found"), "{told}");
    ensure!(!told.contains("rdtsc"), "{told}");
    let found = rerun(stage, &place, &["--json"], &trace)?;
    let json: serde_json::Value = serde_json::from_str(&found.text()).map_err(text)?;
    ensure!(json["divergence"]["likely"].is_null(), "{json}");
    // One process looks at what another one counts. That waits at its call in a re-execution, after a million.
    let is_between = |text: &str| text.trim().parse::<u64>().is_ok_and(|n| n % 1_000_000 != 0);
    let mut all = std::iter::repeat_with(|| recorded(stage, &place, &[], &[&program, "shared"]));
    let found = all
        .by_ref()
        .take(20)
        .find(|all| all.as_ref().map_or(true, |(_, outcome)| is_between(&outcome.text())));
    let (trace, _) = found.ok_or("it looked between two millions, each time")??;
    let found = rerun(stage, &place, &[], &trace)?;
    ensure!(found.status.code() == Some(DIFFERENT), "{}", found.errors());
    let told = found.errors();
    ensure!(told.contains("it shares memory with another process"), "{told}");
    // It never comes to its next call, and computes meanwhile.
    let (trace, _) = recorded(stage, &place, &[], &[&program, "spins"])?;
    let found = rerun(stage, &place, &["--stuck-after", "1"], &trace)?;
    ensure!(found.status.code() == Some(STUCK), "{}", found.errors());
    ensure!(found.errors().contains("likely reason: it computes ("), "{}", found.errors());
    Ok(())
}

/// Below what a path can name: by answers, and with real files, of which it is told what was left out.
fn deep(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let program = built(stage, "deep")?.display().to_string();
    let script = format!("mkdir tree && cd tree && {program} 2000");
    let (trace, outcome) = recorded(stage, &place, &[], &["sh", "-c", &script])?;
    let expected = written(&outcome);
    ensure!(expected.0 == "2000: deep\n", "{expected:?}");
    place.run(place.command("rm").args(["-rf", "tree"]))?.success("rm")?;
    let outcome = rerun(stage, &place, &[], &trace)?.success("rerun")?;
    ensure!(written(&outcome) == expected, "{}", outcome.text());
    Ok(())
}

fn refused(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let program = built(stage, "threads")?.display().to_string();
    let (trace, _) = recorded(stage, &place, &[], &[&program])?;
    let found = rerun(stage, &place, &[], &trace)?;
    let told = found.errors();
    ensure!(found.status.code() == Some(FAILED) && told.contains("several threads"), "{told}");

    let trace = place.trace("plain.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("/bin/true");
    place.run(&mut record)?.success("record")?;
    let found = rerun(stage, &place, &[], &trace)?;
    let told = found.errors();
    ensure!(found.status.code() == Some(FAILED) && told.contains("--rerunnable"), "{told}");

    // What is to be left out of a trace is in none for a re-execution either.
    for left_out in ["--data=hash", "--data-for=/etc/*=none", "--max-data=100"] {
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--force", "--rerunnable", left_out, "--output"]);
        let outcome = place.run(record.arg(&trace).args(["cat", "/etc/passwd"]))?;
        let told = outcome.errors();
        ensure!(outcome.status.code() == Some(OURS) && told.contains("every byte"), "{told}");
    }
    Ok(())
}

/// Its addresses are random, whatever was asked for: what was recorded cannot be had again.
fn set_user_id(stage: &Stage, who: Who) -> Result<(), Complaint> {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(stage, who)?;
    let copy = place.path("copy");
    fs::copy("/bin/true", &copy).map_err(text)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).map_err(text)?;
    let name = copy.display().to_string();
    let script = format!("{name}; echo ran");
    for command in [&[&name[..]][..], &["sh", "-c", &script]] {
        let (trace, _) = recorded(stage, &place, &[], command)?;
        let found = rerun(stage, &place, &[], &trace)?;
        let told = found.errors();
        match found.status.code() {
            Some(FAILED) => ensure!(told.contains("random addresses"), "{told}"),
            // On a file system that is mounted so that the bit means nothing.
            Some(0) => {}
            code => return Err(format!("{command:?}: {code:?}: {told}")),
        }
    }
    Ok(())
}

/// The calls before, also where no call differs but an image: another interpreter of a script. What was
/// recorded later is not among them.
fn where_told(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("script", b"#!/bin/bash\necho in the script\n")?;
    let name = place.path("work/script").display().to_string();
    let set = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&name, set).map_err(text)?;
    let script = format!("echo before; (exec {name}); echo much later");
    let (trace, _) = recorded(stage, &place, &[], &["sh", "-c", &script])?;
    place.write("script", b"#!/bin/dash\necho in the script\n")?;
    let found = rerun(stage, &place, &[], &trace)?;
    let told = found.errors();
    ensure!(found.status.code() == Some(DIFFERENT), "{told}");
    for word in ["differs after call", "first line of a script", "the calls before", "execve("] {
        ensure!(told.contains(word), "no {word}: {told}");
    }
    ensure!(!told.contains("much later"), "{told}");
    let found = rerun(stage, &place, &["--json"], &trace)?;
    let json: serde_json::Value = serde_json::from_str(&found.text()).map_err(text)?;
    let told = &json["divergence"];
    let before = told["before"].as_array().ok_or_else(|| format!("no calls before: {json}"))?;
    ensure!(told["tid"].is_u64() && told["seq"].is_null(), "{told}");
    let last = before.last().map(|call| call["text"].to_string()).unwrap_or_default();
    ensure!(last.contains("execve("), "{told}");
    ensure!(json["ok"] == false && json["stopped"].is_null(), "{json}");
    Ok(())
}

fn changed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let copy = place.path("copy");
    fs::copy("/bin/true", &copy).map_err(text)?;
    place.give(&copy)?;
    let name = copy.display().to_string();
    let (trace, _) = recorded(stage, &place, &[], &[&name])?;
    rerun(stage, &place, &[], &trace)?.success("rerun")?;
    let mut bytes = fs::read(&copy).map_err(text)?;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&copy, bytes).map_err(text)?;
    let found = rerun(stage, &place, &[], &trace)?;
    let told = found.errors();
    ensure!(found.status.code() == Some(FAILED) && told.contains(&name), "{told}");
    fs::remove_file(&copy).map_err(text)?;
    let found = rerun(stage, &place, &[], &trace)?;
    ensure!(found.status.code() == Some(FAILED), "{}", found.errors());
    Ok(())
}

fn stop_at(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "echo first; echo a > file; echo b >> file; echo second";
    let (trace, _) = recorded(stage, &place, &[], &["sh", "-c", script])?;
    place.clear()?;
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--json", "--call", "write"]).arg(&trace);
    let shown = place.run(&mut show)?.success("show")?.text();
    let last = shown.lines().last().unwrap_or_default();
    let event: serde_json::Value = serde_json::from_str(last).map_err(text)?;
    let seq = event["seq"].as_str().map_or_else(|| event["seq"].to_string(), str::to_owned);
    let found = rerun(stage, &place, &["--stop-at", &seq], &trace)?.success("rerun")?;
    ensure!(found.text() == "first\n", "{}", found.text());
    ensure!(found.errors().contains("write(1"), "{}", found.errors());
    // It is told who makes it, by the recorded id.
    let tid = event["tid"].to_string();
    ensure!(found.errors().contains(&format!("thread {tid} before write(1")), "{}", found.errors());
    let json = said(rerun(stage, &place, &["--stop-at", &seq, "--json"], &trace)?)?;
    let stopped = &json["stopped"];
    ensure!(json["ok"] == true && stopped["tid"] == event["tid"], "{json}");
    ensure!(stopped["seq"].as_u64() == seq.parse().ok(), "{json}");
    let call = stopped["call"].as_str().unwrap_or_default();
    ensure!(call.starts_with("write(1"), "{json}");
    let found = rerun(stage, &place, &["--stop-at", "100000"], &trace)?;
    ensure!(found.status.code() == Some(USAGE), "{}", found.errors());
    // The files are as it has left them.
    let root = place.path("root");
    fs::create_dir(&root).map_err(text)?;
    place.give(&root)?;
    let root = root.display().to_string();
    let words = ["--files", "real", "--root", &root, "--stop-at", &seq];
    rerun(stage, &place, &words, &trace)?.success("rerun")?;
    let file = format!("{root}{}/file", place.work().display());
    let holds = fs::read_to_string(file).map_err(text)?;
    ensure!(holds == "a\nb\n", "{holds}");
    Ok(())
}
