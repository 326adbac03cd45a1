//! The options of `reenact record`, its exit codes, and the files that it leaves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use acceptance::expectation::Expectations;
use acceptance::place::{Outcome, Place, Who};
use acceptance::program;
use acceptance::shown::{self, Info};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};

type Check = fn(&Stage, &Place) -> Result<(), Complaint>;

const CHECKS: &[(&str, Check)] = &[
    ("exit_codes", exit_codes),
    ("fatal_signals_pass_through", fatal_signals_pass_through),
    ("default_output", default_output),
    ("existing_files_are_kept", existing_files_are_kept),
    ("a_replaced_file_is_private", a_replaced_file_is_private),
    ("a_failed_start_changes_nothing", a_failed_start_changes_nothing),
    ("output_to_a_pipe", output_to_a_pipe),
    ("closed_streams_stay_closed", closed_streams_stay_closed),
    ("the_limit_of_file_sizes_is_kept", the_limit_of_file_sizes_is_kept),
    ("no_more_threads_are_needed", no_more_threads_are_needed),
    ("summary", summary),
    ("data_modes", data_modes),
    ("data_for_some_paths", data_for_some_paths),
    ("longest_buffer", longest_buffer),
    ("compression", compression),
    ("duration_ends_the_recording", duration_ends_the_recording),
    ("until_exit", until_exit),
    ("cat_gives_the_bytes", cat_gives_the_bytes),
    ("every_way_to_start", every_way_to_start),
];

fn main() -> ExitCode {
    trials::main(|trials| {
        for (name, check) in CHECKS {
            trials
                .add_for_both(name, None, |stage, who: Who| check(stage, &Place::new(stage, who)?));
        }
        Ok(())
    })
}

/// Runs `reenact record` with these arguments.
fn record(stage: &Stage, place: &Place, words: &[&str]) -> Result<Outcome, Complaint> {
    place.run(place.command(&stage.reenact).arg("record").args(words))
}

fn path(path: &Path) -> Result<&str, Complaint> {
    path.to_str().ok_or_else(|| format!("{} is no UTF-8", path.display()))
}

fn build(stage: &Stage, name: &str) -> Result<String, Complaint> {
    Ok(program::named(name)?.build(stage)?.display().to_string())
}

fn exit_codes(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    place.write("not-executable", b"text")?;
    place.write("no-interpreter", b"#! /no/such/interpreter -x\n")?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.work().join("no-interpreter"), open).map_err(|e| e.to_string())?;
    let trace = place.trace("codes.rnt");
    let trace = path(&trace)?;
    let cases: &[(&[&str], i32)] = &[
        (&["-o", trace, "--force", "--", "sh", "-c", "exit 0"], 0),
        (&["-o", trace, "--force", "--", "sh", "-c", "exit 1"], 1),
        (&["-o", trace, "--force", "--", "sh", "-c", "exit 127"], 127),
        (&["-o", trace, "--force", "--", "sh", "-c", "exit 255"], 255),
        (&["-o", trace, "--force", "--", "no-such-program-anywhere"], 127),
        (&["-o", trace, "--force", "--", "./not-there"], 127),
        (&["-o", trace, "--force", "--", "./not-executable"], 126),
        (&["-o", trace, "--force", "--", "."], 126),
        (&["-o", trace, "--force", "--", ""], 127),
        (&["-o", trace, "--force", "--", "not-executable"], 127),
        (&["-o", trace, "--force", "--", "./no-interpreter"], 126),
        (&["-o", "/no/such/folder/x.rnt", "--", "true"], 125),
        (&["--no-such-option", "--", "true"], 125),
        (&["--data", "some", "--", "true"], 125),
        (&["-o", trace], 125),
    ];
    for (words, code) in cases {
        let outcome = record(stage, place, words)?;
        let said = outcome.errors();
        ensure!(outcome.status.code() == Some(*code), "{words:?}: {}; {said}", outcome.status);
        if *code >= 125 && !words.contains(&"sh") {
            ensure!(!said.trim().is_empty(), "{words:?} fails without a word");
        }
        let missing = words.contains(&"./no-interpreter");
        ensure!(!missing || said.contains("its interpreter /no/such/interpreter: "), "{said}");
        ensure!(!words.contains(&"") || said.contains("cannot run ''"), "{said}");
        let is_beside = words.contains(&"not-executable");
        ensure!(!is_beside || said.contains("in this directory: ./not-executable"), "{said}");
    }
    // Less address space than the shared memory needs.
    let limited = format!("ulimit -v 200000; exec {} record true", stage.reenact.display());
    let outcome = place.run(place.command("sh").args(["-c", &limited]))?;
    let said = outcome.errors();
    ensure!(outcome.status.code() == Some(125), "ulimit -v: {}; {said}", outcome.status);
    ensure!(said.contains("ulimit -v") && said.contains("--buffer"), "no remedy is named: {said}");
    Ok(())
}

fn fatal_signals_pass_through(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    for number in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV, libc::SIGINT, libc::SIGABRT] {
        let trace = place.trace("signal.rnt");
        let script = format!("ulimit -c unlimited; kill -{number} $$");
        let outcome = record(
            stage,
            place,
            &["--force", "-q", "-o", path(&trace)?, "--", "sh", "-c", &script],
        )?;
        ensure!(
            outcome.status.signal() == Some(number),
            "killed by signal {number}, reenact: {}; {}",
            outcome.status,
            outcome.errors()
        );
        ensure!(!core_dumped(outcome.status), "signal {number}: a core file of reenact itself");
        Info::of(stage, &trace)?.must_be_complete()?;
        place.clear()?;
    }
    Ok(())
}

fn core_dumped(status: ExitStatus) -> bool {
    status.core_dumped()
}

fn default_output(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    record(stage, place, &["-q", "/bin/true"])?.success("record")?;
    let trace = place.work().join("true.rnt");
    let meta = fs::metadata(&trace).map_err(|error| format!("true.rnt: {error}"))?;
    let mode = meta.permissions().mode() & 0o7777;
    ensure!(mode == 0o600, "the trace has mode {mode:o}");
    Info::of(stage, &trace)?.must_be_complete()
}

fn existing_files_are_kept(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    place.write("kept", b"precious")?;
    let refused = record(stage, place, &["-o", "kept", "--", "touch", "was-run"])?;
    ensure!(refused.status.code() == Some(125), "not refused: {}", refused.status);
    ensure!(refused.errors().contains("--force"), "no remedy is named: {}", refused.errors());
    let content = fs::read(place.work().join("kept")).map_err(|error| error.to_string())?;
    ensure!(content == b"precious", "the file was changed");
    ensure!(!place.work().join("was-run").exists(), "the program was run");
    record(stage, place, &["-q", "--force", "-o", "kept", "--", "true"])?.success("--force")?;
    Info::of(stage, &place.work().join("kept"))?.must_be_complete()
}

fn a_replaced_file_is_private(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let readable = "umask 0; echo old > open; echo other > other; ln -s other link";
    place.run(place.command("sh").args(["-c", readable]))?.success("the old file")?;
    for name in ["open", "link"] {
        record(stage, place, &["-q", "--force", "-o", name, "--", "true"])?.success("--force")?;
        let trace = place.work().join(name);
        let meta = fs::symlink_metadata(&trace).map_err(|error| error.to_string())?;
        let mode = meta.permissions().mode() & 0o7777;
        ensure!(meta.is_file() && mode == 0o600, "{name}: mode {mode:o}, file: {}", meta.is_file());
        Info::of(stage, &trace)?.must_be_complete()?;
    }
    // The file that the link led to is untouched.
    let other = fs::read(place.work().join("other")).map_err(|error| error.to_string())?;
    ensure!(other == b"other\n", "the link's target was changed");
    // PROGRAM sees only the new file.
    let listed = record(stage, place, &["-q", "--force", "-o", "open", "--", "ls", "-A"])?;
    ensure!(listed.text() == "link\nopen\nother\n", "PROGRAM saw {}", listed.text());
    // If the file cannot be removed, it is overwritten.
    let kept = "mkdir kept; touch kept/trace; chmod 500 kept";
    place.run(place.command("sh").args(["-c", kept]))?.success("the directory")?;
    let again = record(stage, place, &["-q", "--force", "-o", "kept/trace", "--", "true"])?;
    again.success("--force in a directory that may not change")?;
    Info::of(stage, &place.work().join("kept/trace"))?.must_be_complete()
}

fn a_failed_start_changes_nothing(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    place.write("no-program", b"neither a script nor an image")?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.work().join("no-program"), open).map_err(|e| e.to_string())?;
    place.write("old.rnt", b"precious")?;
    let before = place.files()?;
    for (program, code) in [("no-such-program-anywhere", 127), ("./no-program", 126)] {
        for words in [["--force", "-o", "old.rnt", program], ["--force", "-o", "new.rnt", program]]
        {
            let refused = record(stage, place, &words)?;
            ensure!(refused.status.code() == Some(code), "{words:?}: {}", refused.status);
            ensure!(place.files()? == before, "{words:?}: left {:?}", place.files()?);
        }
    }
    Ok(())
}

fn closed_streams_stay_closed(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let look = "for fd in 0 1 2; do [ -e /proc/self/fd/$fd ] && echo $fd is open; done > $1";
    place.write("look.sh", look.as_bytes())?;
    let script = |how: &str, out: &str| format!("{how} sh look.sh {out} <&- 2>&-");
    let recorded = format!("{} record -q -o closed.rnt --", stage.reenact.display());
    for (how, out) in [("exec", "alone"), (recorded.as_str(), "recorded")] {
        place.run(place.command("sh").args(["-c", &script(how, out)]))?;
    }
    let read = |name| fs::read_to_string(place.work().join(name)).map_err(|e| e.to_string());
    let (alone, recorded) = (read("alone")?, read("recorded")?);
    ensure!(alone == recorded && !alone.contains("0 is"), "alone {alone:?}, recorded {recorded:?}");
    Ok(())
}

fn the_limit_of_file_sizes_is_kept(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    // Limits in blocks of 512 bytes, with incompressible data; four blocks cannot hold an end.
    for blocks in [4, 8, 64, 1000, 4096] {
        let script = format!(
            "ulimit -f {blocks}; {} record -q --force -o limited.rnt -- \
             head -c 30000000 /dev/urandom > /dev/null",
            stage.reenact.display()
        );
        let outcome = place.run(place.command("sh").args(["-c", &script]))?;
        outcome.success(&format!("{blocks} blocks: the recording"))?;
        let trace = place.work().join("limited.rnt");
        let info = Info::of(stage, &trace)?;
        ensure!(!info.complete, "{blocks} blocks: complete");
        ensure!(blocks < 8 || info.gaps > 0, "{blocks} blocks: no gap");
        let len = fs::metadata(&trace).map_err(|error| error.to_string())?.len();
        ensure!(len <= blocks * 512, "{blocks} blocks: {len} bytes");
    }
    // The limit does not apply to a pipe.
    let script = format!(
        "(ulimit -f 8; exec {} record -q -o - -- sh -c 'head -c 500000 /dev/urandom >&2' 2>&9) \
         9> /dev/null | cat > piped.rnt",
        stage.reenact.display()
    );
    place.run(place.command("sh").args(["-c", &script]))?.success("the recording to a pipe")?;
    Info::of(stage, &place.work().join("piped.rnt"))?.must_be_complete()
}

fn no_more_threads_are_needed(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    // Enough files, one of them large, that the final look at them would use several threads.
    let script = "prlimit --pid $PPID --nproc=1:1; head -c 20000000 /dev/zero > large; \
                  i=0; while [ $i -lt 100 ]; do echo $i > f$i; i=$((i+1)); done";
    let outcome = record(stage, place, &["-q", "-o", "alone.rnt", "--", "sh", "-c", script])?;
    outcome.success("the recording")?;
    Info::of(stage, &place.work().join("alone.rnt"))?.must_be_complete()
}

fn output_to_a_pipe(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let reenact = stage.reenact.display();
    let program = "sh -c '/bin/echo printed; exit 5'";
    // Another name of standard output, and a file instead of a pipe, make no difference.
    for output in ["-o - -- PROGRAM | cat", "--force -o /dev/stdout PROGRAM | cat", "-o - PROGRAM"]
    {
        let record = format!("{reenact} record -q {output}").replace("PROGRAM", program);
        let script = format!("({record}) > piped.rnt; [ -s piped.rnt ]");
        let outcome = place.run(place.command("sh").args(["-c", &script]))?.success(output)?;
        // Standard output carries only the trace.
        ensure!(outcome.errors() == "printed\n", "{output}: it says {}", outcome.errors());
        let trace = place.work().join("piped.rnt");
        let info = Info::of(stage, &trace)?;
        info.must_be_complete()?;
        ensure!(info.processes == 2, "{output}: {} processes", info.processes);
        let mut verify = place.command(&stage.reenact);
        place.run(verify.arg("info").arg(&trace).arg("--verify"))?.success(output)?;
    }
    // Without standard error as well, PROGRAM has no standard output.
    let closed =
        format!("{reenact} record -q -o - -- sh -c 'echo printed || exit 3' 2>&- > closed.rnt");
    let outcome = place.run(place.command("sh").args(["-c", &closed]))?;
    ensure!(outcome.status.code() == Some(3), "without standard error: {}", outcome.status);
    Info::of(stage, &place.work().join("closed.rnt"))?.must_be_complete()
}

fn summary(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let trace = place.trace("summary.rnt");
    let outcome =
        record(stage, place, &["-o", path(&trace)?, "--", "sh", "-c", "/bin/true; echo out"])?
            .success("record")?;
    ensure!(outcome.stdout == b"out\n", "standard output: {}", outcome.text());
    let said = outcome.errors();
    ensure!(said.lines().count() == 1, "more than one line:\n{said}");
    for word in ["calls", "threads", "processes", "data", "trace", "lost 0", "stall"] {
        ensure!(said.contains(word), "'{word}' is missing in: {said}");
    }
    let quiet = record(stage, place, &["--quiet", "--force", "-o", path(&trace)?, "--", "true"])?;
    ensure!(quiet.errors().is_empty(), "--quiet says: {}", quiet.errors());
    Ok(())
}

/// Records `positioned`, which transfers random data, with these options.
fn positioned(stage: &Stage, place: &Place, options: &[&str]) -> Result<Expectations, Complaint> {
    let (program, trace) = (build(stage, "positioned")?, place.trace("data.rnt"));
    let mut words = options.to_vec();
    words.extend(["-q", "--force", "-o", path(&trace)?, "--", &program, "11"]);
    let outcome = record(stage, place, &words)?.success("record")?;
    Info::of(stage, &trace)?.must_be_complete()?;
    Expectations::parse(&outcome.stdout)
}

fn data_modes(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let mut sizes = Vec::new();
    let mut seen = Vec::new();
    for mode in ["full", "hash", "none"] {
        let expectations = positioned(stage, place, &["--data", mode])?;
        let trace = place.trace("data.rnt");
        let mut buffers = Vec::new();
        shown::show(stage, &trace, &["--call", "pwrite64"], |call| {
            let buffer = &call["data"]["buf"];
            buffers.push((buffer["len"].as_u64(), buffer["hash"].as_str().map(str::to_string)));
            let bytes = buffer["base64"].as_str().unwrap_or_default();
            ensure!((mode == "full") != bytes.is_empty(), "--data {mode} shows {call}");
            Ok(())
        })?;
        let writes = expectations.calls.iter().filter(|e| e.call == "pwrite64");
        let lens: Vec<_> = writes.map(|e| Some(e.data[0].len)).collect();
        let shown: Vec<_> = buffers.iter().map(|(len, _)| *len).collect();
        ensure!(lens == shown, "--data {mode}: true lengths {lens:?}, shown {shown:?}");
        sizes.push(fs::metadata(&trace).map_err(|error| error.to_string())?.len());
        seen.push(buffers);
    }
    let hashes = |buffers: &[(Option<u64>, Option<String>)]| -> Vec<Option<String>> {
        buffers.iter().map(|(_, hash)| hash.clone()).collect()
    };
    ensure!(hashes(&seen[0]).iter().all(Option::is_some), "full data without hashes");
    ensure!(hashes(&seen[0]) == hashes(&seen[1]), "--data hash gives other hashes");
    ensure!(sizes[1] < sizes[0] / 2 && sizes[2] < sizes[0] / 2, "bytes of traces: {sizes:?}");
    Ok(())
}

fn data_for_some_paths(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let trace = place.trace("some.rnt");
    let script = "echo secret-key > private.key; echo anything > public; read line < private.key; echo $line";
    record(
        stage,
        place,
        &["-q", "-o", path(&trace)?, "--data-for", "*.key=none", "--", "sh", "-c", script],
    )?
    .success("record")?;
    Info::of(stage, &trace)?.must_be_complete()?;
    let mut stored = Vec::new();
    shown::show(stage, &trace, &["--call", "write,read", "--path", "*private.key"], |call| {
        stored.push(call["data"]["buf"]["base64"].as_str().unwrap_or_default().to_string());
        Ok(())
    })?;
    ensure!(stored.len() >= 2, "only {} calls on private.key", stored.len());
    ensure!(stored.iter().all(String::is_empty), "bytes of private.key were stored: {stored:?}");
    let calls = shown::calls(stage, &trace, "write")?;
    ensure!(
        calls.iter().any(|call| call.data.iter().any(|(_, b)| b.len == 9)),
        "public was not stored"
    );
    Ok(())
}

fn longest_buffer(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let expectations = positioned(stage, place, &["--max-data", "100"])?;
    let mut lens = Vec::new();
    shown::show(stage, &place.trace("data.rnt"), &["--call", "pwrite64"], |call| {
        let buffer = &call["data"]["buf"];
        let len = buffer["len"].as_u64().unwrap_or_default();
        let stored = buffer["base64"].as_str().unwrap_or_default().len() / 4 * 3;
        ensure!(stored <= 102, "{stored} bytes stored: {buffer}");
        ensure!(buffer["cut"].as_bool() == Some(len > 100), "cut is wrong: {buffer}");
        ensure!(buffer["hash"].is_string(), "no hash: {buffer}");
        lens.push(len);
        Ok(())
    })?;
    let writes = expectations.calls.iter().filter(|e| e.call == "pwrite64");
    let expected: Vec<u64> = writes.map(|e| e.data[0].len).collect();
    ensure!(lens == expected, "true lengths {expected:?}, shown {lens:?}");
    Ok(())
}

fn compression(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    for how in ["zstd", "zstd:9", "lz4", "none"] {
        let expectations = positioned(stage, place, &["--compress", how])?;
        let calls = shown::calls(stage, &place.trace("data.rnt"), "pread64,pwrite64")?;
        expectations.check(calls).map_err(|complaint| format!("{how}: {complaint}"))?;
    }
    Ok(())
}

fn duration_ends_the_recording(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let trace = place.trace("short.rnt");
    let script = "i=0; while [ $i -lt 200 ]; do /bin/true; sleep 0.005; i=$((i+1)); done; echo $i";
    let words = ["-q", "--duration", "300ms", "-o", path(&trace)?, "--", "sh", "-c", script];
    let outcome = record(stage, place, &words)?.success("record")?;
    ensure!(outcome.stdout == b"200\n", "the program printed {}", outcome.text());
    let info = Info::of(stage, &trace)?;
    ensure!(!info.complete && info.gaps >= 1, "says that it is complete");
    ensure!(info.count("execve") < 200, "all 200 children were recorded");
    Ok(())
}

fn until_exit(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let trace = place.trace("until.rnt");
    // The child outlives its parent, until the pipe that it reads is closed.
    let script = "mkfifo hold; (read line < hold; echo late > written-late) & exit 4";
    let words = ["-q", "--until-exit", "-o", path(&trace)?, "--", "sh", "-c", script];
    let outcome = record(stage, place, &words)?;
    ensure!(outcome.status.code() == Some(4), "reenact: {}; {}", outcome.status, outcome.errors());
    let info = Info::of(stage, &trace)?;
    ensure!(info.gaps >= 1, "no gap says that a process was left: {info:?}");
    // The remaining process runs on.
    let release =
        "echo go > hold; while [ ! -s written-late ]; do sleep 0.01; done; cat written-late";
    let late = place.run(place.command("sh").args(["-c", release]))?.success("the child")?;
    ensure!(late.stdout == b"late\n", "the child wrote {}", late.text());
    Ok(())
}

fn cat_gives_the_bytes(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let expectations = positioned(stage, place, &[])?;
    let trace = place.trace("data.rnt");
    let mut seqs = Vec::new();
    shown::show(stage, &trace, &["--call", "pwrite64", "--data", "none"], |call| {
        seqs.push(call["seq"].to_string());
        Ok(())
    })?;
    let writes = expectations.calls.iter().filter(|e| e.call == "pwrite64");
    for (seq, expected) in seqs.iter().zip(writes) {
        let mut cat = place.command(&stage.reenact);
        let bytes = place.run(cat.arg("cat").arg(&trace).args(["--seq", seq, "--arg", "buf"]))?;
        let bytes = bytes.success("cat")?.stdout;
        let same = acceptance::expectation::fnv(&bytes) == expected.data[0].hash;
        ensure!(same, "call {seq}: other bytes than were written");
    }
    ensure!(seqs.len() == 50, "{} of 50 calls", seqs.len());
    Ok(())
}

fn every_way_to_start(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    place.write("script", b"#!/bin/sh\necho script $1\n")?;
    place.write("plain", b"echo plain $1\n")?;
    for name in ["script", "plain"] {
        let path = place.work().join(name);
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, open).map_err(|error| error.to_string())?;
    }
    let trace = place.trace("start.rnt");
    let trace = path(&trace)?;
    // By path, by PATH, without `--`, as a script, with options of its own.
    let cases: &[(&[&str], &str)] = &[
        (&["--", "/bin/echo", "-n", "a"], "a"),
        (&["echo", "b"], "b\n"),
        (&["echo", "--force", "-o"], "--force -o\n"),
        (&["./script", "c"], "script c\n"),
    ];
    for (words, printed) in cases {
        let mut all = vec!["-q", "--force", "-o", trace];
        all.extend(*words);
        let outcome = record(stage, place, &all)?.success("record")?;
        ensure!(outcome.text() == *printed, "{words:?} printed {}", outcome.text());
        Info::of(stage, Path::new(trace))?.must_be_complete()?;
    }
    Ok(())
}
