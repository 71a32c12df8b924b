//! CPython 3.11.

use super::Dialect;

/// CPython 3.11.
pub struct V311;

impl Dialect for V311 {
    fn minor(&self) -> u8 {
        11
    }

    fn compare_op(&self, arg: u32) -> (u32, bool) {
        (arg, false)
    }

    fn load_attr(&self, arg: u32) -> (u32, bool) {
        (arg, false)
    }

    fn load_attr_arg(&self, name: u32) -> u32 {
        name
    }

    fn is_null_first(&self) -> bool {
        true
    }

    fn has_precall(&self) -> bool {
        true
    }

    fn skipped_at_loop_end(&self) -> &'static [&'static str] {
        &[]
    }

    fn end_for_pops(&self) -> usize {
        1
    }

    fn send_pops_receiver(&self) -> bool {
        true
    }

    fn dict_merge_function(&self) -> usize {
        2
    }

    fn unwinds_in_front_of_calls(&self) -> bool {
        false
    }

    fn throw_of_three_warns(&self) -> bool {
        false
    }

    fn close_returns_value(&self) -> bool {
        false
    }

    fn sort_reverse_is_integer(&self) -> bool {
        true
    }

    fn sum_keeps_lost_digits(&self) -> bool {
        false
    }
}
