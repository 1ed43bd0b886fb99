"""Planted faults of chapter 17."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="durations_added_up",
        cell="parts-union",
        find="end - start for start, end in union(intervals)",
        replace="end - start for start, end in intervals",
        claim="parts-claim",
    ),
    Fault(
        name="backward_is_no_computation",
        cell="parts-split",
        find='("forward", "backward", "optimizer")',
        replace='("forward", "optimizer")',
        claim="parts-claim",
    ),
    Fault(
        name="the_clocks_agree_after_all",
        cell="clock-plant",
        find="(0.0, 0.0, 0.060, -0.040)",
        replace="(0.0, 0.0, 0.0, 0.0)",
        claim="clock-claim",
    ),
    Fault(
        name="clocks_corrected_the_wrong_way",
        cell="clock-offsets",
        find="-offset for offset",
        replace="offset for offset",
        claim="clock-claim",
    ),
    Fault(
        name="all_ranks_in_one_process",
        cell="file-merge",
        find='e | {"pid": rank}',
        replace='e | {"pid": 0}',
        claim="file-claim",
    ),
    Fault(
        name="one_thread_a_rank",
        cell="file-merge",
        find='e | {"pid": rank}',
        replace='e | {"pid": rank, "tid": 1}',
        claim="file-claim",
    ),
    Fault(
        name="every_bucket_of_the_same_size",
        cell="trace-ddp",
        find="bucket_cap_mb=cap_mb)",
        replace="bucket_cap_mb=0.25)",
        claim="overlap-claim",
    ),
    Fault(
        name="no_rank_computes_longer",
        cell="trace-ddp",
        find="build(load[rank])",
        replace="build(1)",
        claim="who-claim",
    ),
    Fault(
        name="the_call_waits_for_the_message",
        cell="cuda-analog",
        find="    called = time.perf_counter() - began",
        replace="    message.result()\n    called = time.perf_counter() - began",
        claim="cuda-analog",
    ),
    Fault(
        name="the_first_step_is_warmed_up",
        cell="trace-record",
        find="if early:",
        replace="if early and not early:",
        claim="wrong-first-claim",
    ),
]
