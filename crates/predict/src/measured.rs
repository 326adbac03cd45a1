//! What a run took.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a run took, measured from its first call, or from the program's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Wall time.
    pub seconds: f64,
    /// Wall time of the recording, if the run tells.
    pub recorded_s: Option<f64>,
    /// CPU time of the program itself.
    pub user_s: f64,
    /// CPU time of its calls.
    pub system_s: f64,
    /// Bytes that were allocated for files, by the file system where it is our own.
    pub allocated_bytes: u64,
    /// Bytes that the disk read and wrote while it ran, where the disk is the run's own.
    pub moved: Option<[u64; 2]>,
    /// What waiting for the outside took when it was recorded, and how much of it is in the time, in seconds.
    pub outside_s: Option<[f64; 2]>,
    /// Time of calls by name.
    pub calls: BTreeMap<String, Change>,
    /// Results that came out otherwise, or calls that differed.
    pub different: u64,
    /// Why the run is no whole one, if so.
    pub incomplete: Option<String>,
    /// Places where the recording lacks something, which took no time.
    pub gaps: u64,
}

/// How long the calls of a name took in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// How many were made.
    pub count: u64,
    /// When recorded, in nanoseconds.
    pub recorded_ns: u64,
    /// In the run.
    pub here_ns: u64,
}

impl Change {
    /// How much longer or shorter it took.
    pub fn difference_ns(&self) -> u64 {
        self.recorded_ns.abs_diff(self.here_ns)
    }
}

impl Measured {
    /// Reads what `reenact replay --json` printed.
    pub fn of_replay(text: &str) -> Result<Measured, String> {
        let said: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let number =
            |key: &str| said[key].as_f64().ok_or_else(|| format!("the replay said no '{key}'"));
        let or_none = |key: &str| said[key].as_f64().unwrap_or(0.0);
        let mismatches = |key: &str| said["mismatches"][key].as_u64().unwrap_or(0);
        let paths = said["final_state"]["different"].as_u64().unwrap_or(0);
        let outside = |key: &str| said[key].as_f64().map(|ns| ns / 1e9);
        let outside = outside("outside_recorded_ns").zip(outside("outside_ns"));
        Ok(Measured {
            seconds: number("calls_s")?,
            recorded_s: said["recorded_s"].as_f64(),
            user_s: or_none("computed_ns") / 1e9,
            // Calls that are not made are the kernel's work as well.
            system_s: (number("system_ns")? + or_none("answered_ns")) / 1e9,
            allocated_bytes: said["allocated_bytes"].as_u64().unwrap_or(0),
            outside_s: outside.map(|(recorded, counted)| [recorded, counted]),
            calls: changes(&said["latencies_ns"]),
            different: mismatches("return") + mismatches("data") + paths,
            gaps: said["gaps"].as_u64().unwrap_or(0),
            incomplete: said["stopped"].as_str().map(String::from),
            ..Measured::default()
        })
    }

    /// Reads what `reenact rerun --json` printed.
    pub fn of_rerun(text: &str) -> Result<Measured, String> {
        let said: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let seconds = |key: &str| {
            let ns =
                said[key].as_f64().ok_or_else(|| format!("the re-execution said no '{key}'"))?;
            Ok::<_, String>(ns / 1e9)
        };
        let outside = seconds("outside_recorded_ns").ok().zip(seconds("outside_ns").ok());
        let why = said["divergence"]["what"].as_str().or(said["failed"].as_str());
        let diverged = (said["diverged"] == true || said["failed"].is_string())
            .then(|| format!("it diverged: {}", why.unwrap_or("`reenact rerun` says where")));
        // Where the files were not real, none of them are compared.
        let (mut different, mut stopped) = (0, None);
        let files = &said["files"];
        if !files.is_null() {
            for key in ["mismatches", "different"] {
                let number = files[key].as_u64();
                different += number.ok_or_else(|| format!("the re-execution said no '{key}'"))?;
            }
            stopped = files["stopped"].as_str().map(String::from);
        }
        Ok(Measured {
            seconds: seconds("elapsed_ns")?,
            user_s: seconds("user_ns")?,
            system_s: seconds("system_ns")?,
            outside_s: outside.map(|(recorded, counted)| [recorded, counted]),
            calls: changes(&files["latencies_ns"]),
            different,
            incomplete: diverged.or(stopped),
            ..Measured::default()
        })
    }

    /// Returns the calls whose time changed most, most first.
    pub fn changed_most(&self, most: usize) -> Vec<(&str, Change)> {
        let mut all: Vec<_> =
            self.calls.iter().map(|(name, change)| (name.as_str(), *change)).collect();
        all.sort_by_key(|(_, change)| std::cmp::Reverse(change.difference_ns()));
        all.truncate(most);
        all
    }
}

/// What calls took, by their names.
fn changes(latencies: &Value) -> BTreeMap<String, Change> {
    let each = latencies.as_object().into_iter().flatten().map(|(name, pair)| {
        let of = |side: &str, key: &str| pair[side][key].as_u64().unwrap_or(0);
        let change = Change {
            count: of("replayed", "count"),
            recorded_ns: of("recorded", "sum"),
            here_ns: of("replayed", "sum"),
        };
        (name.clone(), change)
    });
    each.filter(|(_, change)| change.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_understood() {
        let text = r#"{"calls_s":1.5,"computed_ns":500000000,"answered_ns":50000000,"user_ns":9,"system_ns":200000000,
            "allocated_bytes":4096,"outside_recorded_ns":2000000000,"outside_ns":0,"mismatches":{"return":1,"data":2},
            "final_state":{"different":1},"stopped":null,"gaps":3,
            "latencies_ns":{"read":{"recorded":{"count":2,"sum":10},"replayed":{"count":2,"sum":90}},
            "getpid":{"recorded":{"count":5,"sum":10},"replayed":{"count":0,"sum":0}},
            "write":{"recorded":{"count":1,"sum":500},"replayed":{"count":1,"sum":100}}}}"#;
        let read = Measured::of_replay(text).unwrap();
        assert_eq!((read.seconds, read.user_s, read.system_s), (1.5, 0.5, 0.25));
        assert_eq!((read.allocated_bytes, read.different, read.gaps), (4096, 4, 3));
        assert_eq!(read.outside_s, Some([2.0, 0.0]));
        let most = read.changed_most(1);
        assert_eq!(most, [("write", Change { count: 1, recorded_ns: 500, here_ns: 100 })]);
        assert_eq!(read.calls.len(), 2);
        assert!(Measured::of_replay("{}").is_err() && Measured::of_replay("").is_err());
    }

    #[test]
    fn a_rerun_is_understood() {
        let text = r#"{"elapsed_ns":2000000000,"user_ns":1000000000,"system_ns":0,"diverged":false,
            "outside_recorded_ns":500000000,"outside_ns":0,"files":{"mismatches":3,"different":4,"latencies_ns":
            {"read":{"recorded":{"count":2,"sum":10},"replayed":{"count":2,"sum":90}}},"stopped":null}}"#;
        let read = Measured::of_rerun(text).unwrap();
        assert_eq!(read.different, 7);
        assert_eq!(
            read.changed_most(1),
            [("read", Change { count: 2, recorded_ns: 10, here_ns: 90 })]
        );
        assert!(Measured::of_rerun(&text.replace(":3,", ":{\"data\":3},")).is_err());
        let stopped = Measured::of_rerun(&text.replace("null}", "\"full\"}")).unwrap();
        assert_eq!(stopped.incomplete.as_deref(), Some("full"));
        assert_eq!(read.outside_s, Some([0.5, 0.0]));
        assert_eq!((read.seconds, read.user_s, read.incomplete), (2.0, 1.0, None));
        let text = r#"{"elapsed_ns":2,"user_ns":1,"system_ns":0,"diverged":true,
            "divergence":{"seq":1,"what":"x"}}"#;
        assert!(Measured::of_rerun(text).unwrap().incomplete.is_some());
    }
}
