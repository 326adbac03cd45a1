//! `Table`: a table of a recording, which any number of readers may read.

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tables::schema::Field;

use crate::TraceError;
use crate::stream::Request;

/// A table of a recording: columns, and rows that are made while somebody reads them.
///
/// It is an Arrow stream (`__arrow_c_stream__`), so pandas, Polars, DuckDB and pyarrow take it as it is. Each
/// reader reads the recording anew, in batches: it takes as much memory as a few of them.
#[pyclass(frozen, module = "reenact")]
pub struct Table {
    request: Request,
}

impl Table {
    /// Makes one. Columns that are not there are a `ValueError`.
    pub fn new(request: Request) -> PyResult<Table> {
        let (all, order) = request.columns();
        if let Some(wanted) = &request.choice.columns {
            let is_there = |name: &&String| all.iter().any(|column| column.name == **name);
            if let Some(unknown) = wanted.iter().find(|name| !is_there(name)) {
                let names = names(&all).join(", ");
                return Err(PyValueError::new_err(format!(
                    "there is no column {unknown:?} in {}; there are {names}",
                    request.kind.name()
                )));
            }
            let mut places = order.clone();
            places.sort_unstable();
            if places.windows(2).any(|two| two[0] == two[1]) {
                return Err(PyValueError::new_err("a column is asked for twice"));
            }
        }
        Ok(Table { request })
    }

    /// Counts its rows.
    pub fn count(&self, py: Python<'_>) -> PyResult<usize> {
        let count = py.detach(|| self.request.count()).map_err(TraceError::new_err)?;
        usize::try_from(count).map_err(|_| PyValueError::new_err("too many rows"))
    }

    /// Its columns, in order.
    fn wanted(&self) -> Vec<Field> {
        let (all, order) = self.request.columns();
        order.into_iter().map(|at| all[at].clone()).collect()
    }
}

fn names(columns: &[Field]) -> Vec<String> {
    columns.iter().map(|column| column.name.clone()).collect()
}

#[pymethods]
impl Table {
    /// The name of the table: `calls`, `call/openat`, ...
    #[getter]
    fn name(&self) -> String {
        self.request.kind.name()
    }

    /// The names of its columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        names(&self.wanted())
    }

    /// The number of its rows; the recording is read for it.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.count(py)
    }

    /// A table without rows is a table too.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        format!("<reenact.Table {:?}: {}>", self.name(), self.columns().join(", "))
    }

    /// The rows, as an Arrow stream: a capsule with an `ArrowArrayStream`.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol leaves it to us whether we can follow what somebody would rather have.
        let _ = requested_schema;
        let reader = self.request.clone().start();
        let reader = reader.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The types of its columns: a capsule with an `ArrowSchema`.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.request.schema());
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}
