"""Planted faults of chapter 01."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="forgot_the_bias_correction",
        cell="step-adamw",
        find="m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)",
        replace="m, v",
        claim="step-adamw-claim",
    ),
    Fault(
        name="targets_not_moved",
        cell="train-step",
        find="loss_of(model, x, y)",
        replace="loss_of(model, x, x)",
        claim="train-claim",
    ),
    Fault(
        name="forgot_the_norms",
        cell="params-count",
        find="(12 * C**2 + 2 * C)",
        replace="(12 * C**2)",
        claim="params-claim",
    ),
    Fault(
        name="sgd_instead_of_adamw",
        cell="train-loop",
        find="torch.optim.AdamW",
        replace="torch.optim.SGD",
        claim="bytes-claim",
    ),
    Fault(
        name="activations_of_one_sequence",
        cell="act-run",
        find="random_batch(text.train, B, 64",
        replace="random_batch(text.train, 4, 64",
        claim="act-hand",
    ),
    Fault(
        name="hidden_layer_kept_once",
        cell="act-hand",
        find="16 * C",
        replace="12 * C",
        claim="act-hand",
    ),
    Fault(
        name="counted_the_tables_as_matrices",
        cell="flops-rule",
        find="in_matrices -= 2 * 64 * 64",
        replace="",
        claim="flops-claim",
    ),
    Fault(
        name="no_loss_scaling",
        cell="mixed-gradient",
        find="(loss * scale).backward()",
        replace="loss.backward()",
        claim="mixed-claim",
    ),
    Fault(
        name="master_copy_in_both_runs",
        cell="mixed-master",
        find="tuned, start = build(dtype), build(dtype)",
        replace="tuned, start = build(), build()",
        claim="mixed-master-claim",
    ),
    Fault(
        name="forgot_to_divide_by_k",
        cell="accum-functions",
        find=" / divisor",
        replace="",
        claim="accum-claim",
    ),
    Fault(
        name="targets_moved_after_all",
        cell="wrong-shift-claim",
        find="copying, x, x)",
        replace="copying, x, y)",
        claim="wrong-shift-claim",
    ),
]
