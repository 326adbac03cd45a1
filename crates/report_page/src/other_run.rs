//! What changed since another recording, as `reenact diff` has it.

use render::json::Json;
use stats::sheet::Sheet;

use crate::tables::{self, shown};

/// Limit for the rows of a table.
const ROWS_MAX: usize = 200;

/// What changed since another recording.
pub struct OtherRun {
    /// Name of the other recording.
    pub name: String,
    /// What is said in words.
    pub lines: Vec<String>,
    /// Tables of changes; A is the other recording.
    pub sheet: Sheet,
}

impl OtherRun {
    /// Writes the data for the page.
    pub fn write(&self, json: &mut Json<'_>) {
        json.object(|json| {
            json.key("name").str(&shown(self.name.as_bytes()));
            json.key("lines").array(|json| self.lines.iter().for_each(|line| json.str(line)));
            json.key("tables").array(|json| {
                // Columns of the page have one unit; what is said in words has these sums.
                let tables = self.sheet.tables.iter().filter(|table| table.key != "totals");
                for table in tables.filter(|table| !table.rows.is_empty()) {
                    json.object(|json| {
                        json.key("title").str(&table.title);
                        tables::table(json.key("table"), table, ROWS_MAX, None);
                    });
                }
            });
        });
    }
}
