"""Planted faults of chapter 07."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="an_epoch_drops_its_last_batch",
        cell="updates-plan",
        find="math.ceil(samples / batch)",
        replace="(samples // batch)",
        claim="updates-claim",
    ),
    Fault(
        name="micro_batches_are_summed",
        cell="same-average",
        find=" / len(micro_batches)",
        replace="",
        claim="same-claim",
    ),
    Fault(
        name="every_rank_takes_the_first_share",
        cell="same-train",
        find="[rank].chunk(k)",
        replace="[0].chunk(k)",
        claim="same-claim",
    ),
    Fault(
        name="large_steps_at_the_small_rate",
        cell="rule-walk",
        find="walk(rate * factor, 128)",
        replace="walk(rate, 128)",
        claim="rule-claim",
    ),
    Fault(
        name="labels_are_spoiled_either_way",
        cell="noise-run",
        find="measure_noise(s, seed)",
        replace="measure_noise(0.5, seed)",
        claim="noise-claim",
    ),
    Fault(
        name="no_rate_is_scaled",
        cell="grow-runs",
        find="factor**power",
        replace="1",
        claim="grow-claim",
    ),
    Fault(
        name="noise_of_a_local_batch_and_not_of_a_sample",
        cell="noise-squares",
        find="(1 / b - 1 / B)",
        replace="(1 - b / B)",
        claim="noise-known-claim",
    ),
    Fault(
        name="every_rank_draws_the_same_noise",
        cell="noise-known",
        find="manual_seed(dist.get_rank())",
        replace="manual_seed(0)",
        claim="noise-known-claim",
    ),
    Fault(
        name="warm_up_is_over_at_once",
        cell="grow-train",
        find="(i + 1) / rise",
        replace="1.0",
        claim="warm-claim",
    ),
    Fault(
        name="updates_do_not_depend_on_the_batch",
        cell="pay-predicted-law",
        find="U_min * (1 + noise / B)",
        replace="U_min * (1 + noise / 512)",
        claim="pay-claim",
    ),
    Fault(
        name="every_batch_has_128_samples",
        cell="pay-count",
        find="(len(rates), batch)",
        replace="(len(rates), 128)",
        claim="pay-claim",
    ),
    Fault(
        name="the_last_group_is_closed",
        cell="wrong-left-run",
        find="i % k == 0",
        replace="i % k == 0 or i == 5",
        claim="wrong-left-claim",
    ),
    Fault(
        name="the_schedule_steps_once_an_update",
        cell="wrong-schedule-claim",
        find="rates(4, 0)",
        replace="rates(1, 0)",
        claim="wrong-schedule-claim",
    ),
    Fault(
        name="nothing_is_clipped",
        cell="wrong-clip-run",
        find="min(1, threshold / local.norm())",
        replace="1",
        claim="wrong-clip-claim",
    ),
]
