"""Planted faults of chapter 04."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="keeps_the_buffer_until_wait",
        cell="request-change-run",
        find="x.fill_(9.0)  # meant for the next step\n        request.wait()",
        replace="request.wait()\n        x.fill_(9.0)",
        claim="request-change-run",
    ),
    Fault(
        name="maximum_instead_of_sum",
        cell="root-reduce",
        find="dst=0)",
        replace="dst=0, op=dist.ReduceOp.MAX)",
        claim="all-claim",
    ),
    Fault(
        name="keeps_its_own_first_share",
        cell="all-reduce-scatter",
        find="dist.reduce_scatter_single(share, x)",
        replace="share.copy_(x[: len(share)])",
        claim="all-claim",
    ),
    Fault(
        name="sends_shares_in_reverse",
        cell="all-to-all",
        find="received, x)",
        replace="received, x.flip(0).contiguous())",
        claim="all-claim",
    ),
    Fault(
        name="clock_starts_after_all_have_come",
        cell="wait-define",
        find="        start = time.perf_counter()",
        replace="        dist.barrier()\n        start = time.perf_counter()",
        claim="wait-claim",
    ),
    Fault(
        name="waits_at_once_in_both_runs",
        cell="wait-async-define",
        find="if not overlap:",
        replace="if work:",
        claim="wait-async-claim",
    ),
    Fault(
        name="forgot_to_divide_by_world_size",
        cell="cost-formulas",
        find="2 * (1 - 1 / W)",
        replace="2 * (W - 1)",
        claim="cost-claim",
    ),
    Fault(
        name="sends_a_tensor_both_times",
        cell="object-define",
        find='if kind == "tensor" else lists',
        replace="",
        claim="object-claim",
    ),
    Fault(
        name="result_for_everybody",
        cell="wrong-partial-claim",
        find="dist.reduce(x, dst=0)",
        replace="dist.all_reduce(x)",
        claim="wrong-partial-claim",
    ),
    Fault(
        name="same_order_on_both_ranks",
        cell="wrong-swapped-run",
        find="else (gradient, loss)",
        replace="else (loss, gradient)",
        claim="wrong-swapped-run",
    ),
    Fault(
        name="debug_level_does_not_arrive",
        cell="wrong-detail-define",
        find="timeout=2, env=env",
        replace="timeout=2",
        claim="wrong-detail-claim",
    ),
    Fault(
        name="somebody_waits_for_the_request",
        cell="wrong-request-run",
        find="dist.isend(x, dst=1) if",
        replace="dist.isend(x, dst=1).wait() if",
        claim="wrong-request-claim",
    ),
]
