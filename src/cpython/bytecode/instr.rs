//! [`Instr`]: one instruction set for all versions, arguments interpreted.

use super::version::Dialect;

/// Binary operators.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    Add,
    And,
    FloorDiv,
    LShift,
    MatMul,
    Mul,
    Rem,
    Or,
    Pow,
    RShift,
    Sub,
    TrueDiv,
    Xor,
}

impl BinOp {
    const ALL: [BinOp; 13] = [
        Self::Add,
        Self::And,
        Self::FloorDiv,
        Self::LShift,
        Self::MatMul,
        Self::Mul,
        Self::Rem,
        Self::Or,
        Self::Pow,
        Self::RShift,
        Self::Sub,
        Self::TrueDiv,
        Self::Xor,
    ];

    /// The dunder without its underscores: `add` in `__add__`, `__radd__`, `__iadd__`.
    pub fn stem(self) -> &'static str {
        [
            "add", "and", "floordiv", "lshift", "matmul", "mul", "mod", "or", "pow", "rshift",
            "sub", "truediv", "xor",
        ][self as usize]
    }

    /// The function of `operator` that computes it: `add`, `and_`; in place `iadd`, `iand`.
    pub fn function(self, inplace: bool) -> String {
        if inplace {
            return format!("i{}", self.stem());
        }
        // Keywords end with an underscore there.
        let underscore = if matches!(self, Self::And | Self::Or) {
            "_"
        } else {
            ""
        };
        format!("{}{underscore}", self.stem())
    }

    /// `+`, ...
    pub fn symbol(self) -> &'static str {
        [
            "+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^",
        ][self as usize]
    }
}

/// Comparisons.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    Lt,
    Le,
    Eq,
    Ne,
    Gt,
    Ge,
}

impl CmpOp {
    const ALL: [CmpOp; 6] = [Self::Lt, Self::Le, Self::Eq, Self::Ne, Self::Gt, Self::Ge];

    /// `__lt__`, ...
    pub fn dunder(self) -> &'static str {
        ["__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"][self as usize]
    }

    /// The comparison with this name.
    pub fn from_dunder(name: &str) -> Option<CmpOp> {
        Self::ALL.into_iter().find(|op| op.dunder() == name)
    }

    /// `<`, ...
    pub fn symbol(self) -> &'static str {
        ["<", "<=", "==", "!=", ">", ">="][self as usize]
    }

    /// What it answers for two values of one type.
    pub fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Self::Lt => a < b,
            Self::Le => a <= b,
            Self::Eq => a == b,
            Self::Ne => a != b,
            Self::Gt => a > b,
            Self::Ge => a >= b,
        }
    }

    /// The comparison that holds of whole numbers where this one does not.
    pub fn opposite(self) -> CmpOp {
        [Self::Ge, Self::Gt, Self::Ne, Self::Eq, Self::Le, Self::Lt][self as usize]
    }

    /// The dunder of the swapped comparison.
    pub fn reflected(self) -> CmpOp {
        [Self::Gt, Self::Ge, Self::Eq, Self::Ne, Self::Lt, Self::Le][self as usize]
    }
}

macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident : $ty:ty),* })?;)*) => {
        /// One instruction. Local slots index `localsplus`, names index `Code::names`, constants
        /// `Code::consts`, targets `Code::instructions`.
        #[allow(missing_docs)]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Instr { $($(#[$doc])* $name $({ $($field: $ty),* })?,)* }
    };
}

instructions! {
    Nop; Resume; Precall; PopTop; EndFor; PushNull; EndSend; CheckEgMatch; PrepReraiseStar;
    Copy { depth: u32 }; Swap { depth: u32 };
    LoadConst { index: u32 };
    LoadFast { local: u32, clear: bool }; StoreFast { local: u32 }; DeleteFast { local: u32 };
    LoadFastLoadFast { first: u32, second: u32 }; StoreFastLoadFast { store: u32, load: u32 };
    StoreFastStoreFast { first: u32, second: u32 };
    MakeCell { local: u32 }; CopyFreeVars { count: u32 }; LoadClosure { local: u32 };
    LoadDeref { local: u32 }; StoreDeref { local: u32 }; DeleteDeref { local: u32 };
    LoadGlobal { name: u32, push_null: bool }; StoreGlobal { name: u32 }; DeleteGlobal { name: u32 };
    LoadFromDictOrGlobals { name: u32 }; LoadFromDictOrDeref { local: u32 };
    LoadAssertionError;
    UnaryPositive; UnaryNegative; UnaryInvert; UnaryNot; ToBool;
    BinaryOp { op: BinOp, inplace: bool }; CompareOp { op: CmpOp, to_bool: bool };
    IsOp { invert: bool }; ContainsOp { invert: bool };
    BinarySubscr; StoreSubscr; DeleteSubscr; BinarySlice; StoreSlice;
    LoadAttr { name: u32, method: bool }; LoadSuperAttr { name: u32, method: bool };
    StoreAttr { name: u32 }; DeleteAttr { name: u32 };
    BuildTuple { count: u32 }; BuildList { count: u32 }; BuildSet { count: u32 }; BuildMap { count: u32 };
    BuildConstKeyMap { count: u32 }; BuildString { count: u32 }; BuildSlice { count: u32 };
    ListAppend { depth: u32 }; SetAdd { depth: u32 }; MapAdd { depth: u32 };
    ListExtend { depth: u32 }; SetUpdate { depth: u32 }; DictUpdate { depth: u32 }; DictMerge { depth: u32 };
    ListToTuple;
    FormatValue { conversion: u8, has_spec: bool }; ConvertValue { conversion: u8 }; FormatSimple; FormatWithSpec;
    UnpackSequence { count: u32 }; UnpackEx { before: u32, after: u32 };
    GetIter; GetYieldFromIter; GetLen; ForIter { target: usize }; Send { target: usize }; CleanupThrow;
    ReturnGenerator; YieldValue; LoadBuildClass;
    KwNames { index: u32 }; Call { argc: u32 }; CallKw { argc: u32 }; CallFunctionEx { kwargs: bool };
    CallIntrinsic1 { id: u32 }; CallIntrinsic2 { id: u32 };
    MakeFunction { flags: u32 }; SetFunctionAttribute { flag: u32 };
    Jump { target: usize };
    PopJumpIfTrue { target: usize }; PopJumpIfFalse { target: usize };
    PopJumpIfNone { target: usize }; PopJumpIfNotNone { target: usize };
    JumpIfTrueOrPop { target: usize }; JumpIfFalseOrPop { target: usize };
    ReturnValue; ReturnConst { index: u32 };
    BeforeWith; WithExceptStart; PushExcInfo; PopExcept; CheckExcMatch; Reraise; RaiseVarargs { argc: u32 };
    ImportName { name: u32 }; ImportFrom { name: u32 };
    MatchMapping; MatchSequence; MatchKeys; MatchClass { count: u32 };
    /// An instruction that exists but is not simulated; it only has to survive a round trip.
    Other { name: &'static str };
}

const ASYNC: &str = "asynchronous";
const BODY: &str = "body: in code of modules and classes only, whose frames are never translated";
const INTERNAL: &str = "internal: no instruction of a program";

/// Opcodes that are decoded to [`Instr::Other`], each with the reason. Each is UNIMP: the frame
/// that runs one runs natively.
pub const UNIMP: &[(&str, &str)] = &[
    ("GET_AITER", ASYNC),
    ("GET_ANEXT", ASYNC),
    ("BEFORE_ASYNC_WITH", ASYNC),
    ("END_ASYNC_FOR", ASYNC),
    ("GET_AWAITABLE", ASYNC),
    ("ASYNC_GEN_WRAP", ASYNC),
    ("PRINT_EXPR", BODY),
    ("IMPORT_STAR", BODY),
    ("SETUP_ANNOTATIONS", BODY),
    ("STORE_NAME", BODY),
    ("DELETE_NAME", BODY),
    ("LOAD_NAME", BODY),
    ("LOAD_LOCALS", BODY),
    ("LOAD_CLASSDEREF", BODY),
    ("CACHE", INTERNAL),
    ("EXTENDED_ARG", INTERNAL),
    ("INTERPRETER_EXIT", INTERNAL),
    ("RESERVED", INTERNAL),
    ("ENTER_EXECUTOR", INTERNAL),
    ("EXIT_INIT_CHECK", INTERNAL),
];

/// The typed form of an opcode by name. `target` is the jump target, where the opcode jumps.
/// `None` for names nobody knows.
pub fn typed(dialect: &dyn Dialect, name: &str, arg: u32, target: usize) -> Option<Instr> {
    if let Some(own) = dialect.own_opcode(name, arg) {
        return Some(own);
    }
    let flag = arg & 1 == 1;
    Some(match name {
        "NOP" => Instr::Nop,
        "RESUME" => Instr::Resume,
        "PRECALL" => Instr::Precall,
        "POP_TOP" => Instr::PopTop,
        "END_FOR" => Instr::EndFor,
        "END_SEND" => Instr::EndSend,
        "PUSH_NULL" => Instr::PushNull,
        "CHECK_EG_MATCH" => Instr::CheckEgMatch,
        "PREP_RERAISE_STAR" => Instr::PrepReraiseStar,
        "COPY" => Instr::Copy { depth: arg },
        "SWAP" => Instr::Swap { depth: arg },
        "LOAD_CONST" => Instr::LoadConst { index: arg },
        "LOAD_FAST" | "LOAD_FAST_CHECK" => Instr::LoadFast {
            local: arg,
            clear: false,
        },
        "LOAD_FAST_AND_CLEAR" => Instr::LoadFast {
            local: arg,
            clear: true,
        },
        "STORE_FAST" => Instr::StoreFast { local: arg },
        "DELETE_FAST" => Instr::DeleteFast { local: arg },
        "LOAD_FAST_LOAD_FAST" => Instr::LoadFastLoadFast {
            first: arg >> 4,
            second: arg & 15,
        },
        "STORE_FAST_LOAD_FAST" => Instr::StoreFastLoadFast {
            store: arg >> 4,
            load: arg & 15,
        },
        "STORE_FAST_STORE_FAST" => Instr::StoreFastStoreFast {
            first: arg >> 4,
            second: arg & 15,
        },
        "MAKE_CELL" => Instr::MakeCell { local: arg },
        "COPY_FREE_VARS" => Instr::CopyFreeVars { count: arg },
        "LOAD_CLOSURE" => Instr::LoadClosure { local: arg },
        "LOAD_DEREF" => Instr::LoadDeref { local: arg },
        "STORE_DEREF" => Instr::StoreDeref { local: arg },
        "DELETE_DEREF" => Instr::DeleteDeref { local: arg },
        "LOAD_GLOBAL" => Instr::LoadGlobal {
            name: arg >> 1,
            push_null: flag,
        },
        "STORE_GLOBAL" => Instr::StoreGlobal { name: arg },
        "DELETE_GLOBAL" => Instr::DeleteGlobal { name: arg },
        "LOAD_FROM_DICT_OR_GLOBALS" => Instr::LoadFromDictOrGlobals { name: arg },
        "LOAD_FROM_DICT_OR_DEREF" => Instr::LoadFromDictOrDeref { local: arg },
        "LOAD_ASSERTION_ERROR" => Instr::LoadAssertionError,
        "UNARY_POSITIVE" => Instr::UnaryPositive,
        "UNARY_NEGATIVE" => Instr::UnaryNegative,
        "UNARY_INVERT" => Instr::UnaryInvert,
        "UNARY_NOT" => Instr::UnaryNot,
        "TO_BOOL" => Instr::ToBool,
        "BINARY_OP" => {
            let op = *BinOp::ALL.get(arg as usize % 13)?;
            Instr::BinaryOp {
                op,
                inplace: arg >= 13,
            }
        }
        "COMPARE_OP" => compare(dialect, arg)?,
        "IS_OP" => Instr::IsOp { invert: flag },
        "CONTAINS_OP" => Instr::ContainsOp { invert: flag },
        "BINARY_SUBSCR" => Instr::BinarySubscr,
        "STORE_SUBSCR" => Instr::StoreSubscr,
        "DELETE_SUBSCR" => Instr::DeleteSubscr,
        "BINARY_SLICE" => Instr::BinarySlice,
        "STORE_SLICE" => Instr::StoreSlice,
        "LOAD_METHOD" => Instr::LoadAttr {
            name: arg,
            method: true,
        },
        "LOAD_ATTR" => {
            let (name, method) = dialect.load_attr(arg);
            Instr::LoadAttr { name, method }
        }
        "LOAD_SUPER_ATTR" => Instr::LoadSuperAttr {
            name: arg >> 2,
            method: flag,
        },
        "STORE_ATTR" => Instr::StoreAttr { name: arg },
        "DELETE_ATTR" => Instr::DeleteAttr { name: arg },
        "BUILD_TUPLE" => Instr::BuildTuple { count: arg },
        "BUILD_LIST" => Instr::BuildList { count: arg },
        "BUILD_SET" => Instr::BuildSet { count: arg },
        "BUILD_MAP" => Instr::BuildMap { count: arg },
        "BUILD_CONST_KEY_MAP" => Instr::BuildConstKeyMap { count: arg },
        "BUILD_STRING" => Instr::BuildString { count: arg },
        "BUILD_SLICE" => Instr::BuildSlice { count: arg },
        "LIST_APPEND" => Instr::ListAppend { depth: arg },
        "SET_ADD" => Instr::SetAdd { depth: arg },
        "MAP_ADD" => Instr::MapAdd { depth: arg },
        "LIST_EXTEND" => Instr::ListExtend { depth: arg },
        "SET_UPDATE" => Instr::SetUpdate { depth: arg },
        "DICT_UPDATE" => Instr::DictUpdate { depth: arg },
        "DICT_MERGE" => Instr::DictMerge { depth: arg },
        "LIST_TO_TUPLE" => Instr::ListToTuple,
        "FORMAT_VALUE" => Instr::FormatValue {
            conversion: (arg & 3) as u8,
            has_spec: arg & 4 != 0,
        },
        "CONVERT_VALUE" => Instr::ConvertValue {
            conversion: arg as u8,
        },
        "FORMAT_SIMPLE" => Instr::FormatSimple,
        "FORMAT_WITH_SPEC" => Instr::FormatWithSpec,
        "UNPACK_SEQUENCE" => Instr::UnpackSequence { count: arg },
        "UNPACK_EX" => Instr::UnpackEx {
            before: arg & 0xff,
            after: arg >> 8,
        },
        "GET_ITER" => Instr::GetIter,
        "GET_YIELD_FROM_ITER" => Instr::GetYieldFromIter,
        "GET_LEN" => Instr::GetLen,
        "FOR_ITER" => Instr::ForIter { target },
        "SEND" => Instr::Send { target },
        "CLEANUP_THROW" => Instr::CleanupThrow,
        "LOAD_BUILD_CLASS" => Instr::LoadBuildClass,
        "RETURN_GENERATOR" => Instr::ReturnGenerator,
        "YIELD_VALUE" => Instr::YieldValue,
        "KW_NAMES" => Instr::KwNames { index: arg },
        "CALL" => Instr::Call { argc: arg },
        "CALL_KW" => Instr::CallKw { argc: arg },
        "CALL_FUNCTION_EX" => Instr::CallFunctionEx { kwargs: flag },
        "CALL_INTRINSIC_1" => Instr::CallIntrinsic1 { id: arg },
        "CALL_INTRINSIC_2" => Instr::CallIntrinsic2 { id: arg },
        "MAKE_FUNCTION" => Instr::MakeFunction { flags: arg },
        "SET_FUNCTION_ATTRIBUTE" => Instr::SetFunctionAttribute { flag: arg },
        "JUMP_FORWARD" | "JUMP_BACKWARD" | "JUMP_BACKWARD_NO_INTERRUPT" => Instr::Jump { target },
        "POP_JUMP_IF_TRUE" | "POP_JUMP_FORWARD_IF_TRUE" | "POP_JUMP_BACKWARD_IF_TRUE" => {
            Instr::PopJumpIfTrue { target }
        }
        "POP_JUMP_IF_FALSE" | "POP_JUMP_FORWARD_IF_FALSE" | "POP_JUMP_BACKWARD_IF_FALSE" => {
            Instr::PopJumpIfFalse { target }
        }
        "POP_JUMP_IF_NONE" | "POP_JUMP_FORWARD_IF_NONE" | "POP_JUMP_BACKWARD_IF_NONE" => {
            Instr::PopJumpIfNone { target }
        }
        "POP_JUMP_IF_NOT_NONE"
        | "POP_JUMP_FORWARD_IF_NOT_NONE"
        | "POP_JUMP_BACKWARD_IF_NOT_NONE" => Instr::PopJumpIfNotNone { target },
        "JUMP_IF_TRUE_OR_POP" => Instr::JumpIfTrueOrPop { target },
        "JUMP_IF_FALSE_OR_POP" => Instr::JumpIfFalseOrPop { target },
        "RETURN_VALUE" => Instr::ReturnValue,
        "RETURN_CONST" => Instr::ReturnConst { index: arg },
        "BEFORE_WITH" => Instr::BeforeWith,
        "WITH_EXCEPT_START" => Instr::WithExceptStart,
        "PUSH_EXC_INFO" => Instr::PushExcInfo,
        "POP_EXCEPT" => Instr::PopExcept,
        "CHECK_EXC_MATCH" => Instr::CheckExcMatch,
        "RERAISE" => Instr::Reraise,
        "RAISE_VARARGS" => Instr::RaiseVarargs { argc: arg },
        "IMPORT_NAME" => Instr::ImportName { name: arg },
        "IMPORT_FROM" => Instr::ImportFrom { name: arg },
        "MATCH_MAPPING" => Instr::MatchMapping,
        "MATCH_SEQUENCE" => Instr::MatchSequence,
        "MATCH_KEYS" => Instr::MatchKeys,
        "MATCH_CLASS" => Instr::MatchClass { count: arg },
        _ => Instr::Other {
            name: UNIMP.iter().find(|(known, _)| *known == name)?.0,
        },
    })
}

fn compare(dialect: &dyn Dialect, arg: u32) -> Option<Instr> {
    let (op, to_bool) = dialect.compare_op(arg);
    Some(Instr::CompareOp {
        op: *CmpOp::ALL.get(op as usize)?,
        to_bool,
    })
}

impl Instr {
    /// The jump target.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "of some 110 instructions these jump"
    )]
    pub fn target(&self) -> Option<usize> {
        match self {
            Self::ForIter { target }
            | Self::Send { target }
            | Self::Jump { target }
            | Self::PopJumpIfTrue { target }
            | Self::PopJumpIfFalse { target }
            | Self::PopJumpIfNone { target }
            | Self::PopJumpIfNotNone { target }
            | Self::JumpIfTrueOrPop { target }
            | Self::JumpIfFalseOrPop { target } => Some(*target),
            _ => None,
        }
    }

    /// Whether the next instruction can follow.
    pub fn falls_through(&self) -> bool {
        !matches!(
            self,
            Self::Jump { .. }
                | Self::ReturnValue
                | Self::ReturnConst { .. }
                | Self::Reraise
                | Self::RaiseVarargs { .. }
        )
    }

    /// Local slots it reads, then those it writes (deleting is a read and a write).
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "of some 110 instructions these name a local"
    )]
    pub fn local_uses(&self) -> (Vec<u32>, Vec<u32>) {
        match self {
            Self::LoadFast {
                local,
                clear: false,
            }
            | Self::LoadClosure { local }
            | Self::LoadDeref { local }
            | Self::LoadFromDictOrDeref { local }
            | Self::StoreDeref { local }
            | Self::DeleteDeref { local } => (vec![*local], vec![]),
            // Comprehensions save a slot that may be empty: the value must survive.
            Self::LoadFast { local, clear: true } => (vec![*local], vec![]),
            Self::StoreFast { local } => (vec![], vec![*local]),
            Self::DeleteFast { local } => (vec![*local], vec![*local]),
            Self::LoadFastLoadFast { first, second } => (vec![*first, *second], vec![]),
            Self::StoreFastLoadFast { store, load } if store == load => (vec![], vec![*store]),
            Self::StoreFastLoadFast { store, load } => (vec![*load], vec![*store]),
            Self::StoreFastStoreFast { first, second } => (vec![], vec![*first, *second]),
            _ => (vec![], vec![]),
        }
    }
}
