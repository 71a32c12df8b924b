//! Samples of the numbers of a tensor: optimizers write others into its memory, and count no change
//! in place.

use std::hash::Hasher;

use pyo3::intern;
use pyo3::prelude::*;
use rustc_hash::FxHasher;

/// Words that are looked at, spread over the memory.
const WORDS: usize = 64;

/// A digest of some of its numbers, all where they are few; `None` where they are not in the memory
/// of this machine.
///
/// # Errors
/// What Paddle raises for a tensor that has no memory.
pub fn sampled(tensor: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let py = tensor.py();
    let says = |name| -> PyResult<bool> { tensor.call_method0(name)?.is_truthy() };
    let place = tensor.getattr(intern!(py, "place"))?;
    if !is_cpu_place(&place)? || !says(intern!(py, "is_dense"))? {
        return Ok(None);
    }
    let count: usize = tensor.getattr(intern!(py, "size"))?.extract()?;
    let each: usize = tensor
        .call_method0(intern!(py, "element_size"))?
        .extract()?;
    let address: usize = tensor.call_method0(intern!(py, "data_ptr"))?.extract()?;
    let bytes = count * each;
    if bytes == 0 || address == 0 {
        return Ok(None);
    }
    if !says(intern!(py, "is_contiguous"))? {
        let shape: Vec<usize> = tensor.getattr(intern!(py, "shape"))?.extract()?;
        let strides: Vec<isize> = tensor.getattr(intern!(py, "strides"))?.extract()?;
        return Ok(Some(sampled_by_strides(address, each, &shape, &strides)));
    }
    let memory = address as *const u8;
    let mut digest = FxHasher::default();
    // SAFETY: a dense, contiguous tensor in the memory of this machine has that many bytes at its
    // address, and lives for this call. Each read is inside of them; `[u8; 8]` needs no alignment.
    let word = |at: usize| unsafe { memory.add(at).cast::<[u8; 8]>().read_volatile() };
    match bytes.checked_sub(8) {
        Some(last) => {
            let step = 8 * bytes.div_ceil(8 * WORDS);
            (0..last)
                .step_by(step)
                .for_each(|at| digest.write(&word(at)));
            digest.write(&word(last));
        }
        None => (0..bytes).for_each(|at| {
            // SAFETY: as above.
            digest.write_u8(unsafe { memory.add(at).read_volatile() });
        }),
    }
    Ok(Some(digest.finish()))
}

/// Whether a place is the memory of this machine.
///
/// # Errors
/// When it is no place.
pub fn is_cpu_place(place: &Bound<'_, PyAny>) -> PyResult<bool> {
    place
        .call_method0(intern!(place.py(), "is_cpu_place"))?
        .is_truthy()
}

/// The same of a tensor whose numbers do not lie one after the other: `address` is that of the
/// first, `each` the bytes of one.
fn sampled_by_strides(address: usize, each: usize, shape: &[usize], strides: &[isize]) -> u64 {
    let count: usize = shape.iter().product();
    let mut digest = FxHasher::default();
    let mut look = |number: usize| {
        let mut rest = number;
        let mut at: isize = 0;
        for (dim, stride) in shape.iter().zip(strides).rev() {
            at += (rest % dim) as isize * stride;
            rest /= dim;
        }
        let first = (address as *const u8).wrapping_offset(at * each as isize);
        for byte in 0..each {
            // SAFETY: this is how a dense tensor says where each of its numbers is, and it lives
            // for this call.
            digest.write_u8(unsafe { first.wrapping_add(byte).read_volatile() });
        }
    };
    (0..count)
        .step_by(count.div_ceil(WORDS))
        .for_each(&mut look);
    look(count - 1);
    digest.finish()
}
