//! Folded stacks: the time in calls by chain of callers, for flame graphs.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

use render::amounts::counted;
use render::escape::escape;
use stats::chains::Chains;
use trace::event::EventKind;

use super::job::{Job, Written};
use crate::failure::Failure;

/// Chains that are told apart.
const CHAINS_MAX: usize = 1 << 18;

/// Writes a line for each chain: program, functions from the outermost one on, call; and nanoseconds.
pub fn export(job: &Job<'_>) -> Result<Written, Failure> {
    let mut out = BufWriter::with_capacity(1 << 16, job.create(job.to)?);
    let mut written = Written::default();
    let mut chains = Chains::default();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let (mut without, mut too_many) = (0u64, 0u64);
    written.unread = job.each(&mut |moment, wanted, contents| {
        chains.add(moment, contents);
        let EventKind::Call(call) = &moment.event.kind else { return Ok(()) };
        if !wanted {
            return Ok(());
        }
        let program = moment.world.thread(moment.event.thread).map(|thread| thread.process);
        let program = program.and_then(|process| moment.world.process(process));
        let exe = program.map_or(&b""[..], |process| &process.exe);
        let mut line = part(exe.rsplit(|byte| *byte == b'/').next().unwrap_or(exe));
        let chain = chains.of(moment, contents);
        without += u64::from(chain.as_ref().is_none_or(|chain| chain.len() < 2));
        for site in chain.unwrap_or_default().iter().skip(1).rev() {
            line.push(';');
            line.push_str(&part(chains.spell(*site, true).name().as_bytes()));
        }
        line.push(';');
        line.push_str(&stats::call_name(call.nr));
        let exit = moment.exit_ns.unwrap_or(moment.enter_ns);
        let ns = exit.saturating_sub(moment.enter_ns);
        if sums.len() < CHAINS_MAX || sums.contains_key(&line) {
            let sum = sums.entry(line).or_default();
            *sum = sum.saturating_add(ns);
        } else {
            too_many += 1;
        }
        written.calls += 1;
        Ok(())
    })?;
    for (line, ns) in &sums {
        writeln!(out, "{line} {ns}")?;
    }
    out.flush()?;
    if without > 0 {
        let what = "callers were not recorded (record --stack) or not found";
        written
            .left_out
            .push(format!("the callers of {}: {what}", counted(without, "call", "calls")));
    }
    if too_many > 0 {
        written.left_out.push(format!(
            "{}: there are too many chains of callers",
            counted(too_many, "call", "calls")
        ));
    }
    Ok(written)
}

/// A name that ends no part and no line.
fn part(name: &[u8]) -> String {
    let mut text = String::new();
    escape(&mut text, name, &[]);
    let text = text.replace(';', ":").replace(' ', "_");
    if text.is_empty() { "(unknown)".into() } else { text }
}
