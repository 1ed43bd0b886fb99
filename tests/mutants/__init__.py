"""Wrong solutions, ``mutants_NN.py`` a chapter, each function named after its mistake.

``MUTANTS = {"NN.1": [forgot_to_divide_by_world_size, ...], ...}`` has at least three an exercise; for an
exercise whose answer is a value, a function without parameters that returns a wrong one. Optionally,
``FITS = {"forgot_to_divide_by_world_size": r"too large|times"}`` says what the verdict on it has to mention.
"""
