"""The compiled kernels as functions of tensors' memory.

Only the modules of this part call them: shapes and types are theirs to check.
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from workbench.moe.native.build import NotBuilt, library_path

Argument = Tensor | int | float | None


class Library:
    """The shared library; its functions return 0 when they are done."""

    def __init__(self, path: str) -> None:
        self._functions = ctypes.CDLL(path)
        self._functions.workbench_plan.restype = ctypes.c_int64

    def call(self, name: str, *arguments: Argument) -> None:
        """Run a kernel on as many threads as torch uses.

        Raises:
            RuntimeError: there is no memory, or no code for the shape.
        """
        plain = [_plain(argument) for argument in arguments]
        function = getattr(self._functions, f"workbench_{name}")
        if function(*plain, ctypes.c_int(torch.get_num_threads())):
            shapes = [tuple(each.shape) for each in arguments if isinstance(each, Tensor)]
            raise RuntimeError(f"kernel {name} failed on tensors of shapes {shapes}")

    def plan(self, chosen_M: Tensor, keep_M: Tensor | None, into: Sequence[Tensor]) -> int:
        """Fill order, place and ends; return the number of kept assignments."""
        order_M, place_M, ends_E = into
        plain = (chosen_M.numel(), ends_E.numel(), chosen_M, keep_M, order_M, place_M, ends_E)
        return int(self._functions.workbench_plan(*map(_plain, plain)))


def _plain(argument: Argument) -> object:
    if argument is None:
        return ctypes.c_void_p(None)
    if isinstance(argument, Tensor):
        assert argument.is_contiguous(), argument.stride()  # noqa: S101
        return ctypes.c_void_p(argument.data_ptr())
    return ctypes.c_int64(argument) if isinstance(argument, int) else ctypes.c_float(argument)


@lru_cache(maxsize=1)
def opened() -> Library | NotBuilt:
    """Return the library of this machine, or why there is none. It is built on the first call."""
    try:
        found = Library(str(library_path()))
        _check(found)
    except NotBuilt as why:
        return why
    except OSError as error:
        return NotBuilt(f"the kernels cannot be loaded: {error}")
    return found


def library() -> Library:
    """Return the library.

    Raises:
        NotBuilt: there is none on this machine.
    """
    found = opened()
    if isinstance(found, NotBuilt):
        raise found
    return found


def _check(library: Library) -> None:
    """Refuse a processor that has no matrix products in bf16.

    Raises:
        NotBuilt: a small product fails or has another result.
    """
    rows, width, vocabulary = 16, 16, 16
    hidden, matrix = torch.eye(rows), 2 * torch.eye(vocabulary)
    nats = torch.empty(rows)
    try:
        library.call(
            "cross_entropy",
            *(rows, width, vocabulary, 32, hidden, matrix, torch.arange(rows), None, nats),
            *(None, None, torch.empty(width * vocabulary, dtype=torch.int32), None, None, None),
        )
    except RuntimeError as error:
        raise NotBuilt("the processor has no matrix products in bf16") from error
    wanted = torch.nn.functional.cross_entropy(2 * torch.eye(rows), torch.arange(rows))
    if not torch.allclose(nats, wanted.expand(rows), atol=1e-3):
        raise NotBuilt(f"a test product is wrong: {nats[0]:.4f} instead of {wanted:.4f}")


def applies(x: Tensor) -> bool:
    """Return whether a training pass on this tensor computes in bf16 on a CPU."""
    return (
        x.device.type == "cpu"
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
    )
