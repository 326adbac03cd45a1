//! What the command line answers where there is nothing to show, or where something else was meant.

use std::process::ExitCode;

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

/// A check, in a place with recordings.
type Check = fn(&Stage, &Place) -> Result<(), Complaint>;

const CHECKS: &[(&str, Check)] = &[
    ("no_events_of_the_kernel_are_not_zero", no_events_of_the_kernel),
    ("what_matches_nothing_is_told", what_matches_nothing),
    ("habits_are_answered", habits),
    ("words_in_the_wrong_place_are_answered", wrong_places),
    ("a_call_is_shown_by_its_number", by_number),
    ("output_that_is_lost_is_a_failure", lost_output),
    ("a_part_of_a_recording_is_no_run", parts),
    ("a_tree_that_is_no_root_is_noticed", no_root),
];

/// Recordings that were kept, none with events of the kernel.
const RECORDINGS: &[&str] = &["git.rnt", "sqlite.rnt"];

fn main() -> ExitCode {
    trials::main(|trials| {
        for (name, check) in CHECKS {
            trials.add(name, Who::User, None, |stage, who: Who| {
                let place = Place::new(stage, who)?;
                for name in RECORDINGS {
                    let path = repository().join("tests/kept").join(name);
                    let content = std::fs::read(&path).map_err(|error| error.to_string())?;
                    place.write(name, &content)?;
                }
                check(stage, &place)
            });
        }
        Ok(())
    })
}

fn run(stage: &Stage, place: &Place, words: &str) -> Result<Outcome, Complaint> {
    place.run(place.command(&stage.reenact).args(words.split(' ')))
}

/// Runs a command that must fail as with a wrong command line, and returns what it says.
fn refused(stage: &Stage, place: &Place, words: &str) -> Result<String, Complaint> {
    let outcome = run(stage, place, words)?;
    let (said, code) = (outcome.errors(), outcome.status.code());
    let expected = if words.starts_with("record") { 125 } else { 2 };
    ensure!(code == Some(expected), "{words}: {}; it said:\n{said}", outcome.status);
    Ok(said)
}

fn no_events_of_the_kernel(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    for view in ["events", "cpu", "waits", "irq", "block", "where", "pages"] {
        let words = format!("stat {view} git.rnt");
        let text = run(stage, place, &words)?.success(&words)?.text();
        let is_told = text.starts_with("This recording has no events of the kernel");
        ensure!(is_told && text.lines().count() == 1, "{words}: {text}");
        let json = run(stage, place, &format!("{words} --json"))?.success(&words)?.text();
        let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
        let is_told = json["missing"].as_str().is_some_and(|said| text.starts_with(said));
        ensure!(is_told, "{words} --json: {json}");
        let members = json.as_object().into_iter().flatten();
        let zeros: Vec<_> = members.filter(|(_, value)| value.is_number()).collect();
        ensure!(zeros.is_empty(), "{words} --json: {zeros:?}");
        let said = run(stage, place, &format!("{words} --csv"))?.success(&words)?.errors();
        ensure!(said.contains("no events of the kernel"), "{words} --csv: {said}");
    }
    // The calls of a part need none.
    let words = "report git.rnt --detail 0..1s --output detail.html";
    run(stage, place, words)?.success(words).map(|_| ())
}

/// Fails unless a text has all words.
fn has(what: &str, text: &str, words: &[&str]) -> Result<(), Complaint> {
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(**word)).collect();
    ensure!(missing.is_empty(), "{what} does not say {missing:?}:\n{text}");
    Ok(())
}

fn what_matches_nothing(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "--call acct",
            &["no event matches; the recording has ", " calls: ", "openat "],
            &["processes"],
        ),
        ("--pid 1", &["no event matches", "; processes are "], &["openat"]),
        ("--tid 999999", &["no event matches", "; threads are "], &["openat"]),
        ("--path /no/such", &["no event matches", "; paths are /"], &["openat"]),
        ("--program nosuch", &["no event matches", "; programs are git"], &["openat"]),
        ("--since 1h", &["no event matches", "; the last event is at "], &[]),
    ];
    for (options, words, not) in cases {
        for command in [
            "show",
            "stat",
            "stat files",
            "stat calls --json",
            "diff git.rnt",
            "diff --by file git.rnt",
            "diff --json git.rnt",
            "export --to jsonl -o -",
            "export --to perfetto -qfo nothing",
            "export --to fio -fo nothing.fio",
            "export --to parquet -fo nothing.parquet",
            "export --to strace -fo nothing",
            "cut -fo nothing.rnt",
            "cut --context -qfo nothing.rnt",
        ] {
            let line = format!("{command} git.rnt {options}");
            let said = run(stage, place, &line)?.success(&line)?.errors();
            has(&line, &said, words)?;
            ensure!(not.iter().all(|word| !said.contains(word)), "{line}: {said}");
        }
    }
    // What there is needs no hint.
    for line in [
        "stat git.rnt --call openat",
        "show git.rnt --limit 0",
        "stat git.rnt",
        "diff git.rnt git.rnt --call openat",
        // The format has no calls that move nothing, and these were chosen.
        "export git.rnt --to fio -qfo nothing.fio --call openat",
        "cut git.rnt -qfo nothing.rnt --call openat",
    ] {
        let said = run(stage, place, line)?.success(line)?.errors();
        ensure!(said.is_empty(), "{line}: {said}");
    }
    for command in ["show", "stat", "export --to jsonl -o -", "cut -o cut.rnt"] {
        let line = format!("{command} git.rnt --since 1 --until 500ms");
        has(
            &line,
            &refused(stage, place, &line)?,
            &["--since 1.000 s is later than --until 500.0 ms"],
        )?;
    }
    Ok(())
}

fn habits(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    for (line, words) in [
        ("record -p 1", "cannot attach"),
        ("record -e open true", "--call"),
        ("record -c true", "--summary"),
        ("record -tt true", "times are always recorded"),
        ("record -T true", "how long it took"),
        ("record -s 100 true", "--string-limit"),
        ("record -v true", "--verbose"),
        ("record -k true", "--stack"),
        ("record -g true", "--stack"),
        ("record -P /etc true", "--path"),
        ("record -a 40 true", "reenact show"),
        ("record --summary --json true", "stat --json"),
        ("show git.rnt -e trace=open", "--call"),
        ("show git.rnt -c", "reenact stat"),
        ("stat git.rnt -n 5", "--limit 5"),
    ] {
        let said = refused(stage, place, line)?;
        has(line, &said, &[words])?;
        ensure!(!said.contains("as a value") && !said.contains("Usage"), "{line}: {said}");
    }
    let said = refused(stage, place, "record --nosuch true")?;
    ensure!(said.contains("--nosuch") && !said.contains("as a value"), "{said}");
    run(stage, place, "record -ff -q -o f.rnt true")?.success("record -ff").map(drop)
}

fn wrong_places(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    for (line, words) in [
        ("stat git.rnt sqlite.rnt", "`reenact diff git.rnt sqlite.rnt`"),
        ("stat files git.rnt --sort writen", "did you mean 'written'?"),
        ("stat files git.rnt --sort colour", "there are time, opens, reads"),
        ("show git.rnt --limit -1", "'-1' is not a whole number"),
        ("show git.rnt --limit abc", "'abc' is not a whole number, such as 20"),
        ("version", "`reenact --version` prints it"),
        ("cat --nosuch", "Usage: reenact cat [OPTIONS] --seq <N> [TRACE]"),
        ("show --limt 4", "Usage: reenact show [OPTIONS] [TRACE]"),
        ("show git.rnt --seq five", "--seq: 'five' is not the number of a call"),
    ] {
        has(line, &refused(stage, place, line)?, &[words])?;
    }
    Ok(())
}

fn by_number(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let shown = |line: &str| Ok::<_, Complaint>(run(stage, place, line)?.success(line)?.text());
    let all = shown("show --seq git.rnt")?;
    for line in ["show git.rnt --seq 5", "show --seq 5 git.rnt", "show git.rnt --seq=5"] {
        let one = shown(line)?;
        let is_there = one.lines().count() == 1 && all.contains(&one);
        ensure!(is_there && one.trim_start().starts_with("5 "), "{line}: {one}");
    }
    let said = run(stage, place, "show git.rnt --seq 999999")?.success("--seq 999999")?.errors();
    has("a call that is not there", &said, &["there is no call 999,999; the trace has "])?;
    let close = all.lines().find(|line| line.contains(" close(")).ok_or("no call of close")?;
    let seq = close.split_whitespace().next().unwrap_or_default();
    let outcome = run(stage, place, &format!("cat git.rnt --seq {seq}"))?;
    ensure!(outcome.status.code() == Some(1), "{}", outcome.status);
    has("cat", &outcome.errors(), &["(close) has no buffers; `reenact show --seq"])
}

fn lost_output(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    for words in ["--help", "-h", "--version", "record --help", "man", "completions bash", "doctor"]
    {
        let script = format!("exec {} {words} > /dev/full", stage.reenact.display());
        let outcome = place.run(place.command("sh").args(["-c", &script]))?;
        let said = outcome.errors();
        let is_told = outcome.status.code() == Some(1) && said.contains("cannot write the output");
        ensure!(is_told, "{words}: {}; {said}", outcome.status);
    }
    Ok(())
}

fn no_root(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    std::fs::create_dir(place.work().join("out")).map_err(|error| error.to_string())?;
    let line = "compare git.rnt out";
    let outcome = run(stage, place, line)?;
    ensure!(outcome.status.code() == Some(4), "{line}: {}", outcome.status);
    has(line, &outcome.errors(), &["out stands for the root: /", " is looked for as out/"])
}

/// What is cut off is told before its numbers, and has none if it has no events. What some calls leave open
/// is not called the program's own code.
fn parts(stage: &Stage, place: &Place) -> Result<(), Complaint> {
    let whole = place.work().join("git.rnt");
    let content = std::fs::read(&whole).map_err(|error| error.to_string())?;
    place.write("begin.rnt", &content[..2000])?;
    place.write("half.rnt", &content[..content.len() / 2])?;
    for line in [
        "stat begin.rnt",
        "stat files begin.rnt --json",
        "diff git.rnt begin.rnt",
        "report begin.rnt",
    ] {
        let outcome = run(stage, place, line)?;
        let is_told = outcome.errors().contains("begin.rnt has no events: it is cut off");
        let (code, text) = (outcome.status.code(), outcome.text());
        ensure!(
            code == Some(1) && is_told && text.is_empty(),
            "{line}: {code:?}; {text}{}",
            outcome.errors()
        );
    }
    let script = format!("exec {} stat half.rnt 2>&1", stage.reenact.display());
    let text = place.run(place.command("sh").args(["-c", &script]))?.success("stat")?.text();
    ensure!(text.starts_with("reenact: warning: half.rnt: "), "{text}");
    ensure!(text.matches("warning").count() == 1, "{text}");
    let line = "record -q -o some.rnt --call openat -- sh -c :";
    run(stage, place, line)?.success(line)?;
    let text = run(stage, place, "stat some.rnt")?.success("stat")?.text();
    ensure!(!text.contains("own code (between calls)"), "{text}");
    has(
        "stat",
        &text,
        &["own code and calls that were not recorded", "Only some calls were recorded"],
    )
}
