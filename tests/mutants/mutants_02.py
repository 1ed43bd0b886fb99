"""Wrong solutions of chapter 02: weighted averages, token losses, synchronized BatchNorm."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

# 02.1: weighted_average(gradient, count)


def takes_the_plain_average(gradient: torch.Tensor, count: int) -> torch.Tensor:
    average = gradient.clone()
    dist.all_reduce(average)
    return average / dist.get_world_size()


def forgot_to_divide_by_the_samples(gradient: torch.Tensor, count: int) -> torch.Tensor:
    total = gradient * count
    dist.all_reduce(total)
    return total


def assumes_64_samples(gradient: torch.Tensor, count: int) -> torch.Tensor:
    average = gradient * count / 64
    dist.all_reduce(average)
    return average


def weights_after_the_sum(gradient: torch.Tensor, count: int) -> torch.Tensor:
    total, samples = gradient.clone(), torch.tensor(count)
    dist.all_reduce(total)
    dist.all_reduce(samples)
    return total * count / samples


def skips_the_collective_without_data(gradient: torch.Tensor, count: int) -> torch.Tensor:
    if count == 0:
        return gradient
    packed = torch.cat([gradient * count, gradient.new_tensor([count])])
    dist.all_reduce(packed)
    return packed[:-1] / packed[-1]


def changes_the_gradient(gradient: torch.Tensor, count: int) -> torch.Tensor:
    samples = torch.tensor(count)
    dist.all_reduce(samples)
    gradient *= count / samples
    dist.all_reduce(gradient)
    return gradient


def gathers_every_gradient(gradient: torch.Tensor, count: int) -> torch.Tensor:
    packed = torch.cat([gradient * count, gradient.new_tensor([count])])
    parts = [torch.empty_like(packed) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, packed)
    total = torch.stack(parts).sum(dim=0)
    return total[:-1] / total[-1]


def reduces_element_by_element(gradient: torch.Tensor, count: int) -> torch.Tensor:
    total, samples = gradient * count, torch.tensor(count)
    dist.all_reduce(samples)
    for element in total:
        dist.all_reduce(element)
    return total / samples


def reduces_to_rank_0_alone(gradient: torch.Tensor, count: int) -> torch.Tensor:
    packed = torch.cat([gradient * count, gradient.new_tensor([count])])
    dist.reduce(packed, dst=0)
    return packed[:-1] / packed[-1]


# 02.2: token_loss(losses, mask)


def total_of(mask: torch.Tensor) -> torch.Tensor:
    count = mask.sum()
    dist.all_reduce(count)
    return count


def takes_the_mean_over_its_own_tokens(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (losses * mask).sum() / mask.sum()


def counts_the_padding(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (losses * mask).sum() * dist.get_world_size() / total_of(torch.ones_like(mask))


def forgot_to_multiply_by_world_size(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (losses * mask).sum() / total_of(mask)


def multiplies_by_two_always(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (losses * mask).sum() * 2 / total_of(mask)


def weights_the_sequences_alike(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    means = (losses * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
    return means.sum() * dist.get_world_size() / total_of(torch.ones(len(mask)))


def divides_zero_by_zero_without_tokens(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    mean = (losses * mask).sum() / mask.sum()
    return mean * mask.sum() * dist.get_world_size() / total_of(mask)


def skips_the_collective_without_tokens(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if mask.sum() == 0:
        return losses.sum() * 0
    return (losses * mask).sum() * dist.get_world_size() / total_of(mask)


def returns_a_loss_a_token(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return losses * mask * dist.get_world_size() / total_of(mask)


def returns_a_python_number(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return ((losses * mask).sum() * dist.get_world_size() / total_of(mask)).item()


def cuts_the_graph(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    mean = (losses * mask).sum().item() * dist.get_world_size() / total_of(mask).item()
    return torch.tensor(mean, requires_grad=True)


def reduces_the_sum_as_well(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    total = (losses * mask).sum()
    everywhere = total.detach().clone()
    dist.all_reduce(everywhere)  # for the log
    return total * dist.get_world_size() / total_of(mask)


def reduces_the_whole_mask(losses: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    everywhere = mask.clone()
    dist.all_reduce(everywhere)
    return (losses * mask).sum() * dist.get_world_size() / everywhere.sum()


# 02.3: sync_batch_norm(x, eps)


def sums_of(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The rows, the columns' means and the columns' mean squares, over all ranks."""
    packed = torch.cat([x.sum(dim=0), (x * x).sum(dim=0), x.new_tensor([len(x)])])
    dist.all_reduce(packed)
    mean, square = (packed[:-1] / packed[-1]).chunk(2)
    return packed[-1], mean, square


def calls_the_local_library(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return F.batch_norm(x, None, None, training=True, eps=eps)


def calls_the_synchronized_library(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return torch.nn.SyncBatchNorm(x.shape[1], eps=eps, affine=False).to(x.dtype)(x)


def normalizes_its_own_rows(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return (x - x.mean(dim=0)) / (x.var(dim=0, unbiased=False) + eps).sqrt()


def takes_the_mean_of_the_means(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    moments = torch.stack([x.mean(dim=0), (x * x).mean(dim=0)])
    dist.all_reduce(moments)
    mean, square = moments / dist.get_world_size()
    return (x - mean) / (square - mean**2 + eps).sqrt()


def averages_the_local_variances(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    rows, mean, _ = sums_of(x)
    squares = ((x - x.sum(dim=0) / max(len(x), 1)) ** 2).sum(dim=0)
    dist.all_reduce(squares)
    return (x - mean) / (squares / rows + eps).sqrt()


def divides_the_variance_by_one_row_less(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    rows, mean, square = sums_of(x)
    return (x - mean) / ((square - mean**2) * rows / (rows - 1) + eps).sqrt()


def forgot_eps(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    _, mean, square = sums_of(x)
    return (x - mean) / (square - mean**2).sqrt()


def uses_the_default_eps_always(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    _, mean, square = sums_of(x)
    return (x - mean) / (square - mean**2 + 1e-5).sqrt()


def adds_eps_outside_the_root(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    _, mean, square = sums_of(x)
    return (x - mean) / ((square - mean**2).clamp(min=0).sqrt() + eps)


def spends_three_collectives(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    rows, total = x.new_tensor([len(x)]), x.sum(dim=0)
    dist.all_reduce(rows)
    dist.all_reduce(total)
    squares = ((x - total / rows) ** 2).sum(dim=0)
    dist.all_reduce(squares)
    return (x - total / rows) / (squares / rows + eps).sqrt()


def gathers_the_rows(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, x)
    whole = torch.cat(parts)
    return (x - whole.mean(dim=0)) / (whole.var(dim=0, unbiased=False) + eps).sqrt()


def hides_the_rows_in_a_sum(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    counts = torch.zeros(dist.get_world_size(), dtype=torch.int64)
    counts[dist.get_rank()] = len(x)
    dist.all_reduce(counts)
    whole = x.new_zeros(int(counts.sum()), x.shape[1])
    whole.split(counts.tolist())[dist.get_rank()].copy_(x)
    dist.all_reduce(whole)
    return (x - whole.mean(dim=0)) / (whole.var(dim=0, unbiased=False) + eps).sqrt()


MUTANTS = {
    "02.1": [
        takes_the_plain_average,
        forgot_to_divide_by_the_samples,
        assumes_64_samples,
        weights_after_the_sum,
        skips_the_collective_without_data,
        changes_the_gradient,
        gathers_every_gradient,
        reduces_element_by_element,
        reduces_to_rank_0_alone,
    ],
    "02.2": [
        takes_the_mean_over_its_own_tokens,
        counts_the_padding,
        forgot_to_multiply_by_world_size,
        multiplies_by_two_always,
        weights_the_sequences_alike,
        divides_zero_by_zero_without_tokens,
        skips_the_collective_without_tokens,
        returns_a_loss_a_token,
        returns_a_python_number,
        cuts_the_graph,
        reduces_the_sum_as_well,
        reduces_the_whole_mask,
    ],
    "02.3": [
        calls_the_local_library,
        calls_the_synchronized_library,
        normalizes_its_own_rows,
        takes_the_mean_of_the_means,
        averages_the_local_variances,
        divides_the_variance_by_one_row_less,
        forgot_eps,
        uses_the_default_eps_always,
        adds_eps_outside_the_root,
        spends_three_collectives,
        gathers_the_rows,
        hides_the_rows_in_a_sum,
    ],
}
FITS = {
    "takes_the_plain_average": "what does one sample weigh",
    "forgot_to_divide_by_the_samples": "what does one sample weigh|64 times|divide",
    "assumes_64_samples": "the ranks had 5, 1, 2 samples",
    "weights_after_the_sum": "what does one sample weigh",
    "skips_the_collective_without_data": "Look first at rank 3",
    "changes_the_gradient": "copy",
    "gathers_every_gradient": r"\bsums?\b",
    "reduces_element_by_element": "too many collectives",
    "reduces_to_rank_0_alone": r"rank +1\n",
    "takes_the_mean_over_its_own_tokens": "tokens on all ranks together",
    "counts_the_padding": "real tokens",
    "weights_the_sequences_alike": "tokens on all ranks together, each with the same weight",
    "forgot_to_multiply_by_world_size": "average over ranks comes after yours",
    "multiplies_by_two_always": "average over ranks comes after yours",
    "divides_zero_by_zero_without_tokens": "0 ?/ ?0|by (0|zero)|(no|without a) real token",
    "skips_the_collective_without_tokens": "skip|takes? part|had finished|(no|without a) real token",
    "returns_a_loss_a_token": "one element",
    "returns_a_python_number": r"\bfloat\b|item\(\)",
    "cuts_the_graph": "cut the graph",
    "reduces_the_sum_as_well": "too many collectives",
    "reduces_the_whole_mask": "too many bytes",
    "calls_the_local_library": "all rows",
    "calls_the_synchronized_library": "on GPU",
    "normalizes_its_own_rows": "sums over all rows",
    "takes_the_mean_of_the_means": "number of all rows",
    "averages_the_local_variances": "over all rows",
    "divides_the_variance_by_one_row_less": "divided by the number of all rows",
    "forgot_eps": r"\beps\b",
    "uses_the_default_eps_always": "eps=",
    "adds_eps_outside_the_root": r"\beps\b",
    "spends_three_collectives": "too many collectives",
    "gathers_the_rows": r"\bsums?\b",
    "hides_the_rows_in_a_sum": "too many bytes",
}
