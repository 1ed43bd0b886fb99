"""The concept test of part 1, chapters 00 to 04."""

from course_utils.concepts.question import Question

STEP, SHARES, CALLS = "One training step", "Ranks and their shares", "Collectives"

QUESTIONS = [
    Question(
        name="state-bytes",
        group=STEP,
        ask="A model of 1 billion parameters trains in float32 with Adam. How much memory do parameters, "
        "gradients and optimizer state take, activations left aside?",
        choices=("16 GB", "4 GB", "8 GB", "12 GB"),
        again=(
            "A model of 500 million parameters trains in float32 with Adam. How much memory do "
            "parameters, gradients and optimizer state take, activations left aside?",
            ("8 GB", "2 GB", "4 GB", "6 GB"),
        ),
        why="There are four numbers of 4 bytes for each parameter: itself, its gradient, and the two running "
        "means that Adam keeps.",
        read=("01_one_process", "5 · Bytes a parameter", "bytes-claim"),
    ),
    Question(
        name="what-grows",
        group=STEP,
        ask="You double the batch and change nothing else. Which part of the memory of training doubles?",
        choices=(
            "the activations",
            "the gradients, since twice as many samples have one",
            "gradients and activations",
            "all of it",
        ),
        why="Gradients of the samples are added into one number for each parameter. What forward keeps for "
        "backward is kept for each sample.",
        read=("01_one_process", "6 · Activations grow with the batch", "act-hand"),
    ),
    Question(
        name="forgotten-division",
        group=STEP,
        ask="You cut a batch into 4 equal micro-batches and call backward on the mean loss of each. You "
        "divide by nothing. Compared with one backward on the whole batch's mean loss, p.grad is",
        choices=(
            "4 times that of the whole batch",
            "that of the whole batch",
            "a quarter of that of the whole batch",
            "that of the last micro-batch alone",
        ),
        again=(
            "You cut a batch into 8 equal micro-batches and call backward on the mean loss of each. You "
            "divide by nothing. Compared with one backward on the whole batch's mean loss, p.grad is",
            (
                "8 times that of the whole batch",
                "that of the whole batch",
                "an eighth of that of the whole batch",
                "that of the last micro-batch alone",
            ),
        ),
        why="backward adds into p.grad. The sum of the means of k equal micro-batches is k times the mean of "
        "the whole batch.",
        read=("01_one_process", "9 · Gradient accumulation", "accum-claim"),
    ),
    Question(
        name="unequal-shares",
        group=SHARES,
        ask="Rank 0 has 30 samples and a mean gradient of 2, rank 1 has 10 samples and a mean gradient of 6. "
        "What is the gradient of the mean loss over all 40?",
        choices=("3", "4", "8", "5"),
        again=(
            "Rank 0 has 20 samples and a mean gradient of 2, rank 1 has 60 samples and a mean gradient of"
            " 6. What is the gradient of the mean loss over all 80?",
            ("5", "4", "8", "3"),
        ),
        why="Each mean weighs as much as it has samples. The plain average of the two means gives the samples"
        " of the smaller share too much weight.",
        read=("02_gradient_equivalence", "2 · Unequal shares", "unequal-claim"),
    ),
    Question(
        name="token-weight",
        group=SHARES,
        ask="Two ranks take a sequence each. Rank 0's has 6 tokens that count, rank 1's has 2, the rest is "
        "padding. Each takes the mean over its tokens, and the gradients are averaged. A token of rank 1 "
        "weighs",
        choices=(
            "3 times as much as one of rank 0",
            "as much as one of rank 0, since each rank has one sequence",
            "a third of one of rank 0",
            "4 times as much as one of rank 0",
        ),
        again=(
            "Two ranks take a sequence each. Rank 0's has 10 tokens that count, rank 1's has 2, the rest "
            "is padding. Each takes the mean over its tokens, and the gradients are averaged. A token of "
            "rank 1 weighs",
            (
                "5 times as much as one of rank 0",
                "as much as one of rank 0, since each rank has one sequence",
                "a fifth of one of rank 0",
                "8 times as much as one of rank 0",
            ),
        ),
        why="Each mean has half of the say, however many tokens are behind them. Sum the losses and divide "
        "by the tokens of all ranks.",
        read=("02_gradient_equivalence", "6 · Tokens, not samples", "token-claim"),
    ),
    Question(
        name="gpu-number",
        group=SHARES,
        ask="Three machines have four GPUs each, with a process for each GPU; ranks are dealt out machine by "
        "machine. Which GPU of its machine, counted from 0, does rank 9 use?",
        choices=("number 1", "number 9", "number 2", "number 3"),
        again=(
            "Two machines have eight GPUs each, with a process for each GPU; ranks are dealt out machine "
            "by machine. Which GPU of its machine, counted from 0, does rank 13 use?",
            ("number 5", "number 13", "number 1", "number 6"),
        ),
        why="A GPU's number counts within its machine, as the local rank does. The rank counts over all "
        "machines.",
        read=("03_process_groups", "1 · Four numbers", "who-places"),
    ),
    Question(
        name="group-sum",
        group=CALLS,
        ask="Ranks 0 to 5 hold 1 to 6. The groups [0, 1, 2] and [3, 4, 5] all-reduce (sum), each in itself. "
        "Rank 4 then holds",
        choices=("15", "21", "6", "5"),
        again=(
            "Ranks 0 to 5 hold 1 to 6. The groups [0, 2, 4] and [1, 3, 5] all-reduce (sum), each in "
            "itself. Rank 4 then holds",
            ("9", "21", "12", "5"),
        ),
        why="A collective joins the ranks of its group and no others, and leaves its result on each of them.",
        read=("03_process_groups", "5 · Groups within the group", "sub-claim"),
    ),
    Question(
        name="reduce-scatter",
        group=CALLS,
        ask="Ranks 0 to 3 hold [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12] and [13, 14, 15, 16]. After a "
        "reduce-scatter (sum) rank 2 holds",
        choices=("[36]", "[28, 32, 36, 40]", "[3, 7, 11, 15]", "[42]"),
        again=(
            "Ranks 0 to 3 hold [1, 2, 3, 4], [10, 20, 30, 40], [100, 200, 300, 400] and [0, 0, 0, 5]. "
            "After a reduce-scatter (sum) rank 3 holds",
            ("[449]", "[111, 222, 333, 449]", "[4, 40, 400, 5]", "[5]"),
        ),
        why="The tensors are added up, place by place, and each rank keeps its part of the sum. The whole sum"
        " on every rank is an all-reduce, the parts without the sum are an all-to-all.",
        read=("04_collectives", "4 · To everybody", "all-claim"),
    ),
    Question(
        name="all-reduce-bytes",
        group=CALLS,
        ask="Four ranks all-reduce a tensor of 100 MB in a ring. How much does each of them send?",
        choices=("150 MB", "300 MB", "100 MB", "75 MB"),
        again=(
            "Eight ranks all-reduce a tensor of 200 MB in a ring. How much does each of them send?",
            ("350 MB", "1,400 MB", "200 MB", "175 MB"),
        ),
        why="Each rank sends 2(W - 1)/W of the tensor: once around for the sums, once around to hand them "
        "out. More than twice the tensor it never is.",
        read=("04_collectives", "6 · What does it cost?", "cost-claim"),
    ),
    Question(
        name="swapped-calls",
        group=CALLS,
        ask="Rank 0 all-reduces its loss and then its gradient, rank 1 its gradient and then its loss. Both "
        "tensors have the same shape and type. What happens?",
        choices=(
            "Loss and gradient are added to each other, without an error",
            "Each tensor is added to the one of the same variable",
            "Both ranks wait for each other forever",
            "An error names the calls that don't fit together",
        ),
        why="A collective has no name. The first call of one rank meets the first call of the other, whatever"
        " the variables are called.",
        read=("04_collectives", "The same calls in another order", "wrong-swapped-run"),
    ),
]
