"""Wrong solutions of chapter 15: column- and row-parallel linear layers, and attention split by heads."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import parallel
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


class DetachesTheInput(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x.detach(), self.weight, self.bias)


class AveragesTheInputsFirst(_Column):
    """The same on all ranks, so the mean changes nothing; backward it gives this rank's part, divided."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_Sum.apply(x) / dist.get_world_size(), self.weight, self.bias)


class SumsTheWeightsGradientToo(_Column):
    """As data parallelism does, though every rank has other weights."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        if linear.out_features % dist.get_world_size() == 0:
            self.weight.register_post_accumulate_grad_hook(lambda weight: dist.all_reduce(weight.grad))


class StaysOutWithoutOutputs(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.weight.shape[0] == 0:
            return x.new_zeros(*x.shape[:-1], 0)
        return super().forward(x)


class GivesTheRemainderToTheLastRank(_Column):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        rank, size = dist.get_rank(), dist.get_world_size()
        n = linear.out_features // size
        mine = slice(rank * n, linear.out_features if rank == size - 1 else (rank + 1) * n)
        self.weight = nn.Parameter(linear.weight.detach()[mine].clone())
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.detach()[mine].clone())


class ExpectsAMatrix(_Column):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Copy.apply(x).mm(self.weight.t())
        return y if self.bias is None else y + self.bias


class LetsTorchCutIt(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
        self.linear = parallel.parallelize_module(linear, mesh, parallel.ColwiseParallel())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class HoldsBuffers(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.register_buffer("weight", _mine(linear.weight, 0))
        self.register_buffer("bias", None if linear.bias is None else _mine(linear.bias, 0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_Copy.apply(x), self.weight, self.bias)


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


class CutsTheInputsAgain(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.tensor_split(dist.get_world_size(), -1)[dist.get_rank()])


class CutsTheOutputsOfARow(_Row):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.weight = nn.Parameter(_mine(linear.weight, 0))


class CutsTheBias(_Row):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        if linear.bias is not None:
            self.bias = nn.Parameter(_mine(linear.bias, 0))


class StaysOutWithoutInputs(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] == 0:
            y = x.new_zeros(*x.shape[:-1], self.weight.shape[0])
            return y if self.bias is None else y + self.bias
        return super().forward(x)


class SumsOnRankZeroOnly(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.weight)
        total = y.detach().clone()
        dist.reduce(total, 0)
        y = y + (total - y).detach() if dist.get_rank() == 0 else y
        return y if self.bias is None else y + self.bias


class GathersThePartialSums(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.weight)
        parts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(parts, y.detach())
        y = y + (sum(parts) - y).detach()
        return y if self.bias is None else y + self.bias


class _SumAndAverage(_Sum):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _summed(gradient, dist.ReduceOp.AVG)


class AveragesEqualGradients(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _SumAndAverage.apply(F.linear(x, self.weight))
        return y if self.bias is None else y + self.bias


class TakesTheLargest(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.linear(x, self.weight)
        y = y + (_summed(y.detach(), dist.ReduceOp.MAX) - y).detach()
        return y if self.bias is None else y + self.bias


class SumsWithoutAutograd(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _summed(F.linear(x, self.weight).detach())
        return y if self.bias is None else y + self.bias


class SumsTheBiassGradient(_Row):
    """The bias is whole on every rank, and so is its gradient already."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Sum.apply(F.linear(x, self.weight))
        return y if self.bias is None else y + _Copy.apply(self.bias)


class AddsTheBiasOnRankZeroAfterTheSum(_Row):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Sum.apply(F.linear(x, self.weight))
        return y + self.bias if self.bias is not None and dist.get_rank() == 0 else y


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


class DoesNotScale(_Attention):
    scale = 1.0


class ScalesByItsOwnWidth(_Attention):
    """By all of its heads together, as if they were one."""

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        self.scale = (len(self.heads) * self.width) ** -0.5
        return super().attend(x)


class ScalesTwice(_Attention):
    def attend(self, x: torch.Tensor) -> torch.Tensor:
        self.scale = 1 / self.width
        return super().attend(x)


class AssumesTheSameHeadsEverywhere(_Attention):
    """Where n_head does not divide, view makes fewer and wider heads, without an error."""

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        B, T, _ = x.shape
        n_head = self.out.shape[0] // self.width // dist.get_world_size()
        q, k, v = (
            part.view(B, T, n_head, -1).transpose(1, 2)
            for part in F.linear(x, self.weight, self.bias).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(B, T, -1)


class MergesWithoutTransposing(_Attention):
    def attend(self, x: torch.Tensor) -> torch.Tensor:
        B, T, _ = x.shape
        y = super().attend(x).view(B, T, len(self.heads), self.width).transpose(1, 2)
        return y.reshape(B, T, -1)


class ReadsQkvHeadByHead(_Attention):
    """As if each head had its queries, keys and values side by side."""

    def my_rows(self, n: int) -> torch.Tensor:
        return torch.arange(3 * n).view(-1, 3, self.width)[self.heads].transpose(0, 1).flatten()


class SwapsQueriesAndKeys(_Attention):
    def my_rows(self, n: int) -> torch.Tensor:
        return torch.cat([part * n + self.my_columns(n) for part in (1, 0, 2)])


class MasksAfterTheSoftmax(_Attention):
    def attend(self, x: torch.Tensor) -> torch.Tensor:
        B, T, _ = x.shape
        q, k, v = (
            part.view(B, T, len(self.heads), self.width).transpose(1, 2)
            for part in F.linear(x, self.weight, self.bias).chunk(3, -1)
        )
        weights = (q @ k.transpose(-2, -1) / self.width**0.5).softmax(-1).tril()
        return (weights @ v).transpose(1, 2).reshape(B, T, -1)


class EntersThreeTimes(_Attention):
    def attend(self, x: torch.Tensor) -> torch.Tensor:
        B, T, _ = x.shape
        weights, biases = self.weight.chunk(3), self.bias.chunk(3)
        q, k, v = (
            F.linear(_Copy.apply(x), w, b).view(B, T, len(self.heads), self.width).transpose(1, 2)
            for w, b in zip(weights, biases, strict=True)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(B, T, -1)

    def enter(self, x: torch.Tensor) -> torch.Tensor:
        return x


class AveragesTheRanks(_Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _Sum.apply(F.linear(self.attend(self.enter(x)), self.out))
        return y / dist.get_world_size() + self.out_bias


class LeavesTheBiasOfOutOut(_Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sum.apply(F.linear(self.attend(self.enter(x)), self.out))


class CutsTheQkvBiasInOnePiece(_Attention):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__(qkv, out, n_head)
        start = 3 * self.width * int(self.heads[0])
        self.bias = nn.Parameter(qkv.bias.detach()[start : start + len(self.weight)].clone())


class GathersTheHeads(_Attention):
    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__(qkv, out, n_head)
        self.out = nn.Parameter(out.weight.detach().clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.attend(self.enter(x))
        parts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(parts, y.detach())
        parts[dist.get_rank()] = y
        return F.linear(torch.cat(parts, -1), self.out, self.out_bias)


class SumsBackwardAgain(_Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _SumTwice.apply(F.linear(self.attend(self.enter(x)), self.out)) + self.out_bias


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
        DetachesTheInput,
        AveragesTheInputsFirst,
        SumsTheWeightsGradientToo,
        StaysOutWithoutOutputs,
        GivesTheRemainderToTheLastRank,
        ExpectsAMatrix,
        LetsTorchCutIt,
        HoldsBuffers,
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
        CutsTheInputsAgain,
        CutsTheOutputsOfARow,
        CutsTheBias,
        StaysOutWithoutInputs,
        SumsOnRankZeroOnly,
        GathersThePartialSums,
        AveragesEqualGradients,
        TakesTheLargest,
        SumsWithoutAutograd,
        SumsTheBiassGradient,
        AddsTheBiasOnRankZeroAfterTheSum,
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
        DoesNotScale,
        ScalesByItsOwnWidth,
        ScalesTwice,
        AssumesTheSameHeadsEverywhere,
        MergesWithoutTransposing,
        ReadsQkvHeadByHead,
        SwapsQueriesAndKeys,
        MasksAfterTheSoftmax,
        EntersThreeTimes,
        AveragesTheRanks,
        LeavesTheBiasOfOutOut,
        CutsTheQkvBiasInOnePiece,
        GathersTheHeads,
        SumsBackwardAgain,
    ),
}

FITS = {
    "ForgetsTheBackwardAllReduce": "this rank's outputs only",
    "GathersTheOutputs": "shape of the output",
    "KeepsTheWholeWeight": "too many numbers held",
    "KeepsViewsOfTheWhole": "a view",
    "CutsWithChunk": "chunk can make fewer",
    "DropsTheRemainder": "tensor_split",
    "LeavesTheBiasOut": "where is the bias",
    "ExpectsABias": "bias=False",
    "SumsTheOutputs": "different shapes",
    "HoldsPlainTensors": "are parameters",
    "AveragesTheInputsGradient": "whole gradient",
    "CutsTheInputs": "weight is .n_out, n_in.",
    "DetachesTheInput": "backward has to reach the input",
    "AveragesTheInputsFirst": "whole gradient",
    "SumsTheWeightsGradientToo": "gradient of their own outputs",
    "StaysOutWithoutOutputs": "a rank without features, too",
    "GivesTheRemainderToTheLastRank": "tensor_split",
    "ExpectsAMatrix": "must be a matrix",
    "LetsTorchCutIt": "yours to write",
    "HoldsBuffers": "are parameters",
    "AddsTheBiasOnEveryRank": "once for each rank",
    "DividesTheBias": "right before the step",
    "LeavesTheSumOut": "partial sum",
    "SumsTheGradientToo": "4 times what was expected",
    "AveragesTheParts": "then comes a sum",
    "GathersTheInputs": "too many numbers held",
    "KeepsEveryInputsWeight": "too many numbers held",
    "LeavesTheBiasOutOfTheSum": "where is the bias",
    "NeedsABias": "bias=False",
    "CutsTheInputsWithChunk": "tensor_split",
    "CopiesBeforeAsWell": "different shapes",
    "RoundsToSixteenBits": "the output",
    "CutsTheInputsAgain": "leave x alone",
    "CutsTheOutputsOfARow": "weight is .n_out, n_in.",
    "CutsTheBias": "must match the size",
    "StaysOutWithoutInputs": "one without data too",
    "SumsOnRankZeroOnly": "partial sum",
    "GathersThePartialSums": "too many collectives",
    "AveragesEqualGradients": "what is left to communicate",
    "TakesTheLargest": "then comes a sum",
    "SumsWithoutAutograd": "backward has to reach the input",
    "SumsTheBiassGradient": "counts once for each rank",
    "AddsTheBiasOnRankZeroAfterTheSum": "where is the bias",
    "SeesTheFuture": "causal",
    "ScalesByTheWholeWidth": "the scale",
    "CutsQkvInOnePiece": "three places",
    "DropsHeadsThatDoNotDivide": "not every rank has",
    "CutsOutByTheWidth": "shapes cannot be multiplied",
    "TakesTheFirstColumnsOfOut": "columns of out",
    "AddsTheBiasBeforeTheSum": "once for each rank",
    "ForgetsTheSumBeforeIt": "x goes into all heads",
    "ForgetsTheSumAfterIt": "partial sum",
    "SumsEachHead": "too many collectives",
    "LeavesTheQkvBiasOut": "weight and bias",
    "ComputesAllHeads": "too many numbers held",
    "KeepsTheWholeOut": "too many numbers held",
    "DoesNotScale": "the scale",
    "ScalesByItsOwnWidth": "the scale",
    "ScalesTwice": "the scale",
    "AssumesTheSameHeadsEverywhere": "not every rank has",
    "MergesWithoutTransposing": "back to their order",
    "ReadsQkvHeadByHead": "three places",
    "SwapsQueriesAndKeys": "look at queries, keys",
    "MasksAfterTheSoftmax": "sees only itself",
    "EntersThreeTimes": "too many collectives in backward",
    "AveragesTheRanks": "the mean",
    "LeavesTheBiasOfOutOut": "where is the bias of out",
    "CutsTheQkvBiasInOnePiece": "three places",
    "GathersTheHeads": "too many numbers held",
    "SumsBackwardAgain": "once too often",
}
