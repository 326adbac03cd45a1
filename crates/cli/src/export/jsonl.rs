//! JSON lines, as printed by `show --json`.

use std::io::{BufWriter, Write};

use render::json::Json;
use render::objects;

use super::job::{Job, Written, is_call};
use crate::failure::Failure;

/// Writes one object per event.
pub fn export(job: &Job<'_>) -> Result<Written, Failure> {
    let mut out = BufWriter::with_capacity(1 << 16, job.create(job.to)?);
    let mut written = Written::default();
    written.unread = job.each(&mut |moment, wanted, contents| {
        if !wanted {
            return Ok(());
        }
        let mut json = Json::new(&mut out);
        let detail = objects::Detail { data: job.content, ids: false };
        objects::event(&mut json, moment, contents, detail);
        json.finish()?;
        out.write_all(b"\n")?;
        written.calls += u64::from(is_call(moment));
        Ok(())
    })?;
    out.flush()?;
    Ok(written)
}
