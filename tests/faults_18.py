"""Planted faults of chapter 18."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="rank_0_still_logs_alone",
        cell="alone-mended",
        find="    dist.reduce(loss, dst=0)",
        replace="    dist.get_rank() or dist.reduce(loss, dst=0)",
        claim="alone-claim",
    ),
    Fault(
        name="still_another_order_on_rank_1",
        cell="order-claim",
        find="attempt(sum_and_stop, sorted)",
        replace="attempt(sum_and_stop, own_order)",
        claim="order-claim",
    ),
    Fault(
        name="detail_not_set",
        cell="order-detail",
        find='"DETAIL"',
        replace='"OFF"',
        claim="order-claim",
    ),
    Fault(
        name="as_many_steps_as_the_one_that_has_most",
        cell="count-mended",
        find="dist.ReduceOp.MIN",
        replace="dist.ReduceOp.MAX",
        claim="count-mended",
    ),
    Fault(
        name="rank_0_makes_no_extra_call",
        cell="alone-steps",
        find="    if dist.get_rank() == 0:\n        dist.all_reduce(loss)",
        replace="    pass",
        claim="record-claim",
    ),
    Fault(
        name="each_rank_takes_its_own_sum",
        cell="first-mended",
        find="    dist.all_reduce(total)\n",
        replace="",
        claim="first-mended",
    ),
    Fault(
        name="saves_the_number_of_the_step_that_is_done",
        cell="dead-program",
        find="torch.save((step + 1, total), file)",
        replace="torch.save((step, total), file)",
        claim="dead-mended",
    ),
    Fault(
        name="pads_but_does_not_cut",
        cell="form-shapes-mended",
        find="row[:length].tolist()",
        replace="row.tolist()",
        claim="form-claim",
    ),
    Fault(
        name="the_slow_rank_is_fast",
        cell="slow-run",
        find="time.sleep(1)",
        replace="time.sleep(0.1)",
        claim="slow-claim",
    ),
    Fault(
        name="still_no_wait",
        cell="sync-wait-mended",
        find=").wait()",
        replace=")",
        claim="sync-wait-claim",
    ),
    Fault(
        name="digest_of_the_size_and_not_of_the_values",
        cell="digest-define",
        find="blake2b(data, digest_size=8)",
        replace="blake2b(bytes(len(data)), digest_size=8)",
        claim="diverged-claim",
    ),
    Fault(
        name="compares_whole_tensors",
        cell="digest-cost",
        find="        out_of_sync(model)",
        replace="        [dist.all_reduce(p.detach()) for p in model.parameters()]",
        claim="diverged-claim",
    ),
    Fault(
        name="the_other_order_is_no_mismatch",
        cell="order-run",
        find="sorted(names, reverse=dist.get_rank() == 1)",
        replace="sorted(names)",
        claim="page-claim",
    ),
]
