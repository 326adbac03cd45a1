//! The end of an imported trace.

use trace::Writer;
use trace::event::{Event, EventKind, GapWhy, RECORDER, Totals};

use super::imported::Imported;
use super::stream::Files;
use crate::error::Error;

/// Ends a trace, with a gap that names its origin.
pub fn finish(
    mut writer: Writer,
    mut totals: Totals,
    files: &Files<'_, '_>,
    imported: &mut Imported,
) -> Result<(), Error> {
    let damage = files.damage_count();
    let damage = match damage {
        0 => String::new(),
        1 => "; one part of it is damaged".into(),
        parts => format!("; {parts} parts of it are damaged"),
    };
    let text = format!("imported from a DataSeries file{damage}");
    let kind = EventKind::Gap { why: GapWhy::Imported, detail: 0, text };
    writer.event(&Event::new(RECORDER, totals.end_tsc, kind))?;
    totals.gaps += 1;
    writer.flush()?;
    totals.stored_bytes = writer.stored_bytes();
    imported.calls = writer.calls_written();
    imported.bytes = writer.finish(&totals)?.trace_bytes;
    Ok(())
}
