"""Planted faults of chapter 02."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="gradients_summed_and_not_averaged",
        cell="mean-run",
        find="np.mean(workers, axis=0)",
        replace="np.sum(workers, axis=0)",
        claim="mean-claim",
    ),
    Fault(
        name="every_worker_weighs_the_same",
        cell="unequal-weighted",
        find="counts @ workers / counts.sum()",
        replace="np.ones(4) @ workers / 4",
        claim="unequal-claim",
    ),
    Fault(
        name="shares_are_equal_after_all",
        cell="unequal-run",
        find="[40, 8, 8, 8]",
        replace="[16, 16, 16, 16]",
        claim="unequal-claim",
    ),
    Fault(
        name="a_rank_starts_from_another_seed",
        cell="real-model",
        find="torch.manual_seed(0)",
        replace="torch.manual_seed(int(dist.is_initialized() and dist.get_rank() == 2))",
        claim="real-claim",
    ),
    Fault(
        name="result_reaches_rank_0_alone",
        cell="real-rank",
        find="dist.all_reduce(total)",
        replace="dist.reduce(total, dst=0)",
        claim="real-claim",
    ),
    Fault(
        name="forgot_to_divide_by_world_size",
        cell="run-average",
        find="p.grad /= divisor",
        replace="p.grad /= 1",
        claim="run-claim",
    ),
    Fault(
        name="forgot_to_average_the_last_layer_bias",
        cell="run-average",
        find="for p in model.parameters():",
        replace="for p in list(model.parameters())[:-1]:",
        claim="run-claim",
    ),
    Fault(
        name="divides_by_four_either_way",
        cell="sum-first-step",
        find="average_gradients(model, divisor)",
        replace="average_gradients(model, 4)",
        claim="sum-claim",
    ),
    Fault(
        name="tokens_counted_on_this_rank_alone",
        cell="token-right",
        find="dist.all_reduce(count)",
        replace="count *= dist.get_world_size()",
        claim="token-claim",
    ),
    Fault(
        name="forgot_to_undo_the_average",
        cell="token-right",
        find=" * dist.get_world_size() / count",
        replace=" / count",
        claim="token-claim",
    ),
    Fault(
        name="inputs_and_labels_out_of_step",
        cell="bits-run",
        find="flat_gradient(build(d), x, labels)",
        replace="flat_gradient(build(d), x.roll(1, 0), labels)",
        claim="bits-claim",
    ),
    Fault(
        name="batch_norm_in_evaluation_mode",
        cell="wrong-norm-run",
        find="torch.nn.BatchNorm1d(64)",
        replace="torch.nn.BatchNorm1d(64).eval()",
        claim="wrong-norm-claim",
    ),
]
