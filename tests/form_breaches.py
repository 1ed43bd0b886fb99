"""For each rule of form a change of the example chapter that breaks exactly it, and what is found then."""

from form_example import (
    both,
    cell,
    count,
    data,
    error,
    ignored,
    kernel,
    lines,
    many_words,
    meta,
    moved,
    prints,
    renamed,
    source,
    tagged,
    widget_state,
    without,
)

from course_utils.tools import form

BREACHES = {
    # what is changed in the example -> what is found then, and nothing else
    "old format": (lambda nb: nb.update(nbformat_minor=4), "notebook: format 4.4, not 4.5"),
    "random id": (renamed("wrong-run", "3f9a2c1b"), "3f9a2c1b: an id is lower-case words"),
    "random part": (renamed("wrong-run", "run-3f9a2c1b"), "run-3f9a2c1b: an id is lower-case words"),
    "id with capitals": (renamed("wrong-run", "wrong_Run"), "wrong_Run: an id is lower-case words"),
    "widget state": (widget_state, "notebook: metadata 'widgets'"),
    "kernel": (kernel, "notebook: the kernel is not named python3"),
    "cell metadata": (meta("wrong", "editable", True), "wrong: metadata 'editable'"),
    "outputs hidden": (
        meta("wrong", "jupyter", {"outputs_hidden": True}),
        "wrong: metadata 'jupyter.outputs_",
    ),
    "tag": (tagged("wrong-run", "slow"), "wrong-run: the tag 'slow' is not in use"),
    "slide type": (meta("wrong", "slideshow", {"slide_type": "-"}), "wrong: no slide type"),
    "no slide": (meta("wrong", "slideshow", {}), "wrong: no slide type"),
    "count": (count, "setup: execution count None instead of 1"),
    "empty": (source("wrong-run", "", " "), "wrong-run: an empty cell"),
    "26 lines": (source("wrong-run", "", lines(26)), "wrong-run: 26 lines, more than 25"),
    "46 lines": (
        both(source("wrong-run", "", lines(46)), tagged("wrong-run", "long")),
        "wrong-run: 46 lines, more than 45",
    ),
    "two long": (
        both(tagged("wrong-run", "long"), tagged("first-run", "long")),
        "notebook: more than one cell",
    ),
    "three in ten long": (
        both(*(source(f"{n}-run", "guess", f"{lines(15)}\nguess") for n in ("first", "second", "third"))),
        "code cells have at most 15 lines, 90% must",
    ),
    "most over five": (
        both(
            *(
                source(f"{n}-run", "guess", f"{lines(6)}\nguess")
                for n in ("first", "second", "third", "fourth")
            ),
            *(
                source(f"{n}-predict", "guess", f"{lines(6)}\nguess")
                for n in ("first", "second", "third", "fourth")
            ),
            source("fifth-run", "guess", f"{lines(6)}\nguess"),
            source("wrong-run", "", lines(6)),
        ),
        "code cells have at most 5 lines, 50% must",
    ),
    "no question": (source("title", "data?", "data."), "title: the question"),
    "two abilities": (source("title", "- explain", "explain"), "title: 2 things the reader can do"),
    "no minutes": (source("title", "75 minutes", "Some time"), "title: the minutes are missing"),
    "no needs": (source("title", "Needs a", "A"), "title: what it needs is missing"),
    "no base": (source("title", "Builds on", "See"), "title: 'Builds on' with links is missing"),
    "untagged setup": (tagged("setup"), "notebook: the first code cell, and only it, is tagged setup"),
    "two setups": (tagged("wrong-run", "setup"), "notebook: the first code cell, and only it"),
    "long setup": (
        source("setup", "import torch", "import torch\n" * 7),
        "setup: the setup has more than 10",
    ),
    "busy setup": (
        source("setup", "import torch", "print(3)"),
        "setup: the setup holds imports and seeds only",
    ),
    "four sections": (
        without("fifth-idea", "fifth-predict", "fifth-run", "fifth-happened"),
        "notebook: 4 sections, not 5 to 9",
    ),
    "unmarked": (source("second-idea", " (core)", ""), "second-idea: the section 'Second' is not marked"),
    "nothing runs": (
        without("second-predict", "second-run"),
        "second-idea: the section 'Second (core)' runs nothing",
    ),
    "no result": (without("second-happened"), "second-idea: the section 'Second (core)' does not say"),
    "no failure": (without("wrong"), "notebook: the part 'When it goes wrong' is missing"),
    "no failure run": (without("wrong-run"), "wrong: 'When it goes wrong' runs nothing"),
    "no explore": (without("explore"), "notebook: the part 'Explore' is missing"),
    "no panel": (without("explore-panel"), "notebook: no cell is tagged panel"),
    "no sources": (without("sources"), "notebook: the part 'Sources' is missing"),
    "order": (moved("next", "sources"), "notebook: the part 'Next' stands too early"),
    "wordy idea": (source("second-idea", "A ring", many_words(123)), "second-idea: 1"),
    "wordy end": (source("practice", "NCCL", many_words(201)), "practice: 2"),
    "not compared": (source("second-run", "", "sum([1, 1])"), "second-predict: nothing compares"),
    "literal": (
        source("second-run", "sum([1, 1])", "2"),
        "second-run: guess.compare takes the computed value",
    ),
    "untagged predict": (tagged("second-predict"), "second-predict: calls predict, so it is tagged predict"),
    "idle tag": (tagged("wrong-run", "panel"), "wrong-run: tagged panel, but calls no panel"),
    "exercise id": (renamed("ex-2-answer", "answer-two"), "answer-two: the id of an exercise is ex-N-..."),
    "exercise numbers": (
        both(
            renamed("ex-2-answer", "ex-3-answer"),
            renamed("ex-2-check", "ex-3-check"),
            source("ex-3-check", "13.2", "13.3"),
        ),
        "notebook: the exercises are numbered 1, 3",
    ),
    "no stub": (source("ex-2-answer", "...", "4"), "ex-2-answer: no stub"),
    "no docstring": (
        source("ex-1-stub", '    """Return the sum of this rank\'s chunk."""\n', ""),
        "ex-1-stub: the stub has no doc",
    ),
    "untyped": (
        source("ex-1-stub", "rank: int", "rank"),
        "ex-1-stub: the stub reduce_scatter is not typed (rank)",
    ),
    "no check": (source("ex-1-check", "13.1", "12.1"), "ex-1-stub: the next code cell is ex-1-check"),
    "one exercise": (without("ex-2-answer", "ex-2-check"), "notebook: 1 exercises, not 2 to 4"),
    "no Python": (source("wrong-run", "", "a ring sends"), "wrong-run: this is not Python"),
    "magic": (source("wrong-run", "", "%timeit 3"), "wrong-run: the magic '%timeit 3'"),
    "cell magic": (source("wrong-run", "", "%%bash\nls"), "wrong-run: the magic '%%bash"),
    "shell": (source("wrong-run", "", "files = !ls"), "wrong-run: the magic '!ls'"),
    "get_ipython": (source("wrong-run", "", "get_ipython().kernel"), "wrong-run: no calls into IPython"),
    "semicolon": (source("wrong-run", "", "plot(3);"), "wrong-run: a trailing ';'"),
    "interact": (source("wrong-run", "", "interact(plot)"), "wrong-run: interact fails"),
    "clear_output": (source("wrong-run", "", "clear_output()"), "wrong-run: clear_output fails"),
    "style": (source("wrong-run", "", "plt.style.use('x')"), "wrong-run: style code"),
    "path": (source("wrong-run", "", "sys.path.append('..')"), "wrong-run: course_utils is installed"),
    "comment marker": (source("wrong-run", "", "3  # x\n# NBVAL_SKIP"), "wrong-run: say it with a tag"),
    "British": (
        source("second-happened", "two", "two synchronised"),
        "second-happened: British spelling 'syn",
    ),
    "British in code": (source("wrong-run", "sum", "behaviour"), "wrong-run: British spelling 'behaviour'"),
    "emoji": (source("second-happened", "two", "\U0001f680 two"), "second-happened: an emoji"),
    "exclamation": (source("second-happened", "chunks.", "chunks!"), "second-happened: an exclamation mark"),
    "Mermaid": (source("explore", "Explore", "Explore\n```mermaid\na\n```"), "explore: Mermaid is broken"),
    "dead link": (
        source("practice", "NCCL", "[x](14_cost.ipynb)"),
        "practice: the link to 14_cost.ipynb leads",
    ),
    "absolute link": (
        source("practice", "NCCL", "[x](/etc/hosts)"),
        "practice: the link to /etc/hosts leads",
    ),
    "dead anchor": (
        source("practice", "NCCL", "[x](#Nowhere)"),
        "practice: no heading for the link to #Nowhere",
    ),
    "no alt": (
        source("practice", "NCCL", "![](picture.svg)"),
        "practice: the picture picture.svg has no alt",
    ),
    "far picture": (
        source("practice", "NCCL", "![x](https://e.org/x.png)"),
        "practice: the picture https://e.org",
    ),
    "warning": (
        prints("wrong-run", "x.py:1: DeprecationWarning: old\n"),
        "wrong-run: the output holds a warning",
    ),
    "C warning": (prints("wrong-run", "[W1129 10:00] slow\n"), "wrong-run: the output holds a warning"),
    "machine path": (prints("wrong-run", "saved /tmp/x/y.pt\n"), "wrong-run: the output holds a path"),
    "home path": (prints("wrong-run", "~/course/x.py\n"), "wrong-run: the output holds a path"),
    "Windows path": (prints("wrong-run", "C:\\Users\\x\n"), "wrong-run: the output holds a path"),
    "address": (
        prints("wrong-run", "<f at 0x7f12ab34cd56>\n"),
        "wrong-run: the output holds a memory address",
    ),
    "cell number": (
        prints("wrong-run", "see In [7]\n"),
        "wrong-run: the output holds a cell's number",
    ),
    "bracket": (prints("wrong-run", "took ⟨3 ms\n"), "wrong-run: the output opens a ⟨"),
    "output emoji": (prints("wrong-run", "done ✅\n"), "wrong-run: the output holds an emoji"),
    "error": (error, "wrong-run: the output is an error (E) without the tag"),
    "no error": (
        tagged("wrong-run", "raises-exception"),
        "wrong-run: tagged raises-exception, but it raised",
    ),
    "false claim": (prints("measured-claim", "time: False\n"), "measured-claim: this claim is false"),
    "mute claim": (
        lambda nb: cell(nb, "measured-claim").update(outputs=[]),
        "measured-claim: a claim has to print",
    ),
    "fixed claim": (source("measured-claim", "", "print('bytes: True')"), "measured-claim: True stands in"),
    "no claim": (tagged("measured-claim"), "notebook: no cell is tagged claim"),
    "picture": (data("wrong-run", "image/png", "aWNvbg=="), "wrong-run: a picture without alternative text"),
    "SVG": (data("wrong-run", "text/html", "<svg></svg>"), 'wrong-run: an SVG without role="img"'),
    "image": (
        data("wrong-run", "text/html", "<img src='x'>"),
        "wrong-run: an <img> without alternative text",
    ),
    "widget": (data("wrong-run", form.form_outputs.WIDGET_VIEW, ""), "wrong-run: a widget view is stored"),
    "ignored": (
        tagged("wrong-run", "nbval-ignore-output"),
        "wrong-run: nbval-ignore-output without a comment",
    ),
    "three ignored": (
        both(ignored("wrong-run"), ignored("first-run"), ignored("measured-table")),
        "notebook: 3 cells are tagged nbval-ignore-output",
    ),
    "size": (prints("wrong-run", "x" * 2**20), "notebook: 1.0 MB, more than 1"),
}
