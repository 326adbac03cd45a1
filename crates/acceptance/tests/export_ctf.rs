//! `reenact export --to ctf`, read by babeltrace2: it has all counts, times and fields of `show --json`,
//! by names that LTTng has.

use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, kernel_events, trials};

/// Debian's own, which has babeltrace2's bindings.
const PYTHON: &str = "/usr/bin/python3";

fn main() -> ExitCode {
    trials::main(|trials| {
        let has_bindings = Command::new(PYTHON)
            .args(["-c", "import bt2"])
            .output()
            .is_ok_and(|ran| ran.status.success());
        let no_reader = (!has_bindings).then_some("babeltrace2 with python3-bt2");
        for who in [Who::User, Who::Root] {
            trials.add("calls", who, no_reader, |stage, who| read(stage, who, &["--calls-only"]));
        }
        let no_events = (!kernel_events::are_there()).then_some(kernel_events::NEED);
        trials.add("calls_and_kernel", Who::Root, no_reader.or(no_events), |stage, who| {
            read(stage, who, &[])
        });
        Ok(())
    })
}

fn read(stage: &Stage, who: Who, options: &[&str]) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    stage.readable("tests/ctf/lttng-events.txt")?;
    let script = stage.readable("tests/ctf/check.py")?;
    let mut command = place.command(PYTHON);
    let outcome = place.run(command.arg(script).arg(&stage.reenact).arg(".").args(options))?;
    ensure!(outcome.status.success(), "{}{}", outcome.text(), outcome.errors());
    Ok(())
}
