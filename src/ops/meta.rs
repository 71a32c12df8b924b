//! What is known about a tensor without its data.

use smallvec::SmallVec;

macro_rules! dtypes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        /// Element type. The discriminant is `phi::DataType`'s value in Paddle 3.2 and 3.3.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum DType { $($name = $code,)* }

        impl DType {
            /// The type with this `phi::DataType` value.
            pub fn from_code(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
            /// The name as in `paddle.float32`, without the `paddle.`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
            /// The type named `text`, with or without the `paddle.` in front.
            pub fn from_name(text: &str) -> Option<Self> {
                match text.strip_prefix("paddle.").unwrap_or(text) { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

dtypes! {
    Bool = 1, "bool";
    UInt8 = 2, "uint8";
    Int8 = 3, "int8";
    UInt16 = 4, "uint16";
    Int16 = 5, "int16";
    UInt32 = 6, "uint32";
    Int32 = 7, "int32";
    UInt64 = 8, "uint64";
    Int64 = 9, "int64";
    Float32 = 10, "float32";
    Float64 = 11, "float64";
    Complex64 = 12, "complex64";
    Complex128 = 13, "complex128";
    Float16 = 15, "float16";
    BFloat16 = 16, "bfloat16";
    Float8E4M3 = 17, "float8_e4m3fn";
    Float8E5M2 = 18, "float8_e5m2";
}

impl DType {
    /// Whether gradients can flow through tensors of this type.
    pub fn is_differentiable(self) -> bool {
        self.is_floating() || self.is_complex()
    }

    /// Whether they hold complex numbers.
    pub fn is_complex(self) -> bool {
        matches!(self, Self::Complex64 | Self::Complex128)
    }

    /// Whether they hold whole numbers.
    pub fn is_whole(self) -> bool {
        matches!(
            self,
            Self::UInt8 | Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64
        )
    }

    /// Whether they hold real numbers that are not whole, of two bytes or more.
    pub fn is_floating(self) -> bool {
        matches!(
            self,
            Self::Float16 | Self::BFloat16 | Self::Float32 | Self::Float64
        )
    }
}

/// Metadata of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMeta {
    /// Dims; `-1` is a dim that may differ between calls.
    pub shape: SmallVec<[i64; 6]>,
    /// Element type.
    pub dtype: DType,
    /// Whether gradients stop here.
    pub stop_gradient: bool,
}

impl TensorMeta {
    /// Whether every dim is static.
    pub fn is_static(&self) -> bool {
        self.shape.iter().all(|d| *d >= 0)
    }
}
