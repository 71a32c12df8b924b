//! CPython 3.14: its byte code, after `Include/opcode_ids.h` and `Python/bytecodes.c`.
//!
//! An experiment: it shows what a new version takes. Frames and objects of 3.14 are not read yet,
//! and no Paddle is built for it; so no interpreter gets this dialect.

use super::{Dialect, Instr};

/// CPython 3.14.
pub struct V314;

/// `NB_SUBSCR`: `BINARY_SUBSCR` of older versions is an operator.
const SUBSCRIPT: u32 = 26;

/// `CONSTANT_ASSERTIONERROR` of `LOAD_COMMON_CONSTANT`.
const ASSERTION_ERROR: u32 = 0;

/// What has no equal in older versions. Each is UNIMP until the simulator has it.
const NEW: &[&str] = &[
    "LOAD_SMALL_INT",
    "LOAD_SPECIAL",
    "LOAD_COMMON_CONSTANT",
    "BUILD_INTERPOLATION",
    "BUILD_TEMPLATE",
];

impl Dialect for V314 {
    fn minor(&self) -> u8 {
        14
    }

    /// Whether a reference is borrowed is the interpreter's business.
    fn own_opcode(&self, name: &str, arg: u32) -> Option<Instr> {
        Some(match name {
            "BINARY_OP" if arg == SUBSCRIPT => Instr::BinarySubscr,
            "LOAD_COMMON_CONSTANT" if arg == ASSERTION_ERROR => Instr::LoadAssertionError,
            "LOAD_FAST_BORROW" => Instr::LoadFast {
                local: arg,
                clear: false,
            },
            "LOAD_FAST_BORROW_LOAD_FAST_BORROW" => Instr::LoadFastLoadFast {
                first: arg >> 4,
                second: arg & 15,
            },
            // A mark for tools that watch branches.
            "NOT_TAKEN" => Instr::Nop,
            "POP_ITER" => Instr::PopTop,
            // Keywords or NULL always lie on the stack.
            "CALL_FUNCTION_EX" => Instr::CallFunctionEx { kwargs: true },
            _ => Instr::Other {
                name: NEW.iter().find(|new| **new == name)?,
            },
        })
    }

    fn subscript(&self) -> (&'static str, u32) {
        ("BINARY_OP", SUBSCRIPT)
    }

    /// As in 3.13.
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

    /// `FOR_ITER` leaves the iterator there, and `POP_ITER` takes it.
    fn skipped_at_loop_end(&self) -> &'static [&'static str] {
        &["END_FOR", "POP_ITER"]
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::bytecode::instr::BinOp;
    use crate::bytecode::version::tables::Tables;

    const TABLES: Tables = Tables {
        dialect: &V314,
        opcodes: OPCODES,
        caches: CACHES,
        jumps: "END_ASYNC_FOR FOR_ITER JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD \
             POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE SEND",
    };

    /// A first number, and the names from there on.
    #[rustfmt::skip]
    const OPCODES: &[(usize, &str)] = &[
        (0, "CACHE BINARY_SLICE BUILD_TEMPLATE"),
        (
            4,
            "CALL_FUNCTION_EX CHECK_EG_MATCH CHECK_EXC_MATCH CLEANUP_THROW DELETE_SUBSCR \
             END_FOR END_SEND EXIT_INIT_CHECK FORMAT_SIMPLE FORMAT_WITH_SPEC GET_AITER \
             GET_ANEXT GET_ITER RESERVED GET_LEN GET_YIELD_FROM_ITER INTERPRETER_EXIT \
             LOAD_BUILD_CLASS LOAD_LOCALS MAKE_FUNCTION MATCH_KEYS MATCH_MAPPING \
             MATCH_SEQUENCE NOP NOT_TAKEN POP_EXCEPT POP_ITER POP_TOP PUSH_EXC_INFO \
             PUSH_NULL RETURN_GENERATOR RETURN_VALUE SETUP_ANNOTATIONS STORE_SLICE \
             STORE_SUBSCR TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT WITH_EXCEPT_START \
             BINARY_OP BUILD_INTERPOLATION BUILD_LIST BUILD_MAP BUILD_SET BUILD_SLICE \
             BUILD_STRING BUILD_TUPLE CALL CALL_INTRINSIC_1 CALL_INTRINSIC_2 CALL_KW \
             COMPARE_OP CONTAINS_OP CONVERT_VALUE COPY COPY_FREE_VARS DELETE_ATTR \
             DELETE_DEREF DELETE_FAST DELETE_GLOBAL DELETE_NAME DICT_MERGE DICT_UPDATE \
             END_ASYNC_FOR EXTENDED_ARG FOR_ITER GET_AWAITABLE IMPORT_FROM IMPORT_NAME \
             IS_OP JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP_FORWARD LIST_APPEND \
             LIST_EXTEND LOAD_ATTR LOAD_COMMON_CONSTANT LOAD_CONST LOAD_DEREF LOAD_FAST \
             LOAD_FAST_AND_CLEAR LOAD_FAST_BORROW LOAD_FAST_BORROW_LOAD_FAST_BORROW \
             LOAD_FAST_CHECK LOAD_FAST_LOAD_FAST LOAD_FROM_DICT_OR_DEREF \
             LOAD_FROM_DICT_OR_GLOBALS LOAD_GLOBAL LOAD_NAME LOAD_SMALL_INT LOAD_SPECIAL \
             LOAD_SUPER_ATTR MAKE_CELL MAP_ADD MATCH_CLASS POP_JUMP_IF_FALSE \
             POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE RAISE_VARARGS RERAISE \
             SEND SET_ADD SET_FUNCTION_ATTRIBUTE SET_UPDATE STORE_ATTR STORE_DEREF \
             STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST STORE_GLOBAL STORE_NAME \
             SWAP UNPACK_EX UNPACK_SEQUENCE YIELD_VALUE",
        ),
        (128, "RESUME"),
        (255, "ENTER_EXECUTOR"),
    ];

    /// `_inline_cache_entries`.
    const CACHES: &[(&str, usize)] = &[
        ("LOAD_GLOBAL", 4),
        ("BINARY_OP", 5),
        ("UNPACK_SEQUENCE", 1),
        ("COMPARE_OP", 1),
        ("CONTAINS_OP", 1),
        ("FOR_ITER", 1),
        ("LOAD_SUPER_ATTR", 1),
        ("LOAD_ATTR", 9),
        ("STORE_ATTR", 4),
        ("CALL", 3),
        ("CALL_KW", 3),
        ("STORE_SUBSCR", 1),
        ("SEND", 1),
        ("JUMP_BACKWARD", 1),
        ("TO_BOOL", 3),
        ("POP_JUMP_IF_TRUE", 1),
        ("POP_JUMP_IF_FALSE", 1),
        ("POP_JUMP_IF_NONE", 1),
        ("POP_JUMP_IF_NOT_NONE", 1),
    ];

    /// `def f(x, y): return x + y`
    const SUM: &str = "RESUME 0\nLOAD_FAST_BORROW_LOAD_FAST_BORROW 1\nBINARY_OP 0\nRETURN_VALUE";

    /// `def f(xs, i):` `for x in xs: g(x[i])`
    const LOOP: &str = "RESUME 0\nLOAD_FAST_BORROW 0\nGET_ITER\nFOR_ITER 20\nSTORE_FAST 2\n\
        LOAD_GLOBAL 1\nLOAD_FAST_BORROW_LOAD_FAST_BORROW 33\nBINARY_OP 26\nCALL 1\nPOP_TOP\n\
        JUMP_BACKWARD 22\nEND_FOR\nPOP_ITER\nLOAD_CONST 0\nRETURN_VALUE";

    /// `def f(x):` `assert x is not None`
    const ASSERTION: &str = "RESUME 0\nLOAD_FAST_BORROW 0\nPOP_JUMP_IF_NOT_NONE 3\nNOT_TAKEN\n\
        LOAD_COMMON_CONSTANT 0\nRAISE_VARARGS 1\nLOAD_CONST 0\nRETURN_VALUE";

    #[rstest]
    #[case::sum(SUM, &[
        Instr::LoadFastLoadFast { first: 0, second: 1 },
        Instr::BinaryOp { op: BinOp::Add, inplace: false },
        Instr::ReturnValue,
    ])]
    #[case::a_loop(LOOP, &[
        Instr::LoadFast { local: 0, clear: false },
        Instr::GetIter,
        Instr::ForIter { target: 11 },
        Instr::StoreFast { local: 2 },
        Instr::LoadGlobal { name: 0, push_null: true },
        Instr::LoadFastLoadFast { first: 2, second: 1 },
        Instr::BinarySubscr,
        Instr::Call { argc: 1 },
        Instr::PopTop,
        Instr::Jump { target: 3 },
        Instr::EndFor,
        Instr::PopTop,
        Instr::LoadConst { index: 0 },
        Instr::ReturnValue,
    ])]
    #[case::assertion(ASSERTION, &[
        Instr::LoadFast { local: 0, clear: false },
        Instr::PopJumpIfNotNone { target: 6 },
        Instr::Nop,
        Instr::LoadAssertionError,
        Instr::RaiseVarargs { argc: 1 },
        Instr::LoadConst { index: 0 },
        Instr::ReturnValue,
    ])]
    fn byte_code_there_and_back(#[case] text: &str, #[case] wanted: &[Instr]) {
        TABLES.there_and_back(text, wanted);
    }

    #[test]
    fn every_opcode_is_decided_about() {
        TABLES.every_opcode_is_decided_about();
    }

    #[test]
    fn what_codegen_emits_is_there() {
        TABLES.what_codegen_emits_is_there();
        assert!(TABLES.opcodes().number("BINARY_SUBSCR").is_none());
    }
}
