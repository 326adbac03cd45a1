//! `Trace`: an open recording.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use model::decode::{Buffer, buffers};
use model::{CallChoice, Conditions};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use render::json;
use stats::overview::{self, Overview};
use tables::{Choice, Kind, UNKNOWN};
use trace::Trace;
use trace::event::EventKind;

use crate::TraceError;
use crate::filters::{self, Of};
use crate::stream::Request;
use crate::table::Table;

/// Most bytes of a call's buffers that are given at once.
const DATA_BYTES_MAX: u64 = 256 << 20;

/// An open recording.
///
/// Each table of it has the columns of the Parquet tables that `reenact export --to parquet` writes. Filters are
/// arguments by name: `call` (names and %classes), `path` (patterns), `pid`, `tid`, `failed`, `since`, `until` and
/// `slower_than` (seconds). All must hold; several values of one are alternatives.
#[pyclass(frozen, name = "Trace", module = "reenact")]
pub struct Recording {
    /// `None` when it is closed.
    trace: Mutex<Option<Arc<Trace>>>,
    path: PathBuf,
    skips_damage: bool,
}

impl Recording {
    /// Makes one of an open trace.
    pub fn new(trace: Trace, path: PathBuf, skips_damage: bool) -> Recording {
        Recording { trace: Mutex::new(Some(Arc::new(trace))), path, skips_damage }
    }

    fn trace(&self) -> PyResult<Arc<Trace>> {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        trace.clone().ok_or_else(|| PyValueError::new_err("the recording is closed"))
    }

    fn table(&self, kind: Kind, choice: Choice, conditions: Conditions) -> PyResult<Table> {
        let (trace, skips_damage) = (self.trace()?, self.skips_damage);
        Table::new(Request { trace, kind, choice, conditions, skips_damage })
    }

    fn fail(&self, what: &str) -> PyErr {
        TraceError::new_err(format!("{}: {what}", self.path.display()))
    }
}

type Columns = Option<Vec<String>>;

fn only(columns: Columns) -> Choice {
    Choice { columns, ..Choice::default() }
}

#[pymethods]
impl Recording {
    /// The path that it was opened by.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// What of the file is damaged, in words; empty for a sound recording.
    #[getter]
    fn damage(&self) -> PyResult<Vec<String>> {
        let damage = self.trace()?.damage();
        let said =
            |d: &trace::Damage| format!("at byte {} ({} bytes): {}", d.offset, d.bytes, d.what);
        Ok(damage.iter().map(said).collect())
    }

    /// What it holds, and whether it is complete: the object that `reenact info --json` prints.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let trace = self.trace()?;
        let text = py.detach(|| {
            let overview = Overview::of(&trace, trace.completeness())?;
            Ok(json::text(|json| overview::json(json, &trace, &overview)))
        });
        let text = text.map_err(|error: trace::ReadError| self.fail(&error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// Every call, with what all calls have. With `data=True`, a column `data` more: the bytes that a call carried,
    /// where all of them are in the recording.
    #[pyo3(signature = (columns=None, *, data=false, **filters))]
    fn calls(
        &self,
        columns: Columns,
        data: bool,
        filters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Table> {
        let choice = Choice { columns, data, ..Choice::default() };
        self.table(Kind::Calls, choice, filters::conditions(Of::Calls, filters)?)
    }

    /// The calls of one kind, with their own arguments: `trace.call("openat")`. "unknown" are those that this
    /// version has no name for.
    #[pyo3(signature = (name, columns=None, **filters))]
    fn call(
        &self,
        name: &str,
        columns: Columns,
        filters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Table> {
        let number = match syscalls::by_name(name) {
            Some(row) => Some(row.nr),
            None if name == UNKNOWN => None,
            None => {
                let refused = CallChoice::parse(name).err();
                let text = refused.unwrap_or_else(|| format!("{name} is not the name of one call"));
                return Err(PyValueError::new_err(text));
            }
        };
        let conditions = filters::conditions(Of::OneCall, filters)?;
        self.table(Kind::Call(number), only(columns), conditions)
    }

    /// The processes.
    #[pyo3(signature = (columns=None))]
    fn processes(&self, columns: Columns) -> PyResult<Table> {
        self.table(Kind::Processes, only(columns), Conditions::default())
    }

    /// What existing files were at their first use.
    #[pyo3(signature = (columns=None, **filters))]
    fn files(&self, columns: Columns, filters: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
        self.table(Kind::Files, only(columns), filters::conditions(Of::Calls, filters)?)
    }

    /// What is no call: signals, threads, gaps, ... Filters are `event` (kinds and %classes), `pid`, `tid`, `since`
    /// and `until`.
    #[pyo3(signature = (columns=None, **filters))]
    fn events(&self, columns: Columns, filters: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
        self.table(Kind::Events, only(columns), filters::conditions(Of::Events, filters)?)
    }

    /// Events of the kernel. Filters are those of `events`; `event` may be a pattern, "sched:*".
    #[pyo3(signature = (columns=None, **filters))]
    fn kernel(&self, columns: Columns, filters: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
        self.table(Kind::Kernel, only(columns), filters::conditions(Of::Events, filters)?)
    }

    /// What each thread did from when to when, by the events of the kernel.
    #[pyo3(signature = (columns=None))]
    fn states(&self, columns: Columns) -> PyResult<Table> {
        self.table(Kind::States, only(columns), Conditions::default())
    }

    /// Each distinct buffer once, by its hash; with `content=True`, its bytes too.
    #[pyo3(signature = (columns=None, *, content=false, **filters))]
    fn buffers(
        &self,
        columns: Columns,
        content: bool,
        filters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Table> {
        let choice = Choice { columns, content, ..Choice::default() };
        self.table(Kind::Data, choice, filters::conditions(Of::Calls, filters)?)
    }

    /// The bytes in the buffers of a call, by their names, as far as they are in the recording. `seq` is its number
    /// in `calls`; the recording is read up to there.
    fn data<'py>(&self, py: Python<'py>, seq: u64) -> PyResult<Bound<'py, PyDict>> {
        let trace = self.trace()?;
        let found = py.detach(|| data_of(&trace, seq)).map_err(|error| self.fail(&error))?;
        let Some(found) = found else {
            return Err(PyKeyError::new_err(format!("there is no call {seq}")));
        };
        let all = PyDict::new(py);
        for (name, bytes) in found {
            all.set_item(name, PyBytes::new(py, &bytes))?;
        }
        Ok(all)
    }

    /// The number of calls.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.table(Kind::Calls, Choice::default(), Conditions::default())?.count(py)
    }

    /// A recording without calls is a recording too.
    fn __bool__(&self) -> bool {
        true
    }

    /// Closes it. Tables that it gave stay what they are.
    fn close(&self) {
        *self.trace.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        format!("<reenact.Trace {:?}>", self.path.display().to_string())
    }
}

type Named = Vec<(String, Vec<u8>)>;

/// Returns the stored bytes of all buffers of a call, `None` if there is no such call.
fn data_of(trace: &Trace, seq: u64) -> Result<Option<Named>, String> {
    for next in trace.events() {
        // The numbers of all calls after a damaged block would be wrong.
        let next = next.map_err(|error| error.to_string())?;
        let EventKind::Call(call) = &next.event.kind else { continue };
        if next.seq != Some(seq) {
            continue;
        }
        let all = buffers(call);
        let stored = |buffer: &Buffer<'_>| {
            let lengths = buffer.pieces.iter().map(|piece| piece.content.len());
            lengths.fold(0, u64::saturating_add)
        };
        let sum = all.iter().map(stored).fold(0, u64::saturating_add);
        if sum > DATA_BYTES_MAX {
            return Err(format!(
                "call {seq} has {sum} bytes, more than {DATA_BYTES_MAX}; `reenact cat` has them"
            ));
        }
        let mut found = Vec::new();
        for buffer in all {
            let mut bytes = Vec::new();
            for piece in buffer.pieces {
                bytes.extend(trace.content(&piece.content).map_err(|error| error.to_string())?);
            }
            found.push((buffer.name, bytes));
        }
        return Ok(Some(found));
    }
    Ok(None)
}
