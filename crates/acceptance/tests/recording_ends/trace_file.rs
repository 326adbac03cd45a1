//! The trace file is disturbed while it is written.

use acceptance::place::{Place, Who};
use acceptance::shown;
use acceptance::stage::Stage;
use acceptance::trials::Trials;
use acceptance::{Complaint, ensure};

use crate::{gaps, record};

pub fn add(trials: &mut Trials) {
    trials.add_for_both("trace_taken_away", None, taken_away);
    trials.add_for_both("no_room_for_a_long_file", None, short_files);
}

/// Other programs remove the trace, cut it, or give its name to another file: a warning says so.
fn taken_away(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let ways = [
        ("removed", "rm T", "removed or replaced"),
        ("replaced", "echo mine > other; mv other T", "removed or replaced"),
        ("cut", ": > T", "cut by another program"),
        ("moved", "mv T other", "another name"),
    ];
    for (name, way, told) in ways {
        let trace = place.trace(name);
        let way = way.replace('T', &trace.display().to_string());
        // Long enough for something to be written first.
        let script = format!("sleep 0.3; {way}; /bin/true; exit 5");
        let mut command = record(stage, &place, &[], &trace, &["sh", "-c", &script]);
        let recorded = place.run(&mut command)?;
        let said = recorded.errors();
        ensure!(recorded.status.code() == Some(5), "{name}: {}; {said}", recorded.status);
        ensure!(said.contains("warning: ") && said.contains(told), "{name}: it said:\n{said}");
    }
    Ok(())
}

/// Whatever the limit of file sizes, the trace gets its end if that fits at all.
fn short_files(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for kib in [12, 16, 20, 30, 50, 75] {
        let trace = place.trace(&format!("{kib}.rnt"));
        let script = "for i in 1 2 3 4 5 6 7 8; do (:) | (:) & /bin/true; done; wait;
                      for i in 1 2 3 4 5 6 7 8; do /bin/true; /bin/true; /bin/true; done; echo the end";
        // The limit applies to a file on standard output as well.
        let record = format!(
            "ulimit -f {kib}; exec '{}' record -q -o '{}' -- bash -c '{script}' | cat",
            stage.reenact.display(),
            trace.display()
        );
        let mut command = place.command("bash");
        command.args(["-o", "pipefail", "-c", &record]);
        let recorded = place.run(&mut command)?.success(&format!("{kib} KiB"))?;
        ensure!(recorded.text() == "the end\n", "{kib} KiB: it printed {}", recorded.text());
        let info = shown::Info::of(stage, &trace)?;
        ensure!(info.trace_bytes <= kib * 1024, "{} bytes of {kib} KiB", info.trace_bytes);
        let found = gaps(stage, &trace)?;
        ensure!(
            found.iter().any(|(why, _)| why == "size-limit"),
            "{kib} KiB: the gaps are {found:?}, and it says {info:?}"
        );
        ensure!(ended(stage, &place, &trace)?, "{kib} KiB: the trace has no end");
    }
    Ok(())
}

fn ended(stage: &Stage, place: &Place, trace: &std::path::Path) -> Result<bool, Complaint> {
    let info = place.run(place.command(&stage.reenact).arg("info").arg(trace))?;
    Ok(!info.success("info")?.text().contains("was not ended"))
}
