"""The models are what the chapters count, split and shard: their sizes, their causality, their parts."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils.datasets import digits, random_batch, shakespeare
from course_utils.models import MLP, Transformer, TransformerConfig

SMALL = TransformerConfig(vocab_size=11, block_size=8, n_layer=2, n_head=2, n_embd=12)


def n_params(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def written_out(attention: nn.Module, x: torch.Tensor, n_head: int) -> torch.Tensor:
    """Causal attention a head at a time, the reference for the fused call."""
    head_dim = x.shape[-1] // n_head
    future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    heads = []
    for h in range(n_head):
        part = slice(h * head_dim, (h + 1) * head_dim)
        q, k, v = (x @ layer.weight[part].T for layer in (attention.query, attention.key, attention.value))
        scores = (q @ k.mT / math.sqrt(head_dim)).masked_fill(future, -math.inf)
        heads.append(scores.softmax(-1) @ v)
    return torch.cat(heads, -1) @ attention.out.weight.T


@pytest.mark.parametrize("config", [TransformerConfig(), SMALL])
def test_parameters_counted_by_hand(config: TransformerConfig) -> None:
    V, T, L, C = config.vocab_size, config.block_size, config.n_layer, config.n_embd
    assert n_params(Transformer(config)) == V * C + T * C + L * (12 * C**2 + 2 * C) + C + V * C


def test_default_size() -> None:
    assert n_params(Transformer()) == 209_472


def test_attention_is_the_formula() -> None:
    torch.manual_seed(0)
    attention = Transformer(SMALL).double().blocks[0].attention
    x = torch.randn(3, 8, 12, dtype=torch.float64)
    # The fused kernel adds in another order: 1e-12 leaves room for that in float64, and for nothing else.
    torch.testing.assert_close(attention(x), written_out(attention, x, n_head=2), rtol=0, atol=1e-12)


def test_no_token_sees_the_future() -> None:
    torch.manual_seed(0)
    model = Transformer(SMALL).double()
    tokens = torch.randint(11, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 11
    difference = (model(tokens) - model(changed)).abs().amax(-1)[0]
    assert difference[:5].max() == 0
    assert difference[5:].min() > 0


def test_it_is_a_plain_sequence_of_its_parts() -> None:
    """Chapters cut it into stages and wrap it block by block."""
    torch.manual_seed(0)
    model = Transformer(SMALL)
    parts = nn.Sequential(model.embedding, *model.blocks, model.norm, model.head)
    tokens = torch.randint(11, (2, 8))
    assert torch.equal(model(tokens), parts(tokens))
    assert n_params(parts) == n_params(model), "a parameter stands outside the sequence"


def test_half_of_the_heads_is_a_valid_attention() -> None:
    """Tensor parallelism gives a rank some of the projections' rows: the halves add up to the whole."""
    torch.manual_seed(0)
    whole = Transformer(SMALL).double().blocks[0].attention
    x = torch.randn(2, 8, 12, dtype=torch.float64)
    total = torch.zeros_like(x)
    for rank in range(2):
        half = Transformer(SMALL).double().blocks[0].attention
        for name in ("query", "key", "value"):
            getattr(half, name).weight = nn.Parameter(getattr(whole, name).weight.chunk(2, dim=0)[rank])
        half.out.weight = nn.Parameter(whole.out.weight.chunk(2, dim=1)[rank])
        total = total + half(x)
    torch.testing.assert_close(total, whole(x), rtol=0, atol=1e-12)


def test_first_loss_is_that_of_guessing() -> None:
    torch.manual_seed(0)
    x, y = random_batch(shakespeare().train, 16, 64, torch.Generator().manual_seed(0))
    loss = F.cross_entropy(Transformer()(x).flatten(0, 1), y.flatten())
    assert loss.item() == pytest.approx(math.log(64), abs=0.05)


def test_it_learns_shakespeare() -> None:
    torch.manual_seed(0)
    text, model = shakespeare(), Transformer(TransformerConfig(n_layer=2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(100):
        x, y = random_batch(text.train, 8, 64, generator)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # The characters' own frequencies alone give 3.2: below 2.8 it uses what stands before.
    assert sum(losses[-10:]) / 10 < 2.8


def test_dropout_only_when_asked_for_and_in_training() -> None:
    tokens = torch.randint(64, (2, 16))
    for rate, differs in ((0.0, False), (0.2, True)):
        model = Transformer(TransformerConfig(n_layer=1, dropout=rate))
        assert (not torch.equal(model(tokens), model(tokens))) == differs
        model.eval()
        assert torch.equal(model(tokens), model(tokens))


def test_it_exists_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = Transformer(
            TransformerConfig(vocab_size=50_000, n_layer=48, n_head=32, n_embd=4096, block_size=2048)
        )
    assert n_params(model) > 9e9
    assert all(p.is_meta for p in model.parameters())


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="n_head must divide n_embd"):
        TransformerConfig(n_head=5)
    with pytest.raises(ValueError, match="9 tokens, the model takes 8"):
        Transformer(SMALL)(torch.zeros(1, 9, dtype=torch.int64))
    with pytest.raises(ValueError, match="at least an input and an output"):
        MLP(64)


def test_mlp_shapes_and_size() -> None:
    assert n_params(MLP()) == 64 * 64 + 64 + 64 * 10 + 10
    assert MLP(5, 4, 3, 2)(torch.zeros(7, 5)).shape == (7, 2)
    last = MLP(2, 2)
    assert torch.equal(last(torch.ones(1, 2)), last.layers[0](torch.ones(1, 2))), (
        "no ReLU after the last layer"
    )


def test_mlp_learns_the_digits() -> None:
    torch.manual_seed(0)
    data, model = digits(), MLP()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(10):
        for x, y in zip(data.train_x.split(64), data.train_y.split(64), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert (model(data.test_x).argmax(1) == data.test_y).float().mean() > 0.92
