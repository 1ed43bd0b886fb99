"""Reference solutions of chapter 15."""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


def _all_reduced(tensor: torch.Tensor) -> torch.Tensor:
    total = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


class _CopyToRanks(torch.autograd.Function):
    """Nothing forward, an all-reduce backward (Megatron-LM's f)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return _all_reduced(gradient)


class _SumOverRanks(torch.autograd.Function):
    """An all-reduce forward, nothing backward (Megatron-LM's g)."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor) -> torch.Tensor:
        return _all_reduced(y)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def _part(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    return tensor.tensor_split(dist.get_world_size(), dim)[dist.get_rank()]


def _own(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach().clone())  # a view would keep the whole layer alive


class ColumnParallelLinear(nn.Module):
    """Some outputs of a linear layer, and the whole gradient of its input.

    linear: the whole layer (n_in, n_out), the same on all ranks, with a bias or with bias=False.
    forward: x (..., n_in), the same on all ranks -> (..., this rank's outputs).
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = _own(_part(linear.weight, 0))
        self.bias = None if linear.bias is None else _own(_part(linear.bias, 0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(_CopyToRanks.apply(x), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    """All outputs of a linear layer, from inputs that are spread over the ranks.

    linear: the whole layer (n_in, n_out), the same on all ranks, with a bias or with bias=False.
    forward: x (..., this rank's inputs) -> (..., n_out), the same on all ranks.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = _own(_part(linear.weight, 1))
        self.bias = None if linear.bias is None else _own(linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = _SumOverRanks.apply(F.linear(x, self.weight))
        return y if self.bias is None else y + self.bias  # after the sum: once


class SplitAttention(nn.Module):
    """Causal self-attention of which this rank computes some heads.

    qkv: nn.Linear(C, 3C), out: nn.Linear(C, C), both with biases, whole and the same on all ranks.
    forward: x (B, T, C), the same on all ranks -> (B, T, C), the same on all ranks.
    """

    def __init__(self, qkv: nn.Linear, out: nn.Linear, n_head: int) -> None:
        super().__init__()
        self.head_dim = out.in_features // n_head
        heads = _part(torch.arange(n_head), 0)
        numbers = (heads[:, None] * self.head_dim + torch.arange(self.head_dim)).flatten()  # within C
        rows = torch.cat([numbers + i * out.in_features for i in range(3)])  # of queries, keys, values
        self.weight, self.bias = _own(qkv.weight[rows]), _own(qkv.bias[rows])
        self.out_weight, self.out_bias = _own(out.weight[:, numbers]), _own(out.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = F.linear(_CopyToRanks.apply(x), self.weight, self.bias)
        q, k, v = (  # (B, heads, T, head_dim)
            part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in qkv.chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return _SumOverRanks.apply(F.linear(y, self.out_weight)) + self.out_bias


SOLUTIONS = {"15.1": ColumnParallelLinear, "15.2": RowParallelLinear, "15.3": SplitAttention}
