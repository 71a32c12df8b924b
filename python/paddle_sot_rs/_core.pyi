"""The engine's extension module. Users go through `paddle_sot_rs`; this is what that package is built on."""

from collections.abc import Callable
from types import CellType, CodeType, ModuleType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar, final, overload

from paddle import Tensor

_P = ParamSpec("_P")
_Q = ParamSpec("_Q")
_R = TypeVar("_R", covariant=True)
_Object = TypeVar("_Object")

__version__: str
# The name of a tensor that stands for a Python number which differs between calls.
PYTHON_NUMBER: str
paddle_backend: ModuleType
"""Version of the package, as in its wheel."""

@final
class StaticFunction(Generic[_P, _R]):
    """A function that is translated when it is called. Attributes can be set on it, as on a function."""

    def __new__(cls, callable: Callable[..., Any], options: dict[str, Any], marks: dict[str, Any]) -> Self:
        """Wraps a Python function or a bound method; nothing is translated before the first call.

        Args:
            callable: what to translate.
            options: all of `backend` (registered name), `backend_options` (dict), `full_graph` (bool), `dynamic`
                (bool; `None` asks the backend), `min_graph_size` (operations; `None` asks the backend),
                `compile_at_call` (the call of a graph, from 1; `None` asks the backend), `black_list`
                (iterable of callables, compared by identity), `black_names` (set of names of Paddle functions and
                tensor methods), `specification` (`None`, or a callable that checks the arguments of a call and
                answers with a list of (tensor, open dims)), `capture_control_flow`, `forward_only` and
                `assumes_branches` (bool: for export), `check` (bool). They are kept, and those of a copy.
            marks: what the process has marked: `black_list`, `allow_list` and `disabled` (iterables of callables,
                compared by identity; who asks keeps them alive).

        Raises:
            AttributeError: `callable` has no code object.
            KeyError: an option is missing.
            OverflowError: `min_graph_size` or `compile_at_call` is negative.
            TypeError: an option has the wrong type.
            ValueError: the backend is unknown, or does not take its options.
        """

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Runs the function, from the cache or translated now.

        Raises:
            GraphBreakError: `full_graph` was asked for and the function is not one graph.
            Exception: whatever the function itself raises, unchanged.
        """

    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> Self:
        """Itself, on the class."""

    @overload
    def __get__(
        self: StaticFunction[Concatenate[_Object, _Q], _R], instance: _Object, owner: Any = None, /
    ) -> StaticFunction[_Q, _R]:
        """Binds like a function: a method with `instance` in front, and the same cache."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Makes `__new__` a static method, and `__init_subclass__` and `__class_getitem__` class methods."""

    def __reduce__(
        self,
    ) -> (
        str | tuple[Callable[..., StaticFunction[..., Any]], tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]]
    ):
        """For `pickle`: the copy has the same options and attributes, and translates anew."""

    def __copy__(self) -> Self:
        """Itself, as functions are their own copies."""

    def __deepcopy__(self, memo: Any) -> StaticFunction[_P, _R]:
        """Itself; of a bound method, one that translates anew, with a copy of the object."""

    def __repr__(self) -> str:
        """Names the function and where it is defined."""

    @property
    def __self__(self) -> Any:
        """That of the original, where it is a bound method.

        Raises:
            AttributeError: it is none.
        """

    @property
    def __func__(self) -> Callable[..., Any]:
        """That of the original, where it is a bound method.

        Raises:
            AttributeError: it is none.
        """

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The original callable, until it is set (`functools.update_wrapper`)."""

    @__wrapped__.setter
    def __wrapped__(self, value: Callable[..., Any], /) -> None: ...
    @__wrapped__.deleter
    def __wrapped__(self) -> None: ...
    @property
    def __code__(self) -> CodeType:
        """The code of the original: with those below `inspect` takes this for a function."""

    @__code__.setter
    def __code__(self, value: CodeType, /) -> None: ...
    @property
    def __defaults__(self) -> tuple[Any, ...] | None:
        """Those of the original."""

    @__defaults__.setter
    def __defaults__(self, value: tuple[Any, ...] | None, /) -> None: ...
    @__defaults__.deleter
    def __defaults__(self) -> None: ...
    @property
    def __kwdefaults__(self) -> dict[str, Any] | None:
        """Those of the original."""

    @__kwdefaults__.setter
    def __kwdefaults__(self, value: dict[str, Any] | None, /) -> None: ...
    @__kwdefaults__.deleter
    def __kwdefaults__(self) -> None: ...
    @property
    def __annotations__(self) -> dict[str, Any]:
        """Those of the original."""

    @__annotations__.setter
    def __annotations__(self, value: dict[str, Any], /) -> None: ...
    @__annotations__.deleter
    def __annotations__(self) -> None: ...
    @property
    def __type_params__(self) -> tuple[Any, ...]:
        """Those of the original, from Python 3.12 on."""

    @__type_params__.setter
    def __type_params__(self, value: tuple[Any, ...], /) -> None: ...
    @property
    def __builtins__(self) -> dict[str, Any]:
        """Those of the original."""

    @property
    def __closure__(self) -> tuple[CellType, ...] | None:
        """Those of the original."""

    @property
    def __globals__(self) -> dict[str, Any]:
        """Those of the original."""

    @property
    def dygraph_function(self) -> Callable[..., Any]:
        """The original callable, by the name Paddle uses."""

    @property
    def code(self) -> str:
        """The captured statements: of all graphs so far, else of the program for the input specification."""

    @property
    def concrete_program(self) -> Any:
        """The function as one static program for its input specification: `main_program`, `inputs`, `outputs`,
        `parameters` and `code`.

        Raises:
            GraphBreakError: it is not one graph.
            ValueError: it has no input specification.
        """

    @property
    def observed(self) -> tuple[list[Any], dict[str, Any]] | None:
        """What the last arguments were that it was translated for, positional and by name: an `InputSpec` for a tensor,
        containers of them, plain values, and a mark for anything else; `None` before the first translation."""

    def get_concrete_program(self, *args: Any, **kwargs: Any) -> tuple[Any, Self]:
        """`concrete_program` for these arguments (specifications or examples), and the function itself.

        Raises:
            GraphBreakError: it is not one graph.
            TypeError, ValueError: an argument does not fit.
        """

    def concrete_program_specify_input_spec(
        self,
        input_spec: list[Any] | tuple[Any, ...] | None = None,
        with_hook: bool = False,
        is_prim_infer: bool = False,
    ) -> Any:
        """`concrete_program` for this specification; the one that `to_static` was given comes first, with a warning.

        Args:
            input_spec: as of `to_static`.
            with_hook: with the hooks of the Layer whose `forward` this is.
            is_prim_infer: not supported.

        Raises:
            GraphBreakError: it is not one graph.
            TypeError, ValueError: an argument does not fit.
        """

    def get_concrete_program_with_cache_key(self, cached_key: Any) -> tuple[Any, Self]:
        """`get_concrete_program` for the arguments in a `CacheKey` of Paddle's.

        Raises:
            TypeError: it is no such key.
        """

    def get_traced_count(self) -> int:
        """How many graphs were compiled since the function was made or `reset`."""

    @property
    def function_spec(self) -> Any:
        """What Paddle knows of the parameters and the input specification: its `FunctionSpec`."""

    @property
    def program_cache(self) -> Any:
        """There is none: translations are found by guards.

        Raises:
            AttributeError: always; it says what to use instead.
        """

    @property
    def class_instance(self) -> Any:
        """The object of a bound method, else `None`.

        Raises:
            AttributeError: this is the method of a class, which is bound when it is called.
        """

    @property
    def is_property(self) -> bool:
        """False: what `property=True` makes is Paddle's own."""

    @property
    def last_call_input_spec(self) -> tuple[Any, ...] | None:
        """Specifications of the positional arguments that it was translated for last; `None` before."""

    @property
    def main_program(self) -> Any:
        """`concrete_program.main_program`."""

    @property
    def inputs(self) -> Any:
        """`concrete_program.inputs`."""

    @property
    def outputs(self) -> Any:
        """`concrete_program.outputs`."""

    def rollback(self) -> Callable[..., Any]:
        """Puts the original method back into the object whose attribute this is, and answers with it; of a plain
        function only that."""

    def train(self) -> None:
        """Does nothing: the mode of each call decides. For programs that were written for Paddle's."""

    def eval(self) -> None:
        """Does nothing: the mode of each call decides. For programs that were written for Paddle's."""

    @property
    def compile_options(self) -> dict[str, Any]:
        """The options that it was made with: see `__new__`."""

    def call_unchecked(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """A call that is not compared with plain Python, whatever the option `check` says.

        Raises:
            GraphBreakError: `full_graph` was asked for and the function is not one graph.
            Exception: whatever the function itself raises, unchanged.
        """

    def stats(self) -> StatsRecord:
        """Counters since the function was made or `reset`; a snapshot that later calls do not change."""

    def reset(self) -> None:
        """Forgets all translations, resume functions, learnt dynamic dims and counters."""

    def graphs(self) -> list[GraphRecord]:
        """The graphs compiled since the function was made or `reset`, oldest first."""

    def freeze(
        self,
        inputs: list[tuple[Tensor, list[int]]],
        keep: Any,
        *args: Any,
        **kwargs: Any,
    ) -> FrozenGraph:
        """Compiles the function for these arguments as one graph for inference; it does not run.

        Args:
            inputs: the tensors among the arguments, with their open dims, in the order of the graph's arguments.
            keep: its `keep` answers with what to go by in the place of another tensor, its `keep_layer` of a layer.

        Raises:
            GraphBreakError: it is not one graph, or changes something.
        """

    def export(
        self, inputs: list[tuple[str, Tensor, list[int]]], *args: Any, **kwargs: Any
    ) -> tuple[Any, str, list[str]]:
        """Captures the function for these arguments as one program; it does not run.

        Args:
            inputs: name, tensor and open dims of the tensors among the arguments that the program takes.

        Returns:
            The program as the backend exports it, and its statements as text.

        Raises:
            GraphBreakError: it is not one graph, or the backend does not export it.
            TypeError: the arguments do not fit.
        """

    def time_guards(self, times: int, *args: Any, **kwargs: Any) -> float:
        """Measures the guards of the newest translation; the function does not run.

        Args:
            times: how many evaluations to average over.

        Returns:
            Seconds one evaluation takes.

        Raises:
            OverflowError: `times` is negative.
            RuntimeError: there is no translation yet, or its guards do not hold for these arguments.
        """

@final
class FrozenGraph:
    """One graph that runs without guards."""

    @property
    def report(self) -> list[str]:
        """What the backend says of it, line by line."""

    def __call__(self, *tensors: Tensor) -> list[Tensor]:
        """The tensors of the result."""

@final
class TensorKinds:
    """Kinds of frozen calls whose arguments and result are a tensor each."""

    def __new__(cls) -> Self:
        """None are known."""

    def add(self, args: tuple[Any, ...], graph: FrozenGraph) -> None:
        """Lets calls with such arguments run this graph, if they are all tensors without gradients."""

    def call(self, args: tuple[Any, ...]) -> Tensor | None:
        """The result of a call; `None` where it is of no kind that is known here."""

@final
class CalleeFunction:
    """A function called by a part that runs natively. The evaluation hook runs it in place of its frames."""

    def __repr__(self) -> str:
        """Names the function."""

@final
class ResumeFunction:
    """The rest of a function after a graph break. Generated code calls it; it has its own translations."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Goes on, with the live locals, cells and stack as arguments.

        Raises:
            Exception: whatever the rest of the function raises, unchanged.
        """

    def hold(self, args: tuple[Any, ...]) -> Continuation:
        """A callable that goes on here once, with these arguments, whatever it is called with."""

    def __repr__(self) -> str:
        """Names the function it is the rest of."""

@final
class Continuation:
    """Stands in the place of an inlined callee that broke the graph: calling it runs the rest of the callee."""

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Goes on in the callee. The arguments are those of the call in the caller's code: they play no role.

        Raises:
            RuntimeError: it was called before.
            Exception: whatever the rest of the callee raises, unchanged.
        """

    def __repr__(self) -> str:
        """Names the callee."""

@final
class StatementIR:
    """A captured graph as a backend written in Python gets it. `str()` of it is its text."""

    def __call__(self, *inputs: Tensor) -> tuple[Any, ...]:
        """Runs the graph call by call, in eager mode.

        Args:
            inputs: one tensor per input, in the order the text lists them, Layers left out.

        Returns:
            The outputs, in the order the text lists them.

        Raises:
            Exception: whatever a call raises, unchanged.
        """

    def __repr__(self) -> str:
        """The same text as `str()`."""

    def __str__(self) -> str:
        """Inputs, outputs and statements, one statement per line."""

@final
class BreakRecord:
    """A graph break, or a call that ran natively as a whole."""

    @property
    def code(self) -> Literal["DDCF", "UNSPS", "CDBL", "UNIMP"]:
        """Class of the reason: data-dependent control flow, unsupported, black-listed, or not implemented."""

    @property
    def kind(self) -> str:
        """Name of the reason in the catalogue, such as `TensorBranch`."""

    @property
    def message(self) -> str:
        """What was met."""

    @property
    def file(self) -> str:
        """The user's file, as in `co_filename`; empty when unknown."""

    @property
    def line(self) -> int:
        """Line in `file`, from 1; 0 when unknown."""

    @property
    def end_line(self) -> int:
        """The last line of the expression; 0 when unknown."""

    @property
    def columns(self) -> tuple[int, int]:
        """First column of the expression, and one past the last, in bytes of UTF-8; the second is 0 when unknown."""

    @property
    def function(self) -> str:
        """Qualified name of the function the line is in; empty when unknown."""

    @property
    def hint(self) -> str:
        """What to do about it."""

    @property
    def id(self) -> str:
        """What it is called in `docs/user/breaks.md`, such as `PSR0101`."""

    @property
    def title(self) -> str:
        """What the id stands for, in a few words."""

    @property
    def link(self) -> str:
        """The place on that page."""

    @property
    def count(self) -> int:
        """How often it was met."""

@final
class StatsRecord:
    """Counters of a translated function together with its resume functions, or of all functions together."""

    @property
    def graphs(self) -> int:
        """Graphs compiled."""

    @property
    def ops(self) -> int:
        """Statements in those graphs."""

    @property
    def translations(self) -> int:
        """Translations attempted, failed ones too."""

    @property
    def cache_hits(self) -> int:
        """Calls, resume functions included, that a translation was ready for."""

    @property
    def cache_misses(self) -> int:
        """Calls, resume functions included, that no translation was ready for."""

    @property
    def whole_steps(self) -> int:
        """Calls whose program did the step of the optimizer as well."""

    @property
    def graph_breaks(self) -> list[BreakRecord]:
        """Breaks met while translating, oldest first. A new list at each read."""

    @property
    def recompiles(self) -> list[str]:
        """`place: guard that failed`, for misses on functions that had translations; oldest first. A new list."""

    @property
    def fallbacks(self) -> list[BreakRecord]:
        """Why calls ran natively as a whole, oldest first. A new list at each read."""

    @property
    def own_steps(self) -> dict[str, int]:
        """Why deferred steps of optimizers ran Paddle's own code, and how often. A new dict at each read."""

    @property
    def seconds(self) -> tuple[float, float, float]:
        """What translations took: trace, infer, backend."""

@final
class GraphRecord:
    """A compiled graph, for `explain`."""

    @property
    def ir(self) -> str:
        """The StatementIR as text."""

    @property
    def program(self) -> str:
        """The backend's program as text; empty when it has none."""

    @property
    def guards(self) -> list[str]:
        """The guards in the order they are checked. A new list at each read."""

    @property
    def backend(self) -> str:
        """Name of the backend that runs it: `eager` for graphs smaller than `min_graph_size`."""

    @property
    def report(self) -> list[str]:
        """What the backend has to say about it, line by line. A new list at each read."""

    @property
    def code(self) -> CodeType | None:
        """The code object generated around the graph; `None` when no byte code is needed."""

@final
class CustomCode:
    """What to evaluate instead of a frame: the answer of an eval-frame callback."""

    def __new__(cls, code: CodeType | None, disable_eval_frame: bool) -> Self:
        """See the properties.

        Raises:
            TypeError: `code` is neither a code object nor `None`.
        """

    def __repr__(self) -> str:
        """The call that makes it."""

    @property
    def code(self) -> CodeType | None:
        """Code to run in place of the frame's, with the same parameters and free variables; `None`: its own."""

    @property
    def disable_eval_frame(self) -> bool:
        """Whether calls made from the frame are kept from the callback."""

@final
class Frame:
    """A call that is about to start."""

    def __repr__(self) -> str:
        """Names the code, its file and its first line."""

    @property
    def f_code(self) -> CodeType:
        """The code object."""

    @property
    def f_globals(self) -> dict[str, Any]:
        """The module namespace, itself: changes are seen by the call."""

    @property
    def f_builtins(self) -> dict[str, Any]:
        """The builtins namespace, itself."""

    @property
    def f_locals(self) -> dict[str, Any]:
        """The arguments by name, in a dict of its own: changes are not seen by the call."""

    @property
    def function(self) -> Any | None:
        """The function called, when there is one."""

@final
class CompiledGraph:
    """A graph that a backend compiled."""

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Runs it."""

    def program_text(self) -> str:
        """Readable text of the program."""

    @property
    def backend_name(self) -> str:
        """The backend that made it."""

@final
class Trace:
    """The trace of a graph, while a plug-in compiles it: to be handed back to `delegate`."""

@final
class Forced:
    """Every Python frame of the thread that made it is translated, until it is stopped."""

    def __new__(cls, backend: str) -> Self:
        """Starts it, with this backend for the tensor operations it meets.

        Raises:
            RuntimeError: this interpreter's frames cannot be intercepted.
            ValueError: there is no such backend.
        """

    def stop(self) -> None:
        """Ends it; a second call does nothing."""

    def frames(self) -> list[tuple[str, int]]:
        """What became of the frames so far: `translated`, or the reason why they ran as they are, with numbers.

        Parts of frames that follow a graph break are counted with `after a break: ` in front.
        """

    def stats(self) -> StatsRecord:
        """Counters of what was translated."""

def opcode_table() -> list[tuple[str, bool, str]]:
    """Opcodes of the running interpreter: name, whether it is simulated, the reason when it is not."""

def builtin_table() -> list[tuple[str, str, str, str]]:
    """Builtins and methods of builtin types: owner, name, what the engine does with it, why."""

def total_stats() -> StatsRecord:
    """Counters of all translated functions together, since the package was imported or `reset_all`.

    Functions that are gone count, with their newest 1000 events of each kind.
    """

def record(on: bool) -> None:
    """Starts to record for a report, anew, or stops."""

def recorded() -> tuple[list[dict[str, Any]], list[tuple[tuple[str, int, str], float, float]]]:
    """What was recorded: a dict for each function, and place, start and seconds of each call."""

def compile_at_once(at_once: bool) -> bool:
    """Says whether graphs that this thread translates become programs at once, and not when they are called again.

    Returns:
        What was said before.
    """

def show_progress(shown: bool) -> None:
    """Whether translations of more than two seconds show a line where stderr is a terminal."""

def break_table() -> list[tuple[str, str, str, str, str, str]]:
    """Everything that can be looked up: (id, class, title, what happens, what to do, code that breaks so)."""

def reset_all() -> None:
    """Forgets the translations, resume functions, learnt dynamic dims and counters of all functions."""

def load_python() -> None:
    """Loads what the backends have in Python: the first translation does not wait for it."""

def list_backends() -> list[str]:
    """Names of the registered backends, sorted."""

def register_python_backend(name: str, compiler: Callable[[StatementIR, list[Any]], Callable[..., Any]]) -> None:
    """Registers a backend.

    Args:
        name: a free name.
        compiler: called with the graph and a list of `(shape, dtype, stop_gradient)`, one per input tensor; the
            answer is called with the input tensors and returns an iterable of the output tensors, in order. Or the
            capsule of a plug-in.

    Raises:
        ImportError: the plug-in was built for another version of the interface.
        TypeError: `compiler` is neither.
        ValueError: the name is taken.
    """

def swap_python_backend(name: str, compiler: Callable[[StatementIR, list[Any]], Callable[..., Any]]) -> None:
    """Replaces a registered backend atomically; functions translated with it are translated again at their next call.

    Args:
        name: a registered name.
        compiler: as for `register_python_backend`.

    Raises:
        KeyError: no backend of that name.
        TypeError: `compiler` is not callable.
    """

def renew_backend(name: str) -> None:
    """Replaces a backend by itself: functions compile anew at their next call. For tests of backends.

    Raises:
        KeyError: no backend of that name.
    """

def unregister_backend(name: str) -> None:
    """Removes a backend. Functions already made with it keep it.

    Raises:
        KeyError: no backend of that name.
    """

def delegate(name: str, options: dict[str, Any] | None, request: tuple[Any, ...]) -> CompiledGraph:
    """Compiles a graph for a plug-in; part of the plug-in interface, only to be called while a backend compiles.

    Args:
        name: the backend to compile with.
        options: its options.
        request: (graph, example inputs, whether gradients may be asked for, the trace or `None`).

    Raises:
        RuntimeError: it cannot be compiled.
    """

def cdbl() -> list[tuple[str, bool]]:
    """The calls that the backend `cinn` leaves to the interpreter: (name, always).

    Without `always`, only calls of that name whose result has an unknown dim.
    """

def operators(fact: str) -> set[str]:
    """The operators that something is known of.

    `fact` is `draws`, `view`, `shares_storage` or `call` (operators of programs), or `whole_in_lists` (functions
    whose lists hold whole numbers). Raises `ValueError` for another one. Source: `src/ops/table`.
    """

def operator_facts() -> dict[str, list[str]]:
    """The table of operators: what each row says, as text. `make probe-ops` compares it with the installed Paddle."""

def optimizer_updates(
    parameters: list[Any],
    created: set[str] | None,
    tables: tuple[dict[str, Any], ...],
    shaped: int,
    assumed: list[Any] | None,
) -> tuple[list[Any], list[Any], tuple[list[Any], ...], list[Any] | None, list[Any] | None] | str:
    """What a step of an optimizer updates, or why Paddle's own step has to run.

    Parameters that have a gradient, the gradients, a list of states for each of `tables`, factors of the learning rate
    and regularizers where one has any. The first `shaped` of `tables` hold states of a parameter's dims, the others
    of one number; `created` has the names of parameters whose states were made. `assumed` has the parameters that are
    taken to have a gradient, where that is not asked.
    """

def are_in_any_order(*lists: list[Any]) -> bool:
    """Whether tensors of these lists surely have no memory in common: they may be updated in any order."""

def note_cleared(optimizer: Any) -> None:
    """The gradients of an optimizer's parameters were cleared by Paddle's own code, and are zeros."""

def clear_gradients(optimizer: Any, to_zero: bool) -> None:
    """`optimizer.clear_grad(to_zero)`, of an optimizer that holds nothing of the user's."""

def prepare_step(
    optimizer: Any, all: list[Any], updated: list[Any], states: list[Any], run: Callable[..., None], recipe: Any
) -> None:
    """Keeps what runs a step of an optimizer: of `all` its parameters some are `updated`, with their `states`.

    `recipe` says what a program of the step computes with: see `_graph/whole_steps.py`.
    """

def nothing(*_args: Any) -> None:
    """Does nothing."""

def prepared_step(optimizer: Any) -> tuple[Callable[..., None], list[Any]] | None:
    """What was kept, and the gradients that there are now; None where something is not as it was."""

def whole_arguments() -> dict[str, int]:
    """The functions whose arguments are whole numbers and lists of them, and from which place on."""

def tensor_reader() -> Literal["native", "attributes"]:
    """How guards read tensors: `native` through Paddle's C++ library, `attributes` when that failed its self-test."""

def layout_faults() -> list[tuple[str, str]]:
    """What of Paddle's objects is not as it is known to be: what is read of them, and why it cannot be.

    The objects are asked each time; an empty list says that the engine can read this version of Paddle.
    """

def attribute_writes() -> Literal["version", "version of a dictionary with values", "every guard runs"]:
    """How guards notice that an attribute was written: by the version of the instance dictionary, which on 3.13 must
    hold the values itself (guarded ones are made to), or not at all, when the versions failed their self-test."""

def set_eval_frame(
    callback: Callable[[Frame], CustomCode | None] | None,
) -> Callable[[Frame], CustomCode | None] | None:
    """Sets this thread's eval-frame callback, or removes it with `None`.

    Returns:
        The callback before, or `None`.

    Raises:
        RuntimeError: this interpreter's frames cannot be intercepted.
        TypeError: `callback` is neither callable nor `None`.
    """

def hook_is_installed() -> bool:
    """Whether the interpreter's evaluation hook is this package's at the moment, in any thread."""

def note_hooked_saves(hooked: bool) -> None:
    """Tells whether there are hooks on the tensors that autograd saves: then translated functions run as they are."""

def switch_off(off: bool) -> None:
    """Lets all translated functions of the process run as they are, or not any more."""

def set_stance(stance: int) -> None:
    """What calls of translated functions do: 0 translates, 1 runs them as they are, 2 forbids to translate again.

    Raises:
        ValueError: there is no such stance.
    """

def reset_log_levels() -> None:
    """Asks Python's loggers for their levels anew: the engine remembers them."""
