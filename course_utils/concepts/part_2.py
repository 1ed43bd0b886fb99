"""The concept test of part 2, chapters 05 to 08."""

from course_utils.concepts.question import Question

DDP, DATA, REPORT = "DDP", "Samples and batches", "Metrics and checkpoints"

QUESTIONS = [
    Question(
        name="summed-loss",
        group=DDP,
        ask="The loss is the sum over a rank's samples, not the mean. Four ranks with equal shares use DDP. "
        "After backward, p.grad is",
        choices=(
            "a quarter of the gradient of the sum over all samples",
            "the gradient of the sum over all samples",
            "4 times the gradient of the sum over all samples",
            "the gradient of the sum over the rank's own samples",
        ),
        again=(
            "The loss is the sum over a rank's samples, not the mean. Two ranks with equal shares use "
            "DDP. After backward, p.grad is",
            (
                "half of the gradient of the sum over all samples",
                "the gradient of the sum over all samples",
                "twice the gradient of the sum over all samples",
                "the gradient of the sum over the rank's own samples",
            ),
        ),
        why="DDP averages: it adds the ranks' gradients and divides by their number. For means over equal "
        "shares that is the mean over all; for sums it is 1/W of the sum.",
        read=("05_ddp", "Averaged once more by hand", "wrong-twice"),
    ),
    Question(
        name="no-sync",
        group=DDP,
        ask="You accumulate 4 micro-batches. For the first three, forward runs outside of no_sync() and "
        "backward inside; the last one goes without it. How often are the gradients all-reduced?",
        choices=("4 times", "once", "3 times", "never"),
        again=(
            "You accumulate 4 micro-batches. For the first three, forward and backward both run inside of"
            " no_sync(); the last one goes without it. How often are the gradients all-reduced?",
            ("once", "4 times", "3 times", "never"),
        ),
        why="DDP decides in forward whether the next backward communicates. What no_sync() is to keep quiet "
        "must have its forward inside.",
        read=("05_ddp", "`no_sync` around backward only", "wrong-quiet"),
    ),
    Question(
        name="past-the-wrapper",
        group=DDP,
        ask="The loop calls ddp.module(x) where ddp(x) should stand. What happens?",
        choices=(
            "Each rank trains on its own gradient, without an error",
            "The same as with ddp(x), without the wrapper's overhead",
            "backward raises an error, since no all-reduce was prepared",
            "The gradients are averaged, but one after another, not in buckets",
        ),
        why="The wrapper's forward prepares the averaging. Past it the model is a plain one, and the ranks "
        "drift apart in silence.",
        read=("05_ddp", "`ddp.module(x)`", "wrong-module"),
    ),
    Question(
        name="overlap",
        group=DDP,
        ask="Backward goes through 4 layers, 100 ms each. Sending a layer's gradient takes 100 ms; messages "
        "go one at a time, each as soon as its gradient is there. After how long is everything done?",
        choices=("500 ms", "400 ms", "800 ms", "450 ms"),
        again=(
            "Backward goes through 4 layers, 100 ms each. Sending a layer's gradient takes 200 ms; "
            "messages go one at a time, each as soon as its gradient is there. After how long is "
            "everything done?",
            ("900 ms", "800 ms", "1,200 ms", "600 ms"),
        ),
        why="A message can hide behind the layers that are still computed. The first one waits for a "
        "gradient, and what outlasts backward is exposed.",
        read=("05_ddp", "4 · Started by hooks, during backward", "hook-claim"),
    ),
    Question(
        name="samples-drawn",
        group=DATA,
        ask="10 samples, 4 ranks, DistributedSampler with its defaults. How many samples are drawn in one "
        "epoch, over all ranks?",
        choices=("12", "10", "40", "8"),
        again=(
            "21 samples, 8 ranks, DistributedSampler with its defaults. How many samples are drawn in one"
            " epoch, over all ranks?",
            ("24", "21", "168", "16"),
        ),
        why="All ranks get equally many, so the list is padded to a multiple of W: some samples are seen "
        "twice.",
        read=("06_distributed_sampler", "1 · Who sees what", "seen-claim"),
    ),
    Question(
        name="no-set-epoch",
        group=DATA,
        ask="A loop with a DistributedSampler never calls set_epoch. What is wrong?",
        choices=(
            "Every epoch has the same order",
            "The ranks draw overlapping samples",
            "From the second epoch on the sampler is empty",
            "Nothing: the sampler shuffles by itself",
        ),
        why="All ranks draw their order from seed + epoch. Shares stay disjoint without set_epoch; what is "
        "missing is the new order.",
        read=("06_distributed_sampler", "3 · A new order in each epoch", "epoch-claim"),
    ),
    Question(
        name="more-gpus",
        group=DATA,
        ask="On one GPU: batch 32, learning rate 0.1, 1,000 updates an epoch. On eight GPUs with 32 each, by "
        "the linear rule: global batch, updates an epoch and learning rate are",
        choices=("256, 125 and 0.8", "256, 1,000 and 0.8", "32, 125 and 0.1", "256, 125 and 0.0125"),
        again=(
            "On one GPU: batch 64, learning rate 0.2, 2,000 updates an epoch. On four GPUs with 64 each, "
            "by the linear rule: global batch, updates an epoch and learning rate are",
            ("256, 500 and 0.8", "256, 2,000 and 0.8", "64, 500 and 0.2", "256, 500 and 0.05"),
        ),
        why="The ranks share the epoch, so there are W times fewer updates. One update stands for W old ones,"
        " which is why the rule multiplies the rate.",
        read=("07_lr_scaling", "1 · Fewer updates", "updates-claim"),
    ),
    Question(
        name="mean-of-accuracies",
        group=REPORT,
        ask="Three ranks evaluate 700, 200 and 100 samples, and have 90 %, 60 % and 30 % of them right. The "
        "accuracy is",
        choices=("78 %", "60 %", "90 %", "75 %"),
        again=(
            "Three ranks evaluate 500, 100 and 400 samples, and have 80 %, 50 % and 20 % of them right. "
            "The accuracy is",
            ("53 %", "50 %", "80 %", "65 %"),
        ),
        why="Add up what is right and how many there are, over all ranks, and divide once. The mean of the "
        "ranks' accuracies counts a rank, not a sample.",
        read=("08_metrics_and_checkpoints", "2 · Sums first, one division last", "drop-claim"),
    ),
    Question(
        name="first-loss",
        group=REPORT,
        ask="A run with Adam, of a model without dropout, is resumed. The first loss equals that of the "
        "uninterrupted run, to the last bit. What does that show?",
        choices=(
            "The weights and the batch are the right ones",
            "The checkpoint is complete: everything was restored",
            "Weights and optimizer state were restored",
            "The random state was saved on each rank",
        ),
        why="The first loss is computed before the optimizer does anything. Without its state the first loss "
        "is still right, and the second is not. With dropout the first one needs the random state, too.",
        read=("08_metrics_and_checkpoints", "4 · What a resume needs", "resume-forget-claim"),
    ),
    Question(
        name="killed-save",
        group=REPORT,
        ask="A job overwrites checkpoint.pt by torch.save and is killed when half of it is written. What can "
        "the next job load?",
        choices=(
            "neither the new checkpoint nor the old one",
            "the old one, since the new one is not complete",
            "the new one, up to the layer that was being written",
            "the old one, if all ranks had passed a barrier before",
        ),
        why="Opening a file for writing empties it. Write under another name and rename when it is whole; a "
        "barrier orders ranks, it makes no write atomic.",
        read=("08_metrics_and_checkpoints", "5 · A save that can be killed", "kill-claim"),
    ),
]
