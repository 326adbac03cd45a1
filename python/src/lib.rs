//! The Python package `reenact`: a recording's tables as Arrow streams. The rows are those of `crates/tables`,
//! as in `reenact export --to parquet`.

mod arrow;
mod filters;
mod recording;
mod stream;
mod table;

use std::io;
use std::path::PathBuf;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use trace::{ReadError, Trace};

use crate::recording::Recording;
use crate::table::Table;

create_exception!(
    reenact,
    TraceError,
    PyException,
    "What was opened is no recording, or cannot be read."
);
create_exception!(reenact, TraceWarning, PyUserWarning, "A recording is damaged.");

/// Opens a recording. A damaged one gives a `TraceWarning`; reading its damaged blocks then raises an error, or with
/// `damaged="skip"` passes over them.
#[pyfunction]
#[pyo3(signature = (path, *, damaged="raise"))]
fn open(py: Python<'_>, path: PathBuf, damaged: &str) -> PyResult<Recording> {
    let skips_damage = match damaged {
        "raise" => false,
        "skip" => true,
        _ => return Err(PyValueError::new_err("damaged is \"raise\" or \"skip\"")),
    };
    let trace = py.detach(|| Trace::open(&path)).map_err(|error| failure(&path, &error))?;
    if let Some(first) = trace.damage().first() {
        let text =
            format!("{}: damaged at byte {}: {}\0", path.display(), first.offset, first.what);
        if let Ok(text) = std::ffi::CStr::from_bytes_until_nul(text.as_bytes()) {
            PyErr::warn(py, &py.get_type::<TraceWarning>(), text, 1)?;
        }
    }
    Ok(Recording::new(trace, path, skips_damage))
}

/// Makes an exception: an `OSError` with its number where the file could not be read.
fn failure(path: &std::path::Path, error: &ReadError) -> PyErr {
    match error {
        ReadError::Io { source, .. } => match source.raw_os_error() {
            Some(number) => {
                let text = source.kind().to_string();
                pyo3::exceptions::PyOSError::new_err((number, text, path.to_path_buf()))
            }
            None => io::Error::new(source.kind(), format!("{}: {source}", path.display())).into(),
        },
        _ => TraceError::new_err(format!("{}: {error}", path.display())),
    }
}

/// What `reenact` is made of.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_function(wrap_pyfunction!(open, module)?)?;
    module.add_class::<Recording>()?;
    module.add_class::<Table>()?;
    module.add("TraceError", py.get_type::<TraceError>())?;
    module.add("TraceWarning", py.get_type::<TraceWarning>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
