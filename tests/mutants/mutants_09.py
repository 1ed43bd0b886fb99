"""Wrong solutions of chapter 09: bytes a GPU, the largest model, a published calculator mended."""

# 09.1: gib_per_gpu(trained, frozen, stage, world_size, group)

GIB = 2**30


def forgets_the_frozen(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    weights, gradients, state = (size * trained / GIB for size in (2, 2, 12))
    return (
        weights / group if stage >= 3 else weights,
        gradients / group if stage >= 2 else gradients,
        state / group if stage >= 1 else state,
    )


def trains_the_frozen_too(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return forgets_the_frozen(trained + frozen, 0, stage, world_size, group)


def frozen_ones_have_gradients(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    everything = trained + frozen
    return (
        2 * everything / GIB / (group if stage >= 3 else 1),
        2 * everything / GIB / (group if stage >= 2 else 1),
        12 * trained / GIB / (group if stage >= 1 else 1),
    )


def frozen_ones_have_a_master_copy(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        2 * (trained + frozen) / GIB / (group if stage >= 3 else 1),
        2 * trained / GIB / (group if stage >= 2 else 1),
        (12 * trained + 4 * frozen) / GIB / (group if stage >= 1 else 1),
    )


def leaves_the_frozen_whole(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    weights, gradients, state = forgets_the_frozen(trained, 0, stage, world_size, group)
    return weights + 2 * frozen / GIB, gradients, state


def shards_over_all_gpus(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        2 * (trained + frozen) / GIB / (world_size if stage >= 3 else 1),
        2 * trained / GIB / (world_size if stage >= 2 else 1),
        12 * trained / GIB / (world_size if stage >= 1 else 1),
    )


def shards_over_the_number_of_groups(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return shards_over_all_gpus(trained, frozen, stage, world_size // group, group)


def counts_gb(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        2 * (trained + frozen) / 1e9 / (group if stage >= 3 else 1),
        2 * trained / 1e9 / (group if stage >= 2 else 1),
        12 * trained / 1e9 / (group if stage >= 1 else 1),
    )


def returns_bytes(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        2 * (trained + frozen) / (group if stage >= 3 else 1),
        2 * trained / (group if stage >= 2 else 1),
        12 * trained / (group if stage >= 1 else 1),
    )


def counts_fp32(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        4 * (trained + frozen) / GIB / (group if stage >= 3 else 1),
        4 * trained / GIB / (group if stage >= 2 else 1),
        8 * trained / GIB / (group if stage >= 1 else 1),
    )


def master_copy_among_the_weights(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        (6 * trained + 2 * frozen) / GIB / (group if stage >= 3 else 1),
        2 * trained / GIB / (group if stage >= 2 else 1),
        8 * trained / GIB / (group if stage >= 1 else 1),
    )


def divides_gradients_in_stage_1(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        2 * (trained + frozen) / GIB / (group if stage >= 3 else 1),
        2 * trained / GIB / (group if stage >= 1 else 1),
        12 * trained / GIB / (group if stage >= 1 else 1),
    )


def divides_one_state_only(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    return (
        2 * (trained + frozen) / GIB / (group if stage == 3 else 1),
        2 * trained / GIB / (group if stage == 2 else 1),
        12 * trained / GIB / (group if stage == 1 else 1),
    )


def returns_the_sum(trained: int, frozen: int, stage: int, world_size: int, group: int) -> float:
    return (
        2 * (trained + frozen) / (group if stage >= 3 else 1)
        + 2 * trained / (group if stage >= 2 else 1)
        + 12 * trained / (group if stage >= 1 else 1)
    ) / GIB


def state_comes_first(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    weights, gradients, state = returns_bytes(trained, frozen, stage, world_size, group)
    return state / GIB, gradients / GIB, weights / GIB


def rounds_to_whole_gib(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    weights, gradients, state = returns_bytes(trained, frozen, stage, world_size, group)
    return float(round(weights / GIB)), float(round(gradients / GIB)), float(round(state / GIB))


# 09.2: most_layers(memory, hidden, vocab, tokens, world_size, stage)


def _states(stage: int, world_size: int) -> float:
    shards = [world_size if stage >= first else 1 for first in (3, 2, 1)]
    return 2 / shards[0] + 2 / shards[1] + 12 / shards[2]


def forgets_the_activations(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer)))


def forgets_the_tables(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def counts_one_table(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def keeps_the_tables_whole(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = 16 * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def forgets_the_log_probabilities(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def log_probabilities_in_16_bits(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 2 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def log_probabilities_in_every_layer(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + (32 * hidden + 4 * vocab) * tokens)))


def one_byte_a_number(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 16 * hidden * tokens)))


def divides_the_activations(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    return _right(memory, hidden, vocab, tokens / world_size, world_size, stage)


def counts_the_tokens_of_all_gpus(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    return _right(memory, hidden, vocab, tokens * world_size, world_size, stage)


def forgets_the_gathered_layer(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def gathers_weights_without_gradients(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    gathered = 24 * hidden**2 if stage == 3 else 0
    return forgets_the_gathered_layer(memory - gathered, hidden, vocab, tokens, world_size, stage)


def gathers_in_every_stage(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    gathered = 48 * hidden**2
    return forgets_the_gathered_layer(memory - gathered, hidden, vocab, tokens, world_size, stage)


def gathers_all_layers(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    a_parameter, layer = _states(stage, world_size) + (4 if stage == 3 else 0), 12 * hidden**2
    rest = _states(stage, world_size) * 2 * vocab * hidden + 4 * vocab * tokens
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def gathers_a_shard(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    gathered = 48 * hidden**2 / world_size if stage == 3 else 0
    return forgets_the_gathered_layer(memory - gathered, hidden, vocab, tokens, world_size, stage)


def _right(memory: int, hidden: int, vocab: int, tokens: float, world_size: int, stage: int) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def divides_all_states_in_every_stage(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = 16 / world_size, 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def states_of_fp32(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    shards = [world_size if stage >= first else 1 for first in (3, 2, 1)]
    a_parameter, layer = 4 / shards[0] + 4 / shards[1] + 8 / shards[2], 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def answers_with_a_negative_number(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return int((memory - rest) // (a_parameter * layer + 32 * hidden * tokens))


def answers_with_at_least_one(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    return max(1, _right(memory, hidden, vocab, tokens, world_size, stage))


def rounds_up(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, -int(-(memory - rest) // (a_parameter * layer + 32 * hidden * tokens)))


def rounds_to_the_nearest(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0, round((memory - rest) / (a_parameter * layer + 32 * hidden * tokens)))


def returns_a_fraction(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> float:
    a_parameter, layer = _states(stage, world_size), 12 * hidden**2
    rest = a_parameter * 2 * vocab * hidden + 4 * vocab * tokens + (4 * layer if stage == 3 else 0)
    return max(0.0, (memory - rest) / (a_parameter * layer + 32 * hidden * tokens))


def returns_the_first_that_does_not_fit(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    return _right(memory, hidden, vocab, tokens, world_size, stage) + 1


def needs_a_byte_to_spare(
    memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int
) -> int:
    return _right(memory - 1, hidden, vocab, tokens, world_size, stage)


def never_counts_up(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    layers = 1
    needed = _states(stage, world_size) * 12 * hidden**2 * layers
    while needed <= memory:
        layers += 1  # and needed stays as it was
    return layers - 1


# 09.3: mended_calculator(n, tp, pp, dp, stage)


def changes_nothing(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    gpus = tp * pp * dp
    return (
        2 * n / (tp * pp) / (gpus if stage == 3 else 1),
        4 * n / (gpus if stage >= 2 else 1),
        12 * n / (gpus if stage >= 1 else 1),
    )


def mends_the_weights_only(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    _, gradients, state = changes_nothing(n, tp, pp, dp, stage)
    return 2 * n / (tp * pp) / (dp if stage == 3 else 1), gradients, state


def mends_gradients_and_state_only(
    n: int, tp: int, pp: int, dp: int, stage: int
) -> tuple[float, float, float]:
    part = n / (tp * pp)
    return (
        2 * part / (tp * pp * dp if stage == 3 else 1),
        4 * part / (dp if stage >= 2 else 1),
        12 * part / (dp if stage >= 1 else 1),
    )


def mends_gradients_but_not_the_state(
    n: int, tp: int, pp: int, dp: int, stage: int
) -> tuple[float, float, float]:
    part = n / (tp * pp)
    return (
        2 * part / (dp if stage == 3 else 1),
        4 * part / (dp if stage >= 2 else 1),
        12 * n / (tp * pp * dp if stage >= 1 else 1),
    )


def divides_the_parts_by_all_gpus_again(
    n: int, tp: int, pp: int, dp: int, stage: int
) -> tuple[float, float, float]:
    part, gpus = n / (tp * pp), tp * pp * dp
    return (
        2 * part / (gpus if stage == 3 else 1),
        4 * part / (gpus if stage >= 2 else 1),
        12 * part / (gpus if stage >= 1 else 1),
    )


def does_not_split_the_weights(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    gpus = tp * pp * dp
    return (
        2 * n / (gpus if stage == 3 else 1),
        4 * n / (gpus if stage >= 2 else 1),
        12 * n / (gpus if stage >= 1 else 1),
    )


def forgets_the_pipeline(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    part = n / tp
    return (
        2 * part / (dp if stage == 3 else 1),
        4 * part / (dp if stage >= 2 else 1),
        12 * part / (dp if stage >= 1 else 1),
    )


def ignores_the_stage(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    gpus = tp * pp * dp
    return 2 * n / gpus, 4 * n / gpus, 12 * n / gpus


def divides_gradients_from_stage_1_on(
    n: int, tp: int, pp: int, dp: int, stage: int
) -> tuple[float, float, float]:
    part = n / (tp * pp)
    return (
        2 * part / (dp if stage == 3 else 1),
        4 * part / (dp if stage >= 1 else 1),
        12 * part / (dp if stage >= 1 else 1),
    )


def counts_gradients_in_16_bits(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    part = n / (tp * pp)
    return (
        2 * part / (dp if stage == 3 else 1),
        2 * part / (dp if stage >= 2 else 1),
        12 * part / (dp if stage >= 1 else 1),
    )


def answers_in_gib(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    part = n / (tp * pp) / GIB
    return (
        2 * part / (dp if stage == 3 else 1),
        4 * part / (dp if stage >= 2 else 1),
        12 * part / (dp if stage >= 1 else 1),
    )


def knows_the_example(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    part = n / 8
    return (
        2 * part / (2 if stage == 3 else 1),
        4 * part / (2 if stage >= 2 else 1),
        12 * part / (2 if stage >= 1 else 1),
    )


def knows_stages_1_and_3(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    part = n / (tp * pp)
    if stage == 1:
        return 2 * part, 4 * part, 12 * part / dp
    return 2 * part / dp, 4 * part / dp, 12 * part / dp


def adds_them_up(n: int, tp: int, pp: int, dp: int, stage: int) -> float:
    part = n / (tp * pp)
    return (
        2 * part / (dp if stage == 3 else 1)
        + 4 * part / (dp if stage >= 2 else 1)
        + 12 * part / (dp if stage >= 1 else 1)
    )


MUTANTS = {
    "09.1": [
        forgets_the_frozen,
        trains_the_frozen_too,
        frozen_ones_have_gradients,
        frozen_ones_have_a_master_copy,
        leaves_the_frozen_whole,
        shards_over_all_gpus,
        shards_over_the_number_of_groups,
        counts_gb,
        returns_bytes,
        counts_fp32,
        master_copy_among_the_weights,
        divides_gradients_in_stage_1,
        divides_one_state_only,
        returns_the_sum,
        state_comes_first,
        rounds_to_whole_gib,
    ],
    "09.2": [
        forgets_the_activations,
        forgets_the_tables,
        counts_one_table,
        keeps_the_tables_whole,
        forgets_the_log_probabilities,
        log_probabilities_in_16_bits,
        log_probabilities_in_every_layer,
        one_byte_a_number,
        divides_the_activations,
        counts_the_tokens_of_all_gpus,
        forgets_the_gathered_layer,
        gathers_weights_without_gradients,
        gathers_in_every_stage,
        gathers_all_layers,
        gathers_a_shard,
        divides_all_states_in_every_stage,
        states_of_fp32,
        answers_with_a_negative_number,
        answers_with_at_least_one,
        rounds_up,
        rounds_to_the_nearest,
        returns_a_fraction,
        returns_the_first_that_does_not_fit,
        needs_a_byte_to_spare,
        never_counts_up,
    ],
    "09.3": [
        changes_nothing,
        mends_the_weights_only,
        mends_gradients_and_state_only,
        mends_gradients_but_not_the_state,
        divides_the_parts_by_all_gpus_again,
        does_not_split_the_weights,
        forgets_the_pipeline,
        ignores_the_stage,
        divides_gradients_from_stage_1_on,
        counts_gradients_in_16_bits,
        answers_in_gib,
        knows_the_example,
        knows_stages_1_and_3,
        adds_them_up,
    ],
}
FITS = {
    "forgets_the_frozen": "take part in forward",
    "trains_the_frozen_too": "need that is never updated",
    "frozen_ones_have_gradients": r"gradients: [\s\S]*need that is never updated",
    "frozen_ones_have_a_master_copy": r"optimizer state: [\s\S]*need that is never updated",
    "leaves_the_frozen_whole": "which weights does stage 3 divide",
    "shards_over_all_gpus": "how many copies are there",
    "shards_over_the_number_of_groups": "number of groups, or of the GPUs in one",
    "counts_gb": "GB or GiB",
    "returns_bytes": "these are bytes",
    "counts_fp32": r"2 times what was expected[\s\S]*which bytes has each",
    "master_copy_among_the_weights": r"3 times what was expected[\s\S]*which bytes has each",
    "divides_gradients_in_stage_1": r"gradients: [\s\S]*which parts does stage 1 divide",
    "divides_one_state_only": r"optimizer state: [\s\S]*which parts does stage 2 divide",
    "returns_the_sum": "not three numbers",
    "state_comes_first": r"weights: [\s\S]*6 times",
    "rounds_to_whole_gib": "return all digits",
    "forgets_the_activations": "what does each layer save",
    "forgets_the_tables": "is all counted, tables",
    "counts_one_table": "is all counted, tables",
    "keeps_the_tables_whole": r"stage 1: [\s\S]*as a \+ b·L",
    "forgets_the_log_probabilities": "log-probabilities too",
    "log_probabilities_in_16_bits": "log-probabilities too",
    "log_probabilities_in_every_layer": r"as a \+ b·L",
    "one_byte_a_number": "is all counted",
    "divides_the_activations": "are activations among them",
    "counts_the_tokens_of_all_gpus": "those on one GPU",
    "forgets_the_gathered_layer": "a whole layer is there",
    "gathers_weights_without_gradients": r"stage 3: [\s\S]*is all counted",
    "gathers_in_every_stage": "which stage gathers",
    "gathers_all_layers": r"stage 3: [\s\S]*as a \+ b·L",
    "gathers_a_shard": "a whole layer is there",
    "divides_all_states_in_every_stage": "which bytes does stage 0 divide",
    "states_of_fp32": r"stage 1: [\s\S]*as a \+ b·L",
    "answers_with_a_negative_number": "less than no layers",
    "answers_with_at_least_one": "does even one layer fit",
    "rounds_up": "rounded down",
    "rounds_to_the_nearest": "rounded down",
    "returns_a_fraction": "layers come whole",
    "returns_the_first_that_does_not_fit": "one layer too many",
    "needs_a_byte_to_spare": r"exactly [\d,]+ bytes still fit",
    "never_counts_up": "nearer to its end",
    "changes_nothing": "does it hold gradients of the rest",
    "mends_the_weights_only": "does it hold gradients of the rest",
    "mends_gradients_and_state_only": r"weights [\s\S]*tp · pp is in tp · pp · dp already",
    "mends_gradients_but_not_the_state": "does it hold optimizer state of the rest",
    "divides_the_parts_by_all_gpus_again": "is in tp · pp · dp already",
    "does_not_split_the_weights": "does it hold weights of the rest",
    "forgets_the_pipeline": r"tp=4, pp=2[\s\S]*first the part of the model",
    "ignores_the_stage": "which parts does stage 0 divide",
    "divides_gradients_from_stage_1_on": r"gradients [\s\S]*which parts does stage 1 divide",
    "counts_gradients_in_16_bits": "how many bytes has a gradient",
    "answers_in_gib": "bytes were asked for",
    "knows_the_example": "with tp = pp = 1 the whole model",
    "knows_stages_1_and_3": "which parts does stage 0 divide",
    "adds_them_up": "not three numbers",
}
