//! Errors a backend may answer with.

/// Why a backend could not do what was asked. None of them reaches the user as an exception: the
/// engine breaks the graph or runs the frame natively, and counts it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The call cannot be captured.
    #[error("{0}")]
    Refused(String),
    /// The call is one that this backend leaves to the interpreter (CDBL).
    #[error("{0}")]
    BlackListed(String),
    /// The call raised while its metadata was inferred.
    #[error("inference raised {0}")]
    Raised(pyo3::PyErr),
    /// The graph could not be compiled.
    #[error("compilation failed: {0}")]
    Compile(String),
    /// A handle was used after roll-back.
    #[error("symbol %{0} has no value in this trace")]
    DeadSymbol(u32),
}

impl BackendError {
    /// Whether it is no failure but the user's interrupt, or the end of the process: nothing takes
    /// its place.
    pub fn is_interrupt(&self, py: pyo3::Python<'_>) -> bool {
        let is_exception =
            |raised: &pyo3::PyErr| raised.is_instance_of::<pyo3::exceptions::PyException>(py);
        matches!(self, Self::Raised(raised) if !is_exception(raised))
    }

    /// Why something failed.
    ///
    /// # Errors
    /// The exception of an interrupt: see [`is_interrupt`](Self::is_interrupt).
    pub fn reason(&self, py: pyo3::Python<'_>) -> pyo3::PyResult<String> {
        match &self {
            Self::Raised(raised) if self.is_interrupt(py) => Err(raised.clone_ref(py)),
            Self::Refused(_)
            | Self::BlackListed(_)
            | Self::Raised(_)
            | Self::Compile(_)
            | Self::DeadSymbol(_) => Ok(self.to_string()),
        }
    }
}

impl From<super::RegistryError> for BackendError {
    fn from(err: super::RegistryError) -> Self {
        Self::Compile(err.to_string())
    }
}

impl From<pyo3::PyErr> for BackendError {
    fn from(err: pyo3::PyErr) -> Self {
        Self::Raised(err)
    }
}
