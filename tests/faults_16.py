"""Planted faults of chapter 16."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="both_ranks_build_the_first_stage",
        cell="hand-rank",
        find="build(2)[rank]",
        replace="build(2)[0]",
        claim="hand-claim",
    ),
    Fault(
        name="rank_0_goes_back_without_the_gradient_it_was_sent",
        cell="hand-rank",
        find="h.backward(message)",
        replace="h.backward(torch.ones_like(h))",
        claim="hand-claim",
    ),
    Fault(
        name="an_action_does_not_wait_for_its_input",
        cell="plan-simulate",
        find="max(end[needs(*action, last)], spans[rank][-1].end if spans[rank] else 0.0)",
        replace="spans[rank][-1].end if spans[rank] else 0.0",
        claim="plan-claim",
    ),
    Fault(
        name="the_other_definition_of_the_bubble",
        cell="plan-table",
        find="return (p - 1) / (m + p - 1)",
        replace="return (p - 1) / m",
        claim="real-claim",
    ),
    Fault(
        name="no_bubble_in_what_stages_would_reach",
        cell="plan-published",
        find="p * m / (m + p - 1)",
        replace="p",
        claim="plan-published-claim",
    ),
    Fault(
        name="the_loss_is_not_divided_by_m",
        cell="real-worker",
        find=" / len(self.targets)",
        replace="",
        claim="real-claim",
    ),
    Fault(
        name="one_f_one_b_warms_up_with_everything",
        cell="held-1f1b",
        find="min(p - 1 - rank, m)",
        replace="m - 1",
        claim="held-claim",
    ),
    Fault(
        name="one_forward_too_many_before_the_first_backward",
        cell="zero-make",
        find="min(p - 1 - rank, m)",
        replace="min(p - rank, m)",
        claim="zero-claim",
    ),
    Fault(
        name="interleaving_with_a_single_round",
        cell="inter-make",
        find="v=2",
        replace="v=1",
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
        cell="wrong-norm-claim",
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
    Fault(
        name="every_stage_is_called_the_first",
        cell="wrong-names-run",
        find='f"{rank}.{name}"',
        replace='f"0.{name}"',
        claim="wrong-names-claim",
    ),
]
