"""Reference solutions of chapter 09."""


def gib_per_gpu(
    trained: int, frozen: int, stage: int, world_size: int, group: int
) -> tuple[float, float, float]:
    """GiB of weights, gradients and optimizer state on one GPU, 1 GiB being 2**30 bytes.

    trained, frozen: numbers of parameters. stage: 0 (DDP) to 3.
    world_size: GPUs in all. group: GPUs of a sharding group; it divides world_size.
    """
    weights, gradients, state = 2 * (trained + frozen), 2 * trained, 12 * trained
    return (  # each of the world_size / group groups holds one copy
        (weights / group if stage >= 3 else weights) / 2**30,
        (gradients / group if stage >= 2 else gradients) / 2**30,
        (state / group if stage >= 1 else state) / 2**30,
    )


def most_layers(memory: int, hidden: int, vocab: int, tokens: int, world_size: int, stage: int) -> int:
    """The largest number of layers that fits; 0 if not even one does.

    memory: bytes of one GPU. hidden: h. vocab: V. tokens: on one GPU at a time. stage: 0 (DDP) to 3.
    """
    layer, tables = 12 * hidden**2, 2 * vocab * hidden
    weights, gradients, state = (2 if stage < 3 else 2 / world_size, 2 if stage < 2 else 2 / world_size, 12)
    a_parameter = weights + gradients + (state if stage < 1 else state / world_size)
    fixed = a_parameter * tables + tokens * 4 * vocab + (4 * layer if stage == 3 else 0)
    a_layer = a_parameter * layer + tokens * 2 * 16 * hidden
    return max(0, int((memory - fixed) // a_layer))


def mended_calculator(n: int, tp: int, pp: int, dp: int, stage: int) -> tuple[float, float, float]:
    """Bytes of weights (2 a parameter), gradients (4) and optimizer state (12) on one of tp * pp * dp GPUs.

    n: parameters of the whole model, which tp * pp divides. stage: 0 (DDP) to 3, over the dp ranks.
    """
    part = n / (tp * pp)  # a GPU works on this part of the model, and holds nothing of the rest
    return (
        2 * part / (dp if stage >= 3 else 1),
        4 * part / (dp if stage >= 2 else 1),
        12 * part / (dp if stage >= 1 else 1),
    )


SOLUTIONS = {"09.1": gib_per_gpu, "09.2": most_layers, "09.3": mended_calculator}
