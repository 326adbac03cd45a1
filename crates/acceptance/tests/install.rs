//! The README on installing: its command installs a binary that needs nothing else of the
//! repository, and its examples of leaving data out of traces work.

use std::path::Path;
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, tier, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_time = (!tier::is_long()).then_some("the long tier");
        trials.add("installs", Who::User, no_time, installs);
        trials.add_for_both("leaves_secrets_out", None, leaves_secrets_out);
        Ok(())
    })
}

/// Returns the lines of the README that begin with these words, split into words.
fn commands(begin: &str) -> Result<Vec<Vec<String>>, Complaint> {
    let readme = repository().join("README.md");
    let text =
        std::fs::read_to_string(&readme).map_err(|e| format!("{}: {e}", readme.display()))?;
    let lines = text.lines().filter(|line| line.starts_with(begin));
    let words = lines.map(|line| line.split_whitespace().map(String::from).collect());
    Ok(words.collect())
}

fn installs(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let target = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [words] = &commands("cargo install")?[..] else {
        return Err("the README has one command that installs".into());
    };
    let root = tempfile::tempdir().map_err(|error| error.to_string())?;
    acceptance::stage::open_to_all(root.path())?;
    // A separate target directory: the result must not depend on earlier builds.
    let mut install = Command::new(&words[0]);
    install.args(&words[1..]).current_dir(repository()).arg("--root").arg(root.path());
    let status = install.env("CARGO_TARGET_DIR", target.path()).status();
    ensure!(status.is_ok_and(|status| status.success()), "{words:?} failed");
    drop(target);
    let reenact = root.path().join("bin/reenact");
    let trace = place.trace("installed.rnt");
    let run = |words: &[&str]| {
        let mut command = place.command(&reenact);
        place.run(command.args(words).arg(&trace))?.success(words[0])
    };
    let mut record = place.command(&reenact);
    record.args(["record", "--output"]).arg(&trace).args(["--", "sh", "-c", "echo a > file"]);
    place.run(&mut record)?.success("record")?;
    run(&["info", "--verify"])?;
    run(&["replay"])?;
    Ok(())
}

/// Each option that the README names keeps written data out of the trace.
fn leaves_secrets_out(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const SECRET: &str =
        "correct horse battery staple, written once and never to be found again by anybody";
    let examples = commands("reenact record --data")?;
    ensure!(examples.len() >= 2, "the README shows {} ways", examples.len());
    for words in examples {
        let place = Place::new(stage, who)?;
        let trace = place.trace("kept_out.rnt");
        // The example's options are used with a program that writes a secret.
        let options = words[2..].iter().take_while(|word| *word != "--");
        let options = options.map(|word| word.replace('\'', ""));
        place.write("given.key", format!("{SECRET}\n").as_bytes())?;
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--compress", "none", "--output"]).arg(&trace).args(options);
        let script = "read line < given.key; echo \"$line\" > copy.key; cat copy.key > other.key";
        place.run(record.args(["--", "sh", "-c", script]))?.success("record")?;
        ensure!(!holds(&trace, SECRET)?, "{words:?} leaves it in the trace");
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--compress", "none", "--force", "--output"]).arg(&trace);
        record.args(["--", "sh", "-c", "cat copy.key > other.key"]);
        place.run(&mut record)?.success("record")?;
        ensure!(holds(&trace, SECRET)?, "it is not in a trace of everything");
    }
    Ok(())
}

fn holds(trace: &Path, secret: &str) -> Result<bool, Complaint> {
    let bytes = std::fs::read(trace).map_err(|error| format!("{}: {error}", trace.display()))?;
    Ok(bytes.windows(secret.len()).any(|window| window == secret.as_bytes()))
}
