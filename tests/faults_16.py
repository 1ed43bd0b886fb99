"""Planted faults of chapter 16."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="the_second_half_is_another_model",
        cell="hand-rank",
        find="build(2)[rank]",
        replace="build(2 + rank)[2 * rank]",
        claim="hand-claim",
    ),
    Fault(
        name="rank_0_does_not_wait_for_rank_1",
        cell="hand-rank",
        find="        dist.recv(travels, src=1)\n",
        replace="        travels = torch.ones_like(x)\n",
        claim="hand-claim",
    ),
    Fault(
        name="an_action_does_not_wait_for_its_input",
        cell="plan-simulate",
        find="max(end[needs(kind, stage, i, last)], spans[rank][-1].end if spans[rank] else 0.0)",
        replace="spans[rank][-1].end if spans[rank] else 0.0",
        claim="plan-claim",
    ),
    Fault(
        name="the_other_definition_of_the_bubble",
        cell="plan-table",
        find="(p - 1) / (m + p - 1)\n",
        replace="(p - 1) / m\n",
        claim="real-claim",
    ),
    Fault(
        name="the_loss_is_not_divided_by_m",
        cell="real-worker",
        find=" / len(self.targets)",
        replace="",
        claim="real-claim",
    ),
    Fault(
        name="messages_are_all_called_the_same",
        cell="real-launch",
        find='return 2 * (1000 * stage + i) + (kind == "F")',
        replace='return 2 * 1000 * stage + (kind == "F") + 2 * (i // 2)',
        claim="zero-claim",
    ),
    Fault(
        name="one_f_one_b_warms_up_with_everything",
        cell="held-1f1b",
        find="min(p - 1 - rank, m)",
        replace="m - 1",
        claim="held-claim",
    ),
    Fault(
        name="w_is_not_put_off",
        cell="zero-make",
        find='[("W", rank, i - rank)] if i >= rank else []',
        replace='[("W", rank, i)]',
        claim="zero-claim",
    ),
    Fault(
        name="interleaving_without_rounds",
        cell="inter-make",
        find="(v - 1) * p, m * v)",
        replace="m * v, m * v)",
        claim="zero-claim",
    ),
    Fault(
        name="torch_gets_other_micro_batches",
        cell="torch-run",
        find="target=tokens[:, 1:]",
        replace="target=tokens[:, :-1]",
        claim="torch-claim",
    ),
    Fault(
        name="batch_norm_in_evaluation_mode",
        cell="wrong-norm-run",
        find="nn.BatchNorm1d(16).double()",
        replace="nn.BatchNorm1d(16).double().eval()",
        claim="wrong-norm-claim",
    ),
    Fault(
        name="stages_are_balanced_after_all",
        cell="wrong-load-run",
        find="load = [1, 1, 1, 2]",
        replace="load = [1, 1, 1, 1]",
        claim="wrong-load-claim",
    ),
]
