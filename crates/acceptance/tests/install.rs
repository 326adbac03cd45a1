//! The README on installing: its command installs a binary that needs nothing else of the
//! repository, also on a machine that has nothing but Rust; the Debian package and the wheel work on a
//! machine that has nothing else; and its examples of leaving data out of traces work.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use acceptance::clean_root::{self, CleanRoot, succeed};

use acceptance::place::{Place, Who};
use acceptance::stage::{Stage, repository};
use acceptance::{Complaint, ensure, tier, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_time = (!tier::is_long()).then_some("the long tier");
        trials.add("installs", Who::User, no_time, installs);
        let no_packages = trials::missing(&["dpkg-deb", "unshare", "gzip"]);
        trials.add("packages", Who::Root, no_time.or(no_packages), packages);
        let no_root = trials::missing(&clean_root::TOOLS);
        trials.add("installs_on_a_clean_machine", Who::Root, no_time.or(no_root), installs_clean);
        let no_python = (!trials::imports(&trials::python(), &["pip"])).then_some("pip");
        let missing = no_time.or(no_packages).or(no_root).or(no_python);
        trials.add("packages_on_a_clean_machine", Who::Root, missing, packages_clean);
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

/// Returns a file that `cargo xtask dist` makes, by the end of its name; REENACT_DIST names a directory that has all
/// of them already.
fn made(ending: &str) -> Result<PathBuf, Complaint> {
    let given = std::env::var_os("REENACT_DIST").map(PathBuf::from);
    let dir = given.clone().unwrap_or_else(|| repository().join("target/dist/out"));
    if given.is_none() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut dist = Command::new(cargo);
        succeed(dist.args(["xtask", "dist", "--dir"]).arg(&dir).current_dir(repository()))?;
    }
    let entries = std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.to_string_lossy().ends_with(ending));
    found.ok_or_else(|| format!("{} has no {ending}", dir.display()))
}

/// Records a program in a root, and checks the recording.
const TRY: &str = "
    reenact record -o /tmp/try.rnt -- sh -c 'echo a > /tmp/file; cat /tmp/file > /tmp/copy'
    reenact info --verify /tmp/try.rnt; rm /tmp/file /tmp/copy; reenact replay /tmp/try.rnt";

/// The README's command in a root that has a C compiler and sees this machine's Rust, and no network.
fn installs_clean(_: &Stage, _: Who) -> Result<(), Complaint> {
    let [words] = &commands("cargo install")?[..] else {
        return Err("the README has one command that installs".into());
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut fetch = Command::new(&cargo);
    succeed(fetch.args(["fetch", "--locked"]).current_dir(repository()))?;
    let sysroot = succeed(Command::new("rustc").args(["--print", "sysroot"]))?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    let mut root = CleanRoot::new(&["gcc", "libc6-dev"])?;
    root.show(Path::new(sysroot.trim()), "/opt/rust")?;
    root.show(&home.join("registry"), "/opt/cargo/registry")?;
    let clone = root.path("/opt/reenact");
    let tree = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let copy = format!("git {} | xargs -0 cp --parents -t {}", tree.join(" "), clone.display());
    std::fs::create_dir_all(&clone).map_err(|error| error.to_string())?;
    succeed(Command::new("sh").args(["-ec", &copy]).current_dir(repository()))?;
    let said = root.run(&format!(
        "export PATH=/opt/rust/bin:/usr/local/cargo/bin:$PATH CARGO_HOME=/opt/cargo
        cd /opt/reenact; {} --offline --root /usr/local; cd; {TRY}",
        words.join(" ")
    ))?;
    ensure!(said.contains("complete     yes"), "{said}");
    ensure!(said.contains("final state: identical"), "{said}");
    Ok(())
}

/// What a completion must offer after `reenact re`.
const OFFERED: [&str; 4] = ["record", "repair", "replay", "report"];

/// The Debian package is installed in a root with Debian's shells, the wheel in one with Debian's Python and what
/// PyPI has of the four libraries; both are used.
fn packages_clean(_: &Stage, _: Who) -> Result<(), Complaint> {
    let packages = ["bash-completion", "fish", "man-db", "python3-venv", "zsh"];
    let mut root = CleanRoot::new(&packages)?;
    let (package, wheel) = (made(".deb")?, made(".whl")?);
    root.show(&package, "/opt/reenact.deb")?;
    let said = root.run(&format!("dpkg -i /opt/reenact.deb; {TRY}"))?;
    ensure!(said.contains("complete     yes"), "{said}");
    ensure!(said.contains("final state: identical"), "{said}");
    let said = root.run("man reenact | cat; man reenact-record | cat")?;
    ensure!(said.contains("reenact-record(1)") && said.contains("--output"), "{said}");
    for (shell, script) in [
        (
            "bash",
            ". /usr/share/bash-completion/bash_completion; _completion_loader reenact || true
            function=$(complete -p reenact | sed 's/.*-F \\([^ ]*\\).*/\\1/')
            COMP_WORDS=(reenact re) COMP_CWORD=1 COMP_LINE='reenact re' COMP_POINT=10
            $function reenact re reenact || true; printf '%s\\n' \"${COMPREPLY[@]}\"",
        ),
        ("fish", "fish -c 'complete -C \"reenact re\"'"),
    ] {
        let said = root.run(&format!("set +eu; {script}"))?;
        let is_offered = |word: &str| said.lines().any(|line| line.starts_with(word));
        let missing = OFFERED.iter().find(|word| !is_offered(word));
        ensure!(missing.is_none(), "{shell} does not complete to {missing:?}: {said}");
    }
    let said = root.run(
        "zsh -fc 'autoload -Uz compinit; compinit -u; autoload -Uz +X _reenact
        print is ${_comps[reenact]}; functions _reenact'",
    )?;
    ensure!(said.contains("is _reenact"), "zsh has no completion: {said}");
    ensure!(OFFERED.iter().all(|word| said.contains(word)), "zsh completes: {said}");
    wheel_works(&mut root, &wheel)
}

/// Installs a wheel and what it is read with, and reads a recording.
fn wheel_works(root: &mut CleanRoot, wheel: &Path) -> Result<(), Complaint> {
    let version = root.run("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'")?;
    let kept = repository().join("target/wheels");
    let platforms = ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"];
    let mut download = Command::new(trials::python());
    download.args(["-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest"]);
    download.arg(&kept).args(["--python-version", version.trim()]);
    for platform in platforms {
        download.args(["--platform", platform]);
    }
    succeed(download.args(["duckdb", "pandas", "polars", "pyarrow"]))?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    root.show(wheel, &format!("/opt/{name}"))?;
    root.show(&kept, "/opt/wheels")?;
    root.show(&repository().join("python/tests"), "/opt/tests")?;
    root.show(&repository().join("tests/parquet"), "/opt/parquet")?;
    root.show(&repository().join("docs"), "/opt/docs")?;
    // Alone first: it needs no other package.
    let said = root.run(&format!(
        "python3 -m venv /opt/python; pip='/opt/python/bin/pip install -q --no-index'
        $pip /opt/{name}
        /opt/python/bin/python -c 'import reenact
with reenact.open(\"/tmp/try.rnt\") as trace: print(len(trace), trace.info()[\"complete\"], trace.calls().columns)'
        $pip --find-links /opt/wheels duckdb pandas polars pyarrow"
    ))?;
    ensure!(said.contains("True ['seq', 'process'"), "{said}");
    let said = root.run(
        "mkdir work; cd work; reenact record -q -o work.rnt -- python3 -BSE /opt/parquet/work.py
        PYTHONWARNINGS=error /opt/python/bin/python /opt/tests/check.py /usr/bin/reenact \"$PWD/work.rnt\" \"$PWD\"
        /opt/python/bin/python /opt/parquet/documented.py /opt/docs/python.md python reenact",
    )?;
    ensure!(said.contains("all the same"), "{said}");
    Ok(())
}

/// The Debian package has a static binary that records, replays and exports in a root without any other
/// file, with manual pages and completions.
fn packages(_: &Stage, _: Who) -> Result<(), Complaint> {
    let fail = |error: std::io::Error| error.to_string();
    let root = tempfile::tempdir().map_err(fail)?;
    let package = made(".deb")?;
    succeed(Command::new("dpkg-deb").arg("-x").arg(package).arg(root.path()))?;
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
