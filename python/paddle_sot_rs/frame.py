"""The raw frame evaluation hook (PEP 523), one callback per thread.

``set_eval_frame(callback)`` asks ``callback(frame)`` before each ordinary Python call of this thread.
It answers with a ``CustomCode`` or ``None``:

==========  ====================  ==================================================
code        disable_eval_frame    meaning
==========  ====================  ==================================================
``None``    ``True``              run the frame as it is; callees are not looked at
``None``    ``False``             run the frame as it is; callees are (as ``None``)
code        ``True``              run the new code; callees are not looked at
code        ``False``             run the new code; callees are
==========  ====================  ==================================================

New code must have the parameters and free variables of the code it replaces. Generators, coroutines,
module and class bodies are never shown, nor is anything while a tracer, profiler or monitoring
tool is active. What the callback raises, the call raises.
"""

from __future__ import annotations

from ._core import CustomCode, Frame, hook_is_installed, set_eval_frame

__all__ = ["CustomCode", "Frame", "hook_is_installed", "set_eval_frame"]
