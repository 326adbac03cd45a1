//! Results of a replay, read from its JSON output.

use std::path::Path;

use render::json::Json;
use serde_json::Value;
use trace::event::Preamble;

use crate::said::{self, harmless, text};

/// Limit for the calls, causes and differences in the page.
const SHOWN_MAX: usize = 100;

/// The JSON object of a replay.
pub struct Comparison(Value);

impl Comparison {
    /// Reads the output of `reenact replay --json`.
    pub fn read(path: &Path) -> Result<Comparison, String> {
        said::read(path, Comparison::parse)
    }

    fn parse(text: &str) -> Result<Comparison, String> {
        let hint = "this is not what `reenact replay --json` prints";
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("{hint}: {error}"))?;
        match value.get("latencies_ns").is_some_and(Value::is_object) {
            true => Ok(Comparison(value)),
            false => Err(format!("{hint}: it has no latencies_ns")),
        }
    }

    /// Returns false if it is of another recording. Imported traces may have no start time.
    pub fn is_of(&self, preamble: &Preamble) -> bool {
        said::is_of(&self.0, preamble)
    }

    /// Writes the data for the page.
    pub fn write(&self, json: &mut Json<'_>) {
        let it = &self.0;
        json.object(|json| {
            for key in ["replayed", "simulated", "verified", "unverified", "bytes"] {
                json.key(key).uint(it[key].as_u64().unwrap_or(0));
            }
            for key in ["elapsed_s", "calls_s", "recorded_s"] {
                json.key(key).number(it[key].as_f64().unwrap_or(0.0));
            }
            json.key("ok").bool(it["ok"].as_bool().unwrap_or(false));
            json.key("stopped").optional_str(it["stopped"].as_str().map(harmless).as_deref());
            let mismatches = &it["mismatches"];
            json.key("wrong_results").uint(mismatches["return"].as_u64().unwrap_or(0));
            json.key("wrong_data").uint(mismatches["data"].as_u64().unwrap_or(0));
            json.key("causes").array(|json| {
                for cause in list(&mismatches["causes"]) {
                    json.object(|json| {
                        json.key("cause").str(&text(&cause["cause"]));
                        json.key("count").uint(cause["count"].as_u64().unwrap_or(0));
                    });
                }
            });
            let state = &it["final_state"];
            json.key("compared").optional_uint(state["compared"].as_u64());
            json.key("different").optional_uint(state["different"].as_u64());
            json.key("differences").array(|json| {
                for difference in list(&state["differences"]) {
                    json.object(|json| {
                        for key in ["path", "what", "expected", "found"] {
                            json.key(key).str(&text(&difference[key]));
                        }
                    });
                }
            });
            json.key("calls").array(|json| {
                for (call, pair) in self.calls() {
                    json.object(|json| {
                        json.key("call").str(&harmless(call));
                        for side in ["recorded", "replayed"] {
                            json.key(side).array(|json| {
                                for key in ["count", "median", "p99", "max"] {
                                    json.uint(pair[side][key].as_u64().unwrap_or(0));
                                }
                            });
                        }
                    });
                }
            });
        });
    }

    /// Returns the replayed calls, the most frequent first.
    fn calls(&self) -> Vec<(&String, &Value)> {
        let count = |pair: &Value| pair["replayed"]["count"].as_u64().unwrap_or(0);
        let all = self.0["latencies_ns"].as_object().into_iter().flatten();
        let mut calls: Vec<_> = all.filter(|(_, pair)| count(pair) > 0).collect();
        calls.sort_by_key(|(_, pair)| std::cmp::Reverse(count(pair)));
        calls.truncate(SHOWN_MAX);
        calls
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(SHOWN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use render::json;

    #[test]
    fn only_what_a_replay_prints_is_taken() {
        for bad in ["", "[1", "{}", "[]", "{\"latencies_ns\": 3}"] {
            assert!(Comparison::parse(bad).is_err(), "{bad}");
        }
        let deep = "[".repeat(100_000);
        assert!(Comparison::parse(&deep).is_err());
    }

    #[test]
    fn a_replay_belongs_to_its_recording() {
        let text = r#"{"latencies_ns": {}, "recording": {"host": "here", "began_ns": 7}}"#;
        let comparison = Comparison::parse(text).unwrap();
        let began =
            |host: &str, epoch_ns| Preamble { host: host.into(), epoch_ns, ..Preamble::default() };
        assert!(comparison.is_of(&began("here", 7)) && comparison.is_of(&began("there", 0)));
        assert!(!comparison.is_of(&began("here", 8)) && !comparison.is_of(&began("there", 7)));
    }

    #[test]
    fn hostile_values_are_harmless() {
        let text = r#"{"latencies_ns": {"re\u001bad": {"replayed": {"count": 2, "max": -1}}, "x": 7},
            "mismatches": [], "final_state": {"differences": [{"path": "\u202e"}]}, "elapsed_s": "1"}"#;
        let comparison = Comparison::parse(text).unwrap();
        let written = json::text(|json| comparison.write(json));
        let value: Value = serde_json::from_str(&written).unwrap();
        assert_eq!(value["calls"][0]["call"], "re\\033ad");
        assert_eq!(value["calls"][0]["replayed"][0], 2);
        assert_eq!(value["differences"][0]["path"], "\\342\\200\\256");
        assert_eq!(value["calls"].as_array().unwrap().len(), 1);
    }
}
