//! `reenact man` and `reenact completions`: manual pages, and completions for shells.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command as Program, ExitCode, Stdio};

use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::message;

/// Show the manual, or write manual pages for `man`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact man
  reenact man record
  reenact man --dir ~/.local/share/man/man1")]
pub struct Manual {
    /// The command whose page is shown [default: the page of reenact itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,

    /// Write the pages of all commands into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Print what a shell needs to complete the command line.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact completions bash > ~/.local/share/bash-completion/completions/reenact
  reenact completions zsh > ~/.zfunc/_reenact
  reenact completions fish > ~/.config/fish/completions/reenact.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Runs `reenact completions` for the command line `whole`.
pub fn complete(args: &Completions, mut whole: clap::Command) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "reenact", &mut text);
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `reenact man` for the command line `whole`.
pub fn show(args: &Manual, whole: clap::Command) -> Result<ExitCode, Failure> {
    let pages = pages(whole)?;
    if let Some(dir) = &args.dir {
        let fail = |error| Failure::Failed(format!("{}: {error}", dir.display()));
        fs::create_dir_all(dir).map_err(fail)?;
        for (name, page) in &pages {
            fs::write(dir.join(format!("{name}.1")), page).map_err(fail)?;
        }
        message::note(&format!("{} manual pages -> {}", pages.len(), dir.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = args.command.as_ref().map_or("reenact".into(), |name| format!("reenact-{name}"));
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let known: Vec<&str> =
            pages.iter().filter_map(|(name, _)| name.split_once('-')).map(|p| p.1).collect();
        return Err(Failure::Usage(format!(
            "there is no command '{}'; there are {}",
            args.command.as_deref().unwrap_or_default().escape_debug(),
            known.join(", ")
        )));
    };
    if !(io::stdout().is_terminal() && formatted(page)) {
        io::stdout().write_all(page)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a page by the manual's program. Returns false if it is not there.
fn formatted(page: &[u8]) -> bool {
    let reader = Program::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut reader) = reader else { return false };
    if let Some(mut input) = reader.stdin.take() {
        // A reader that is left early does not take all.
        let _ = input.write_all(page);
    }
    reader.wait().is_ok_and(|status| status.success())
}

/// Returns the pages with their names, that of the whole first.
fn pages(whole: clap::Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let whole = whole.disable_help_subcommand(true);
    let mut pages = vec![("reenact".to_string(), rendered("reenact", whole.clone())?)];
    for command in whole.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("reenact-{}", command.get_name());
        let typed = format!("reenact {}", command.get_name());
        let page = rendered(&name, command.clone().display_name(&name).bin_name(typed))?;
        pages.push((name, page));
    }
    Ok(pages)
}

fn rendered(name: &str, command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.version(env!("CARGO_PKG_VERSION"))).title(name).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[derive(clap::Parser)]
    #[command(name = "reenact")]
    enum Sample {
        /// Do one thing.
        One(Completions),
        /// Do another.
        Other(Manual),
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = pages(Sample::command()).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["reenact", "reenact-one", "reenact-other"]);
        let text = String::from_utf8(pages[1].1.clone()).unwrap();
        assert!(text.contains(".TH reenact-one 1") && text.contains("Do one thing"), "{text}");
    }
}
