//! Why a message could not be read or written, and where in it.

use std::fmt::Write;

use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError};
use pyo3::import_exception;
use pyo3::prelude::*;

import_exception!(ottla.native.errors, MessageError);

/// The result of a step of the codec. Failures are rare and large, so they are boxed.
pub(super) type Outcome<T> = Result<T, Box<Failure>>;

/// A failure on its way up; each level adds where it was. The path therefore stands innermost first.
pub(super) struct Failure {
    cause: Cause,
    position: Option<usize>,
    path: Vec<Step>,
}

enum Cause {
    Reason(String),
    Raised(PyErr),
}

enum Step {
    Field(String),
    Index(usize),
}

/// Python raised. What says nothing about the message, such as a lack of memory, stays what it is.
impl From<PyErr> for Box<Failure> {
    #[cold]
    fn from(error: PyErr) -> Self {
        Python::attach(|py| {
            if error.is_instance_of::<PyMemoryError>(py)
                || error.is_instance_of::<PyKeyboardInterrupt>(py)
            {
                return Box::new(Failure {
                    cause: Cause::Raised(error),
                    position: None,
                    path: Vec::new(),
                });
            }
            Failure::of(error.value(py).to_string())
        })
    }
}

impl Failure {
    /// The bytes are wrong at a position.
    #[cold]
    pub(super) fn at(position: usize, reason: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            cause: Cause::Reason(reason.into()),
            position: Some(position),
            path: Vec::new(),
        })
    }

    /// A value is wrong.
    #[cold]
    pub(super) fn of(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            cause: Cause::Reason(reason.into()),
            position: None,
            path: Vec::new(),
        })
    }

    /// The error that the interpreter holds.
    #[cold]
    pub(super) fn fetched(py: Python<'_>) -> Box<Self> {
        PyErr::fetch(py).into()
    }

    #[cold]
    pub(super) fn within_field(mut self: Box<Self>, name: &str) -> Box<Self> {
        self.path.push(Step::Field(name.to_owned()));
        self
    }

    #[cold]
    pub(super) fn within_element(mut self: Box<Self>, index: usize) -> Box<Self> {
        self.path.push(Step::Index(index));
        self
    }

    /// `FetchRequest v12: topics[3].partitions[0].fetch_offset: byte 77: ...`
    #[cold]
    pub(super) fn into_error(self, message: &str) -> PyErr {
        let reason = match self.cause {
            Cause::Raised(error) => return error,
            Cause::Reason(reason) => reason,
        };
        let mut text = String::from(message);
        let mut separator = ": ";
        for step in self.path.iter().rev() {
            match step {
                Step::Field(name) => write!(text, "{separator}{name}"),
                Step::Index(index) => write!(text, "[{index}]"),
            }
            .expect("writing to a string does not fail");
            separator = ".";
        }
        if let Some(position) = self.position {
            write!(text, ": byte {position}").expect("writing to a string does not fail");
        }
        MessageError::new_err(format!("{text}: {reason}"))
    }
}
