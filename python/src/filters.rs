//! Filters: the conditions of the commands, as arguments of Python's functions.

use model::{CallChoice, Conditions, EventChoice};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The longest time that a recording can take, in seconds.
const SECONDS_MAX: f64 = 1e9;

/// One value, or several.
#[derive(FromPyObject)]
enum Several<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Several<T> {
    fn all(self) -> Vec<T> {
        match self {
            Several::One(one) => vec![one],
            Several::Many(many) => many,
        }
    }
}

/// Which filters a table has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Those of every call.
    Calls,
    /// Those of a call whose name is given already.
    OneCall,
    /// Those of what is no call.
    Events,
}

/// Reads filters. One that does not exist, or has another type, is a `TypeError`; one that makes no sense is a `ValueError`.
pub fn conditions(of: Of, given: Option<&Bound<'_, PyDict>>) -> PyResult<Conditions> {
    let mut conditions = Conditions::default();
    let Some(given) = given else { return Ok(conditions) };
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        if value.is_none() {
            continue;
        }
        let set = set(&mut conditions, of, &name, &value);
        let known = set.map_err(|error| named(given.py(), &name, error))?;
        if !known {
            return Err(PyTypeError::new_err(format!("there is no filter {name:?} here")));
        }
    }
    Ok(conditions)
}

/// Sets one filter. Returns false if the table has no such.
fn set(to: &mut Conditions, of: Of, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_of_calls = of != Of::Events;
    match name {
        "pid" => to.pids = value.extract::<Several<u32>>()?.all(),
        "tid" => to.tids = value.extract::<Several<u32>>()?.all(),
        "since" => to.since_ns = Some(nanoseconds(value)?),
        "until" => to.until_ns = Some(nanoseconds(value)?),
        "call" if of == Of::Calls => {
            let names = value.extract::<Several<String>>()?.all().join(",");
            to.calls = Some(CallChoice::parse(&names).map_err(PyValueError::new_err)?);
        }
        "path" if is_of_calls => to.paths = value.extract::<Several<String>>()?.all(),
        "failed" if is_of_calls => to.failed = value.extract()?,
        "slower_than" if is_of_calls => to.slower_ns = Some(nanoseconds(value)?),
        "event" if of == Of::Events => {
            let names = value.extract::<Several<String>>()?.all().join(",");
            to.events = Some(EventChoice::parse(&names).map_err(PyValueError::new_err)?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Reads a time in seconds.
fn nanoseconds(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    let seconds: f64 = value.extract()?;
    if (0.0..=SECONDS_MAX).contains(&seconds) {
        return Ok((seconds * 1e9).round() as u64);
    }
    Err(PyValueError::new_err(format!("{seconds} is no time in seconds from the start")))
}

/// Says in an error which filter it is about.
fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    let text = format!("{name}: {}", error.value(py));
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(text),
        false => PyValueError::new_err(text),
    }
}
