"""Planted faults of chapter 09."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="gradients_divided_from_stage_1_on",
        cell="stage-function",
        find="(gradients, 2)",
        replace="(gradients, 1)",
        claim="recipe-claim",
    ),
    Fault(
        name="gb_instead_of_gib",
        cell="stage-run",
        find="/ 2**30",
        replace="/ 1e9",
        claim="recipe-claim",
    ),
    Fault(
        name="gradients_moved_and_not_copied",
        cell="recipe-step",
        find="copy.grad = p.grad.float()",
        replace="copy.grad, p.grad = p.grad.float(), None",
        claim="recipe-claim",
    ),
    Fault(
        name="no_master_copy_in_the_state",
        cell="recipe-stages",
        find='"state": 12',
        replace='"state": 8',
        claim="paper-claim",
    ),
    Fault(
        name="gradients_dropped_by_their_owner",
        cell="held-zero-2",
        find="if owner[p] == rank else None",
        replace="if owner[p] != rank else None",
        claim="held-claim",
    ),
    Fault(
        name="gradients_summed_on_rank_0_and_not_on_their_owner",
        cell="held-zero-2",
        find="dst=owner[p])",
        replace="dst=0)",
        claim="held-claim",
    ),
    Fault(
        name="optimizer_not_sharded",
        cell="held-wrappers",
        find="return net, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)",
        replace="return net, torch.optim.AdamW(model.parameters())",
        claim="held-claim",
    ),
    Fault(
        name="blocks_replicated_and_not_sharded",
        cell="held-wrappers",
        find="        fully_shard(block, mesh=mesh)",
        replace="        block.train()",
        claim="sent-claim",
    ),
    Fault(
        name="padding_forgotten",
        cell="pad-rule",
        find="padded += rows * in_a_row",
        replace="padded += len(p) * in_a_row // W",
        claim="pad-claim",
    ),
    Fault(
        name="hidden_layer_kept_once",
        cell="act-function",
        find="{2: 2, 3: 4}",
        replace="{2: 1, 3: 4}",
        claim="act-claim",
    ),
    Fault(
        name="reduce_scatter_counted_as_all_reduce",
        cell="sent-volume",
        find='prices["all_reduce"] = 1',
        replace='prices["all_reduce"] = 2',
        claim="sent-claim",
    ),
    Fault(
        name="as_many_heads_for_keys_as_for_queries",
        cell="fit-count",
        find=' * m["kv_heads"] // m["heads"]',
        replace="",
        claim="fit-claim",
    ),
    Fault(
        name="optimizer_made_from_the_shards",
        cell="wrong-order-run",
        find='if optimizer_made == "after":',
        replace='if optimizer_made in ("before", "after"):',
        claim="wrong-order-claim",
    ),
]
