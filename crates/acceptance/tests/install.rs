//! The README on installing: its command installs a binary that needs nothing else of the
//! repository, the Debian package works alone, and its examples of leaving data out of traces work.

use std::path::Path;
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, tier, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_time = (!tier::is_long()).then_some("the long tier");
        trials.add("installs", Who::User, no_time, installs);
        let no_packages = trials::missing(&["dpkg-deb", "unshare", "gzip"]);
        trials.add("packages", Who::Root, no_time.or(no_packages), packages);
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

/// The Debian package has a static binary that records, replays and exports in a root without any other
/// file, with manual pages and completions.
fn packages(_: &Stage, _: Who) -> Result<(), Complaint> {
    let fail = |error: std::io::Error| error.to_string();
    let (out, root) = (tempfile::tempdir().map_err(fail)?, tempfile::tempdir().map_err(fail)?);
    let succeed = |command: &mut Command| {
        let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &said)
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut dist = Command::new(cargo);
    let dist = dist.args(["xtask", "dist", "--dir"]).arg(out.path()).current_dir(repository());
    let said = succeed(dist)?;
    let package = said.lines().find(|line| line.ends_with(".deb")).ok_or("no package")?;
    succeed(Command::new("dpkg-deb").args(["-x", package]).arg(root.path()))?;
    for name in ["proc", "tmp", "dev"] {
        std::fs::create_dir(root.path().join(name)).map_err(fail)?;
    }
    for file in [
        "man/man1/reenact.1.gz",
        "man/man1/reenact-record.1.gz",
        "bash-completion/completions/reenact",
        "zsh/vendor-completions/_reenact",
        "fish/vendor_completions.d/reenact.fish",
        "doc/reenact/copyright",
    ] {
        let path = root.path().join("usr/share").join(file);
        let bytes = std::fs::metadata(&path).map(|about| about.len()).unwrap_or_default();
        ensure!(bytes > 300, "{file} has {bytes} bytes");
    }
    // The binary is the only program there, so it is recorded too.
    let script = "mount -t proc proc \"$0/proc\"; mount --bind /dev \"$0/dev\"; r=\"chroot $0 /usr/bin/reenact\"
        $r record -o /tmp/t.rnt -- /usr/bin/reenact man --dir /tmp/pages
        $r info --verify /tmp/t.rnt; $r stat /tmp/t.rnt; $r replay /tmp/t.rnt
        $r export /tmp/t.rnt --to parquet -o /tmp/tables; $r report /tmp/t.rnt -o /tmp/t.html";
    let mut inside = Command::new("unshare");
    let said = succeed(inside.args(["-m", "sh", "-ec", script]).arg(root.path()))?;
    ensure!(said.contains("final state: identical"), "{said}");
    ensure!(said.contains("complete     yes"), "{said}");
    ensure!(root.path().join("tmp/pages/reenact-record.1").exists(), "no pages: {said}");
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
