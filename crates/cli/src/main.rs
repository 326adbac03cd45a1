//! `reenact`: records what a program asks of the kernel, and evaluates recordings.

mod cat;
mod compare;
mod cut;
mod diff;
mod doctor;
mod export;
mod failure;
mod filter;
mod habits;
mod image;
mod import;
mod info;
mod latest;
mod manual;
mod merge;
mod message;
mod nothing;
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

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::Failure;
use terminal::Colour;

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
  COLUMNS               The width of tables and text where output is no
                        terminal; without it nothing is cut there

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
    let result = match read() {
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

/// Reads the command line. What stands behind an option is its value even if it looks like a number below
/// zero: then it is said what the option takes.
fn read() -> Result<Cli, clap::Error> {
    let command = Cli::command().mut_subcommands(|command| {
        command.mut_args(|arg| match arg.is_positional() || !arg.get_action().takes_values() {
            true => arg,
            false => arg.allow_negative_numbers(true),
        })
    });
    Cli::from_arg_matches(&command.try_get_matches()?)
}

/// Prints help, the version, or an error in the command line.
fn command_line(mut error: clap::Error) -> ExitCode {
    let first = std::env::args_os().nth(1);
    let recording = first.as_ref().is_some_and(|word| word == "record");
    let refuse = |text| if recording { Failure::Recorder(text) } else { Failure::Usage(text) };
    let command = first.as_ref().and_then(|word| word.to_str()).unwrap_or_default();
    let unknown = match error.kind() {
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg),
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand),
        _ => None,
    };
    if let Some(ContextValue::String(option)) = unknown
        && let Some(advice) = habits::advice(command, option)
    {
        return refuse(advice).report();
    }
    // The only words that begin with a hyphen and are no options are those of programs, and no program is
    // called like an option.
    error.remove(ContextKind::Suggested);
    if error.use_stderr() && error.get(ContextKind::Usage).is_some() {
        // Else it has only the arguments that were given, or those of an option that resembles one of them.
        let mut whole = Cli::command();
        whole.build();
        let usage = match whole.find_subcommand_mut(command) {
            Some(command) => command.render_usage(),
            None => whole.render_usage(),
        };
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    }
    if error.use_stderr()
        && let Some(width) = terminal::error_width()
    {
        let text = error.render().ansi().to_string();
        let is_coloured = Colour::Auto.is_on(&io::stderr());
        let text = if is_coloured { text } else { error.render().to_string() };
        // Nothing is left to tell where that fails.
        let _ = io::stderr().write_all(terminal::fit(&text, Some(width), |_| 2).as_bytes());
        return ExitCode::from(refuse(String::new()).code());
    }
    let printed = error.print().and_then(|()| io::stdout().flush());
    if !error.use_stderr() {
        return printed.map_or_else(|error| Failure::from(error).report(), |()| ExitCode::SUCCESS);
    }
    ExitCode::from(refuse(String::new()).code())
}
