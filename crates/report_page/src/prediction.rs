//! How long the program takes elsewhere, read from what `reenact predict --json` printed.

use std::path::Path;

use render::json::Json;
use serde_json::Value;
use stats::sheet::{Cell, Table, Unit};
use trace::event::Preamble;

use crate::said;
use crate::tables;

/// Limit for the predictions in the page.
const PREDICTIONS_MAX: usize = 200;
/// Limit for the calls of each that changed most.
const CHANGED_MAX: usize = 5;

/// The JSON object of predictions.
pub struct Predictions(Value);

impl Predictions {
    /// Reads the output of `reenact predict --json`.
    pub fn read(path: &Path) -> Result<Predictions, String> {
        said::read(path, Predictions::parse)
    }

    fn parse(text: &str) -> Result<Predictions, String> {
        let hint = "this is not what `reenact predict --json` prints";
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("{hint}: {error}"))?;
        match value["predictions"].as_array() {
            Some(all) if all.iter().all(Value::is_object) => Ok(Predictions(value)),
            _ => Err(format!("{hint}: it has no list of predictions")),
        }
    }

    /// Returns false if they are of another recording.
    pub fn is_of(&self, preamble: &Preamble) -> bool {
        said::is_of(&self.0, preamble)
    }

    fn all(&self) -> &[Value] {
        self.0["predictions"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Writes the data for the page.
    pub fn write(&self, json: &mut Json<'_>) {
        let all = self.all();
        json.object(|json| {
            json.key("cache").str(&said::text(&self.0["cache"]));
            json.key("recorded_ns").optional_uint(said::seconds_as_ns(&self.0["recorded_s"]));
            json.key("remarks").array(|json| {
                for one in all.iter().take(PREDICTIONS_MAX) {
                    remarks(one).iter().for_each(|line| json.str(line));
                }
            });
            let (table, changed) = (self.table(), self.changed());
            tables::table(json.key("table"), &table, PREDICTIONS_MAX, None);
            tables::table(json.key("changed"), &changed, PREDICTIONS_MAX * CHANGED_MAX, None);
        });
    }

    /// Returns what `predict` prints as a table.
    fn table(&self) -> Table {
        let columns = [
            ("on", "on"),
            ("memory_bytes", "memory"),
            ("limits", "limits"),
            ("set_by", "set by"),
            ("method", "by"),
            ("predicted_ns", "predicted"),
            ("min_ns", "shortest"),
            ("max_ns", "longest"),
            ("actual_ns", "actual"),
            ("actual_min_ns", "shortest"),
            ("actual_max_ns", "longest"),
            ("error", "error"),
            ("user_ns", "user"),
            ("system_ns", "system"),
            ("actual_user_ns", "actual user"),
            ("actual_system_ns", "actual system"),
            ("allocated_bytes", "disk"),
            ("actual_allocated_bytes", "actual disk"),
            ("different", "differ"),
        ];
        let mut table = Table::new("predicted_table", "Predictions", &columns);
        for one in self.all() {
            let actual = &one["actual"];
            let error = one["error"].as_f64().filter(|error| error.is_finite());
            let mut row = configuration(one);
            row.extend(["seconds", "min_s", "max_s"].map(|key| time(&one[key])));
            row.extend(["seconds", "min_s", "max_s"].map(|key| time(&actual[key])));
            row.push(error.map_or(Cell::Nothing, Cell::ChangeShare));
            row.extend(["user_s", "system_s"].map(|key| time(&one[key])));
            row.extend(["user_s", "system_s"].map(|key| time(&actual[key])));
            row.extend([one, actual].map(|of| bytes(&of["allocated_bytes"])));
            row.push(Cell::Count(said::number(&one["different"]).unwrap_or(0)));
            table.row(row);
        }
        table
    }

    /// Returns the calls that changed most, of each prediction.
    fn changed(&self) -> Table {
        let columns = [
            ("on", "on"),
            ("memory_bytes", "memory"),
            ("limits", "limits"),
            ("", ""),
            ("method", "by"),
            ("call", "call"),
            ("count", "count"),
            ("recorded_ns", "recorded"),
            ("here_ns", "here"),
            ("change_ns", "change"),
        ];
        let mut table = Table::new("predicted_changed", "Calls that changed most", &columns);
        for one in self.all().iter().take(PREDICTIONS_MAX) {
            for change in one["changed"].as_array().into_iter().flatten().take(CHANGED_MAX) {
                let [count, recorded, here] = ["count", "recorded_ns", "here_ns"]
                    .map(|key| said::number(&change[key]).unwrap_or(0));
                let more = i128::from(here) - i128::from(recorded);
                let more = i64::try_from(more).unwrap_or(i64::MAX);
                let mut row = configuration(one);
                row.push(Cell::Line(said::text(&change["call"])));
                row.extend([Cell::Count(count), Cell::Ns(recorded), Cell::Ns(here)]);
                row.push(Cell::Change(Unit::Ns, more));
                table.row(row);
            }
        }
        table
    }
}

/// The cells that say what was predicted for, and how.
fn configuration(one: &Value) -> Vec<Cell> {
    let word = |value: &Value| match value.as_str() {
        Some(_) => Cell::Line(said::text(value)),
        None => Cell::Nothing,
    };
    let limits = limits(&one["limits"]);
    vec![
        Cell::Name(one["on"].as_str().unwrap_or_default().into()),
        bytes(&one["memory_bytes"]),
        if limits.is_empty() { Cell::Nothing } else { Cell::Line(limits) },
        word(&one["set_by"]),
        word(&one["method"]),
    ]
}

fn time(value: &Value) -> Cell {
    said::seconds_as_ns(value).into()
}

fn bytes(value: &Value) -> Cell {
    said::number(value).map_or(Cell::Nothing, Cell::Bytes)
}

/// Limits in the words of `--limit`.
fn limits(of: &Value) -> String {
    use render::amounts::{show_size, show_time};
    let number = |key: &str| said::number(&of[key]);
    let speed =
        |name: &str, key: &str| number(key).map(|bytes| format!("{name} {}/s", show_size(bytes)));
    let parts = [
        speed("read", "read_bytes"),
        speed("write", "write_bytes"),
        number("iops").map(|iops| format!("{iops} requests/s")),
        number("latency_ns").map(|ns| format!("latency {}", show_time(ns))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Why there is no prediction, or why it is less than a whole one.
fn remarks(one: &Value) -> Vec<String> {
    let name = format!("{}, {}", said::text(&one["on"]), said::text(&one["method"]));
    let why = |key: &str, words: &str| {
        one[key].is_string().then(|| format!("{name}: {words}: {}", said::text(&one[key])))
    };
    let remarks = [why("failed", "failed"), why("incomplete", "it ended early")];
    remarks.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use render::json;

    fn written(text: &str) -> Value {
        let predictions = Predictions::parse(text).unwrap();
        serde_json::from_str(&json::text(|json| predictions.write(json))).unwrap()
    }

    #[test]
    fn only_what_predict_prints_is_taken() {
        for bad in ["", "{", "[]", "{}", r#"{"predictions": {}}"#, r#"{"predictions": [1]}"#] {
            assert!(Predictions::parse(bad).is_err(), "{bad}");
        }
        assert!(Predictions::parse(&"[".repeat(100_000)).is_err());
        let elsewhere = r#"{"predictions": [], "recording": {"host": "h", "began_ns": 7}}"#;
        let of = |epoch_ns| Preamble { host: "h".into(), epoch_ns, ..Preamble::default() };
        let predictions = Predictions::parse(elsewhere).unwrap();
        assert!(predictions.is_of(&of(7)) && !predictions.is_of(&of(8)));
    }

    #[test]
    fn a_prediction_is_a_row() {
        let value = written(
            r#"{"cache": "cold", "recorded_s": 2, "predictions": [{"on": "ext4", "memory_bytes": 4096,
            "limits": {"read_bytes": 1048576, "latency_ns": 1000000}, "set_by": "FUSE",
            "method": "replay", "seconds": 1.5, "min_s": 1, "max_s": 2, "user_s": 0.5, "error": -0.25,
            "actual": {"seconds": 2.0, "system_s": 0.125}, "failed": null, "incomplete": "so",
            "changed": [{"call": "read", "count": 3, "recorded_ns": 10, "here_ns": 4}]}]}"#,
        );
        let row = &value["table"]["rows"][0];
        assert_eq!(row[0], "ext4");
        assert_eq!(row[2], "read 1.0 MiB/s, latency 1.0 ms");
        assert_eq!((&row[5], &row[8]), (&1_500_000_000u64.into(), &2_000_000_000u64.into()));
        assert_eq!(row[11], -0.25);
        assert_eq!(value["remarks"][0], "ext4, replay: it ended early: so");
        let changed = &value["changed"]["rows"][0];
        assert_eq!(changed.as_array().unwrap().last().unwrap(), -6);
    }

    #[test]
    fn hostile_values_are_harmless() {
        let value = written(
            r#"{"cache": 7, "recorded_s": 1e300, "predictions": [{"on": "\u001b<b>", "seconds": -1,
            "error": 1e308, "limits": [], "method": {}, "changed": [{"call": "\u202e",
            "here_ns": "18446744073709551615"}, 7], "actual": "x", "failed": "\u0007"}]}"#,
        );
        let row = &value["table"]["rows"][0];
        assert_eq!((&row[0], &row[5]), (&"\\033<b>".into(), &Value::Null));
        assert!(value["recorded_ns"].is_null());
        assert_eq!(value["remarks"][0], "\\033<b>, : failed: \\007");
        assert_eq!(value["changed"]["rows"][0][4], "\\342\\200\\256");
    }

    #[test]
    fn a_page_has_a_limit() {
        let one = r#"{"on":"x","failed":"y","changed":[{},{},{},{},{},{},{}]}"#;
        let many = format!(r#"{{"predictions":[{}]}}"#, vec![one; 1000].join(","));
        let value = written(&many);
        let count = |of: &Value| of.as_array().map_or(0, Vec::len);
        assert_eq!(count(&value["table"]["rows"]), PREDICTIONS_MAX);
        assert_eq!(value["table"]["left_out"], 1000 - PREDICTIONS_MAX);
        assert_eq!(count(&value["remarks"]), PREDICTIONS_MAX);
        assert_eq!(count(&value["changed"]["rows"]), PREDICTIONS_MAX * CHANGED_MAX);
    }
}
