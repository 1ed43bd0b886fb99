"""The two models that every chapter trains: a tiny Transformer for text and a small MLP for digits.

The Transformer is a decoder in the form of GPT-2 (layer norm before each branch, learned positions, GELU)
without biases, so that its parameters can be counted by hand: V·C + T·C + L·(12·C² + 2·C) + C + V·C.
Query, key and value are layers of their own, which lets a chapter split them by heads.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class TransformerConfig:
    vocab_size: int = 64  # V
    block_size: int = 64  # T, the longest sequence
    n_layer: int = 4  # L
    n_head: int = 4
    n_embd: int = 64  # C
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_head must divide n_embd, got n_head={self.n_head}, n_embd={self.n_embd}")


class Attention(nn.Module):
    """Causal self-attention. The projections' width tells how many heads there are: a rank may hold a few."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.head_dim = config.n_embd // config.n_head
        self.dropout = config.dropout
        self.query = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.key = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.value = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.out = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (B, n_head, T, head_dim)
            for projection in (self.query, self.key, self.value)
        )
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)  # (B, n_head, T, head_dim)
        return self.out(y.transpose(1, 2).flatten(2))  # (B, T, C)


class FeedForward(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.n_embd, 4 * config.n_embd, bias=False)
        self.down = nn.Linear(4 * config.n_embd, config.n_embd, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))  # (B, T, C) -> (B, T, 4C) -> (B, T, C)


class Block(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.n_embd, bias=False)
        self.attention = Attention(config)
        self.feed_forward_norm = nn.LayerNorm(config.n_embd, bias=False)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x)))  # (B, T, C)
        return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))  # (B, T, C)


class Embedding(nn.Module):
    """What a token is, plus where it stands."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.n_embd)
        self.position = nn.Embedding(config.block_size, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        T, longest = tokens.shape[1], self.position.num_embeddings
        if longest < T:
            raise ValueError(f"the sequences have {T} tokens, the model takes {longest} (block_size)")
        positions = torch.arange(T, device=tokens.device)  # (T,)
        return self.dropout(self.token(tokens) + self.position(positions))  # (B, T, C)


class Transformer(nn.Module):
    """tokens (B, T), int64 -> logits (B, T, V). A plain sequence: embedding, blocks, norm, head."""

    def __init__(self, config: TransformerConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or TransformerConfig()
        self.embedding = Embedding(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd, bias=False)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)

    @staticmethod
    def _init_weights(module: nn.Module) -> None:
        # GPT-2's start: logits near zero, so that the first loss is ln V.
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)  # (B, T, C)
        for block in self.blocks:
            x = block(x)  # (B, T, C)
        return self.head(self.norm(x))  # (B, T, V)


class MLP(nn.Module):
    """x (B, sizes[0]) -> logits (B, sizes[-1]): linear layers with biases, ReLU between them."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        sizes = sizes or (64, 64, 10)
        if len(sizes) < 2:
            raise ValueError(f"an MLP needs at least an input and an output size, got {sizes}")
        self.layers = nn.ModuleList(nn.Linear(n_in, n_out) for n_in, n_out in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)
