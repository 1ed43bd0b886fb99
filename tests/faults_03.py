"""Planted faults of chapter 03: the starters, the meeting, the groups, the seeds."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        "script_and_cell_drifted_apart", "start-hello", "the sum of all", "the product of all", "start-claim"
    ),
    Fault("too_few_processes", "start-torchrun", "per-node=4", "per-node=2", "start-claim"),
    Fault(
        "everybody_alone",
        "meet-arrive",
        'init_process_group("gloo")',
        'init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)',
        "meet-together",
    ),
    Fault("forgot_the_group", "sub-pairs", ", group=mine", "", "sub-claim"),
    Fault("mesh_dimensions_swapped", "mesh-rank", '=("down", "across")', '=("across", "down")', "mesh-claim"),
    Fault("added_the_rank_to_the_seed", "seed-rank", "([seed, rank])", "(seed + rank)", "seed-claim"),
    Fault("one_order_for_all", "wrong-order-run", "rank % 2 == 0", "rank >= 0", "wrong-order-claim"),
    Fault("never_destroyed", "wrong-twice-leave", "if tidy", "if tidy is None", "wrong-twice-claim"),
    Fault("fresh_file", "wrong-file-run", '/book"', '/{run}"', "wrong-file-claim"),
]
