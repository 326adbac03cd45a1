//! Parquet: a directory of tables for databases and data frames.

use parquet_export::{Export, place};
use render::amounts::show_size;

use super::job::{Job, Written};
use crate::failure::Failure;

/// Options of this format.
#[derive(clap::Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Options of parquet")]
pub struct Options {
    /// What the recording is called among others in the same tables [default: the trace's file name]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
}

impl Options {
    /// Returns an option that was given.
    pub fn given(&self) -> Option<&'static str> {
        self.run.as_ref().map(|_| "--run")
    }
}

/// Exports to Parquet tables.
pub fn export(job: &Job<'_>, own: &Options) -> Result<Written, Failure> {
    if job.to.as_os_str() == "-" {
        let text = "Parquet tables are a directory of files, not one for standard output";
        return Err(Failure::Usage(text.into()));
    }
    let options = parquet_export::Options {
        root: job.to.to_path_buf(),
        run: run_name(job, own)?,
        force: job.force,
        content: job.content,
        conditions: job.conditions.clone(),
    };
    let fail = |error: parquet_export::Error| Failure::Failed(error.to_string());
    let mut export = Export::new(job.trace, options).map_err(fail)?;
    let (_, unread) = job.each_with_files(&mut |moment, wanted, contents| {
        export.add(moment, wanted, contents).map_err(fail)
    })?;
    let summary = export.finish().map_err(fail)?;
    let mut left_out = Vec::new();
    if summary.without_content > 0 {
        left_out.push(format!(
            "the content of {} of {} buffers, which are longer than {} or not whole in the trace",
            summary.without_content,
            summary.buffers,
            show_size(tables::data::CONTENT_BYTES_MAX)
        ));
    }
    if summary.repeated {
        left_out
            .push("the order in `data`: there are so many buffers that some stand twice".into());
    }
    Ok(Written { calls: summary.calls, left_out, unread })
}

fn run_name(job: &Job<'_>, own: &Options) -> Result<String, Failure> {
    match &own.run {
        None => Ok(place::run_name(job.from)),
        Some(run) if place::is_run_name(run) => Ok(run.clone()),
        Some(run) => Err(Failure::Usage(format!(
            "'{run}' is not a name of a run; letters, digits, '.', '_' and '-' may be in it"
        ))),
    }
}
