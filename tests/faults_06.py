"""Planted faults of chapter 06."""

from course_utils.tools.faults import Fault

FAULTS = [
    Fault(
        name="every_rank_takes_the_share_of_rank_0",
        cell="seen-sampler",
        find="launch(record, DistributedSampler)",
        replace="launch(record, lambda data: DistributedSampler(data, rank=0))",
        claim="seen-claim",
    ),
    Fault(
        name="pads_with_the_front_of_the_dataset",
        cell="five-share",
        find="(order * world_size)",
        replace="(order + list(range(n)) * world_size)",
        claim="five-claim",
    ),
    Fault(
        name="deals_blocks_and_not_in_turn",
        cell="five-share",
        find="padded[rank::world_size]",
        replace="padded[rank * size : (rank + 1) * size]",
        claim="five-claim",
    ),
    Fault(
        name="drops_the_tail_and_pads_nothing",
        cell="seen-sampler",
        find="launch(record, DistributedSampler)",
        replace="launch(record, lambda data: DistributedSampler(data, drop_last=True))",
        claim="five-cost",
    ),
    Fault(
        name="every_epoch_is_epoch_0",
        cell="seen-record",
        find="sampler.set_epoch(epoch)",
        replace="sampler.set_epoch(0)",
        claim="epoch-claim",
    ),
    Fault(
        name="set_epoch_is_not_forgotten",
        cell="epoch-run",
        find=", set_epoch=False",
        replace="",
        claim="epoch-claim",
    ),
    Fault(
        name="local_batch_is_not_divided",
        cell="train-run",
        find="64 // dist.get_world_size()",
        replace="64",
        claim="train-claim",
    ),
    Fault(
        name="numbers_pairs_of_rank_and_worker_twice",
        cell="stream-class",
        find="part * worker.num_workers + worker.id",
        replace="part + worker.id",
        claim="stream-claim",
    ),
    Fault(
        name="shares_are_equal_after_all",
        cell="uneven-train",
        find="range(22)",
        replace="range(24)",
        claim="uneven-claim",
    ),
    Fault(
        name="join_divides_by_the_ranks_that_are_left",
        cell="uneven-join",
        find="launch(join), launch",
        replace="launch(join, divide_by_initial_world_size=False), launch",
        claim="uneven-claim",
    ),
    Fault(
        name="resumes_from_the_start",
        cell="stop-run",
        find="place=3",
        replace="place=0",
        claim="stop-claim",
    ),
    Fault(
        name="all_ranks_have_one_seed",
        cell="wrong-seed-run",
        find="seed=dist.get_rank()",
        replace="seed=0",
        claim="wrong-claim",
    ),
    Fault(
        name="all_ranks_list_the_files_alike",
        cell="wrong-list-run",
        find="files.reverse()",
        replace="files.sort()",
        claim="wrong-claim",
    ),
]
