//! `reenact cat`: writes the raw bytes of a buffer.

use std::io::{self, Write};
use std::process::ExitCode;

use model::decode::shape::shape_of;
use model::decode::{Buffer, buffers};
use model::{Contents, Stored};
use render::amounts::{counted, show_count};
use trace::event::EventKind;

use crate::failure::Failure;
use crate::latest::Input;
use crate::{message, source, units};

/// Write the raw bytes of a call's buffer to standard output.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact cat cp.rnt --seq 217 > page.bin
  reenact cat curl.rnt --seq 512 --arg msg.name | xxd")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// The number of the call, as `show --seq` prints it
    #[arg(long, value_name = "N", value_parser = units::number::<u64>)]
    seq: u64,

    /// The buffer: a name under `data` in `show --json`; may be left out when there is only one
    /// that carries data
    #[arg(long, value_name = "NAME")]
    arg: Option<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let path = args.input.path()?;
    let trace = source::open(&path)?;
    source::warn_of(&path, &trace);
    let fail = |what: String| Failure::Failed(format!("{}: {what}", path.display()));
    let mut calls = 0;
    for next in trace.events() {
        let next = match next {
            Ok(next) => next,
            // The numbers of all calls after a damaged block would be wrong.
            Err(error) => return Err(fail(error.to_string())),
        };
        let (Some(seq), EventKind::Call(call)) = (next.seq, &next.event.kind) else { continue };
        calls = seq + 1;
        if seq != args.seq {
            continue;
        }
        let all = buffers(call);
        let buffer = select(&all, args.arg.as_deref()).map_err(|what| {
            let (call, path) = (shape_of(call).name, path.display());
            fail(format!(
                "call {} ({call}) {what}; `reenact show --seq {seq} {path}` shows it",
                show_count(seq)
            ))
        })?;
        return write(buffer, &mut Stored(&trace), &fail);
    }
    let (seq, calls) = (show_count(args.seq), counted(calls, "call", "calls"));
    Err(fail(format!("there is no call {seq}; the trace has {calls}, numbered from 0")))
}

fn select<'a>(all: &'a [Buffer<'a>], name: Option<&str>) -> Result<&'a Buffer<'a>, String> {
    let names = |some: &[&Buffer<'_>]| {
        let names: Vec<&str> = some.iter().map(|buffer| buffer.name.as_str()).collect();
        names.join(", ")
    };
    if all.is_empty() {
        return Err("has no buffers".into());
    }
    let every: Vec<&Buffer<'_>> = all.iter().collect();
    if let Some(name) = name {
        return all
            .iter()
            .find(|buffer| buffer.name == name)
            .ok_or_else(|| format!("has no buffer '{name}'; it has {}", names(&every)));
    }
    let plain: Vec<&Buffer<'_>> = all.iter().filter(|buffer| buffer.plain).collect();
    match (&plain[..], &every[..]) {
        ([one], _) | ([], [one]) => Ok(one),
        ([], some) | (some, _) => {
            Err(format!("has several buffers; choose one with --arg: {}", names(some)))
        }
    }
}

fn write(
    buffer: &Buffer<'_>,
    contents: &mut dyn Contents,
    fail: &dyn Fn(String) -> Failure,
) -> Result<ExitCode, Failure> {
    let stored: u64 = buffer.pieces.iter().map(|piece| piece.content.len()).sum();
    if stored == 0 && !buffer.is_empty() {
        return Err(fail(format!(
            "'{}' was not stored ({}); record with --data full to have it",
            buffer.name,
            counted(buffer.len(), "byte", "bytes")
        )));
    }
    let mut out = io::stdout().lock();
    for piece in &buffer.pieces {
        let mut written = Ok(());
        let read = contents.each(&piece.content, &mut |bytes| {
            written = out.write_all(bytes);
            written.is_ok()
        });
        written?;
        read.map_err(fail)?;
    }
    out.flush()?;
    if buffer.is_cut() {
        message::warn(&format!(
            "'{}' had {} in the program; stored are {}",
            buffer.name,
            counted(buffer.len(), "byte", "bytes"),
            show_count(stored)
        ));
    }
    Ok(ExitCode::SUCCESS)
}
