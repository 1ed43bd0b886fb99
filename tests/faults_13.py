"""Mistakes planted in chapter 13, each of which a claim must notice."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="counts_the_chunks_upward",
        cell="ring-step",
        find="(rank - 1 - step) % W",
        replace="(rank - 1 + step) % W",
        claim="ring-claim",
    ),
    Fault(
        name="stops_a_step_early",
        cell="ring-claim",
        find="range(2 * (W - 1))",
        replace="range(2 * (W - 1) - 1)",
        claim="ring-claim",
    ),
    Fault(
        name="adds_once_too_often",
        cell="real-ring",
        find="if step < W - 1",
        replace="if step < W",
        claim="real-claim",
    ),
    Fault(
        name="sends_whole_tensors",
        cell="real-ring",
        find="x.view(-1).tensor_split(W)",
        replace="[x.view(-1)] * W",
        claim="wire-claim",
    ),
    Fault(
        name="passes_on_once_too_little",
        cell="naive-gather",
        find="range(W - 1)",
        replace="range(W - 2)",
        claim="wire-claim",
    ),
    Fault(
        name="times_one_size_only",
        cell="time-measure",
        find="torch.zeros(size // 4)",
        replace="torch.zeros(256)",
        claim="time-claim",
    ),
    Fault(
        name="takes_beta_from_the_smallest_size",
        cell="time-crossing",
        find='(large["ring"] - small["ring"]) / (b_ring * 2**24)',
        replace='small["ring"] / (b_ring * 2**10)',
        claim="time-claim",
    ),
    Fault(
        name="whole_tensors_around_the_ring",
        cell="time-measure",
        find='"ring": ring_all_reduce',
        replace='"ring": gather_and_add',
        claim="gloo-claim",
    ),
    Fault(
        name="measures_the_root_twice",
        cell="slow-run",
        find="on_slow_links, ring_all_reduce",
        replace="on_slow_links, through_root",
        claim="slow-claim",
    ),
    Fault(
        name="all_steps_after_all",
        cell="wrong-short-run",
        find="range(2 * (W - 1) - 1)",
        replace="range(2 * (W - 1))",
        claim="wrong-short-claim",
    ),
]
