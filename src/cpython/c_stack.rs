//! Room on the C stack.
//!
//! Python calls do not nest there, since CPython 3.11; those of our objects do, as those of any C
//! function. A thread whose stack overflows ends the process without a word, so what nests looks
//! first, and goes on elsewhere where there is little left.

/// What one call takes until the next one looks, with the kernels that it runs, in bytes.
const CALL: usize = 256 << 10;

/// What a translation takes, without the calls that it follows.
const TRANSLATION: usize = 1 << 20;

/// What is reserved where there is too little. Memory is taken where it is touched.
const SEGMENT: usize = 8 << 20;

/// Makes a call of ours where the C stack has room for it.
pub fn for_call<R>(call: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(CALL, SEGMENT, call)
}

/// Translates where the C stack has room for it.
pub fn for_translation<R>(translate: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(TRANSLATION, SEGMENT, translate)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;

    use super::*;

    /// Some 4 KiB a level, beside what the compiler needs.
    fn nested(levels: usize) -> usize {
        let used = black_box([levels; 512]);
        let below = match levels {
            0 => 0,
            _ => for_call(|| nested(levels - 1)),
        };
        below + used[levels % 512] - levels + 1
    }

    #[test]
    fn calls_nest_as_deep_as_they_like() {
        let thread = thread::Builder::new().stack_size(512 << 10);
        let thread = thread.spawn(|| nested(10_000)).expect("there are threads");
        assert_eq!(thread.join().ok(), Some(10_001));
    }

    #[test]
    fn a_panic_comes_through() {
        let thread = thread::Builder::new().stack_size(64 << 10);
        let panics = || for_call(|| for_translation(|| panic!("on another stack")));
        let thread = thread.spawn(panics).expect("there are threads");
        assert!(thread.join().is_err());
    }
}
