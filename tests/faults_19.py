"""Planted faults of chapter 19."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="every_rank_takes_a_quarter_of_the_batch",
        cell="one-batch",
        find="(position + GLOBAL_BATCH) // world_size]",
        replace="position // world_size + GLOBAL_BATCH // 4]",
        claim="one-claim",
    ),
    Fault(
        name="one_rank_a_node",
        cell="nodes-run",
        find="--nproc-per-node=2",
        replace="--nproc-per-node=1",
        claim="nodes-claim",
    ),
    Fault(
        name="tasks_are_not_counted",
        cell="count-function",
        find=' * option(batch_file, "ntasks-per-node")',
        replace="",
        claim="count-claim",
    ),
    Fault(
        name="one_task_starts_one_torchrun",
        cell="count-run",
        find="world_size=4",
        replace="world_size=1",
        claim="count-claim",
    ),
    Fault(
        name="tasks_are_left_out_of_the_batch_files",
        cell="batch-table",
        find="\\n#SBATCH --ntasks-per-node={tasks_per_node}",
        replace="",
        claim="batch-claim",
    ),
    Fault(
        name="processes_of_a_torchrun_are_not_counted",
        cell="count-function",
        find=' * option(batch_file, "nproc-per-node")',
        replace="",
        claim="batch-differ",
    ),
    Fault(
        name="nobody_dies",
        cell="elastic-run",
        find="--fail-at=7",
        replace="--fail-at=70",
        claim="elastic-claim",
    ),
    Fault(
        name="the_rest_look_for_the_checkpoint_elsewhere",
        cell="elastic-shrink",
        find="folder, init=False, world_size=3",
        replace='f"{folder}/elsewhere", init=False, world_size=3',
        claim="elastic-shrink-claim",
    ),
    Fault(
        name="the_first_cause_is_left_out",
        cell="fail-share",
        find='off[0]["interruptions"] + fits',
        replace='off[0]["interruptions"]',
        claim="fail-share",
    ),
    Fault(
        name="a_restart_takes_an_hour",
        cell="save-interval",
        find='["hours"] * 3600, 300',
        replace='["hours"] * 3600, 3600',
        claim="save-claim",
    ),
    Fault(
        name="half_an_interval_forgotten_under_the_root",
        cell="save-formula",
        find="sqrt(2 * save * mtbf)",
        replace="sqrt(save * mtbf)",
        claim="save-claim",
    ),
    Fault(
        name="all_nodes_share_the_folder_after_all",
        cell="wrong-folder-run",
        find="/node{node}/tmp",
        replace="/tmp",
        claim="wrong-folder-claim",
    ),
]
