//! [`Dialect`]: what instructions and a few builtins mean in one minor version of CPython.
//!
//! Opcode numbers, caches and jumps are read from the interpreter itself ([`super::OpTable`]). What
//! cannot be read there is here: one file a version, and a new one is a row of [`DIALECTS`].

mod v311;
mod v312;
mod v313;
// Experiments, which their tests alone use; `tables` has what these have in common.
#[cfg(all(test, feature = "experimental"))]
mod tables;
#[cfg(all(test, feature = "experimental"))]
mod v314;

use super::Instr;

/// What one minor version of CPython does in its own way.
pub trait Dialect: Sync {
    /// `minor` of `sys.version_info`.
    fn minor(&self) -> u8;

    /// An opcode that only this version has, or that it reads in its own way. None of them jumps.
    fn own_opcode(&self, _name: &str, _arg: u32) -> Option<Instr> {
        None
    }

    /// The opcode, and its argument, that takes a container and a key and pushes the item.
    fn subscript(&self) -> (&'static str, u32) {
        ("BINARY_SUBSCR", 0)
    }

    /// The operator of `COMPARE_OP`, and whether it makes a bool of the answer.
    fn compare_op(&self, arg: u32) -> (u32, bool);

    /// The name of `LOAD_ATTR`, and whether it pushes a receiver for a call.
    fn load_attr(&self, arg: u32) -> (u32, bool);

    /// The argument of a `LOAD_ATTR` of this name that pushes no receiver.
    fn load_attr_arg(&self, name: u32) -> u32;

    /// Whether NULL, in the place of a receiver, is pushed before the callable.
    fn is_null_first(&self) -> bool;

    /// Whether `PRECALL` stands in front of `CALL`.
    fn has_precall(&self) -> bool;

    /// Clean-up instructions at its target that `FOR_ITER` skips at the end of a loop.
    fn skipped_at_loop_end(&self) -> &'static [&'static str];

    /// How many items `END_FOR` pops.
    fn end_for_pops(&self) -> usize;

    /// Whether `SEND` pops the receiver when it jumps. Else `END_SEND` does, and `CLEANUP_THROW`
    /// takes what a generator returns that an exception was thrown into.
    fn send_pops_receiver(&self) -> bool;

    /// How far below the operands of `DICT_MERGE` the function stands that its error names.
    fn dict_merge_function(&self) -> usize;

    /// Whether the handler of an exception that an inlined call raises is looked for at the code
    /// unit in front of the call (`exception_unwind` after `exit_unwind` in `Python/ceval.c`).
    fn unwinds_in_front_of_calls(&self) -> bool;

    /// Whether `throw(type, value, traceback)` of a generator warns.
    fn throw_of_three_warns(&self) -> bool;

    /// Whether `close()` of a generator answers with what it returns.
    fn close_returns_value(&self) -> bool;

    /// Whether `reverse=` of a sort is a C integer, and not a truth.
    fn sort_reverse_is_integer(&self) -> bool;

    /// Whether `sum()` keeps the digits that adding floats loses.
    fn sum_keeps_lost_digits(&self) -> bool;
}

/// The versions that are supported, all of CPython 3.
const DIALECTS: [&dyn Dialect; 3] = [&v311::V311, &v312::V312, &v313::V313];

/// The dialect of this version; `None` where it is not supported.
pub fn dialect(major: u8, minor: u8) -> Option<&'static dyn Dialect> {
    let mut known = DIALECTS.into_iter();
    known.find(|dialect| major == 3 && dialect.minor() == minor)
}

/// The supported versions in words.
pub fn supported() -> String {
    let names: Vec<_> = DIALECTS
        .iter()
        .map(|known| format!("3.{}", known.minor()))
        .collect();
    match names.split_last() {
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_versions() {
        assert_eq!(supported(), "3.11, 3.12 and 3.13");
        assert!((11..=13).all(|minor| dialect(3, minor).is_some_and(|d| d.minor() == minor)));
        assert!(dialect(3, 10).is_none() && dialect(3, 14).is_none() && dialect(2, 12).is_none());
    }

    #[test]
    fn names_of_attributes_go_there_and_back() {
        for dialect in DIALECTS {
            assert_eq!(dialect.load_attr(dialect.load_attr_arg(7)), (7, false));
        }
    }

    #[test]
    fn less_or_equal_is_found_in_each_encoding() {
        // `a <= b` as `dis` shows it: operator 1, and in 3.13 also as the test of a branch.
        let seen = [
            (11, 1, false),
            (12, 1 << 4 | 10, false),
            (13, 1 << 5 | 10, false),
        ];
        for (minor, arg, to_bool) in seen.into_iter().chain([(13, 1 << 5 | 16 | 10, true)]) {
            let found = dialect(3, minor).map(|dialect| dialect.compare_op(arg));
            assert_eq!(found, Some((1, to_bool)), "3.{minor}");
        }
    }
}
