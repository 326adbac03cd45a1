//! Every test program, alone and recorded: same output, status and files; the trace has every call
//! that the program claims, with every byte; nothing is lost.

use std::path::Path;
use std::process::ExitCode;

use acceptance::expectation::Expectations;
use acceptance::place::{Outcome, Place, Who};
use acceptance::program::{self, Program};
use acceptance::shown::{self, Info};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, tier, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        for program in program::all()? {
            let name = program.name.clone();
            let of = program.clone();
            let check = move |stage: &Stage, who| alone_and_recorded(stage, who, &of);
            trials.add_for_program(&name, &program, None, check);
        }
        Ok(())
    })
}

fn alone_and_recorded(stage: &Stage, who: Who, program: &Program) -> Result<(), Complaint> {
    let binary = program.build(stage)?;
    let place = Place::new(stage, who)?;
    let seed = tier::seed().to_string();

    let alone = place.run(place.command(&binary).arg(&seed).args(&program.args))?;
    let files = place.files()?;
    ensure!(alone.errors().is_empty() || alone.status.success(), "alone: {}", alone.errors());
    place.clear()?;

    let trace = place.trace("program.rnt");
    let recorded = place.run(
        place
            .command(&stage.reenact)
            .args(["record", "--quiet", "--output"])
            .arg(&trace)
            .arg("--")
            .arg(&binary)
            .arg(&seed)
            .args(&program.args),
    )?;
    same(&alone, &recorded)?;
    let files_recorded = place.files()?;
    ensure!(
        files == files_recorded,
        "files differ:\nalone    {files:?}\nrecorded {files_recorded:?}"
    );
    holds_what_was_done(stage, &trace, &recorded, &program.gaps)
}

fn same(alone: &Outcome, recorded: &Outcome) -> Result<(), Complaint> {
    let (a, r) = (alone.errors(), recorded.errors());
    ensure!(
        alone.status == recorded.status,
        "alone: {}, recorded: {}; it said:\n{r}",
        alone.status,
        recorded.status
    );
    ensure!(a == r, "standard error differs:\nalone: {a}\nrecorded: {r}");
    let rest = |outcome: &Outcome| Ok::<_, Complaint>(Expectations::parse(&outcome.stdout)?.rest);
    let (a, r): (Vec<u8>, Vec<u8>) = (rest(alone)?, rest(recorded)?);
    ensure!(
        a == r,
        "standard output differs:\nalone:\n{}\nrecorded:\n{}",
        String::from_utf8_lossy(&a),
        String::from_utf8_lossy(&r)
    );
    Ok(())
}

fn holds_what_was_done(
    stage: &Stage,
    trace: &Path,
    run: &Outcome,
    gaps: &[String],
) -> Result<(), Complaint> {
    let info = Info::of(stage, trace)?;
    info.must_be_complete_but_for(stage, trace, gaps)?;
    let expectations = Expectations::parse(&run.stdout)?;
    for (call, count) in &expectations.counts {
        let found = info.count(call);
        ensure!(found == *count, "{call}: made {count} times, recorded {found} times");
    }
    if expectations.calls.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = expectations.names().into_iter().collect();
    expectations.check(shown::calls(stage, trace, &names.join(","))?)
}
