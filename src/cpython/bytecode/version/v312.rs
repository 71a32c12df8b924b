//! CPython 3.12.

use super::Dialect;

/// CPython 3.12.
pub struct V312;

impl Dialect for V312 {
    fn minor(&self) -> u8 {
        12
    }

    /// The low 4 bits are a mask of types for specialization.
    fn compare_op(&self, arg: u32) -> (u32, bool) {
        (arg >> 4, false)
    }

    fn load_attr(&self, arg: u32) -> (u32, bool) {
        (arg >> 1, arg & 1 == 1)
    }

    fn load_attr_arg(&self, name: u32) -> u32 {
        name << 1
    }

    fn is_null_first(&self) -> bool {
        true
    }

    fn has_precall(&self) -> bool {
        false
    }

    fn skipped_at_loop_end(&self) -> &'static [&'static str] {
        &["END_FOR"]
    }

    fn end_for_pops(&self) -> usize {
        2
    }

    fn send_pops_receiver(&self) -> bool {
        false
    }

    fn dict_merge_function(&self) -> usize {
        2
    }

    fn unwinds_in_front_of_calls(&self) -> bool {
        false
    }

    fn throw_of_three_warns(&self) -> bool {
        true
    }

    fn close_returns_value(&self) -> bool {
        false
    }

    fn sort_reverse_is_integer(&self) -> bool {
        false
    }

    fn sum_keeps_lost_digits(&self) -> bool {
        true
    }
}
