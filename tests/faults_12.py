"""Planted faults of chapter 12."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="parameters_counted_as_activations",
        cell="list-function",
        find="if not isinstance(root, nn.Parameter):",
        replace="if root is not None:",
        claim="list-claim",
    ),
    Fault(
        name="dropout_keeps_its_mask_in_the_format_of_the_activations",
        cell="formula-attention",
        find="torch.native_dropout(x, 0.1, True)[0]",
        replace="nn.functional.dropout(x, 0.1)",
        claim="formula-claim",
    ),
    Fault(
        name="one_dropout_left_on",
        cell="formula-attention",
        find="(drop(weights) if dropout else weights)",
        replace="drop(weights)",
        claim="formula-variants-claim",
    ),
    Fault(
        name="nothing_is_recomputed",
        cell="forget-segments",
        find="checkpoint(run, layers[i : i + k], x, use_reentrant=False, **options)",
        replace="run(layers[i : i + k], x)",
        claim="forget-calls",
    ),
    Fault(
        name="segments_of_two_layers_instead_of_one",
        cell="peak-run",
        find="partial(in_segments, k=1)",
        replace="partial(in_segments, k=2)",
        claim="peak-claim",
    ),
    Fault(
        name="each_layer_saves_a_second_tensor",
        cell="root-chain",
        find="nn.Tanh())",
        replace="nn.Tanh(), nn.Sigmoid())",
        claim="root-claim",
    ),
    Fault(
        name="products_are_not_among_what_is_kept",
        cell="select-dear",
        find="aten.mm.default, ",
        replace="",
        claim="select-claim",
    ),
    Fault(
        name="attention_is_not_recomputed",
        cell="select-core",
        find="checkpoint(attention, *inputs, use_reentrant=False)",
        replace="attention(*inputs)",
        claim="select-core",
    ),
    Fault(
        name="blocks_stay_gathered_after_forward",
        cell="fsdp-model",
        find="fully_shard(block, mesh=mesh)",
        replace="fully_shard(block, mesh=mesh, reshard_after_forward=False)",
        claim="fsdp-claim",
    ),
    Fault(
        name="ranks_train_on_the_same_share",
        cell="fsdp-step",
        find="[dist.get_rank()]",
        replace="[0]",
        claim="fsdp-claim",
    ),
    Fault(
        name="random_state_is_kept_after_all",
        cell="wrong-rng-tests",
        find="preserve_rng_state=False",
        replace="preserve_rng_state=True",
        claim="wrong-rng-claim",
    ),
    Fault(
        name="batch_norm_in_evaluation_mode",
        cell="wrong-norm-run",
        find="nn.BatchNorm1d(8)",
        replace="nn.BatchNorm1d(8).eval()",
        claim="wrong-norm-run",
    ),
    Fault(
        name="the_old_variant_never_ran",
        cell="wrong-reentrant-run",
        find="use_reentrant=reentrant",
        replace="use_reentrant=False",
        claim="wrong-reentrant-claim",
    ),
    Fault(
        name="one_checkpoint_a_layer_after_all",
        cell="wrong-all-run",
        find="k=8",
        replace="k=1",
        claim="wrong-all-run",
    ),
]
