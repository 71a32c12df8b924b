//! CPython 3.13.

use super::Dialect;

/// CPython 3.13.
pub struct V313;

impl Dialect for V313 {
    fn minor(&self) -> u8 {
        13
    }

    /// Between the mask of types and the operator, a bit says that the answer becomes a bool.
    fn compare_op(&self, arg: u32) -> (u32, bool) {
        (arg >> 5, arg & 16 != 0)
    }

    fn load_attr(&self, arg: u32) -> (u32, bool) {
        (arg >> 1, arg & 1 == 1)
    }

    fn load_attr_arg(&self, name: u32) -> u32 {
        name << 1
    }

    fn is_null_first(&self) -> bool {
        false
    }

    fn has_precall(&self) -> bool {
        false
    }

    fn skipped_at_loop_end(&self) -> &'static [&'static str] {
        &["END_FOR", "POP_TOP"]
    }

    fn end_for_pops(&self) -> usize {
        1
    }

    fn send_pops_receiver(&self) -> bool {
        false
    }

    fn dict_merge_function(&self) -> usize {
        3
    }

    fn unwinds_in_front_of_calls(&self) -> bool {
        true
    }

    fn throw_of_three_warns(&self) -> bool {
        true
    }

    fn close_returns_value(&self) -> bool {
        true
    }

    fn sort_reverse_is_integer(&self) -> bool {
        false
    }

    fn sum_keeps_lost_digits(&self) -> bool {
        true
    }
}
