//! What is known of the operators of Paddle: one row for each name, one [`Fact`] for each question.
//!
//! A row names a function, a method (operators with their two underscores) or the class of a layer.
//! What a row does not say is not known, and everything that asks takes that for the worse answer.

pub mod abi;
pub mod meta;
pub mod paddle;
mod table;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub use table::{
    ASSIGN, ASTYPE, CLONE, CONTIGUOUS, DETACH, FULL, FULL_LIKE, TO_TENSOR, VIEW, WHERE, rows,
};

/// How the dims of a result follow from those of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeRule {
    /// All are those of the first tensor.
    Same,
    /// The first is that of the first tensor: a batch of as many.
    Batch,
    /// Operands `x` and `y` are aligned at their last dims.
    Broadcast,
    /// The same of `condition`, `x` and `y`.
    Where,
    /// A product of matrices, or of batches of them.
    MatMul,
    /// All but the last, which is one of the weight.
    Leading,
    /// A sum along `axis`.
    Concat,
    /// Rows that `index` names, along `axis`.
    Gather,
    /// Those in front of `start_axis`.
    Flatten,
    /// In the order of `perm`.
    Transpose,
    /// What `shape` says.
    Reshape,
    /// Ones are put in at `axis`.
    Unsqueeze,
    /// Slices, whole numbers, `None` and `...`.
    GetItem,
    /// In the reverse order.
    Reversed,
    /// Without those that `axis` names, or with ones in their places.
    Reduced,
    /// Without those that `axis` names, which are ones.
    Squeeze,
    /// One more at `axis`, for each tensor of a list.
    Stack,
    /// As many numbers as `start`, `end` and `step` say.
    Arange,
    /// What `shape` says, the first argument.
    Made,
    /// What `shape` says; -1 is that of the tensor.
    Expand,
    /// Those of the tensor, times `repeat_times`.
    Tile,
    /// Several results: parts along `axis`.
    Split,
    /// Several results, of `k` along `axis`.
    TopK,
    /// Windows of a convolution, by channel, then by `stride`, `padding` and `dilation`.
    Convolution,
    /// Windows of a pool, by `kernel_size`, `stride`, `padding` and `ceil_mode`.
    Pooled,
    /// Those of a transposed convolution.
    Turned,
    /// What `size` says, or those of the tensor, times `scale_factor`.
    Resized,
    /// What `output_size` says, behind the channels.
    PooledTo,
    /// Half of them along `axis`.
    Halved,
}

/// What a number becomes that is an argument, where it is a tensor in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberAs {
    /// A tensor of the dtype of the first argument.
    First,
    /// Of the dtype in the argument `dtype`, which is the third; without it, of the default dtype.
    Dtype,
    /// The same; without it, of the dtype of the first argument.
    DtypeOrFirst,
    /// What `to_tensor` makes of it, next to this other argument of the same kind.
    Next(usize),
    /// A factor: an `int64` or `float64`.
    Factor,
    /// A probability that `dropout` does not compare with anything else.
    Probability,
}

/// What the form in place of an operation takes besides the tensor, so that it cannot raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlaceTakes {
    /// Nothing.
    Nothing,
    /// Nothing, of floating-point numbers.
    NothingOfFloats,
    /// A number that the dtype holds.
    OneNumber,
    /// One number or two, of floating-point numbers.
    NumbersOfFloats,
    /// The least and the largest number, of floating-point numbers.
    BoundsOfFloats,
    /// A tensor of the same shape and dtype.
    Alike,
}

/// An argument with which a program does otherwise than eager mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlike {
    /// A tensor.
    Tensor,
    /// A tensor, where eager mode raises: it wants a list.
    TensorForList,
    /// A tensor, or a list or a tuple that has one.
    Tensors,
    /// The same, beside this other argument.
    TensorsBeside(usize, &'static str),
    /// A list that has a tensor.
    TensorsInList,
    /// A tensor, or a number that the graph makes.
    OfGraph,
    /// A number that the graph makes.
    NumberOfGraph,
    /// A tensor that wants a gradient, or a list or a tuple that has one.
    WantsGradient,
    /// A tensor of half precision.
    Half,
    /// A tensor of more than one dim.
    SeveralDims,
    /// A tensor of no dims.
    NoDims,
    /// A tensor whose elements may have gaps between them.
    MayHaveGaps,
    /// A complex number.
    Complex,
    /// The same, beside this other argument.
    ComplexBeside(usize, &'static str),
    /// A complex number that single precision would round.
    Rounded,
    /// Anything but a float.
    NoFloat,
}

/// One thing that is known of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Its result shares the storage of its argument, where it can, and costs next to nothing.
    CheapView,
    /// Another one whose result may share the storage of its argument (found by calling every
    /// function and method in eager mode and comparing addresses), or does in other versions. None
    /// of them draws random numbers.
    View,
    /// A view whose result has no gaps where the argument has none.
    KeepsOrder,
    /// A layer that makes a view.
    ViewLayer,
    /// It makes a tensor and does not keep it for its gradient.
    ForgetsResult,
    /// It keeps none of its arguments for its gradient.
    ForgetsArguments,
    /// Of those, it keeps the whole numbers that say where. Of a mask it keeps the places that it
    /// says.
    SavesPlaces,
    /// It keeps nothing next to a number.
    ForgetsBesideNumber,
    /// It never fails because of the numbers it is given. Of anything else nobody knows: labels and
    /// positions out of range, a matrix that cannot be inverted, an assertion. The row is named
    /// without the underscores of operators and of what is done in place.
    NeverFails,
    /// The same, as long as it is given no tensors but those that it puts together or takes apart.
    NeverFailsAlone,
    /// The same, as long as it is given no tensors: one may be a size below zero.
    NeverFailsOfConstants,
    /// The same, of a layer of Paddle's.
    LayerNeverFails,
    /// Several results of one kernel, whose gradient is that with zeros for what did not arrive.
    /// Hooks of all results are called, too.
    OneKernel,
    /// Several results of one kernel. Its gradient in eager mode ends the process where one did not
    /// arrive, here there are zeros.
    AllOrNothing,
    /// How its dims follow, where they do simply.
    Shape(ShapeRule),
    /// The argument in this place, of this name, may be a number that is a tensor in the graph, and
    /// the result has the same bits. The method of a tensor, where there is one, takes the tensor
    /// first.
    Number(usize, &'static str, NumberAs),
    /// The argument in this place, of this name, is at least so much: kernels that get it as a
    /// tensor do not look (`eye` would not end).
    Least(usize, &'static str, i64),
    /// With such an argument in this place, of this name, a program does otherwise than eager mode;
    /// why, for messages.
    Differs(usize, &'static str, Unlike, &'static str),
    /// Of two tensors that are aligned: in eager mode, too, a number may stand in place of the
    /// second one.
    BesideNumber,
    /// The name of the argument in this place, which [`NumberAs`] looks at.
    Named(usize, &'static str),
    /// Its form in place gives what it gives.
    InPlace,
    /// The same; its gradient in place needs nothing of what the tensor was.
    InPlaceForgets,
    /// The same; for its gradient in place eager mode keeps a copy of what the tensor was. That has
    /// no history, which no second gradient shows.
    InPlaceCopies,
    /// The same of one that reads other numbers of the tensor than the one it writes: with the
    /// tensor for another argument too it would read what it has written.
    InPlaceApart,
    /// The same of one whose result is bool, whatever the tensor was.
    InPlaceCompares,
    /// The same of one whose result may have another shape or dtype; it does not need what the
    /// tensor was for its gradient.
    InPlaceReforms,
    /// Its form in place is captured as a function of `_graph/followed.py`, and needs nothing of
    /// the tensor for its gradient.
    InPlaceFollowed,
    /// The same of one that draws new numbers, whatever the tensor holds. Where gradients flow to
    /// the tensor, eager mode gives what it was zeros.
    InPlaceDraws,
    /// Its form in place takes tensors of the same dtype alone, where the operation promotes.
    InPlaceOneDType,
    /// Its form in place takes no numbers, where the operation does.
    InPlaceOfTensors,
    /// In this place its form in place takes a number alone, where the operation takes tensors.
    InPlaceNumberAt(usize),
    /// In this place its form in place takes a list alone, where the operation takes numbers.
    InPlaceListAt(usize),
    /// Its form in place cannot raise for a tensor that exists and that no gradient flows to.
    InPlaceOfExisting(InPlaceTakes),
    /// Its form in place takes the largest float where no `max` is given, also of whole numbers.
    InPlaceBoundedByFloat,
    /// It changes its first argument, and its name does not say so.
    ChangesFirst,
    /// It can be asked, by a `True`, for a gradient of selected rows.
    SelectsRows,
    /// It stands among functions of tensors and is none; or one of the modes has it alone, or
    /// answers otherwise.
    NoFunctionOfTensors,
    /// It sets the state of Paddle's random generators to what a number says.
    SetsRandomState,
    /// It puts the tensors of a list together; the function of `_graph/rows.py` that does so with
    /// the rows of one.
    TakesRows(&'static str),
    /// Every call makes a dim that is unknown although everything that it is given is static: on
    /// the black list of `cinn`. `tests/python/backends/cdbl_probe.py` finds these.
    UnknownDims,
    /// The same, where the shape of the result says so: it is given shapes, axes or numbers as
    /// tensors, or flags.
    MayHaveUnknownDims,
    /// From this place on its arguments are whole numbers and lists of them: with anything else,
    /// or with tensors that hold anything else, a program ends the process.
    WholeFrom(usize),
    /// The same of lists that have tensors in them; a tensor alone is another operand.
    WholeInLists,
    /// Code of Paddle's that checks less, or does something else, where a program is built: it is
    /// simulated as code of the user's is.
    AsksForMode,
    /// The argument in this place, of this name, is a whole number that says how many: one of
    /// NumPy's is one of Python's.
    Count(usize, &'static str),
    /// The floats that it is given are as precise in a program as in eager mode.
    KeepsDoubles,
    /// Its operator in a program draws random numbers, maybe where an attribute says so only.
    Draws,
    /// Its operator in a program is a view of its first operand in eager mode.
    ProgramView,
    /// Its operator in a program may hand on the storage of its operand without being a view.
    ProgramShares,
    /// Eager mode's function of its operator takes the operands and then the attributes, as the
    /// operator does, and makes its first result.
    ProgramCall,
}

/// What the first of some facts says that has this form: `said!(facts(name), Fact::Shape(rule) =>
/// *rule)`.
#[macro_export]
macro_rules! said {
    ($facts:expr, $form:pat $(if $guard:expr)? => $says:expr) => {
        $facts.iter().find_map(|fact| {
            let $form = fact else {
                return None;
            };
            $(if !($guard) {
                return None;
            })?
            Some($says)
        })
    };
}

/// The same numbers in the same order, in another shape.
pub const RESHAPES: Fact = Fact::Shape(ShapeRule::Reshape);

static BY_NAME: LazyLock<FxHashMap<&str, &[Fact]>> = LazyLock::new(|| table::rows().collect());

/// Whether the row of this name has this fact.
pub fn knows(name: &str, fact: Fact) -> bool {
    facts(name).contains(&fact)
}

/// The names of the rows that have this fact.
pub fn names(fact: Fact) -> impl Iterator<Item = &'static str> {
    let rows = table::rows().filter(move |(_, facts)| facts.contains(&fact));
    rows.map(|(name, _)| name)
}

/// The functions whose arguments are whole numbers, and from which place on.
pub fn whole_arguments() -> impl Iterator<Item = (&'static str, usize)> {
    table::rows().filter_map(|(name, facts)| {
        let from = said!(facts, Fact::WholeFrom(at) => *at)?;
        Some((name, from))
    })
}

/// What the row of this name says.
pub fn facts(name: &str) -> &'static [Fact] {
    BY_NAME.get(name).copied().unwrap_or_default()
}

/// How the dims of the result of this operator follow from those of its arguments.
pub fn shape_rule(name: &str) -> Option<ShapeRule> {
    said!(facts(name), Fact::Shape(rule) => *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_row_and_each_row_says_something_once() {
        assert_eq!(BY_NAME.len(), table::rows().count());
        for (name, facts) in table::rows() {
            assert!(!facts.is_empty(), "{name}");
            let twice = |fact| facts.iter().filter(|it| *it == fact).count() > 1;
            assert!(!facts.iter().any(twice), "{name}");
        }
    }

    #[test]
    fn facts_that_add_to_others_stand_beside_them() {
        for (name, facts) in table::rows() {
            let has = |fact| facts.contains(&fact);
            assert!(
                !has(Fact::SavesPlaces) || has(Fact::ForgetsArguments),
                "{name}"
            );
            assert!(!has(Fact::KeepsOrder) || has(Fact::CheapView), "{name}");
            assert!(!(has(Fact::CheapView) && has(Fact::View)), "{name}");
            let when = [
                Fact::NeverFails,
                Fact::NeverFailsAlone,
                Fact::NeverFailsOfConstants,
            ];
            assert!(when.iter().filter(|fact| has(**fact)).count() < 2, "{name}");
            assert!(!(has(Fact::OneKernel) && has(Fact::AllOrNothing)), "{name}");
        }
    }

    #[test]
    fn reshapes_are_cheap_views() {
        let reshapes: Vec<_> = names(RESHAPES).collect();
        assert!(reshapes.iter().all(|name| knows(name, Fact::CheapView)));
        assert_eq!(reshapes.len(), 2);
    }
}
