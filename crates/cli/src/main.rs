//! `reenact`: records what a program asks of the kernel, and evaluates recordings.

mod cat;
mod compare;
mod cut;
mod diff;
mod doctor;
mod export;
mod failure;
mod filter;
mod image;
mod import;
mod info;
mod latest;
mod manual;
mod merge;
mod message;
mod output;
mod pager;
mod predict;
mod progress;
mod record;
mod repair;
mod replay;
mod report;
mod rerun;
mod show;
mod source;
mod stat;
mod suggest;
mod terminal;
mod units;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod later_event;
#[cfg(test)]
mod sample;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};

use failure::Failure;

/// Record everything that a Linux program asks of the kernel, and look at it.
#[derive(Parser)]
#[command(
    name = "reenact",
    version,
    arg_required_else_help = true,
    after_long_help = format!("\
Examples:
  Record a program and all that it starts, then look at what it did:
    reenact record -- sqlite3 test.db 'create table t(a); insert into t values (1)'
    reenact show sqlite3.rnt
  What went wrong, and with which files?
    reenact show sqlite3.rnt --failed --call %file
  Where does the time go, and what are likely performance problems?
    reenact stat sqlite3.rnt
    reenact stat patterns sqlite3.rnt
  What changed between two recordings of it?
    reenact diff before.rnt after.rnt
  How many calls of which kind, how much data, and is the recording complete?
    reenact info sqlite3.rnt
  The bytes that the call with number 217 wrote:
    reenact cat sqlite3.rnt --seq 217
  Will recording work here?
    reenact doctor

Environment:
  REENACT_PAGER, PAGER  What shows output on a terminal, `less` if neither is
                        set; `cat` for none
  NO_COLOR              No colours

{}", failure::exit_code_help())
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(record::args::Args),
    Show(show::Args),
    Info(info::Args),
    Stat(stat::Args),
    Diff(diff::Args),
    Cat(cat::Args),
    Replay(replay::Args),
    Rerun(rerun::Args),
    Predict(predict::Args),
    Report(report::Args),
    Export(export::Args),
    Import(import::Args),
    Cut(cut::Args),
    Repair(repair::Args),
    Merge(merge::Args),
    Compare(compare::Args),
    Image(image::Args),
    Doctor(doctor::Args),
    Man(manual::Manual),
    Completions(manual::Completions),
}

fn main() -> ExitCode {
    let result = match Cli::try_parse() {
        Ok(cli) => match cli.command {
            Command::Record(args) => record::run(args),
            Command::Show(args) => show::run(args),
            Command::Info(args) => info::run(args),
            Command::Stat(args) => stat::run(args),
            Command::Diff(args) => diff::run(args),
            Command::Cat(args) => cat::run(args),
            Command::Replay(args) => replay::run(args),
            Command::Rerun(args) => rerun::run(args),
            Command::Predict(args) => predict::run(&args),
            Command::Report(args) => report::run(args),
            Command::Export(args) => export::run(args),
            Command::Import(args) => import::run(args),
            Command::Cut(args) => cut::run(args),
            Command::Repair(args) => repair::run(args),
            Command::Merge(args) => merge::run(args),
            Command::Compare(args) => compare::run(args),
            Command::Image(args) => image::run(args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Man(args) => manual::show(&args, Cli::command()),
            Command::Completions(args) => manual::complete(&args, Cli::command()),
        },
        Err(error) => return command_line(error),
    };
    let code = result.unwrap_or_else(Failure::report);
    pager::finish();
    code
}

/// Prints help, the version, or an error in the command line.
fn command_line(mut error: clap::Error) -> ExitCode {
    let first = std::env::args_os().nth(1);
    let recording = first.as_ref().is_some_and(|word| word == "record");
    if !recording {
        // Values that begin with a hyphen are the words of programs alone.
        error.remove(ContextKind::Suggested);
    }
    let is_option = |word: OsString| word.as_encoded_bytes().starts_with(b"-");
    if error.use_stderr() && first.is_some_and(is_option) {
        // Else it is that of the option which resembles the one that was given.
        let usage = ContextValue::StyledStr(Cli::command().render_usage());
        error.insert(ContextKind::Usage, usage);
    }
    // Ignore a closed standard output.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let text = String::new;
    let failure = if recording { Failure::Recorder(text()) } else { Failure::Usage(text()) };
    ExitCode::from(failure.code())
}
