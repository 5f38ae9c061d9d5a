"""Commands of `answermill`, one module for each group. Importing one loads no model, Beam or spaCy."""
