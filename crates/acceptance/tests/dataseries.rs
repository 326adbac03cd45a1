//! DataSeries: exports compared with an independent reader and `show --json`, round trips, damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use acceptance::place::{Place, Who};
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, trials};

/// Variable that names a directory of Re-Animator's traces (`*.ds`) to be imported and exported.
const REAL_TRACES: &str = "REENACT_DATASERIES_TRACES";

fn main() -> ExitCode {
    trials::main(|trials| {
        let lacking = trials::missing(&["python3", "sqlite3"]);
        trials.add("export_is_what_show_tells", Who::User, lacking, export_is_what_show_tells);
        trials.add("round_trip_replays", Who::User, lacking, round_trip_replays);
        trials.add("damage_is_told", Who::User, lacking, damage_is_told);
        trials.add("a_part_is_told", Who::User, lacking, a_part_is_told);
        trials.add("from_a_pipe", Who::User, lacking, from_a_pipe);
        let real = std::env::var_os(REAL_TRACES).map(PathBuf::from);
        let none = real.is_none().then_some("a directory of traces in REENACT_DATASERIES_TRACES");
        trials.add("real_traces", Who::User, none.or(lacking), move |stage, who| {
            real_traces(stage, who, &real.unwrap_or_default())
        });
        Ok(())
    })
}

/// Calls of many kinds by several processes and threads.
const WORK: &str = r#"
umask 027; mkdir d; echo hello > d/a; cp d/a d/b; ln d/a d/c; ln -s a d/s; ls -l d | sort | head -3
sqlite3 db 'create table t(a); insert into t values(1); select * from t'
python3 - <<'PYTHON'
import os, socket, threading
fd = os.open('v', os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
os.writev(fd, [b'abc' * 50, b'', b'def' * 50])
os.lseek(fd, 0, 0)
os.readv(fd, [bytearray(100), bytearray(100), bytearray(300)])
os.pwrite(fd, bytes(range(256)) * 300, 5)
os.pread(fd, 70000, 0)
a, c = socket.socketpair()
a.sendmsg([b'x' * 100, b'yy' * 100])
c.recvmsg(1000)
os.utime('v', ns=(1234567890123456789, 987654321))
os.fchmod(fd, 0o604)
os.fdatasync(fd)
os.statvfs('.')
os.rename('v', 'w')
threads = [threading.Thread(target=lambda: os.stat('w')) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
PYTHON
rm -r d
"#;

fn record(stage: &Stage, place: &Place) -> Result<PathBuf, Complaint> {
    let trace = place.trace("work.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).args(["--", "sh", "-c", WORK]);
    place.run(&mut command)?.success("record")?;
    Ok(trace)
}

fn run(command: &mut Command) -> Result<Output, Complaint> {
    command.output().map_err(|error| format!("{command:?}: {error}"))
}

fn succeed(command: &mut Command) -> Result<Output, Complaint> {
    let output = run(command)?;
    ensure!(
        output.status.success(),
        "{command:?}: {}; it said:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

fn export(stage: &Stage, trace: &Path, to: &Path, compress: &str) -> Result<(), Complaint> {
    let mut command = Command::new(&stage.reenact);
    command.args(["export", "--quiet", "--to", "dataseries", "--compress", compress]);
    succeed(command.arg(trace).arg("--output").arg(to)).map(drop)
}

fn import(stage: &Stage, file: &Path, to: &Path) -> Result<Output, Complaint> {
    run(Command::new(&stage.reenact).arg("import").arg(file).arg("--output").arg(to))
}

fn python(script: &str, words: &[&Path]) -> Result<Output, Complaint> {
    let script = stage::repository().join("tests/dataseries").join(script);
    let mut command = Command::new("python3");
    succeed(command.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).args(words))
}

fn export_is_what_show_tells(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place)?;
    let shown = place.path("shown.jsonl");
    let output =
        succeed(Command::new(&stage.reenact).args(["show", "--json", "--ids"]).arg(&trace))?;
    fs::write(&shown, output.stdout).map_err(|error| error.to_string())?;
    for compress in ["none", "lzf", "zlib"] {
        let file = place.path(&format!("{compress}.ds"));
        export(stage, &trace, &file, compress)?;
        python("compare.py", &[&file, &shown])?;
    }
    Ok(())
}

fn round_trip_replays(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place)?;
    let (file, back, again) = (place.path("a.ds"), place.path("back.rnt"), place.path("b.ds"));
    export(stage, &trace, &file, "lzf")?;
    let imported = import(stage, &file, &back)?;
    ensure!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    export(stage, &back, &again, "zlib")?;
    python("same_records.py", &[&file, &again])?;
    // The calls are the same, except for gaps: the new trace names its origin.
    let show = |trace: &Path| {
        succeed(Command::new(&stage.reenact).args(["show", "--json"]).arg(trace))
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (before, after) = (show(&trace)?, show(&back)?);
    let mut after = after.lines();
    for line in before.lines() {
        let same = after.next();
        ensure!(same == Some(line), "{line}\nbecame\n{same:?}");
    }
    let last = after.next().unwrap_or_default();
    ensure!(last.contains("imported") && after.next().is_none(), "at the end: {last}");
    let info = succeed(Command::new(&stage.reenact).args(["info", "--json"]).arg(&back))?;
    let info: serde_json::Value =
        serde_json::from_slice(&info.stdout).map_err(|error| error.to_string())?;
    ensure!(info["complete"] == false, "an imported trace claims to be complete: {info}");

    place.give(&back)?;
    let mut replay = place.command(&stage.reenact);
    let outcome = place.run(replay.arg("replay").arg(&back))?;
    outcome.success("replay of what was imported").map(drop)
}

fn a_part_is_told(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place)?;
    let (file, back) = (place.path("part.ds"), place.path("part.rnt"));
    let mut command = Command::new(&stage.reenact);
    command.args(["export", "--to", "dataseries", "--call", "openat,read", "--no-content"]);
    succeed(command.arg(&trace).arg("--output").arg(&file))?;
    let imported = import(stage, &file, &back)?;
    ensure!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let info = |trace: &Path| -> Result<serde_json::Value, Complaint> {
        let mut command = Command::new(&stage.reenact);
        let output = succeed(command.args(["info", "--verify", "--json"]).arg(trace))?;
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    };
    let (whole, part) = (info(&trace)?, info(&back)?);
    for call in ["openat", "read"] {
        let counts = [&whole, &part].map(|info| info["by_call"][call]["count"].as_u64());
        ensure!(counts[0] == counts[1] && counts[0] > Some(0), "{call}: {counts:?}");
    }
    ensure!(part["by_call"].as_object().is_some_and(|calls| calls.len() == 2), "{part}");
    ensure!(part["complete"] == false, "a part claims to be complete: {part}");
    Ok(())
}

/// An import from a pipe equals one from a file.
fn from_a_pipe(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place)?;
    for format in ["dataseries", "strace"] {
        let file = place.path(format);
        let mut command = Command::new(&stage.reenact);
        command.args(["export", "--quiet", "--to", format, "--output"]).arg(&file).arg(&trace);
        succeed(&mut command)?;
        let (direct, piped) = (place.path("direct.rnt"), place.path("piped.rnt"));
        let imported = import(stage, &file, &direct)?;
        ensure!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat \"$1\" | \"$0\" import - -o \"$2\""]).arg(&stage.reenact);
        succeed(shell.args([&file, &piped]))?;
        let shown = |trace: &Path| {
            let mut show = Command::new(&stage.reenact);
            succeed(show.args(["show", "--json"]).arg(trace)).map(|output| output.stdout)
        };
        ensure!(shown(&direct)? == shown(&piped)?, "{format}: the traces differ");
        for trace in [direct, piped] {
            fs::remove_file(trace).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn damage_is_told(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place)?;
    let file = place.path("whole.ds");
    export(stage, &trace, &file, "none")?;
    let whole = fs::read(&file).map_err(|error| error.to_string())?;
    let zeroed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at..at + 100].fill(0);
        bytes
    };
    let middle = whole.len() / 2;
    let damaged = [
        ("cut", whole[..whole.len() - 300_000].to_vec(), true),
        ("zeros", zeroed(middle), true),
        ("tail", zeroed(whole.len() - 100), true),
        ("types", zeroed(5000), false),
        ("header", zeroed(0), false),
    ];
    for (name, bytes, some) in damaged {
        let (file, to) = (place.path(&format!("{name}.ds")), place.path(&format!("{name}.rnt")));
        fs::write(&file, bytes).map_err(|error| error.to_string())?;
        let output = import(stage, &file, &to)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1), "{name}: {}: {said}", output.status);
        ensure!(to.exists() == some, "{name}: {said}");
        if some {
            ensure!(said.contains("at byte ") && said.contains("is damaged"), "{name}: {said}");
            succeed(Command::new(&stage.reenact).arg("show").arg(&to))?;
        }
    }
    let to = place.path("cut.rnt");
    let refused = import(stage, &file, &to)?;
    ensure!(refused.status.code() == Some(1), "an existing trace was replaced");
    let text = place.path("text");
    fs::write(&text, "no trace").map_err(|error| error.to_string())?;
    let refused = import(stage, &text, &place.path("text.rnt"))?;
    ensure!(refused.status.code() == Some(1), "text was imported");
    Ok(())
}

fn real_traces(stage: &Stage, who: Who, directory: &Path) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let fail = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut tried = 0;
    for entry in fs::read_dir(directory).map_err(fail)? {
        let file = entry.map_err(fail)?.path();
        if file.extension().is_none_or(|extension| extension != "ds") {
            continue;
        }
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (back, again) = (place.path(&format!("{name}.rnt")), place.path(&format!("{name}.ds")));
        let output = import(stage, &file, &back)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{name}: {said}");
        for words in [&["show"][..], &["show", "--json"], &["stat"], &["info"]] {
            succeed(Command::new(&stage.reenact).args(words).arg(&back))?;
        }
        export(stage, &back, &again, "none")?;
        python("same_records.py", &[&file, &again])?;
        tried += 1;
    }
    ensure!(tried > 0, "{}: no traces", directory.display());
    Ok(())
}
