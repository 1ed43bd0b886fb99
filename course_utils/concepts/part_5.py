"""The concept test of part 5, chapters 15 and 16."""

from course_utils.concepts.question import Question

LAYER, BREAKS, PIPELINE = "Cutting a layer", "What a cut breaks", "A pipeline"

QUESTIONS = [
    Question(
        name="row-or-column",
        group=LAYER,
        ask="y = xA, and A is cut by rows over two ranks, x to match. How is y made of the two results?",
        choices=(
            "by adding them",
            "by putting them side by side",
            "by averaging them",
            "by multiplying them",
        ),
        again=(
            "y = xA, and A is cut by columns over two ranks. How is y made of the two results?",
            ("by putting them side by side", "by adding them", "by averaging them", "by multiplying them"),
        ),
        why="A cut by columns gives complete parts of the outputs. A cut by rows divides the sum behind each "
        "output, and gives partial sums of all of them.",
        read=("15_tensor_parallel", "1 · Two ways to cut a matrix", "split-claim"),
    ),
    Question(
        name="pair-of-layers",
        group=LAYER,
        ask="Linear, ReLU, Linear on four ranks: the first one cut by columns, the second by rows. How many "
        "all-reduces does forward need?",
        choices=("1", "2", "0", "4"),
        again=(
            "Linear, ReLU, Linear on four ranks: the first one cut by columns, the second by rows. How "
            "many all-reduces do forward and backward need, for the outputs and the gradient of the "
            "input?",
            ("2", "4", "1", "3"),
        ),
        why="What the column cut leaves on a rank is just what its row cut needs. One sum behind the pair in "
        "forward, one before it in backward.",
        read=("15_tensor_parallel", "3 · The pair and its two operators", "pair-claim"),
    ),
    Question(
        name="who-sees-what",
        group=LAYER,
        ask="Eight ranks cut every layer (tensor parallelism alone). Which samples does a rank see?",
        choices=(
            "all of them",
            "its own eighth of the batch",
            "its own eighth of each sequence",
            "all of them on rank 0, none on the others",
        ),
        why="All ranks work on the same samples, each with its part of every matrix. Dividing the samples is "
        "data parallelism, on another dimension of the mesh.",
        read=("15_tensor_parallel", "3 · The pair and its two operators", "pair-claim"),
    ),
    Question(
        name="between-cards",
        group=LAYER,
        ask="Why do training runs keep tensor parallelism inside a node?",
        choices=(
            "Every layer waits for all-reduces of its activations",
            "Ranks of different nodes can't hold parts of one tensor",
            "Its gradients are too large for a network between nodes",
            "NCCL has no all-reduce that crosses nodes",
        ),
        why="It communicates in each layer, forward and backward, and the next layer can't begin before. Data"
        " parallelism sends once a step, and behind the computation.",
        read=("15_tensor_parallel", "8 · Why it stays inside a node", "cost-node-claim"),
    ),
    Question(
        name="bias",
        group=BREAKS,
        ask="A row-cut Linear with bias runs on four ranks. Each adds the bias b to its partial product, then"
        " comes the all-reduce. The output is",
        choices=("too large by 3b", "right", "too large by b", "too large by 4b"),
        again=(
            "A row-cut Linear with bias runs on eight ranks. Each adds the bias b to its partial product,"
            " then comes the all-reduce. The output is",
            ("too large by 7b", "right", "too large by b", "too large by 8b"),
        ),
        why="The sum has the bias W times where it should have it once. With biases that begin at 0, the "
        "first loss does not show it.",
        read=("15_tensor_parallel", "The bias, W times", "wrong-bias-claim"),
    ),
    Question(
        name="too-early",
        group=BREAKS,
        ask="A rank applies GELU to its partial product of a row cut, and the all-reduce comes after it. The "
        "result is",
        choices=(
            "wrong, without an error",
            "right, since GELU acts on each number alone",
            "right, but for rounding",
            "an error, since the shapes no longer fit",
        ),
        why="GELU of a sum is not the sum of the GELUs. Behind a column cut it would be right: there each "
        "number is complete.",
        read=("15_tensor_parallel", "1 · Two ways to cut a matrix", "split-claim"),
    ),
    Question(
        name="which-test",
        group=BREAKS,
        ask="In tensor parallelism the all-reduce of backward is forgotten. Which test finds it?",
        choices=(
            "every gradient equals that of one process",
            "the first loss equals that of one process",
            "the loss falls over a hundred steps of training",
            "parameters have the right shapes on every rank",
        ),
        why="Forward is right, so the first loss is. With wrong gradients the loss falls all the same, only "
        "not as it should.",
        read=("15_tensor_parallel", "No all-reduce in backward", "wrong-missing-claim"),
    ),
    Question(
        name="bubble",
        group=PIPELINE,
        ask="A pipeline has 4 equal stages and 4 micro-batches (GPipe). Which share of the ranks' time is "
        "idle?",
        choices=("43 %", "75 %", "25 %", "0 %"),
        again=(
            "A pipeline has 4 equal stages and 12 micro-batches (GPipe). Which share of the ranks' time "
            "is idle?",
            ("20 %", "25 %", "33 %", "8 %"),
        ),
        why="Each stage idles p - 1 slots and works m: (p - 1)/(m + p - 1) of the whole time. (p - 1)/m "
        "compares with the time of work instead.",
        read=("16_pipeline_bubbles", "2 · Micro-batches, and a plan", "plan-claim"),
    ),
    Question(
        name="one-f-one-b",
        group=PIPELINE,
        ask="A pipeline of 4 stages changes from GPipe to 1F1B, with the same 8 micro-batches. What becomes "
        "less?",
        choices=(
            "only the activations that are held",
            "only the bubble",
            "both the bubble and the activations that are held",
            "only what is sent between the stages",
        ),
        why="1F1B starts a backward as soon as it can, and so holds at most p micro-batches instead of m. The"
        " slots that stay empty are as many as before.",
        read=("16_pipeline_bubbles", "4 · What is held: 1F1B", "held-claim"),
    ),
    Question(
        name="slow-stage",
        group=PIPELINE,
        ask="Four stages take 1, 1, 1 and 2 ms for a micro-batch. With very many micro-batches, how much of "
        "the time do the fast stages idle?",
        choices=(
            "about half of the time",
            "hardly any: many micro-batches shrink the bubble",
            "about a quarter of the time",
            "about a fifth of the time",
        ),
        again=(
            "Four stages take 1, 1, 1 and 4 ms for a micro-batch. With very many micro-batches, how much "
            "of the time do the fast stages idle?",
            (
                "about three quarters of the time",
                "hardly any: many micro-batches shrink the bubble",
                "about half of the time",
                "about a quarter of the time",
            ),
        ),
        why="The slowest stage sets the pace: a fast one works 1 ms of every 2 (or 4). More "
        "micro-batches cure the filling and draining, and nothing else.",
        read=("16_pipeline_bubbles", "One stage is slower", "wrong-load-claim"),
    ),
]
