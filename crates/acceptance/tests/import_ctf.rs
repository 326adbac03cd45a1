//! `reenact import` of CTF traces: those of our own export, of babeltrace2, of lttng-ust, and bit by bit as
//! LTTng's kernel tracer packs them.

use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};

/// Debian's own, which has babeltrace2's bindings.
const PYTHON: &str = "/usr/bin/python3";
/// How `import.py` ends if something is missing.
const MISSING: i32 = 77;

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_python = trials::missing(&["python3"]);
        for how in ["own", "bits"] {
            trials.add(how, Who::User, no_python, move |stage, who| made(stage, who, how));
        }
        let ran = Command::new(PYTHON).args(["-c", "import bt2"]).output();
        let no_bindings =
            (!ran.is_ok_and(|ran| ran.status.success())).then_some("babeltrace2 with python3-bt2");
        trials
            .add("babeltrace", Who::User, no_bindings, |stage, who| made(stage, who, "babeltrace"));
        let no_lttng = trials::missing(&["lttng", "lttng-sessiond", "gcc"]);
        trials.add("lttng", Who::User, no_python.or(no_lttng), |stage, who| {
            made(stage, who, "lttng")
        });
        trials.add("refused", Who::User, None, refused);
        Ok(())
    })
}

fn made(stage: &Stage, who: Who, how: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = stage.readable("tests/ctf/import.py")?;
    let mut command = place.command(PYTHON);
    let outcome = place.run(command.arg(script).arg(&stage.reenact).arg(".").arg(how))?;
    if outcome.status.code() == Some(MISSING) {
        // lttng-ust's headers may be missing where its tools are there.
        return Ok(());
    }
    ensure!(outcome.status.success(), "{}{}", outcome.text(), outcome.errors());
    Ok(())
}

/// What is no trace, or several, is refused with a reason, and nothing is written.
fn refused(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for folder in ["several/a", "several/b", "damaged", "nothing"] {
        let path = place.work().join(folder);
        std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
    }
    place.write("several/a/metadata", b"/* CTF 1.8 */")?;
    place.write("several/b/metadata", b"/* CTF 1.8 */")?;
    place.write("damaged/metadata", b"/* CTF 1.8 */\ntrace { major = }")?;
    place.write("nothing/file", b"")?;
    for (folder, said) in [
        ("several", "2 CTF traces"),
        ("damaged", "metadata, line 2"),
        ("nothing", "no file metadata"),
    ] {
        let mut command = place.command(&stage.reenact);
        let folder = place.work().join(folder);
        command.arg("import").arg(folder).arg("-o").arg(place.trace("imported.rnt"));
        let outcome = place.run(&mut command)?;
        ensure!(outcome.status.code() == Some(1), "{said}: it ended with {}", outcome.status);
        ensure!(outcome.errors().contains(said), "it says {}", outcome.errors());
        ensure!(!place.trace("imported.rnt").exists(), "{said}: there is a trace all the same");
    }
    Ok(())
}
