//! The table of everything that can be looked up. A new reason is a row with a new number.
//!
//! Numbers: 01 control flow on tensors, 02 values of tensors, 03 calls, 04 operations, 05 black
//! lists, 06 what cannot be resumed, 07 calls that run as they are, 08 recompiles.

use super::BreakKind;
use super::break_id::BreakInfo;

macro_rules! break_ids {
    ($($name:ident = $number:literal $kind:ident: $title:literal,
       $explanation:literal, $advice:literal;)*) => {
        /// A reason that can be looked up: see [`BreakInfo`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum BreakId {
            $(#[doc = $title] $name,)*
        }

        impl BreakId {
            /// All of them, in the order of the table.
            pub const ALL: &'static [BreakId] = &[$(Self::$name,)*];

            /// Its row.
            pub fn info(self) -> &'static BreakInfo {
                match self {
                    $(Self::$name => &BreakInfo {
                        number: $number,
                        kind: BreakKind::$kind,
                        title: $title,
                        explanation: $explanation,
                        advice: $advice,
                    },)*
                }
            }
        }
    };
}

break_ids! {
    TensorBranch = 101 TensorBranch: "a branch on a tensor",
    "Python has to know whether a tensor is true, to choose what comes next. A graph has no \
     values while it is captured. The graph ends in front of the branch, the interpreter \
     takes it, and each side has a graph of its own.",
    "compare shapes or Python values, compute both sides and use paddle.where, or translate \
     with capture_control_flow=True";
    TensorLoop = 102 TensorValue: "a loop over a tensor of open length",
    "How many rounds a loop has is known when the graph runs, and not before.",
    "loop over range(x.shape[0]) with a shape that does not differ between calls, or write it \
     without a loop";
    CapturedControlFlow = 103 TensorBranch: "control flow that cannot be captured",
    "With capture_control_flow or full_graph, branches and loops on tensors become part of \
     the graph. The message says what is in the way of this one: both sides have to leave \
     behind the same tensors, and rounds of a loop have to change tensors and numbers only.",
    "let both sides make tensors of the same shape and dtype, and keep side effects out of \
     them; or leave this branch to the interpreter";
    TensorValue = 201 TensorValue: "a tensor's value is needed in Python",
    "The value exists when the graph has run. The graph ends here, the value is read, and the \
     rest is another graph.",
    "move the read out of the compiled function, or keep the value as a tensor";
    TensorText = 202 TensorValue: "a tensor becomes text",
    "The text of a tensor shows its values, which are there when the graph has run.",
    "print shapes and dtypes, or print after the compiled function has returned";
    TensorIndex = 203 TensorValue: "a tensor in the place of a number",
    "An index, a length or the end of a range has to be a number of Python here, and the \
     tensor's value is not known while the graph is captured.",
    "use paddle's own indexing on tensors, or a number that comes from a shape";
    InplaceTensor = 204 InplaceTensor: "a tensor is changed in place in a way that a graph cannot say",
    "The tensor exists outside of the graph, or has views that would have to change with it.",
    "use the form of the operation that returns a new tensor";
    View = 205 InplaceTensor: "a view that a graph cannot make",
    "The result shares storage with another tensor in a way that depends on where its numbers \
     lie.",
    "use reshape, or slices of a tensor that is contiguous";
    TensorObject = 206 UnsupportedCall: "something that belongs to the tensor object",
    "Hooks, names, storage and attributes of your own belong to a tensor that exists. In a \
     graph there is none.",
    "do it outside of the compiled function";
    InferenceFailed = 207 InferenceFailed: "Paddle refuses the call",
    "Paddle could not say what the result of this call looks like: the call is wrong, or has \
     no static form. The interpreter makes it, and raises if it is wrong.",
    "run the line in eager mode and look at its arguments";
    DynamicNumber = 208 UnsupportedOperation: "a number that only the graph knows",
    "A number is computed from dims that differ between calls, or from a tensor. This \
     operation on it would have other digits in a graph, or decides what is captured.",
    "compute with whole numbers, or translate with dynamic=False";
    OperatorArguments = 209 UnsupportedOperation: "arguments that the operation takes in eager mode only",
    "Paddle's operation has another meaning, or none, for these arguments in a program. It \
     runs as one call in the interpreter.",
    "give it plain numbers, lists or tensors as its documentation shows";
    MadeNatively = 210 MadeNatively: "only the interpreter can make this",
    "What this line makes leaves the graph: a view of something that has changed, a number \
     that a captured loop counts, or an exception with its traceback.",
    "keep what this line makes inside of the graph, or make it outside of the compiled \
     function";
    UnsupportedCall = 301 UnsupportedCall: "a call that cannot be followed",
    "The function is written in C, or does what cannot be simulated. The interpreter calls it \
     between two graphs.",
    "mark it with allow_in_graph if it is a pure function of tensors, or call it outside of \
     the compiled function";
    GradientStep = 303 GradientStep: "a step of training",
    "What clips gradients, and steps of optimizers that are not deferred, are one call of \
     Paddle's each.",
    "nothing has to be done";
    Collective = 304 Collective: "processes wait for each other",
    "Collective calls run in the interpreter, in the order of the program.",
    "nothing has to be done";
    InlineDepth = 305 InlineDepth: "calls that are too deep",
    "Calls inside of calls are followed up to a depth. From there on the interpreter makes \
     them.",
    "turn deep recursion into a loop";
    UserBreak = 306 UserBreak: "graph_break() was called",
    "The program asks for a break here.",
    "remove the call of graph_break()";
    Disabled = 307 Disabled: "a function marked with disable",
    "Functions that were given to disable() run in the interpreter.",
    "remove disable() from this function";
    NativeCode = 308 UnsupportedCall: "code that other code looks at",
    "Threads, files, modules that compile themselves and the like are handed to other code, \
     which has to meet real objects.",
    "call it outside of the compiled function";
    Import = 309 UnsupportedCall: "an import",
    "The import runs code of a module, or depends on what was imported before.",
    "import at the top of the file";
    Layer = 310 UnsupportedCall: "a Layer is made or changed",
    "The network itself would change: its parameters, sub-layers or hooks. What is written \
     into a Layer has to be the user's object.",
    "make and change Layers outside of the compiled function";
    PyLayer = 311 UnsupportedCall: "a PyLayer that cannot be captured",
    "The message says what in forward or backward has no form in a graph. The layer runs as \
     one call in the interpreter.",
    "let forward and backward take and return tensors only, and keep what backward needs with \
     save_for_backward";
    Recompute = 312 UnsupportedCall: "a recompute that cannot be captured",
    "What runs again on the way back has to be a function of its arguments alone. The message \
     says what is in the way.",
    "pass what needs a gradient as an argument, and keep side effects out of the function";
    ContainerMethod = 313 UnsupportedCall: "a method of a container",
    "This method, or these arguments of it, cannot be simulated on a list, dict, set or \
     deque.",
    "use another method, or call it outside of the compiled function";
    PartialGradients = 315 UnsupportedOperation: "a gradient that the graph does not hold",
    "paddle.grad() becomes part of the graph where all that it goes through is in there, and \
     Paddle's operations have in a program the gradients of gradients that eager mode has. The \
     message says what is in the way. Here the interpreter calls it.",
    "compute outputs and inputs in the same compiled function, without a break in between";
    Context = 314 UnsupportedOperation: "a context manager",
    "Entering or leaving it changes the state of the process in a way that cannot be \
     simulated here.",
    "enter it outside of the compiled function";
    UnsupportedOperation = 401 UnsupportedOperation: "an operation that cannot be simulated",
    "What Python does here depends on an object that the engine does not know well enough. \
     The interpreter does it between two graphs.",
    "move this operation out of the compiled function";
    UnsupportedAttribute = 402 UnsupportedAttribute: "an attribute that is computed",
    "Reading it runs code that cannot be followed: C code, a metaclass, or the module itself.",
    "read the attribute before the compiled function is called";
    Assignment = 403 UnsupportedOperation: "an assignment to an attribute",
    "The object decides itself what an assignment does, or belongs to a library.",
    "assign it outside of the compiled function";
    Identity = 404 UnsupportedOperation: "`is` on numbers or texts",
    "Whether two equal numbers are one object is decided by the interpreter, and may differ \
     in a graph.",
    "compare with ==";
    Key = 405 UnsupportedOperation: "a key of a dict or set",
    "Looking it up runs the key's own __hash__ or __eq__, or needs a value that differs \
     between calls.",
    "use texts, whole numbers or tuples of them as keys";
    Pattern = 406 UnsupportedOperation: "a pattern of a match statement",
    "The object answers to the pattern in a way of its own.",
    "use isinstance() and attributes";
    Comparison = 407 UnsupportedOperation: "a comparison that objects decide",
    "Objects of classes that the engine does not know compare themselves.",
    "compare numbers or texts, or compare outside of the compiled function";
    NumPyArray = 408 UnsupportedOperation: "an array of NumPy",
    "NumPy computes at once, and not in a graph. Small computations on known arrays are \
     simulated, this one is not.",
    "use paddle's functions on tensors, or compute the array outside of the compiled function";
    Generator = 409 UnsupportedOperation: "a generator that is used in an unusual way",
    "send(), throw() and delegation to other iterators are followed for generators that the \
     function makes itself.",
    "use a for loop over a generator or a list";
    ExceptionGroup = 410 UnsupportedOperation: "a group of exceptions",
    "Groups are split and merged by the interpreter, which keeps tracebacks and causes.",
    "raise and handle single exceptions in the compiled function";
    Iteration = 411 UnsupportedOperation: "iteration over this object",
    "The object makes its items itself, or exists outside and may give them to others.",
    "make a list of it before the compiled function is called";
    Truth = 412 UnsupportedOperation: "whether this object is true",
    "The object decides itself whether it is true, in a way that cannot be followed.",
    "write out the test: `len(x) > 0`, `x is not None`";
    Subscript = 413 UnsupportedOperation: "an item of this object",
    "The object finds items itself, or the place is not known while the graph is captured.",
    "read the item before the compiled function is called";
    ProcessState = 414 UnsupportedOperation: "the state of the process decides",
    "Locale, printing options of NumPy, codecs and the like say what the result is.",
    "compute it outside of the compiled function";
    RaisesException = 415 RaisesException: "an exception is raised here",
    "Running this line raises. The graph ends in front of it, and the interpreter raises the \
     exception itself, with its own message and traceback.",
    "nothing has to be done where the exception is wanted; a handler inside of the compiled \
     function is followed";
    Length = 416 UnsupportedOperation: "the length of this object",
    "How many items it has is not known while the graph is captured: the object decides itself, \
     or a tensor's value decided what was put into it.",
    "count with a number of Python that does not come from a tensor, or call len() outside of \
     the compiled function";
    ItemAssignment = 417 UnsupportedOperation: "an item that is written or deleted",
    "The object decides itself what becomes of it, or the place is a value that only the graph \
     knows.",
    "write it outside of the compiled function, or use keys and positions that are known \
     numbers and texts";
    GivenIterator = 418 UnsupportedOperation: "an iterator that exists already",
    "It was made outside, or in front of a break in a loop. Guards see what `next()` of one over a \
     list, a tuple or numbers gives. Of others, in loops and at its end the interpreter takes the \
     item.",
    "loop over a list or tuple; in a loop, move what breaks the graph behind it";
    BlackListed = 501 BlackListed: "on a black list",
    "The call is on the black list of the backend, or of the program.",
    "remove it from the black list, or choose another backend";
    Opcode = 601 Opcode: "an instruction without a simulation",
    "The interpreter runs this function. Functions that it calls are still translated.",
    "rewrite the construct, or disable() the function that holds it";
    GeneratorFunction = 602 Opcode: "a generator or coroutine function",
    "What is translated is a call from its start to its end. A generator stops in between.",
    "translate the function that uses the generator";
    Construct = 603 Construct: "a place that cannot be resumed in",
    "After a break the function goes on in the middle. Here that is not possible, so that the \
     interpreter runs the whole function.",
    "move the call that breaks out of this block, loop or expression";
    Steps = 604 Construct: "a function that takes too long to follow",
    "More instructions were simulated than the limit allows.",
    "write the loop with operations on tensors, or translate what is inside of it";
    Watcher = 605 Construct: "code that watches the interpreter",
    "The function counts objects or references, looks at frames, or traces. It would see the \
     engine's.",
    "measure outside of the compiled function";
    Handler = 606 Construct: "a break inside of an exception handler",
    "The exception that is being handled cannot be put back, so that the interpreter runs the \
     whole function.",
    "move the call that breaks behind the handler";
    Destructor = 607 Construct: "an object with a destructor",
    "The function alone holds an object whose destructor would run at another time.",
    "keep the object alive outside of the compiled function";
    AutoCast = 608 Construct: "auto_cast with arguments that cannot be captured",
    "Only the usual arguments of auto_cast have a form in a graph, and only on a CPU.",
    "enter auto_cast outside of the compiled function";
    EnteredContext = 609 Construct: "a context manager that was entered by hand",
    "A break between __enter__() and __exit__() would need the manager in a state that cannot \
     be built again.",
    "use a with statement";
    Internal = 701 Internal: "an error inside the engine",
    "The call ran in the interpreter, and its result is right. The engine met something that \
     it should not have.",
    "please report this";
    GraphNotCompiled = 702 GraphNotCompiled: "the backend gave a graph up",
    "The backend could not compile this graph, or not in time. It runs call by call.",
    "give the backend more time (compile_budget_s), or choose another backend";
    GraphFailed = 703 GraphFailed: "only the graph raised an exception",
    "A compiled graph raised. The interpreter ran the function then, and did not raise.",
    "please report this; the eager backend runs the same operations one by one";
    Tracing = 704 Tracing: "somebody traces or profiles",
    "While sys.settrace, sys.setprofile or sys.monitoring is on, translated functions run in \
     the interpreter.",
    "switch it off to compile";
    ShardedTensor = 705 ShardedTensor: "a tensor that several processes hold",
    "Calls with sharded tensors run in the interpreter.",
    "nothing has to be done";
    HookedSaves = 706 HookedSaves: "hooks on what autograd saves",
    "saved_tensors_hooks() sees each tensor that eager mode saves. A graph saves others.",
    "call the compiled function outside of saved_tensors_hooks()";
    NestedCalls = 707 InlineDepth: "calls of translated functions that nest too deep",
    "Translated functions call each other so deeply that the stack of the thread could end.",
    "turn deep recursion into a loop";
    CompileFailed = 708 Internal: "the backend could not compile",
    "Compiling the graph raised an exception, which the message shows. The interpreter runs the \
     function. After several attempts it is left alone until the backend is replaced.",
    "read the message: it is the backend's; the eager backend runs the same operations one by \
     one";
    Recompile = 801 RecompileLimit: "a function is translated again",
    "A guard failed: what the translation relied on is not so in this call. The message names \
     the guard.",
    "let dims be dynamic (mark_dynamic, input_spec), and pass what differs as a tensor";
    RecompileLimit = 802 RecompileLimit: "the limit of translations",
    "The function has so many translations that finding the right one would take longer than \
     running it. Calls that fit none of them run in the interpreter from now on.",
    "look at the guards that failed: let dims be dynamic (mark_dynamic, input_spec), and pass \
     what differs as a tensor";
    SmallEnd = 803 RecompileLimit: "a few operations that differ from call to call",
    "What is left behind a break has no program and is translated again and again. It runs in \
     the interpreter from now on.",
    "nothing has to be done";
    LeftAlone = 804 Construct: "a function that could not be translated",
    "Several attempts failed. The function runs in the interpreter from now on; what it calls \
     is still translated.",
    "see the reasons in front of this one";
    CutsCostMore = 805 CutsCostMore: "cuts that cost more than programs save",
    "The function is cut into pieces so small that the cuts cost more than the programs of the \
     pieces save, in many calls in a row. It runs in the interpreter, as in eager mode.",
    "nothing has to be done; with fewer breaks it is one graph, which gains";
    GuardsCostMore = 806 CutsCostMore: "guards that cost more than a graph saves",
    "The graph of the function is so small that its operations run one by one, and its guards cost \
     more than that saves, in many calls in a row. It runs in the interpreter, as in eager mode.",
    "nothing has to be done; min_graph_size=0 asks for a program of any size";
    NewSizes = 807 RecompileLimit: "sizes that come for the first time",
    "The function has several translations that differ from this call in sizes alone: loops are \
     unrolled, branches on dims have many ways. The call runs in the interpreter; where its sizes \
     come again it is translated.",
    "nothing has to be done; capture_control_flow=True keeps loops over dims open";
}
