"""Wrong solutions of chapter 15: column- and row-parallel linear layers, and attention split by heads."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def _summed(tensor: torch.Tensor, op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> torch.Tensor:
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, op=op)
    return total


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _summed(gradient)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: torch.Tensor) -> torch.Tensor:
        return _summed(y)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def _mine(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    return tensor.detach().tensor_split(dist.get_world_size(), dim)[dist.get_rank()].clone()


# 15.1: ColumnParallelLinear(linear)


class _Column(nn.Module):
    """A right one, whose steps the wrong ones change."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(_mine(linear.weight, 0))
        self.bias = None if linear.bias is None else nn.Parameter(_mine(linear.bias, 0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_Copy.apply(x), self.weight, self.bias)


class ForgetsTheBackwardAllReduce(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class GathersTheOutputs(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        parts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(parts, y.detach())
        parts[dist.get_rank()] = y
        return torch.cat(parts, -1)


class KeepsTheWholeWeight(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(_Copy.apply(x)).tensor_split(dist.get_world_size(), -1)[dist.get_rank()]


class KeepsViewsOfTheWhole(_Column):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        rank, size = dist.get_rank(), dist.get_world_size()
        self.weight = nn.Parameter(linear.weight.detach().tensor_split(size)[rank])


class CutsWithChunk(_Column):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        rank, size = dist.get_rank(), dist.get_world_size()
        self.weight = nn.Parameter(linear.weight.detach().chunk(size)[rank].clone())
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach().chunk(size)[rank].clone())


class DropsTheRemainder(_Column):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        n = linear.out_features // dist.get_world_size()
        mine = slice(dist.get_rank() * n, (dist.get_rank() + 1) * n)
        self.weight = nn.Parameter(linear.weight.detach()[mine].clone())
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach()[mine].clone())


class LeavesTheBiasOut(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_Copy.apply(x), self.weight)


class ExpectsABias(_Column):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.bias = nn.Parameter(_mine(linear.bias, 0))


class SumsTheOutputs(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(x, self.weight, self.bias))


class HoldsPlainTensors(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = _mine(linear.weight, 0)
        self.bias = None if linear.bias is None else _mine(linear.bias, 0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_Copy.apply(x), self.weight, self.bias)


class _AverageBackward(_Copy):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _summed(gradient, dist.ReduceOp.AVG)


class AveragesTheInputsGradient(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_AverageBackward.apply(x), self.weight, self.bias)


class CutsTheInputs(_Column):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.weight = nn.Parameter(_mine(linear.weight, 1))


# 15.2: RowParallelLinear(linear)


class _Row(nn.Module):
    """A right one, whose steps the wrong ones change."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = nn.Parameter(_mine(linear.weight, 1))
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Sum.apply(F.linear(x, self.weight))
        return y if self.bias is None else y + self.bias


class AddsTheBiasOnEveryRank(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(x, self.weight, self.bias))


class DividesTheBias(_Row):
    """The outputs are right, but each part of the bias takes the whole step."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach() / dist.get_world_size())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(x, self.weight, self.bias))


class LeavesTheSumOut(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class _SumTwice(_Sum):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _summed(gradient)


class SumsTheGradientToo(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _SumTwice.apply(F.linear(x, self.weight))
        return y if self.bias is None else y + self.bias


class AveragesTheParts(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Sum.apply(F.linear(x, self.weight)) / dist.get_world_size()
        return y if self.bias is None else y + self.bias


class GathersTheInputs(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(parts, x.detach())
        parts[dist.get_rank()] = x
        return self.linear(torch.cat(parts, -1))


class KeepsEveryInputsWeight(_Row):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.weight = nn.Parameter(linear.weight.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mine = self.weight.tensor_split(dist.get_world_size(), 1)[dist.get_rank()]
        y = _Sum.apply(F.linear(x, mine))
        return y if self.bias is None else y + self.bias


class LeavesTheBiasOutOfTheSum(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(x, self.weight))


class NeedsABias(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(x, self.weight)) + self.bias


class CutsTheInputsWithChunk(_Row):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        chunks = linear.weight.detach().chunk(dist.get_world_size(), 1)
        self.weight = nn.Parameter(chunks[dist.get_rank()].clone())


class CopiesBeforeAsWell(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(_Copy.apply(x))


class RoundsToSixteenBits(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Sum.apply(F.linear(x, self.weight).bfloat16()).to(x.dtype)
        return y if self.bias is None else y + self.bias


# 15.3: SplitAttention(qkv, out, n_head)


class _Attention(nn.Module):
    """A right one, whose steps the wrong ones change."""

    causal = True
    scale: float | None = None

    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__()
        self.width = out.in_features // n_head
        self.heads = self.my_heads(n_head)
        rows = self.my_rows(out.in_features)
        self.weight, self.bias = (nn.Parameter(t.detach()[rows].clone()) for t in (qkv.weight, qkv.bias))
        self.out = nn.Parameter(out.weight.detach()[:, self.my_columns(out.in_features)].clone())
        self.out_bias = nn.Parameter(out.bias.detach().clone())

    def my_heads(self, n_head: int) -> torch.Tensor:
        return torch.arange(n_head).tensor_split(dist.get_world_size())[dist.get_rank()]

    def my_columns(self, n: int) -> torch.Tensor:
        return torch.arange(n).view(-1, self.width)[self.heads].flatten()

    def my_rows(self, n: int) -> torch.Tensor:
        return torch.cat([part * n + self.my_columns(n) for part in range(3)])

    def enter(self, x: torch.Tensor) -> torch.Tensor:
        return _Copy.apply(x)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        B, T, _ = x.shape
        q, k, v = (
            part.view(B, T, len(self.heads), self.width).transpose(1, 2)
            for part in F.linear(x, self.weight, self.bias).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale)
        return y.transpose(1, 2).reshape(B, T, -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(self.attend(self.enter(x)), self.out)) + self.out_bias


class SeesTheFuture(_Attention):
    causal = False


class ScalesByTheWholeWidth(_Attention):
    def attend(self, x: torch.Tensor) -> torch.Tensor:
        self.scale = x.shape[-1] ** -0.5
        return super().attend(x)


class CutsQkvInOnePiece(_Attention):
    def my_rows(self, n: int) -> torch.Tensor:
        start = 3 * self.width * int(self.heads[0])
        return torch.arange(start, start + 3 * self.width * len(self.heads))


class DropsHeadsThatDoNotDivide(_Attention):
    def my_heads(self, n_head: int) -> torch.Tensor:
        each = n_head // dist.get_world_size()
        return torch.arange(dist.get_rank() * each, (dist.get_rank() + 1) * each)


class CutsOutByTheWidth(_Attention):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__(qkv, out, n_head)
        self.out = nn.Parameter(_mine(out.weight, 1))


class TakesTheFirstColumnsOfOut(_Attention):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__(qkv, out, n_head)
        self.out = nn.Parameter(out.weight.detach()[:, : self.out.shape[1]].clone())


class AddsTheBiasBeforeTheSum(_Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(self.attend(self.enter(x)), self.out, self.out_bias))


class ForgetsTheSumBeforeIt(_Attention):
    def enter(self, x: torch.Tensor) -> torch.Tensor:
        return x


class ForgetsTheSumAfterIt(_Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(self.attend(self.enter(x)), self.out) + self.out_bias


class SumsEachHead(_Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.attend(self.enter(x))
        first = F.linear(y[..., : self.width], self.out[:, : self.width])
        rest = F.linear(y[..., self.width :], self.out[:, self.width :])
        return _Sum.apply(first) + _Sum.apply(rest) + self.out_bias


class LeavesTheQkvBiasOut(_Attention):
    def attend(self, x: torch.Tensor) -> torch.Tensor:
        self.bias = None
        return super().attend(x)


class ComputesAllHeads(nn.Module):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__()
        self.qkv, self.out, self.n_head = qkv, out, n_head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class KeepsTheWholeOut(_Attention):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__(qkv, out, n_head)
        self.columns = self.my_columns(out.in_features)
        self.out = nn.Parameter(out.weight.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(self.attend(self.enter(x)), self.out[:, self.columns])
        return _Sum.apply(y) + self.out_bias


MUTANTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "15.1": (
        ForgetsTheBackwardAllReduce,
        GathersTheOutputs,
        KeepsTheWholeWeight,
        KeepsViewsOfTheWhole,
        CutsWithChunk,
        DropsTheRemainder,
        LeavesTheBiasOut,
        ExpectsABias,
        SumsTheOutputs,
        HoldsPlainTensors,
        AveragesTheInputsGradient,
        CutsTheInputs,
    ),
    "15.2": (
        AddsTheBiasOnEveryRank,
        DividesTheBias,
        LeavesTheSumOut,
        SumsTheGradientToo,
        AveragesTheParts,
        GathersTheInputs,
        KeepsEveryInputsWeight,
        LeavesTheBiasOutOfTheSum,
        NeedsABias,
        CutsTheInputsWithChunk,
        CopiesBeforeAsWell,
        RoundsToSixteenBits,
    ),
    "15.3": (
        SeesTheFuture,
        ScalesByTheWholeWidth,
        CutsQkvInOnePiece,
        DropsHeadsThatDoNotDivide,
        CutsOutByTheWidth,
        TakesTheFirstColumnsOfOut,
        AddsTheBiasBeforeTheSum,
        ForgetsTheSumBeforeIt,
        ForgetsTheSumAfterIt,
        SumsEachHead,
        LeavesTheQkvBiasOut,
        ComputesAllHeads,
        KeepsTheWholeOut,
    ),
}

FITS = {
    "ForgetsTheBackwardAllReduce": "this rank's outputs only",
    "GathersTheOutputs": "shape of the output",
    "KeepsTheWholeWeight": "too many numbers held",
    "KeepsViewsOfTheWhole": "a view",
    "LeavesTheBiasOut": "where is the bias",
    "HoldsPlainTensors": "are parameters",
    "AveragesTheInputsGradient": "whole gradient",
    "AddsTheBiasOnEveryRank": "once for each rank",
    "DividesTheBias": "right before the step",
    "LeavesTheSumOut": "partial sum",
    "SumsTheGradientToo": "4 times what was expected",
    "GathersTheInputs": "too many numbers held",
    "KeepsEveryInputsWeight": "too many numbers held",
    "LeavesTheBiasOutOfTheSum": "where is the bias",
    "SeesTheFuture": "causal",
    "CutsQkvInOnePiece": "three places",
    "AddsTheBiasBeforeTheSum": "once for each rank",
    "ForgetsTheSumBeforeIt": "x goes into all heads",
    "SumsEachHead": "too many collectives",
    "ComputesAllHeads": "too many numbers held",
    "KeepsTheWholeOut": "too many numbers held",
}
