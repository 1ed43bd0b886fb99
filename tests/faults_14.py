"""Mistakes planted in chapter 14, each of which a claim must notice."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="divides_one_side_of_the_equations_only",
        cell="fit-fit",
        find="np.ones(len(t))",
        replace="t",
        claim="fit-claim",
    ),
    Fault(
        name="predicts_kib_from_a_fit_in_bytes",
        cell="fit-errors",
        find="predicted(4, size) / took",
        replace="predicted(4, size / 1024) / took",
        claim="fit-claim",
    ),
    Fault(
        name="reduce_scatter_factor_instead_of_all_reduce",
        cell="names-run",
        find="2 / (2 - ratio)",
        replace="1 / (2 - ratio)",
        claim="names-claim",
    ),
    Fault(
        name="hides_all_communication",
        cell="links-fewer",
        find="W / (0.3 + seconds)",
        replace="W / max(0.3, seconds)",
        claim="links-fewer",
    ),
    Fault(
        name="reads_the_matrix_shifted_by_a_column",
        cell="topology-read",
        find="for a, *kinds in rows",
        replace="for a, _, *kinds in rows",
        claim="names-claim",
    ),
    Fault(
        name="whole_tensor_across_the_nodes",
        cell="hier-function",
        find="ring(chunks[local], across)",
        replace="ring(x, across)",
        claim="hier-claim",
    ),
    Fault(
        name="forgot_the_second_stage",
        cell="hier-function",
        find="ring(chunks[local], across)",
        replace="pass",
        claim="hier-claim",
    ),
    Fault(
        name="mean_instead_of_the_slowest_rank",
        cell="step-model",
        find="end = max(i + c for",
        replace="end = 0.5 * max(i + c for",
        claim="step-claim",
    ),
    Fault(
        name="weak_scaling_divides_the_work",
        cell="scale-launch",
        find="launch(step_seconds, 0.36, world_size=W)",
        replace="launch(step_seconds, 0.36 / W, world_size=W)",
        claim="scale-claim",
    ),
    Fault(
        name="counts_samples_with_the_fifth_power_of_the_ranks",
        cell="real-run",
        find="return W * batch * steps",
        replace="return W**5 * batch * steps",
        claim="real-claim",
    ),
    Fault(
        name="throughput_in_megaflops",
        cell="runs-model",
        find='run["tflops_per_gpu"] * 1e12',
        replace='run["tflops_per_gpu"] * 1e13',
        claim="runs-claim",
    ),
    Fault(
        name="flat_ring_over_one_port_a_node",
        cell="runs-model",
        find="ring_bytes(d // local, size / local)",
        replace="8 * ring_bytes(d // local, size)",
        claim="runs-claim",
    ),
    Fault(
        name="the_same_rank_is_slow_in_each_step",
        cell="wrong-turn-run",
        find="step % W == rank",
        replace="rank == 0",
        claim="wrong-turn-claim",
    ),
]
