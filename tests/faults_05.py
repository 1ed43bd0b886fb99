"""Planted faults of chapter 05: wrong averages, waits in the wrong place, traffic that nobody saves."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="sends_every_gradient_twice",
        cell="each-run",
        find="start(p.grad).result()",
        replace="[start(p.grad).result() for _ in range(2)]",
        claim="hook-claim",
    ),
    Fault(
        name="flat_buffer_sent_in_eight_pieces",
        cell="flat-average",
        find="unpack(start(pack(params)).result(), params)",
        replace="[unpack(start(pack([p])).result(), [p]) for p in params]",
        claim="hook-claim",
    ),
    Fault(
        name="one_bucket_for_all",
        cell="bucket-make",
        find=">= cap",
        replace=">= 8 * cap",
        claim="hook-claim",
    ),
    Fault(
        name="waits_inside_the_hook",
        cell="hook-class",
        find="(bucket, self.start(pack(bucket)))",
        replace="(bucket, self.start(self.start(pack(bucket)).result()))",
        claim="hook-claim",
    ),
    Fault(
        name="adds_up_and_does_not_divide",
        cell="each-link",
        find="dist.ReduceOp.AVG",
        replace="dist.ReduceOp.SUM",
        claim="hook-claim",
    ),
    Fault(
        name="averages_stay_in_the_buffer",
        cell="flat-average",
        find="p.grad.copy_(piece.view_as(p))",
        replace="piece.view_as(p)",
        claim="hook-claim",
    ),
    Fault(
        name="bucket_size_not_handed_on",
        cell="torch-hook",
        find=", bucket_cap_mb=cap_mb",
        replace="",
        claim="torch-claim",
    ),
    Fault(
        name="same_bucket_size_in_the_whole_sweep",
        cell="sweep-run",
        find="torch_ddp(cap) for",
        replace="torch_ddp() for",
        claim="sweep-claim",
    ),
    Fault(
        name="accumulates_without_no_sync",
        cell="accumulate-run",
        find="with ddp.no_sync():",
        replace="if ddp:",
        claim="accumulate-claim",
    ),
    Fault(
        name="zero_grad_comes_before_the_first_micro_batch",
        cell="zero-claim",
        find="    ddp.zero_grad()\n",
        replace="",
        claim="zero-claim",
    ),
    Fault(
        name="hook_sends_float32",
        cell="bf16-hook",
        find=".bfloat16()",
        replace="",
        claim="bf16-claim",
    ),
    Fault(
        name="calls_the_wrapper_after_all",
        cell="wrong-module-run",
        find="ddp.module(x)",
        replace="ddp(x)",
        claim="wrong-claim",
    ),
]
