//! In-place versions of tensors, and whether a result shares its own with anything but the variable
//! that it came from.
//!
//! All runs of a program in one scope hand out the version of the scope's variable. Where nothing
//! else has that version any more, and it counts no change, it is as good as a new one. A self-test
//! finds where tensors keep it.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::library::opened;
use super::own_version::with_own_version;
use super::shared_ptr::Shared;
use super::tensor;
use paddle_sot_cpython::frame::Modules;

pub(super) struct Reader {
    /// The virtual table of a dense tensor: other kinds are not looked at.
    class: usize,
    /// Where it keeps its version.
    at: usize,
}

static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();

/// Whether the variable that `result` came from is all that shares its version, and nothing was
/// changed. `false` where that cannot be seen.
pub fn has_fresh_version(result: &Bound<'_, PyAny>) -> bool {
    matches!(state(result), Some((0, 1 | 2)))
}

/// The number of changes in place that a `paddle.Tensor` counts, its views included.
///
/// # Errors
/// What Paddle raises for a tensor of a kind that only Paddle reads.
pub fn inplace_version(tensor: &Bound<'_, PyAny>) -> PyResult<u32> {
    match state(tensor) {
        Some((changes, _)) => Ok(changes),
        None => tensor
            .getattr(pyo3::intern!(tensor.py(), "inplace_version"))?
            .extract(),
    }
}

fn state(tensor: &Bound<'_, PyAny>) -> Option<(u32, i32)> {
    let without = "versions of tensors are not read";
    let reader = opened(
        tensor.py(),
        &READER,
        open,
        ("paddle_sot_rs.backend", without),
    );
    reader.and_then(|reader| reader.state(tensor))
}

impl Reader {
    /// The changes that the version of a tensor counts, and its owners.
    fn state(&self, tensor: &Bound<'_, PyAny>) -> Option<(u32, i32)> {
        let tensor = tensor::tensor_of(tensor.as_ptr());
        // SAFETY: results are live `paddle.Tensor`s, which begin with a pointer to their
        // implementation; one with the virtual table of the samples keeps its version where they
        // do, and with it the counts.
        unsafe {
            let dense = tensor.cast::<*const u8>().read();
            if dense.is_null() || dense.cast::<usize>().read() != self.class {
                return None;
            }
            let version = &*dense.add(self.at).cast::<Shared>();
            if version.object.is_null() || version.owners.is_null() {
                return None;
            }
            // The object is one count.
            let changes = (*version.object.cast::<AtomicU32>()).load(Ordering::Relaxed);
            Some((changes, (*version.owners).uses.load(Ordering::Acquire)))
        }
    }
}

/// A tensor, a view with the same version, and one with the same memory but a version of its own.
type Sample<'py> = [Bound<'py, PyAny>; 3];

pub(super) fn open(py: Python<'_>) -> Result<Reader, String> {
    if tensor::reader_name(py) != "native" {
        return Err("tensors are not where they are known to be".into());
    }
    let make = || -> PyResult<Vec<Sample<'_>>> {
        let zeros = py.paddle()?.getattr("zeros")?;
        let sample = |shape: Vec<usize>| -> PyResult<Sample<'_>> {
            let first = zeros.call1((shape,))?;
            let other = with_own_version(&first)?;
            Ok([first.clone(), first.call_method1("unsqueeze", (0,))?, other])
        };
        [vec![3], vec![2, 5], vec![1, 2, 3, 4]]
            .map(sample)
            .into_iter()
            .collect()
    };
    let samples = make().map_err(|err| err.to_string())?;
    // SAFETY: the samples are live, defined, dense tensors.
    let reader = unsafe { find(&samples) }.ok_or("no place for it, or several")?;
    match self_test(&reader, &samples) {
        Ok(true) => Ok(reader),
        Ok(false) => Err("what is read is not what was done".into()),
        Err(err) => Err(err.to_string()),
    }
}

/// The only place in dense tensors with two pointers that go with the version.
///
/// # Safety
/// The samples are live Python objects of defined dense tensors.
unsafe fn find(samples: &[Sample<'_>]) -> Option<Reader> {
    // A table, a meta (two `DDim`s of 80 bytes, flags, dtype, layout, levels, offset), the memory
    // and the version.
    const SEARCHED: usize = 264;
    let is_pointer = |word: usize| word > 1 << 16 && word % 8 == 0;
    // SAFETY: the reads stay inside of objects of at least that size.
    unsafe {
        let object = |tensor: &Bound<'_, PyAny>| {
            tensor::tensor_of(tensor.as_ptr())
                .cast::<*const u8>()
                .read()
        };
        let class = object(&samples.first()?[0]).cast::<usize>().read();
        let fits = |at: usize| {
            samples.iter().all(|[first, same, other]| {
                [at, at + 8].into_iter().all(|at| {
                    let [first, same, other] = [first, same, other]
                        .map(|tensor| object(tensor).add(at).cast::<usize>().read());
                    is_pointer(first) && first == same && first != other && is_pointer(other)
                })
            })
        };
        let found: Vec<usize> = (8..SEARCHED - 15)
            .step_by(8)
            .filter(|at| fits(*at))
            .collect();
        match found[..] {
            [at] => Some(Reader { class, at }),
            _ => None,
        }
    }
}

fn self_test(reader: &Reader, samples: &[Sample<'_>]) -> PyResult<bool> {
    for (number, [first, same, other]) in samples.iter().enumerate() {
        let changes = number as u32 + 3;
        for _ in 0..changes {
            first.call_method0("_bump_inplace_version")?;
        }
        let more = first.call_method1("unsqueeze", (0,))?;
        let read = |tensor| reader.state(tensor);
        if read(first) != Some((changes, 3))
            || read(same) != read(first)
            || read(other) != Some((0, 1))
        {
            return Ok(false);
        }
        drop(more);
        if read(first) != Some((changes, 2)) {
            return Ok(false);
        }
    }
    Ok(true)
}
