"""The concept test of part 3, chapters 09 to 12."""

from course_utils.concepts.question import Question

HOLDS, SENT, ACTIVATIONS = "What a rank holds", "What is computed and sent", "Activations"

QUESTIONS = [
    Question(
        name="zero-bytes",
        group=HOLDS,
        ask="Float32 with Adam: 4 bytes of parameters, 4 of gradients, 8 of states. Eight ranks use ZeRO-1. "
        "How many bytes a parameter does each hold?",
        choices=("9", "2", "8", "16"),
        again=(
            "Float32 with Adam: 4 bytes of parameters, 4 of gradients, 8 of states. Four ranks use "
            "ZeRO-2. How many bytes a parameter does each hold?",
            ("7", "4", "10", "16"),
        ),
        why="Stage 1 divides the optimizer's states, stage 2 the gradients too, and only stage 3 the "
        "parameters. What is not divided stays whole on every rank.",
        read=("09_zero_memory", "2 · 10, 16, 18 or 20 bytes", "recipe-claim"),
    ),
    Question(
        name="mixed-states",
        group=HOLDS,
        ask="Mixed precision: parameters and gradients in bf16, Adam and its master copy in float32. How "
        "many of the 16 bytes a parameter does ZeRO-1 divide over the ranks?",
        choices=("12", "8", "14", "4"),
        why="The float32 master copy belongs to the optimizer: 2 + 2 stay, and 4 + 4 + 4 are divided. In "
        "plain float32 it is 8 of 16, so the same stage saves less.",
        read=("09_zero_memory", "2 · 10, 16, 18 or 20 bytes", "recipe-claim"),
    ),
    Question(
        name="optimizer-first",
        group=HOLDS,
        ask="You make an optimizer of model.parameters() and call fully_shard(model) after that. Training",
        choices=(
            "runs without an error and changes nothing in the model",
            "runs, with an optimizer state that is not sharded",
            "updates the shard of rank 0 and no other",
            "ends with an error in the first optimizer.step()",
        ),
        why="fully_shard puts new parameters into the model. The optimizer still has the old ones, which no "
        "longer get a gradient.",
        read=("09_zero_memory", "The optimizer came first", "wrong-order-claim"),
    ),
    Question(
        name="only-the-root",
        group=HOLDS,
        ask="You call fully_shard on the model of 12 blocks, but not on its blocks. Compared with FSDP on "
        "each block, a rank holds",
        choices=(
            "as much between steps, and more during a step",
            "everything, as with DDP: nothing is sharded",
            "as much, at all times: only messages are larger",
            "12 times as much between steps",
        ),
        why="A unit is gathered as a whole. With one unit the whole model is gathered at once; at rest each "
        "rank has its shard all the same.",
        read=("11_fsdp", "Only the root", "wrong-root-claim"),
    ),
    Question(
        name="zero-traffic",
        group=SENT,
        ask="Data parallelism sends about twice the gradients' size in a step (all-reduce). ZeRO-2 scatters "
        "the sums of the gradients and gathers the new parameters. It sends",
        choices=("as much", "half as much", "half as much again", "twice as much"),
        again=(
            "Data parallelism sends about twice the gradients' size in a step (all-reduce). ZeRO-3 "
            "gathers the parameters in forward and in backward, and scatters the sums of the gradients. "
            "It sends",
            ("half as much again", "as much", "twice as much", "half as much"),
        ),
        why="A reduce-scatter and an all-gather are the two halves of an all-reduce. Stage 3 gathers a second"
        " time: three halves instead of two.",
        read=("10_sharded_optimizer", "2 · Two halves of an all-reduce", "half-claim"),
    ),
    Question(
        name="who-computes",
        group=SENT,
        ask="FSDP on 8 ranks: who computes a layer for a given sample?",
        choices=(
            "one rank, with all weights of the layer",
            "all ranks, each with its eighth of the weights",
            "the rank on which the weights of the layer are kept",
            "two ranks, one in forward and one in backward",
        ),
        why="FSDP divides the storage and not the work: a rank gathers the layer's weights, computes the "
        "whole layer on samples of its own, and lets go of them.",
        read=("11_fsdp", "2 · One step, counted", "step-claim"),
    ),
    Question(
        name="clip-shards",
        group=SENT,
        ask="Four ranks have a shard of the gradient each, all longer than 1. Each clips its own shard to "
        "length 1. How long is the whole gradient then?",
        choices=("2", "1", "4", "0.25"),
        again=(
            "Nine ranks have a shard of the gradient each, all longer than 1. Each clips its own shard to"
            " length 1. How long is the whole gradient then?",
            ("3", "1", "9", "0.11"),
        ),
        why="Squares of lengths add up. The norm of the whole needs a sum over all ranks, and its direction "
        "is wrong, too, if each shard is scaled by its own factor.",
        read=("10_sharded_optimizer", "7 · A norm that no rank can compute", "norm-claim"),
    ),
    Question(
        name="zero-activations",
        group=ACTIVATIONS,
        ask="Four ranks change from DDP to ZeRO-3, each with the same samples as before. The activations that"
        " a rank keeps for backward",
        choices=("stay as they are", "fall to a quarter", "fall to about a half", "grow fourfold"),
        why="ZeRO divides parameters, gradients and states. Activations belong to a rank's own samples, and "
        "nobody else has them.",
        read=("09_zero_memory", "5 · And the activations?", "act-claim"),
    ),
    Question(
        name="segments",
        group=ACTIVATIONS,
        ask="64 equal layers in segments of k: one unit is kept for the input of each segment and, while a "
        "segment is computed again, one for each of its layers. Which k has the lowest peak?",
        choices=("8", "1", "2", "64"),
        again=(
            "100 equal layers in segments of k: one unit is kept for the input of each segment and, while "
            "a segment is computed again, one for each of its layers. Which k has the lowest peak?",
            ("10", "1", "2", "100"),
        ),
        why="L/k inputs and k layers: short segments have many inputs, long ones are large themselves. The "
        "sum is least at the square root of L.",
        read=("12_activation_checkpointing", "5 · How long is a segment?", "root-claim"),
    ),
    Question(
        name="one-segment",
        group=ACTIVATIONS,
        ask="One checkpoint goes around a whole model of 8 layers. The peak of activations in a step is",
        choices=(
            "as high as without it",
            "an eighth of that without it",
            "half of that without it",
            "only the input of the model",
        ),
        why="After forward almost nothing is kept, but backward first computes the whole segment again, with "
        "all its activations at once.",
        read=("12_activation_checkpointing", "One checkpoint around everything", "wrong-all-run"),
    ),
]
