"""What travels between the notebook and its ranks: functions with their sources, values, tensors."""

import io
import linecache
import pickle
import types
from collections import ChainMap
from collections.abc import Iterator
from typing import Any

import cloudpickle
import torch


class Unsendable(TypeError):
    """A value can't be pickled; the message names the value and says why."""


class _FunctionPickler(cloudpickle.Pickler):
    """cloudpickle that keeps the file name of code, so that a report can show the line of the cell."""

    def __init__(self, file: io.BytesIO) -> None:
        self.filenames: set[str] = set()
        reducers = {types.CodeType: self._reduce_code}
        # Set before super().__init__, which reads the table once.
        self.dispatch_table = ChainMap(reducers, cloudpickle.Pickler.dispatch_table)
        super().__init__(file)

    def _reduce_code(self, code: types.CodeType) -> tuple[Any, ...]:
        rebuild, parts = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
        self.filenames.add(code.co_filename)
        # cloudpickle writes "<dynamic-code>" in place of the name.
        return rebuild, tuple(
            code.co_filename if isinstance(part, str) and part == "<dynamic-code>" else part for part in parts
        )


class _ResultPickler(cloudpickle.Pickler):
    """Sends each tensor as a detached copy on the CPU; a Parameter stays one inside its Module only."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.module_parameters: set[int] = set()

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            self.module_parameters.update(map(id, value.parameters()))
        elif isinstance(value, torch.Tensor):
            return self._reduce_tensor(value)
        return super().reducer_override(value)

    def _reduce_tensor(self, tensor: torch.Tensor) -> Any:
        if hasattr(tensor, "full_tensor"):
            raise Unsendable(
                "a DTensor is a part of a distributed tensor: return x.to_local() or x.full_tensor()"
            )
        if id(tensor) in self.module_parameters:
            return torch.nn.Parameter, (tensor.detach().cpu().clone(), tensor.requires_grad)
        plain = tensor.detach()
        if plain.layout is not torch.strided or plain.is_quantized or plain.is_meta:
            return (plain if plain.is_meta else plain.cpu()).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        # Only the elements: torch would send the whole storage of which a slice is a view.
        flat = plain.cpu().contiguous().resolve_conj().resolve_neg().reshape(-1)
        return _rebuild_tensor, (flat.view(torch.uint8).numpy().tobytes(), plain.dtype, tuple(plain.shape))


def _rebuild_tensor(content: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if not content:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(content), dtype=dtype).reshape(shape)


def pack_call(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Pickles a call; returns it with the sources (file name → text) of the notebook code in it.

    Raises:
        Unsendable: naming the argument, or the variable that fn uses, which can't be sent.
    """
    buffer = io.BytesIO()
    pickler = _FunctionPickler(buffer)
    try:
        pickler.dump((fn, args, kwargs))
    except Exception as error:
        name = getattr(fn, "__name__", "fn")
        parts = {name: fn} | {f"argument {i}": a for i, a in enumerate(args)}
        parts |= {f"argument {key!r}": value for key, value in kwargs.items()}
        where, culprit = next(
            (
                found
                for part, value in parts.items()
                if (found := _find_culprit(value, part, _FunctionPickler))
            ),
            (name, fn),
        )
        raise Unsendable(
            f"launch can't send {where} to the ranks: {_describe(culprit, error)}. "
            f"Make it inside {name}, so that each rank has its own."
        ) from None
    sources = {name: "".join(lines) for name in pickler.filenames if (lines := linecache.getlines(name))}
    return buffer.getvalue(), sources


def pack_result(value: Any) -> bytes:
    """Pickles what fn returned on a rank.

    Raises:
        Unsendable: naming the part of the value that can't be sent.
    """
    if type(value) in (type(None), bool, int, float, str):
        return pickle.dumps(value)
    buffer = io.BytesIO()
    try:
        _ResultPickler(buffer).dump(value)
    except Exception as error:
        where, culprit = _find_culprit(value, "the returned value", _ResultPickler) or (
            "the returned value",
            value,
        )
        raise Unsendable(
            f"{where} can't be sent to the notebook: {_describe(culprit, error)}. "
            "Return plain values or tensors."
        ) from None
    return buffer.getvalue()


def _children(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The parts of a value that travel with it, each with the words a student would use for it."""
    if isinstance(value, types.FunctionType):
        own = getattr(value, "__name__", name)
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            yield f"the variable {variable!r} that {own} uses", cell.cell_contents
        for variable in value.__code__.co_names:
            if variable in value.__globals__:
                yield f"the global {variable!r} that {own} uses", value.__globals__[variable]
    elif isinstance(value, types.MethodType):
        yield name, value.__self__
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value))
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
        yield from ((f"{name}.{key}", item) for key, item in vars(value).items())


def _find_culprit(
    value: Any, name: str, pickler: type, seen: frozenset[int] = frozenset()
) -> tuple[str, Any] | None:
    """The deepest part of value that can't be pickled by itself, with its name; None if all of it can."""
    if id(value) in seen:
        return None
    try:
        pickler(io.BytesIO()).dump(value)
    except Exception:
        for child_name, child in _children(value, name):
            if found := _find_culprit(child, child_name, pickler, seen | {id(value)}):
                return found
        return name, value
    return None


def _describe(value: Any, error: BaseException) -> str:
    kind = type(value)
    plain = kind.__module__ in ("builtins", "__main__")
    name = kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return f"a {name} can't be pickled ({reason})"
